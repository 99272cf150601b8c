// The file system calls of the whole process. The program's own definitions come before the C
// library's for every shared object in it, librocksdb.so included; each passes on to the C library
// unless the simulated disk runs.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>

#include "powercut/real_calls.h"
#include "powercut/sim_disk.h"

namespace pulse::powercut::real {
namespace {

template <typename Function>
Function* Next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) abort();
  return reinterpret_cast<Function*>(found);
}

}  // namespace

int Open(const char* path, int flags, mode_t mode) {
  static auto* const next = Next<int(const char*, int, ...)>("open");
  return next(path, flags, mode);
}
int Close(int fd) {
  static auto* const next = Next<int(int)>("close");
  return next(fd);
}
ssize_t Read(int fd, void* data, size_t n) {
  static auto* const next = Next<ssize_t(int, void*, size_t)>("read");
  return next(fd, data, n);
}
ssize_t Pread(int fd, void* data, size_t n, off_t offset) {
  static auto* const next = Next<ssize_t(int, void*, size_t, off_t)>("pread");
  return next(fd, data, n, offset);
}
ssize_t Write(int fd, const void* data, size_t n) {
  static auto* const next = Next<ssize_t(int, const void*, size_t)>("write");
  return next(fd, data, n);
}
ssize_t Pwrite(int fd, const void* data, size_t n, off_t offset) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return next(fd, data, n, offset);
}
int Fallocate(int fd, int mode, off_t offset, off_t length) {
  static auto* const next = Next<int(int, int, off_t, off_t)>("fallocate");
  return next(fd, mode, offset, length);
}
int Ftruncate(int fd, off_t length) {
  static auto* const next = Next<int(int, off_t)>("ftruncate");
  return next(fd, length);
}
int Truncate(const char* path, off_t length) {
  static auto* const next = Next<int(const char*, off_t)>("truncate");
  return next(path, length);
}
int Fsync(int fd) {
  static auto* const next = Next<int(int)>("fsync");
  return next(fd);
}
int Fdatasync(int fd) {
  static auto* const next = Next<int(int)>("fdatasync");
  return next(fd);
}
int SyncFileRange(int fd, off_t offset, off_t length, unsigned flags) {
  static auto* const next = Next<int(int, off_t, off_t, unsigned)>("sync_file_range");
  return next(fd, offset, length, flags);
}
int Rename(const char* from, const char* to) {
  static auto* const next = Next<int(const char*, const char*)>("rename");
  return next(from, to);
}
int Link(const char* from, const char* to) {
  static auto* const next = Next<int(const char*, const char*)>("link");
  return next(from, to);
}
int Unlink(const char* path) {
  static auto* const next = Next<int(const char*)>("unlink");
  return next(path);
}
int Rmdir(const char* path) {
  static auto* const next = Next<int(const char*)>("rmdir");
  return next(path);
}
int Mkdir(const char* path, mode_t mode) {
  static auto* const next = Next<int(const char*, mode_t)>("mkdir");
  return next(path, mode);
}
int FcntlDuplicate(int fd, int command, int lowest) {
  static auto* const next = Next<int(int, int, ...)>("fcntl");
  return next(fd, command, lowest);
}
int Dup3(int fd, int to, int flags) {
  static auto* const next = Next<int(int, int, int)>("dup3");
  return next(fd, to, flags);
}

}  // namespace pulse::powercut::real

namespace {

namespace real = pulse::powercut::real;
using pulse::powercut::SimDisk;

bool Watched(int fd) { return SimDisk::active() && SimDisk::Tracks(fd); }

int OpenAny(const char* path, int flags, mode_t mode) {
  return SimDisk::active() ? SimDisk::Get().Open(path, flags, mode) : real::Open(path, flags, mode);
}

// What the disk does not model must not pass unseen.
ssize_t NotModelled(const char* call) {
  fprintf(stderr, "powercut: %s on the simulated disk is not modelled\n", call);
  abort();
}

}  // namespace

