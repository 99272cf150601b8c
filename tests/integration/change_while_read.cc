// Preloaded into a program: once it has read a file to some place, and before it reads on, a
// command changes that file. So tests need no luck with the time at which they do it.
//
//   PULSE_TEST_FILE   the file, as realpath has it
//   PULSE_TEST_AT     a read that begins at this byte or later waits for the command
//   PULSE_TEST_CHANGE what sh does; it has to begin with `LD_PRELOAD=;`
//
// One change in a process. Reads of programs that these start are not looked at.
#include <dlfcn.h>
#include <limits.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace {

std::once_flag changed;

void BeforeRead(int fd, off_t at) {
  static const char* const file = std::getenv("PULSE_TEST_FILE");
  static const char* const from = std::getenv("PULSE_TEST_AT");
  static const char* const change = std::getenv("PULSE_TEST_CHANGE");
  if (file == nullptr || from == nullptr || change == nullptr) return;
  if (at < static_cast<off_t>(std::strtoll(from, nullptr, 10))) return;
  char link[64];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  char target[PATH_MAX];
  const ssize_t n = readlink(link, target, sizeof(target) - 1);
  if (n < 0) return;
  target[n] = '\0';
  if (std::strcmp(target, file) != 0) return;
  std::call_once(changed, [] {
    if (std::system(change) != 0) _exit(99);
  });
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pread64(int fd, void* to, size_t size, off_t at) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t, off_t)>("pread64");
  BeforeRead(fd, at);
  return real(fd, to, size, at);
}

ssize_t pread(int fd, void* to, size_t size, off_t at) { return pread64(fd, to, size, at); }

ssize_t read(int fd, void* to, size_t size) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t)>("read");
  const off_t at = lseek(fd, 0, SEEK_CUR);
  if (at >= 0) BeforeRead(fd, at);
  return real(fd, to, size);
}

}  // extern "C"
