#include "services/ops/byte_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse::ops {

absl::StatusOr<size_t> ReadFully(ByteSource& source, void* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, source.Read(static_cast<char*>(to) + done, size - done));
    if (n == 0) break;
    done += n;
  }
  return done;
}

bool HasTrueSize(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_size > 0 &&
         (info.st_blocks > 0 || info.st_size > sysconf(_SC_PAGESIZE));
}

void EnlargePipe(int fd) { fcntl(fd, F_SETPIPE_SZ, 1 << 20); }

FdSource::FdSource(int fd, std::string name) : fd_(fd), name_(std::move(name)) {
  EnlargePipe(fd_);
  struct stat info;
  // Without an eventfd it is read as before, and only cannot be stopped.
  const bool is_read = (fcntl(fd_, F_GETFL) & O_ACCMODE) != O_WRONLY;  // others never are ready
  if (is_read && fstat(fd_, &info) == 0 && !S_ISREG(info.st_mode)) {
    stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }
}

void FdSource::Stop() {
  if (stop_.valid()) eventfd_write(stop_.get(), 1);
}

absl::StatusOr<size_t> FdSource::Read(void* to, size_t size) {
  while (true) {
    if (stop_.valid()) {
      pollfd fds[2] = {{.fd = fd_, .events = POLLIN, .revents = 0},
                       {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
      const int ready = poll(fds, 2, -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) return ErrnoError(errno, "reading", name_);
      if (fds[1].revents != 0) {
        return absl::CancelledError(absl::StrCat(name_, " is not read any more"));
      }
    }
    const ssize_t got = read(fd_, to, size);
    if (got < 0 && errno == EAGAIN && stop_.valid()) continue;
    if (got < 0 && (errno == EINTR || WaitedFor(fd_, POLLIN))) continue;
    if (got < 0) return ErrnoError(errno, "reading", name_);
    return static_cast<size_t>(got);
  }
}

std::optional<uint64_t> FdSource::Left() const {
  struct stat info;
  if (fstat(fd_, &info) != 0 || !HasTrueSize(info)) return std::nullopt;
  const off_t at = lseek(fd_, 0, SEEK_CUR);
  if (at < 0) return std::nullopt;
  return static_cast<uint64_t>(std::max<off_t>(0, info.st_size - at));
}

FdSink::FdSink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {
  if (fd_ >= 0) EnlargePipe(fd_);
}

absl::Status FdSink::Write(absl::string_view bytes) {
  if (fd_ < 0) return absl::OkStatus();
  return WriteAll(fd_, bytes, "writing", name_);
}

absl::StatusOr<size_t> MemorySource::Read(void* to, size_t size) {
  const size_t n = std::min(size, left_.size());
  if (n > 0) std::memcpy(to, left_.data(), n);
  left_.remove_prefix(n);
  return n;
}

}  // namespace pulse::ops
