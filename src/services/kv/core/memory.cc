#include "services/kv/core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/errors.h"

namespace pulse::kv {
namespace {

uint64_t WholePages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

bool TakeRoom(int fd, off_t at, off_t bytes) {
  int result;
  do {
    result = fallocate(fd, 0, at, bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool MakeAsLong(int fd, uint64_t bytes) {
  struct stat facts {};
  const auto end = static_cast<off_t>(bytes);
  return fstat(fd, &facts) == 0 && (facts.st_size >= end || ftruncate(fd, end) == 0);
}

absl::StatusOr<Memory> Memory::Open(uint64_t limit, uint64_t reserve, uint64_t uncounted,
                                    const MemoryFile& file) {
  reserve = WholePages(reserve);
  uncounted = WholePages(uncounted);
  const uint64_t bytes = uncounted + reserve;
  // One page more, to begin at a page.
  void* at = mmap(nullptr, bytes + kPageBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return ErrnoError(
        errno, "reserving", absl::StrCat(bytes, " bytes of addresses"),
        "give less memory (memory_bytes or --memory), or raise the limit of addresses (ulimit -v)");
  }
  auto begin = reinterpret_cast<uintptr_t>(at);
  const uintptr_t aligned = WholePages(begin);
  if (aligned > begin) munmap(at, aligned - begin);
  const size_t tail = begin + kPageBytes - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  auto* mapping = reinterpret_cast<char*>(aligned);
  Memory memory(mapping, uncounted, reserve, limit / kPageBytes, file);
  if (file.is_given()) {
    // Only what is written takes memory.
    if (!MakeAsLong(file.fd, file.offset + bytes)) {
      return ErrnoError(errno, "making longer", "the memory file");
    }
    if (mmap(mapping, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             file.fd, static_cast<off_t>(file.offset)) == MAP_FAILED) {
      return ErrnoError(errno, "mapping", "the memory file");
    }
    if (!TakeRoom(file.fd, static_cast<off_t>(file.offset), static_cast<off_t>(uncounted))) {
      return ErrnoError(errno, "taking room for", "the memory file",
                        "it has to be on a tmpfs with room for all of --memory");
    }
  }
  // Without huge pages it works, at more TLB misses.
  madvise(mapping + uncounted, reserve, MADV_HUGEPAGE);
  return memory;
}

Memory::Memory(Memory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      uncounted_(other.uncounted_),
      reserve_(other.reserve_),
      limit_pages_(other.limit_pages_),
      file_(other.file_),
      used_pages_(other.used_pages_) {}

Memory::~Memory() {
  if (mapping_ != nullptr) munmap(mapping_, uncounted_ + reserve_);
}

void Memory::Drop(char* first, uint64_t bytes) {
  PULSE_CHECK(madvise(first, bytes, file_.is_given() ? MADV_REMOVE : MADV_DONTNEED) == 0);
}

bool Memory::Back(char* first, uint64_t pages) {
  if (!file_.is_given()) return true;
  const auto at = static_cast<off_t>(file_.offset) + (first - mapping_);
  refused_ = !TakeRoom(file_.fd, at, static_cast<off_t>(pages * kPageBytes));
  if (refused_) Give(first, pages);
  return !refused_;
}

void Memory::Give(char* first, uint64_t pages) {
  PULSE_CHECK(pages <= *used_pages_);
  *used_pages_ -= pages;
  Drop(first, pages * kPageBytes);
}

}  // namespace pulse::kv
