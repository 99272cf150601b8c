#include "store/file_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/file_lock.h"
#include "store/format.h"
#include "store/late_writers.h"

namespace pulse::store {

absl::StatusOr<std::unique_ptr<FileDevice>> FileDevice::Open(const std::string& path,
                                                             bool read_only) {
  std::unique_ptr<FileDevice> device(new FileDevice(path));
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) {
    return ErrnoError(errno, "store", path, "`pulse pool create PATH --size SIZE` makes one");
  }
  device->block_device_ = S_ISBLK(st.st_mode);
  if (!device->block_device_ && !S_ISREG(st.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is neither a file nor a block device; a store needs one of them"));
  }
  const int flags = read_only ? O_RDONLY : O_RDWR;
  const int exclusive = device->block_device_ && !read_only ? O_EXCL : 0;
  device->buffered_ = OpenFile(path, flags | exclusive);
  if (!device->buffered_.valid()) {
    if (errno == EBUSY) {
      return absl::FailedPreconditionError(absl::StrCat(
          "store ", path, " is in use: mounted, or opened by another program; end that first"));
    }
    return ErrnoError(errno, "store: cannot open", path);
  }
  if (flock(device->buffered_.get(), (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError(errno, "store: cannot lock", path);
    return absl::FailedPreconditionError(absl::StrCat("store ", path, " is in use by ",
                                                      NameLockHolder(device->buffered_.get()),
                                                      "; end it first, or use another store"));
  }
  if (!read_only) PULSE_RETURN_IF_ERROR(AwaitLateWriters(device->buffered_.get(), path));
  device->direct_ = OpenFile(path, flags | O_DIRECT);
  // Some file systems have no direct I/O, and say so with EINVAL. Anything else is an error: it
  // must not turn into another kind of I/O for as long as the store is open.
  if (!device->direct_.valid() && errno != EINVAL) {
    return ErrnoError(errno, "store: cannot open for direct I/O", path);
  }
  PULSE_RETURN_IF_ERROR(device->UpdateSize());
  return device;
}

absl::Status FileDevice::UpdateSize() {
  if (block_device_) {
    if (ioctl(buffered_.get(), BLKGETSIZE64, &size_) != 0) {
      return ErrnoError(errno, "store: no size of", path_);
    }
    return absl::OkStatus();
  }
  struct stat st {};
  if (fstat(buffered_.get(), &st) != 0) return ErrnoError(errno, "store: no size of", path_);
  size_ = static_cast<uint64_t>(st.st_size);
  return absl::OkStatus();
}

absl::Status FileDevice::Read(uint64_t offset, void* data, size_t length) {
  char* to = static_cast<char*>(data);
  while (length > 0) {
    ssize_t n = pread(io_fd(), to, length, static_cast<off_t>(offset));
    if (n < 0 && errno == EINVAL && direct_.valid()) {
      // The device's blocks may be larger than ours.
      n = pread(buffered_.get(), to, length, static_cast<off_t>(offset));
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, absl::StrCat("read at offset ", offset, " of"), path_);
    if (n == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ", offset ", offset, ": the file ends here; it was cut short"));
    }
    to += n;
    offset += static_cast<uint64_t>(n);
    length -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status FileDevice::Write(uint64_t offset, const void* data, size_t length) {
  const char* from = static_cast<const char*>(data);
  while (length > 0) {
    ssize_t n = pwrite(io_fd(), from, length, static_cast<off_t>(offset));
    if (n < 0 && errno == EINVAL && direct_.valid()) {
      n = pwrite(buffered_.get(), from, length, static_cast<off_t>(offset));
    }
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return ErrnoError(n < 0 ? errno : ENOSPC, absl::StrCat("write at offset ", offset, " of"),
                        path_);
    }
    from += n;
    offset += static_cast<uint64_t>(n);
    length -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status FileDevice::Sync() {
  while (fdatasync(buffered_.get()) != 0) {
    if (errno != EINTR) return ErrnoError(errno, "sync of", path_);
  }
  return absl::OkStatus();
}

}  // namespace pulse::store
