#include "base/private_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

absl::StatusOr<PrivateMemory> PrivateMemory::Create(size_t bytes) {
  const size_t size = RoundUp(bytes, kPage);
  // Over-allocate so that the start falls on a huge page, then give the rest back.
  const size_t padded = size + kHugePage;
  void* p = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return ErrnoError(errno, "mapping memory of", absl::StrCat(size, " bytes"));
  char* raw = static_cast<char*>(p);
  char* start = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(raw), kHugePage));
  if (start > raw) munmap(raw, static_cast<size_t>(start - raw));
  char* end = start + size;
  if (raw + padded > end) munmap(end, static_cast<size_t>(raw + padded - end));
  PrivateMemory m;
  m.memory_ = MappedMemory(start, Unmap{size});
  m.huge_ = madvise(start, size, MADV_HUGEPAGE) == 0;
  return m;
}

}  // namespace pulse
