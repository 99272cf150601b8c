// DmaLink: a model of the one DMA engine of a card, which all queues of an agent share. A transfer
// takes the engine for its bytes, after those asked for before it, and is there a latency later:
//   begin = max(now, when the engine is free)
//   the engine is free again at begin + operation + bytes / bandwidth; arrival is latency later
// Both directions share it. Nothing here waits.
//
// Times are nanoseconds of a clock of the caller's. Thread-safe, lock-free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "vdpu/profile.h"

namespace pulse::vdpu {

class DmaLink {
 public:
  explicit DmaLink(const Profile& p)
      : latency_(static_cast<int64_t>(p.dma_latency_us * 1e3)),
        operation_(static_cast<int64_t>(p.dma_operation_us * 1e3)),
        bytes_per_nano_(p.dma_bandwidth_gb_s) {}

  // A transfer that may begin at `now`; returns when its last byte is there.
  int64_t Book(int64_t now, uint64_t bytes) {
    const int64_t taken = operation_ + Transfer(bytes);
    int64_t free = free_at_.load(std::memory_order_relaxed);
    int64_t next;
    do {
      next = std::max(free, now) + taken;
    } while (!free_at_.compare_exchange_weak(free, next, std::memory_order_relaxed));
    return next + latency_;
  }

  // What a transfer of `bytes` takes alone.
  int64_t Alone(uint64_t bytes) const { return latency_ + operation_ + Transfer(bytes); }

 private:
  int64_t Transfer(uint64_t bytes) const {
    return static_cast<int64_t>(static_cast<double>(bytes) / bytes_per_nano_);
  }

  const int64_t latency_;
  const int64_t operation_;
  const double bytes_per_nano_;
  std::atomic<int64_t> free_at_{0};
};

}  // namespace pulse::vdpu
