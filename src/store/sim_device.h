// SimDevice: a device in memory whose power can be cut. For tests only.
//
// What was written is volatile until the next Sync() that began after it. Cut() gives the device as
// it may be found afterwards: of the volatile writes, each sector was or was not persisted, as a
// random choice says, in any order; a write that a later one overwrote may have persisted before
// it. Reads see what was written. With `fail_writes` or `fail_syncs`, calls fail from then on.
//
// Thread-safe. Never blocks for long.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "store/device.h"

namespace pulse::store {

class SimDevice : public Device {
 public:
  static constexpr size_t kSector = 512;

  explicit SimDevice(size_t bytes) : written_(bytes), durable_(bytes) {}
  explicit SimDevice(std::vector<uint8_t> image) : written_(image), durable_(std::move(image)) {}

  absl::Status Read(uint64_t offset, void* data, size_t length) override {
    std::lock_guard lock(mu_);
    if (offset + length > written_.size()) return absl::InternalError("a read past the end");
    std::memcpy(data, written_.data() + offset, length);
    return absl::OkStatus();
  }

  absl::Status Write(uint64_t offset, const void* data, size_t length) override {
    if (before_write) before_write();
    std::lock_guard lock(mu_);
    ++writes;
    if (fail_writes) return absl::InternalError("a write that was made to fail");
    if (offset + length > written_.size()) return absl::InternalError("a write past the end");
    const auto* bytes = static_cast<const uint8_t*>(data);
    std::memcpy(written_.data() + offset, bytes, length);
    volatile_.push_back({offset, {bytes, bytes + length}});
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    size_t covered;
    {
      std::lock_guard lock(mu_);
      ++syncs;
      if (fail_syncs) return absl::InternalError("a sync that was made to fail");
      covered = volatile_.size() + dropped_;
    }
    if (during_sync) during_sync();
    std::lock_guard lock(mu_);
    while (dropped_ < covered) {
      Persist(volatile_.front(), 0, volatile_.front().bytes.size());
      volatile_.erase(volatile_.begin());
      ++dropped_;
    }
    return absl::OkStatus();
  }

  uint64_t size() const override { return written_.size(); }
  const std::string& name() const override { return name_; }

  // The device after a power cut right now.
  std::vector<uint8_t> Cut(std::mt19937_64& random) {
    std::lock_guard lock(mu_);
    std::vector<uint8_t> saved = durable_;
    // All, none or some of what is volatile; and of some, all orders that sectors may come in.
    const uint64_t kind = random() % 4;
    std::vector<size_t> order(volatile_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (kind == 0) order.clear();
    if (kind == 3) std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const VolatileWrite& w = volatile_[i];
      for (size_t at = 0; at < w.bytes.size(); at += kSector) {
        if (kind == 1 || random() % 2 == 0) Persist(w, at, std::min(kSector, w.bytes.size() - at));
      }
    }
    std::vector<uint8_t> image = std::exchange(durable_, std::move(saved));
    return image;
  }
  // As if the process ended, and the device did not.
  std::vector<uint8_t> Written() const {
    std::lock_guard lock(mu_);
    return written_;
  }

  std::atomic<bool> fail_writes{false};
  std::atomic<bool> fail_syncs{false};
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> syncs{0};
  // Called without locks; set them before anything runs.
  std::function<void()> before_write;
  std::function<void()> during_sync;

 private:
  struct VolatileWrite {
    uint64_t offset;
    std::vector<uint8_t> bytes;
  };

  void Persist(const VolatileWrite& w, size_t at, size_t n) {
    std::memcpy(durable_.data() + w.offset + at, w.bytes.data() + at, n);
  }

  mutable std::mutex mu_;
  std::vector<uint8_t> written_;
  std::vector<uint8_t> durable_;
  std::vector<VolatileWrite> volatile_;
  size_t dropped_ = 0;  // volatile writes that a sync has made durable
  const std::string name_ = "sim";
};

}  // namespace pulse::store
