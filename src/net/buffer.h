// Buffer and BufferPool: memory that a device reads into and a socket sends from, without a copy
// between: each buffer has room for a reply's header before its data. DDS section 6.2.
//
// A buffer is move-only and gives its memory back when it is destroyed. A pool belongs to one loop,
// and Take is called on its thread; buffers may be destroyed on any. The pool's memory outlives its
// buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace pulse::net {

class BufferPool;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : Buffer() { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {data_, size_}; }
  // How far Prepend, and Grow, can go.
  size_t headroom() const { return static_cast<size_t>(data_ - block_); }
  size_t tailroom() const { return capacity_ - headroom() - size_; }

  // Room for `bytes` more before the data, which it returns; at most headroom().
  char* Prepend(size_t bytes);
  // `bytes` more after the data; at most tailroom(). Returns where they begin.
  char* Grow(size_t bytes);
  // Keeps [begin, begin + size) of the data.
  void Trim(size_t begin, size_t size);

 private:
  friend class BufferPool;
  struct Shared;
  char* block_ = nullptr;
  char* data_ = nullptr;
  size_t capacity_ = 0;
  size_t size_ = 0;
  uint32_t slot_ = 0;
  std::shared_ptr<Shared> pool_;
};

class BufferPool {
 public:
  static constexpr size_t kAlignment = 4096;

  struct Options {
    size_t block_bytes = size_t{64} << 10;  // a power of two; the most that one buffer holds
    uint32_t blocks = 256;
  };
  explicit BufferPool(const Options& options);
  ~BufferPool();

  // A buffer whose data are `size` bytes that begin at a multiple of kAlignment, with at least
  // `headroom` (at most kAlignment) before them. None when the pool is used up or the size is
  // beyond a block.
  std::optional<Buffer> Take(size_t size, size_t headroom);
  uint32_t in_use() const;

 private:
  std::shared_ptr<Buffer::Shared> shared_;
};

}  // namespace pulse::net
