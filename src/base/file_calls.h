// File system calls that a signal may interrupt (on FUSE and NFS, say), done again until they were
// not. Thread-safe; they block.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/status/status.h"
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

}  // namespace pulse
