// AlignedBuffer: zeroed memory at a block boundary, as O_DIRECT wants it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "store/format.h"

namespace pulse::store {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Rounded up to whole blocks.
  explicit AlignedBuffer(size_t bytes) { Reset(bytes); }

  void Reset(size_t bytes) {
    size_ = RoundUpToBlock(bytes);
    data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kBlock, size_ == 0 ? kBlock : size_)));
    if (data_ == nullptr) std::abort();  // as operator new would end the program
    std::memset(data_.get(), 0, size_);
  }

  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0;
};

}  // namespace pulse::store