#define MODE_ARGUMENT(last)                        \
  mode_t mode = 0;                                 \
  if ((flags & (O_CREAT | __O_TMPFILE)) != 0) {    \
    va_list list;                                  \
    va_start(list, last);                          \
    mode = static_cast<mode_t>(va_arg(list, int)); \
    va_end(list);                                  \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  MODE_ARGUMENT(flags)
  return OpenAny(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_ARGUMENT(flags)
  return OpenAny(path, flags, mode);
}
int __open_2(const char* path, int flags) { return OpenAny(path, flags, 0); }
int __open64_2(const char* path, int flags) { return OpenAny(path, flags, 0); }
int creat(const char* path, mode_t mode) {
  return OpenAny(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) {
  return OpenAny(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int openat(int dir, const char* path, int flags, ...) {
  MODE_ARGUMENT(flags)
  if (path[0] == '/' || dir == AT_FDCWD) return OpenAny(path, flags, mode);
  if (Watched(dir)) NotModelled("openat");
  static auto* const next = real::Next<int(int, const char*, int, ...)>("openat");
  return next(dir, path, flags, mode);
}
int openat64(int dir, const char* path, int flags, ...) {
  MODE_ARGUMENT(flags)
  return openat(dir, path, flags, mode);
}

int close(int fd) { return Watched(fd) ? SimDisk::Get().Close(fd) : real::Close(fd); }
int fclose(FILE* file) {
  static auto* const next = real::Next<int(FILE*)>("fclose");
  const int fd = fileno(file);
  if (Watched(fd)) SimDisk::Get().Forget(fd);
  return next(file);
}

ssize_t read(int fd, void* data, size_t n) {
  return Watched(fd) ? SimDisk::Get().Read(fd, data, n, -1) : real::Read(fd, data, n);
}
ssize_t pread(int fd, void* data, size_t n, off_t offset) {
  return Watched(fd) ? SimDisk::Get().Read(fd, data, n, offset) : real::Pread(fd, data, n, offset);
}
ssize_t pread64(int fd, void* data, size_t n, off64_t offset) { return pread(fd, data, n, offset); }
ssize_t write(int fd, const void* data, size_t n) {
  return Watched(fd) ? SimDisk::Get().Write(fd, data, n, -1) : real::Write(fd, data, n);
}
ssize_t pwrite(int fd, const void* data, size_t n, off_t offset) {
  return Watched(fd) ? SimDisk::Get().Write(fd, data, n, offset)
                     : real::Pwrite(fd, data, n, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t n, off64_t offset) {
  return pwrite(fd, data, n, offset);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* const next = real::Next<ssize_t(int, const iovec*, int)>("writev");
  if (!Watched(fd)) return next(fd, parts, count);
  std::string all;
  for (int i = 0; i < count; ++i) {
    all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  return SimDisk::Get().Write(fd, all.data(), all.size(), -1);
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  static auto* const next = real::Next<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  return Watched(fd) ? NotModelled("pwritev") : next(fd, parts, count, offset);
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  return pwritev(fd, parts, count, offset);
}
ssize_t sendfile(int out, int in, off_t* offset, size_t n) {
  static auto* const next = real::Next<ssize_t(int, int, off_t*, size_t)>("sendfile");
  return Watched(out) ? NotModelled("sendfile") : next(out, in, offset, n);
}
ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t n,
                        unsigned flags) {
  static auto* const next =
      real::Next<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  return Watched(out) ? NotModelled("copy_file_range")
                      : next(in, in_offset, out, out_offset, n, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  return Watched(fd) ? SimDisk::Get().Fallocate(fd, mode, offset, length)
                     : real::Fallocate(fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  return fallocate(fd, mode, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
  const int saved = errno;
  const int rc = fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
  errno = saved;
  return rc;
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
  return posix_fallocate(fd, offset, length);
}
int ftruncate(int fd, off_t length) noexcept {
  return Watched(fd) ? SimDisk::Get().Ftruncate(fd, length) : real::Ftruncate(fd, length);
}
int ftruncate64(int fd, off64_t length) noexcept { return ftruncate(fd, length); }
int truncate(const char* path, off_t length) noexcept {
  return SimDisk::active() ? SimDisk::Get().Truncate(path, length) : real::Truncate(path, length);
}
int truncate64(const char* path, off64_t length) noexcept { return truncate(path, length); }

int fsync(int fd) { return Watched(fd) ? SimDisk::Get().Sync(fd) : real::Fsync(fd); }
int fdatasync(int fd) { return Watched(fd) ? SimDisk::Get().Sync(fd) : real::Fdatasync(fd); }
int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
  return Watched(fd) ? SimDisk::Get().SyncFileRange(fd, offset, length, flags)
                     : real::SyncFileRange(fd, offset, length, flags);
}

int rename(const char* from, const char* to) noexcept {
  return SimDisk::active() ? SimDisk::Get().Rename(from, to) : real::Rename(from, to);
}
int link(const char* from, const char* to) noexcept {
  return SimDisk::active() ? SimDisk::Get().Link(from, to) : real::Link(from, to);
}
int unlink(const char* path) noexcept {
  return SimDisk::active() ? SimDisk::Get().Unlink(path, false) : real::Unlink(path);
}
int rmdir(const char* path) noexcept {
  return SimDisk::active() ? SimDisk::Get().Unlink(path, true) : real::Rmdir(path);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return SimDisk::active() ? SimDisk::Get().Mkdir(path, mode) : real::Mkdir(path, mode);
}

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && Watched(fd)) {
    const int lowest = static_cast<int>(reinterpret_cast<intptr_t>(argument));
    return SimDisk::Get().FcntlDuplicate(fd, command, lowest);
  }
  static auto* const next = real::Next<int(int, int, ...)>("fcntl");
  return next(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  return fcntl(fd, command, argument);
}
int dup(int fd) noexcept {
  static auto* const next = real::Next<int(int)>("dup");
  return Watched(fd) ? SimDisk::Get().FcntlDuplicate(fd, F_DUPFD, 0) : next(fd);
}
int dup3(int fd, int to, int flags) noexcept {
  return SimDisk::active() ? SimDisk::Get().Dup3(fd, to, flags) : real::Dup3(fd, to, flags);
}
int dup2(int fd, int to) noexcept {
  static auto* const next = real::Next<int(int, int)>("dup2");
  return Watched(fd) || Watched(to) ? dup3(fd, to, 0) : next(fd, to);
}

// RocksDB sleeps for a second after each failed background job. Nothing that is tested depends on
// it.
int usleep(useconds_t micros) {
  static auto* const next = real::Next<int(useconds_t)>("usleep");
  constexpr useconds_t kLongest = 2000;
  return next(SimDisk::active() && micros > kLongest ? kLongest : micros);
}

// RocksDB leaves out directory syncs on btrfs and asks whether sync_file_range works. The disk is
// ext4 to it, wherever the real files are.
int fstatfs(int fd, struct statfs* out) noexcept {
  static auto* const next = real::Next<int(int, struct statfs*)>("fstatfs");
  const int rc = next(fd, out);
  if (rc == 0 && Watched(fd)) out->f_type = 0xEF53;
  return rc;
}

}  // extern "C"
