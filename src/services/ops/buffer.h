// Buffer: bytes whose memory is kept when the size changes, and which nobody clears first: chunks
// are read into them and codecs write to them. Movable. Not thread-safe; never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"

namespace pulse::ops {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& o) noexcept
      : bytes_(std::move(o.bytes_)),
        capacity_(std::exchange(o.capacity_, 0)),
        size_(std::exchange(o.size_, 0)) {}
  Buffer& operator=(Buffer&& o) noexcept {
    bytes_ = std::move(o.bytes_);
    capacity_ = std::exchange(o.capacity_, 0);
    size_ = std::exchange(o.size_, 0);
    return *this;
  }

  uint8_t* data() { return bytes_.get(); }
  const uint8_t* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  absl::string_view view() const { return {reinterpret_cast<const char*>(data()), size_}; }

  // Room for `capacity` bytes; what is there stays.
  void Reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    // Twice as much, so that appending does not copy again and again.
    if (size_ != 0 && capacity < 2 * capacity_) capacity = 2 * capacity_;
    auto larger = std::make_unique_for_overwrite<uint8_t[]>(capacity);
    if (size_ != 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }
  // New bytes have any value.
  void Resize(size_t size) {
    Reserve(size);
    size_ = size;
  }
  void Append(const void* from, size_t n) {
    if (n == 0) return;
    Reserve(size_ + n);
    std::memcpy(bytes_.get() + size_, from, n);
    size_ += n;
  }
  void Append(absl::string_view text) { Append(text.data(), text.size()); }
  void Clear() { size_ = 0; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

// Appends, and keeps the last `n` bytes.
inline void KeepLast(Buffer& kept, absl::string_view bytes, size_t n) {
  if (bytes.size() >= n) {
    kept.Clear();
    bytes.remove_prefix(bytes.size() - n);
  } else if (const size_t keep = n - bytes.size(); kept.size() > keep) {
    std::memmove(kept.data(), kept.data() + kept.size() - keep, keep);
    kept.Resize(keep);
  }
  kept.Append(bytes);
}

}  // namespace pulse::ops
