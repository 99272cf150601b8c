#include "services/kv/core/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/errors.h"

namespace pulse::kv {

absl::StatusOr<Memory> Memory::Open(uint64_t limit, uint64_t reserve) {
  reserve = (reserve + kPageBytes - 1) / kPageBytes * kPageBytes;
  // One page more, to begin at a page.
  void* at = mmap(nullptr, reserve + kPageBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return ErrnoError(errno, "reserving", absl::StrCat(reserve, " bytes of addresses"),
                      "give a smaller --memory, or raise the limit of addresses (ulimit -v)");
  }
  auto begin = reinterpret_cast<uintptr_t>(at);
  const uintptr_t aligned = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (aligned > begin) munmap(at, aligned - begin);
  const size_t tail = begin + kPageBytes - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + reserve), tail);
  auto* base = reinterpret_cast<char*>(aligned);
  // Without huge pages it works, at more TLB misses.
  madvise(base, reserve, MADV_HUGEPAGE);
  return Memory(base, reserve, limit / kPageBytes);
}

Memory::Memory(Memory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      reserve_(other.reserve_),
      limit_pages_(other.limit_pages_),
      used_pages_(other.used_pages_) {}

Memory::~Memory() {
  if (base_ != nullptr) munmap(base_, reserve_);
}

void Memory::Give(char* first, uint64_t pages) {
  PULSE_CHECK(pages <= used_pages_);
  used_pages_ -= pages;
  PULSE_CHECK(madvise(first, pages * kPageBytes, MADV_DONTNEED) == 0);
}

}  // namespace pulse::kv
