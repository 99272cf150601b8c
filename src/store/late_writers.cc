#include "store/late_writers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::store {
namespace {

// An agent finishes what is in its rings.
constexpr int64_t kPatienceNanos = 10'000'000'000;

}  // namespace

// 1: somebody has a lock there, 0: nobody; else -errno.
static int AskForLock(int fd, int64_t start, int64_t length) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  if (fcntl(fd, F_OFD_GETLK, &lock) != 0) return -errno;
  return lock.l_type != F_UNLCK ? 1 : 0;
}

bool HasLateWriter(int fd, int64_t start, int64_t length) {
  return AskForLock(fd, start, length) != 0;
}

absl::Status AwaitLateWriters(int fd, const std::string& path) {
  const int64_t start = NowNanos();
  for (bool said = false;;) {
    const int asked = AskForLock(fd, kLateWriterLocks, 0);
    // A file system without such locks has no late writers: an agent writes there for nobody.
    if (asked == 0 || asked == -ENOLCK || asked == -EOPNOTSUPP || asked == -ENOSYS) break;
    if (asked < 0 && asked != -EINTR) {
      return ErrnoError(-asked, "asking whether an agent still writes to", path);
    }
    if (NowNanos() - start > kPatienceNanos) {
      return absl::FailedPreconditionError(
          absl::StrCat("pool ", path,
                       ": an agent still writes to it for a process that has ended; let it finish, "
                       "or stop it (SIGTERM), and try again"));
    }
    if (!said) {
      said = true;
      Log(LogLevel::kInfo, absl::StrCat("pool ", path,
                                        ": waiting for an agent that writes for a process that "
                                        "has ended"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return absl::OkStatus();
}

}  // namespace pulse::store
