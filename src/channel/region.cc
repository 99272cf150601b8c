#include "channel/region.h"

#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "channel/wire.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace pulse {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

absl::StatusOr<UniqueFd> Region::CreateFile(size_t bytes) {
  const size_t size = RoundUp(bytes, wire::kPage);
  UniqueFd fd(memfd_create("pulse-region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoError(errno, "creating shared memory", "memfd");
  // Beyond it ftruncate(2) sends SIGXFSZ, which ends a program that does not ignore it.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sizing shared memory to ", size, " bytes: this process may make files of ",
                     limit.rlim_cur, " bytes; raise that limit (ulimit -f, LimitFSIZE=)"));
  }
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return ErrnoError(errno, "sizing shared memory to", absl::StrCat(size, " bytes"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return ErrnoError(errno, "sealing shared memory", "memfd");
  }
  return fd;
}

absl::StatusOr<Region> Region::CreateShared(size_t bytes) {
  const size_t size = RoundUp(bytes, wire::kPage);
  PULSE_ASSIGN_OR_RETURN(UniqueFd fd, CreateFile(size));
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) {
    return ErrnoError(errno, "mapping shared memory of", absl::StrCat(size, " bytes"));
  }
  Region r;
  r.memory_ = MappedMemory(static_cast<char*>(p), Unmap{size});
  // Heeded where shmem_enabled=advise.
  r.huge_ = size >= kHugePage && madvise(p, size, MADV_HUGEPAGE) == 0;
  r.fd_ = std::move(fd);
  return r;
}

absl::StatusOr<Region> Region::CreatePrivate(size_t bytes) {
  PULSE_ASSIGN_OR_RETURN(auto memory, PrivateMemory::Create(bytes));
  Region r;
  r.huge_ = memory.huge();
  r.memory_ = memory.release();
  return r;
}

absl::Status Region::CheckFile(int fd, size_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        "the peer's memory is not a sealed memfd; it could be resized under us, so it is refused");
  }
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0 || fs.f_type == HUGETLBFS_MAGIC) {
    return absl::InvalidArgumentError(
        "the peer's memory is of reserved huge pages, which can be taken from under us; it is "
        "refused");
  }
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size < 0 || static_cast<size_t>(st.st_size) < bytes ||
      bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the peer's memory has ", st.st_size,
                                                   " bytes where ", bytes, " were announced"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Region> Region::Map(UniqueFd fd, size_t bytes) {
  PULSE_RETURN_IF_ERROR(CheckFile(fd.get(), bytes));
  bytes = RoundUp(bytes, wire::kPage);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED)
    return ErrnoError(errno, "mapping the peer's memory of", absl::StrCat(bytes, " bytes"));
  Region r;
  r.memory_ = MappedMemory(static_cast<char*>(p), Unmap{bytes});
  r.fd_ = std::move(fd);
  return r;
}

void Region::Populate() const {
  // In pieces: the address space is locked meanwhile, and whoever maps memory, or allocates much of
  // it, waits. In one piece that stopped writers of the database for a tenth of a second.
  constexpr size_t kPiece = size_t{256} << 10;
  for (size_t at = 0; at < size(); at += kPiece) {
    madvise(data() + at, std::min(kPiece, size() - at), MADV_POPULATE_WRITE);
  }
}

}  // namespace pulse
