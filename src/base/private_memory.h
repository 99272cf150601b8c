// PrivateMemory: zeroed memory of this process alone, that begins at a huge page where it is large
// enough for some. The kernel is asked for transparent huge pages; reserved ones are not used.
//
// Move-only owner. Thread-safe after creation. Does not block.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace pulse {

// Unmaps memory of `size` bytes.
struct Unmap {
  size_t size = 0;
  void operator()(char* memory) const { munmap(memory, size); }
};
using MappedMemory = std::unique_ptr<char, Unmap>;

class PrivateMemory {
 public:
  // `bytes` are rounded up to pages. ResourceExhausted where the kernel has no such memory.
  static absl::StatusOr<PrivateMemory> Create(size_t bytes);

  char* data() const { return memory_.get(); }
  size_t size() const { return memory_.get_deleter().size; }
  bool huge() const { return huge_; }
  MappedMemory release() { return std::move(memory_); }

 private:
  MappedMemory memory_;
  bool huge_ = false;
};

}  // namespace pulse
