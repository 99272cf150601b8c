// PoolTarget: an output that is a file of the pool (layout=pool). The agent writes at offsets of
// the device; the host keeps the store's metadata, and enters the output's size once its data is
// durable. The file's name is there from the start, its size is 0 until then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "services/lsm/core/output_target.h"
#include "services/lsm/pool/pool.h"

namespace pulse::lsm {

class PoolTarget : public OutputTarget {
 public:
  // A new file at `path`, which is canonical, in place of one that is there.
  static absl::StatusOr<std::shared_ptr<OutputTarget>> Create(std::shared_ptr<Pool> pool,
                                                              const std::string& path, IoMode io);
  ~PoolTarget() override;

  UniqueFd OpenForAgent() override;
  uint64_t Preallocate(uint64_t expected) override;
  uint64_t FinalSize(uint64_t) const override { return ~uint64_t{0}; }
  bool WantsWriteBack() const override { return !direct_; }
  bool ServesReads() const override { return true; }
  absl::StatusOr<Place> PlaceOf(uint64_t offset, uint64_t length) override;
  absl::Status TakeOver() override;
  bool HostWritesDirect() const override { return direct_ && io_ == IoMode::kDirect; }
  void StartWriteBack(uint64_t offset, uint64_t length) override;
  absl::Status Write(uint64_t offset, const char* data, uint64_t length) override;
  absl::Status Read(uint64_t offset, char* data, uint64_t length) override;
  absl::Status Truncate(uint64_t from, uint64_t size) override;
  absl::Status Sync(uint64_t size) override;
  absl::Status SyncClose(uint64_t size) override;
  absl::StatusOr<bool> MoveAside(uint64_t size) override;
  bool OnDataDurableLocked(uint64_t size) override;
  void OnAgentClosedLocked() override { given_ = false; }
  absl::Status Commit() override;

 private:
  PoolTarget(std::shared_ptr<Pool> pool, std::string path, store::FilePin pin, IoMode io,
             bool direct)
      : pool_(std::move(pool)),
        path_(std::move(path)),
        pin_(std::move(pin)),
        io_(io),
        direct_(direct) {}
  int fd() const { return pool_->store().device_fd(direct_); }

  const std::shared_ptr<Pool> pool_;
  const std::string path_;
  const store::FilePin pin_;  // deleted or not, its segments are its own until the last write
  const IoMode io_;
  std::atomic<bool> direct_;  // how it is written
  bool given_ = false;        // an agent may have the file open, and write to its segments
  std::mutex mu_;             // taken before the store's, after HostSession::mu()
  bool final_ = false;        // the size that was entered is the last
  absl::Status entered_;
};

}  // namespace pulse::lsm
