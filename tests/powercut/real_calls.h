// The C library's own functions, past this program's definitions of them (interpose.cc).
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

namespace pulse::powercut::real {

int Open(const char* path, int flags, mode_t mode);
int Close(int fd);
ssize_t Read(int fd, void* data, size_t n);
ssize_t Pread(int fd, void* data, size_t n, off_t offset);
ssize_t Write(int fd, const void* data, size_t n);
ssize_t Pwrite(int fd, const void* data, size_t n, off_t offset);
int Fallocate(int fd, int mode, off_t offset, off_t length);
int Ftruncate(int fd, off_t length);
int Truncate(const char* path, off_t length);
int Fsync(int fd);
int Fdatasync(int fd);
int SyncFileRange(int fd, off_t offset, off_t length, unsigned flags);
int Rename(const char* from, const char* to);
int Link(const char* from, const char* to);
int Unlink(const char* path);
int Rmdir(const char* path);
int Mkdir(const char* path, mode_t mode);
int FcntlDuplicate(int fd, int command, int lowest);
int Dup3(int fd, int to, int flags);

}  // namespace pulse::powercut::real
