// PrivateMemory: zeroed memory of this process alone, that begins at a huge page where it is large
// enough for some. The kernel is asked for transparent huge pages; reserved ones are not used.
//
// Move-only owner. Thread-safe after creation. Does not block.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"

namespace pulse {

class PrivateMemory {
 public:
  // `bytes` are rounded up to pages. ResourceExhausted where the kernel has no such memory.
  static absl::StatusOr<PrivateMemory> Create(size_t bytes);
  PrivateMemory() = default;
  ~PrivateMemory();
  PrivateMemory(PrivateMemory&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)), huge_(o.huge_) {}
  PrivateMemory& operator=(PrivateMemory&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(huge_, o.huge_);
    return *this;
  }

  char* data() const { return data_; }
  size_t size() const { return size_; }
  bool huge() const { return huge_; }
  // The caller is to munmap it.
  char* release() { return std::exchange(data_, nullptr); }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  bool huge_ = false;
};

}  // namespace pulse
