// File system calls that a signal may interrupt (on FUSE and NFS, say), done again until they were
// not. Thread-safe; they block.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/errors.h"
#include "base/unique_fd.h"

namespace pulse {

// open() with O_CLOEXEC. Not valid when it failed; errno says why.
inline UniqueFd OpenFile(const std::string& path, int flags, mode_t mode = 0) {
  while (true) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EINTR) return UniqueFd(fd);
  }
}

// fsync(). `path` is for the error.
inline absl::Status SyncFd(int fd, const std::string& path) {
  while (fsync(fd) != 0) {
    if (errno != EINTR) return ErrnoError(errno, "syncing", path);
  }
  return absl::OkStatus();
}

inline absl::Status SyncDirectory(const std::string& dir) {
  const UniqueFd fd = OpenFile(dir, O_RDONLY | O_DIRECTORY);
  if (!fd.valid()) return ErrnoError(errno, "syncing", dir);
  return SyncFd(fd.get(), dir);
}

// Where the file of this path lies.
inline std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Gives the file owner and group of `from` as far as it is allowed; the mode for it, for fchmod(2):
// another group gets no rights but those that all others have.
inline mode_t CopyOwner(int fd, const struct stat& from) {
  mode_t mode = from.st_mode & 0777;
  if (fchown(fd, static_cast<uid_t>(-1), from.st_gid) != 0) {
    mode &= ~mode_t{070} | (mode & 07) << 3;
  }
  // An owner who is not this one loses nothing by it.
  if (fchown(fd, from.st_uid, static_cast<gid_t>(-1)) != 0) errno = 0;
  return mode;
}

// What root has just made (with O_EXCL: nothing else may be given away) in the directory of another
// user becomes that user's, whose programs could not write to it otherwise. As far as it is
// allowed.
inline void GiveToOwnerOfDirectory(int fd, const std::string& path) {
  if (geteuid() != 0) return;
  struct stat file {
  }, parent{};
  if (fstat(fd, &file) != 0 || stat(DirectoryOf(path).c_str(), &parent) != 0) return;
  if (file.st_uid != 0 || parent.st_uid == 0) return;
  if (fchown(fd, parent.st_uid, parent.st_gid) != 0) errno = 0;  // it stays root's
}

inline bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The file that this process has made at `path`. As long as it is open or bound, its inode is
// nobody else's; Remove() while that holds leaves what a successor has put in its place.
class MadeFile {
 public:
  MadeFile() = default;
  explicit MadeFile(std::string path) : path_(std::move(path)) {
    if (lstat(path_.c_str(), &made_) != 0) path_.clear();
  }
  void Remove() {
    struct stat now;
    if (path_.empty() || lstat(path_.c_str(), &now) != 0 || !IsSameFile(now, made_)) return;
    unlink(path_.c_str());
    path_.clear();
  }

 private:
  std::string path_;
  struct stat made_ = {};
};

// After EAGAIN: somebody else has made the descriptor one that does not wait. Waits for `events` of
// poll(2). False for other errors, with errno as it was.
inline bool WaitedFor(int fd, short events) {
  if (errno != EAGAIN) return false;
  pollfd waits = {.fd = fd, .events = events, .revents = 0};
  poll(&waits, 1, -1);
  return true;
}

// All of `bytes`, from where the descriptor is. `what` and `target` are for the error.
inline absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view what,
                             absl::string_view target) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || WaitedFor(fd, POLLOUT))) continue;
    if (n <= 0) return ErrnoError(n < 0 ? errno : EIO, what, target);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// All of `bytes`, at `offset`. `path` is for the error.
inline absl::Status WriteAt(int fd, absl::string_view bytes, uint64_t offset,
                            const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoError(n < 0 ? errno : ENOSPC, "writing", path);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

// `size` bytes from `offset` on; fewer only where the file ends.
inline absl::StatusOr<size_t> ReadAt(int fd, void* to, size_t size, uint64_t offset,
                                     absl::string_view what, absl::string_view target) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n =
        pread(fd, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, what, target);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

// What is left of a file, but no more than about `most` bytes: the caller sees by the size that
// there is more.
inline absl::StatusOr<std::string> ReadToEnd(int fd, size_t most, absl::string_view what,
                                             absl::string_view target) {
  std::string bytes;
  char buffer[1 << 14];
  while (bytes.size() <= most) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, what, target);
    if (n == 0) break;
    bytes.append(buffer, static_cast<size_t>(n));
  }
  return bytes;
}

// The file has all of `bytes` or is as it was, also after a cut: `fresh`, of the same directory, is
// written and takes its place. `prepare` is called with the new descriptor, to set owner and mode
// before anything is in it.
template <typename Prepare>
absl::Status ReplaceFile(const std::string& path, const std::string& fresh, mode_t mode,
                         absl::string_view bytes, Prepare&& prepare) {
  unlink(fresh.c_str());  // what a crash has left, with whatever owner and mode it has
  UniqueFd fd = OpenFile(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!fd.valid()) return ErrnoError(errno, "creating", fresh);
  absl::Status status = prepare(fd.get());
  if (status.ok()) status = WriteAll(fd.get(), bytes, "writing", fresh);
  if (status.ok()) status = SyncFd(fd.get(), fresh);
  fd.reset();
  if (status.ok() && rename(fresh.c_str(), path.c_str()) != 0) {
    status = ErrnoError(errno, "replacing", path);
  }
  if (status.ok()) return SyncDirectory(DirectoryOf(path));
  unlink(fresh.c_str());
  return status;
}

// The first `size` bytes of a file that has at least so many.
inline absl::StatusOr<std::string> ReadFirst(int fd, uint64_t size, absl::string_view what,
                                             absl::string_view target) {
  std::string bytes(size, '\0');
  PULSE_ASSIGN_OR_RETURN(const size_t n, ReadAt(fd, bytes.data(), bytes.size(), 0, what, target));
  if (n < bytes.size()) return ErrnoError(EIO, what, target);
  return bytes;
}

}  // namespace pulse
