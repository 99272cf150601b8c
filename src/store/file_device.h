// FileDevice: a regular file or block device as a Device, and the lock on it.
//
// The lock is flock(2), exclusive for writers and shared for readers; on a block device O_EXCL is
// added, so that a mounted one is refused. It lasts as long as the object. Threads: any. Blocks.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "store/device.h"

namespace pulse::store {

class FileDevice : public Device {
 public:
  // FailedPrecondition when somebody has the lock; names the process if that can be told.
  static absl::StatusOr<std::unique_ptr<FileDevice>> Open(const std::string& path, bool read_only);

  absl::Status Read(uint64_t offset, void* data, size_t length) override;
  absl::Status Write(uint64_t offset, const void* data, size_t length) override;
  absl::Status Sync() override;
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return path_; }

  int fd(bool direct) const override { return direct ? direct_fd() : buffered_fd(); }
  int buffered_fd() const { return buffered_.get(); }
  int direct_fd() const { return direct_.get(); }  // -1 where there is no O_DIRECT
  bool is_block_device() const { return block_device_; }

  // For Create(): after the file was given its size.
  absl::Status UpdateSize();

 private:
  explicit FileDevice(std::string path) : path_(std::move(path)) {}
  int io_fd() const { return direct_.valid() ? direct_.get() : buffered_.get(); }

  const std::string path_;
  UniqueFd buffered_;  // carries the lock
  UniqueFd direct_;
  bool block_device_ = false;
  uint64_t size_ = 0;
};

}  // namespace pulse::store
