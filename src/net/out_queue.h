// OutQueue: bytes on their way into a socket, in chunks that never move, so that the kernel may
// read them while more are appended. Chunks exist only while there are bytes; a loop's cache keeps
// a few for the next. One thread's.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "net/buffer.h"

namespace pulse::net {

struct Chunk {
  Chunk* next = nullptr;
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t capacity = 0;  // 0: the bytes are the buffer's
  Buffer buffer;

  char* bytes() { return capacity == 0 ? buffer.data() : reinterpret_cast<char*>(this + 1); }
};

class ChunkCache {
 public:
  static constexpr size_t kSmall = 4096;
  static constexpr size_t kKept = 64;

  ChunkCache() = default;
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;
  ~ChunkCache();
  // A chunk that holds at least `bytes`; with 0, an empty one for a buffer.
  Chunk* Take(size_t bytes);
  void GiveBack(Chunk* chunk);

 private:
  std::vector<Chunk*> kept_;
};

class OutQueue {
 public:
  explicit OutQueue(ChunkCache* cache) : cache_(cache) {}
  OutQueue(const OutQueue&) = delete;
  OutQueue& operator=(const OutQueue&) = delete;
  ~OutQueue() { Clear(); }

  void Append(std::string_view bytes);
  void Append(Buffer buffer);
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Points at the first bytes; returns how many entries it used.
  size_t Peek(iovec* iov, size_t max);
  void Consume(size_t bytes);
  void Clear();

 private:
  void Link(Chunk* chunk);

  ChunkCache* const cache_;
  Chunk* first_ = nullptr;
  Chunk* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace pulse::net
