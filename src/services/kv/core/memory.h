// Memory: the address space of one partition, and how much of it may be in use. It reserves far
// more addresses than memory, so that what grows never has to move; pages of 2 MiB are taken and
// given back, and counted against one limit, which the process therefore obeys.
//
// Ownership: the object owns the mapping. Threads: one. Blocking: Give calls the kernel.
// Errors: Open says what the kernel refused, and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace pulse::kv {

inline constexpr size_t kPageBytes = size_t{2} << 20;

class Memory {
 public:
  // `limit` bytes of memory at most, in whole pages; `reserve` bytes of addresses.
  static absl::StatusOr<Memory> Open(uint64_t limit, uint64_t reserve);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  char* base() const { return base_; }
  // Counts so many pages as used. False when the limit does not allow it; then none are.
  bool Take(uint64_t pages) {
    if (pages > limit_pages_ - used_pages_) return false;
    used_pages_ += pages;
    return true;
  }
  // Gives the memory of pages that were counted back to the system; they read as zeros then.
  void Give(char* first, uint64_t pages);

  uint64_t limit_pages() const { return limit_pages_; }
  uint64_t used_pages() const { return used_pages_; }

 private:
  Memory(char* base, uint64_t reserve, uint64_t limit_pages)
      : base_(base), reserve_(reserve), limit_pages_(limit_pages) {}
  char* base_;
  uint64_t reserve_;
  uint64_t limit_pages_;
  uint64_t used_pages_ = 0;
};

}  // namespace pulse::kv
