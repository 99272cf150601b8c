#include "services/lsm/core/io_status.h"

#include <cerrno>
#include <string>
#include <utility>

#include "base/errors.h"

namespace pulse::lsm {
namespace {

class HookedDirectory : public FSDirectory {
 public:
  HookedDirectory(std::unique_ptr<FSDirectory> base, std::function<IOStatus()> before)
      : base_(std::move(base)), before_(std::move(before)) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = before_();
    return s.ok() ? base_->Fsync(options, dbg) : s;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* dbg,
                               const rocksdb::DirFsyncOptions& dir_options) override {
    IOStatus s = before_();
    // All of the directory, whatever is told of it: on Btrfs RocksDB would leave out what it takes
    // for durable by its name, and what was renamed from elsewhere is not.
    return s.ok() ? base_->Fsync(options, dbg) : s;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    return base_->Close(options, dbg);
  }
  size_t GetUniqueId(char* id, size_t max_size) const override {
    return base_->GetUniqueId(id, max_size);
  }

 private:
  const std::unique_ptr<FSDirectory> base_;
  const std::function<IOStatus()> before_;
};

}  // namespace

std::unique_ptr<FSDirectory> NewHookedDirectory(std::unique_ptr<FSDirectory> base,
                                                std::function<IOStatus()> before) {
  return std::make_unique<HookedDirectory>(std::move(base), std::move(before));
}

IOStatus ToIOStatus(const absl::Status& status) {
  if (status.ok()) return IOStatus::OK();
  const std::string text(status.message());
  const int err = ErrnoOf(status);
  IOStatus s;
  if (err == ENOSPC || err == EDQUOT) {
    // RocksDB resumes by itself when space is back; it must know that this is such an error.
    s = IOStatus::NoSpace(text);
    s.SetRetryable(true);
  } else if (err == ENOENT || (err == 0 && absl::IsNotFound(status))) {
    s = IOStatus::PathNotFound(text);
  } else if (absl::IsInvalidArgument(status) && err == 0) {
    s = IOStatus::InvalidArgument(text);
  } else {
    s = IOStatus::IOError(text);
  }
  return s;
}

rocksdb::Status ToStatus(const absl::Status& status) {
  if (absl::IsFailedPrecondition(status)) {
    return rocksdb::Status::InvalidArgument(std::string(status.message()));
  }
  return ToIOStatus(status);
}

}  // namespace pulse::lsm
