#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/unique_fd.h"

namespace pulse {
namespace {

// 0: not known. Lines of /proc/locks read "1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF":
// process, device in hexadecimal, inode; those of processes that wait are different.
int LockHolder(const struct stat& st) {
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {
    int pid = 0;
    unsigned dev_major = 0, dev_minor = 0;
    uint64_t inode = 0;
    if (std::sscanf(line.c_str(), "%*s FLOCK %*s %*s %d %x:%x:%" SCNu64, &pid, &dev_major,
                    &dev_minor, &inode) == 4 &&
        inode == st.st_ino && dev_major == major(st.st_dev) && dev_minor == minor(st.st_dev)) {
      return pid;
    }
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<void>> TryLockFile(int fd, const std::string& path) {
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));  // of the same open file, as locks are
  if (!own.valid()) return ErrnoError(errno, "locking", path);
  while (flock(own.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::shared_ptr<void>();
    if (errno != EINTR) return ErrnoError(errno, "locking", path);
  }
  // Unlocked, and not just closed: a process that was forked meanwhile may have it open still.
  return std::shared_ptr<void>(new UniqueFd(std::move(own)), [](UniqueFd* locked) {
    flock(locked->get(), LOCK_UN);
    delete locked;
  });
}

std::string NameLockHolder(int fd) {
  struct stat st {};
  const int pid = fstat(fd, &st) == 0 ? LockHolder(st) : 0;
  if (pid > 0) {
    std::string who = absl::StrCat("process ", pid);
    std::ifstream comm(absl::StrCat("/proc/", pid, "/comm"));
    std::string name;
    if (std::getline(comm, name)) absl::StrAppend(&who, " (", name, ")");
    return who;
  }
  char content[16] = {};
  int said = 0;
  const bool read = pread(fd, content, sizeof(content) - 1, 0) > 0;
  if (read && absl::SimpleAtoi(content, &said) && said > 0) return absl::StrCat("process ", said);
  return "another process";
}

}  // namespace pulse
