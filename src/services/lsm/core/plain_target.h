// PlainTarget: an output that is a file of its own in the file system beneath (layout=files).
// Offsets in the output are offsets in the file.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "services/lsm/core/options.h"
#include "services/lsm/core/output_target.h"

namespace pulse::lsm {

class PlainTarget : public OutputTarget {
 public:
  // Opens (creates, truncates) `path`; with O_DIRECT if `mode` and the file system allow.
  static absl::StatusOr<std::shared_ptr<OutputTarget>> Open(const std::string& path, IoMode mode);

  UniqueFd OpenForAgent() override;
  uint64_t Preallocate(uint64_t expected) override { return expected; }
  uint64_t FinalSize(uint64_t size) const override { return size; }
  bool WantsWriteBack() const override { return !direct_; }
  absl::StatusOr<Place> PlaceOf(uint64_t offset, uint64_t length) override {
    return Place{offset, length};
  }
  absl::Status TakeOver() override;
  bool HostWritesDirect() const override { return direct_ && mode_ == IoMode::kDirect; }
  void StartWriteBack(uint64_t offset, uint64_t length) override;
  absl::Status Write(uint64_t offset, const char* data, uint64_t length) override;
  absl::Status Read(uint64_t offset, char* data, uint64_t length) override;
  absl::Status Truncate(uint64_t from, uint64_t size) override;
  absl::Status Sync(uint64_t size) override;
  absl::Status SyncClose(uint64_t size) override;
  // Puts a copy in its place (docs/internals/lsm-loss.md, "Late writes").
  absl::StatusOr<bool> MoveAside(uint64_t size) override;
  bool OnDataDurableLocked(uint64_t) override { return true; }

 private:
  PlainTarget(std::string path, UniqueFd fd, IoMode mode, bool direct)
      : path_(std::move(path)),
        mode_(mode),
        direct_(direct),
        fd_(std::make_shared<const UniqueFd>(std::move(fd))) {}

  // Kept open while it is held, though the output may move meanwhile.
  std::shared_ptr<const UniqueFd> fd() const {
    std::lock_guard lock(mu_);
    return fd_;
  }

  const std::string path_;
  const IoMode mode_;
  std::atomic<bool> direct_;
  mutable std::mutex mu_;  // taken last
  std::shared_ptr<const UniqueFd> fd_;
};

}  // namespace pulse::lsm
