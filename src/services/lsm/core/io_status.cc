#include "services/lsm/core/io_status.h"

#include <cerrno>
#include <string>

#include "base/errors.h"

namespace pulse::lsm {

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
