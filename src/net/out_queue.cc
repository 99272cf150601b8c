#include "net/out_queue.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace pulse::net {
namespace {

constexpr size_t kLarge = size_t{64} << 10;

void Free(Chunk* chunk) {
  chunk->~Chunk();
  ::operator delete(chunk);
}

}  // namespace

ChunkCache::~ChunkCache() {
  for (Chunk* chunk : kept_) Free(chunk);
}

Chunk* ChunkCache::Take(size_t bytes) {
  if (bytes == 0) return new (::operator new(sizeof(Chunk))) Chunk;
  if (bytes <= kSmall && !kept_.empty()) {
    Chunk* chunk = kept_.back();
    kept_.pop_back();
    return chunk;
  }
  const size_t capacity = std::max(bytes, kSmall);
  Chunk* chunk = new (::operator new(sizeof(Chunk) + capacity)) Chunk;
  chunk->capacity = static_cast<uint32_t>(capacity);
  return chunk;
}

void ChunkCache::GiveBack(Chunk* chunk) {
  if (chunk->capacity != kSmall || kept_.size() >= kKept) {
    Free(chunk);
    return;
  }
  chunk->next = nullptr;
  chunk->begin = chunk->end = 0;
  kept_.push_back(chunk);
}

void OutQueue::Link(Chunk* chunk) {
  (last_ == nullptr ? first_ : last_->next) = chunk;
  last_ = chunk;
}

void OutQueue::Append(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (last_ == nullptr || last_->end >= last_->capacity) {
      // Small at first; what does not fit there is likely to be much.
      Link(cache_->Take(last_ == nullptr && bytes.size() <= ChunkCache::kSmall ? ChunkCache::kSmall
                                                                               : kLarge));
    }
    const size_t n = std::min<size_t>(bytes.size(), last_->capacity - last_->end);
    memcpy(last_->bytes() + last_->end, bytes.data(), n);
    last_->end += static_cast<uint32_t>(n);
    bytes.remove_prefix(n);
  }
}

void OutQueue::Append(Buffer buffer) {
  if (buffer.size() == 0) return;
  size_ += buffer.size();
  Chunk* chunk = cache_->Take(0);
  chunk->end = static_cast<uint32_t>(buffer.size());
  chunk->buffer = std::move(buffer);
  Link(chunk);
}

size_t OutQueue::Peek(iovec* iov, size_t max) {
  size_t n = 0;
  for (Chunk* c = first_; c != nullptr && n < max; c = c->next) {
    iov[n++] = {c->bytes() + c->begin, c->end - c->begin};
  }
  return n;
}

void OutQueue::Consume(size_t bytes) {
  size_ -= bytes;
  while (first_ != nullptr) {
    const size_t n = std::min<size_t>(bytes, first_->end - first_->begin);
    first_->begin += static_cast<uint32_t>(n);
    bytes -= n;
    if (first_->begin < first_->end) return;
    Chunk* const done = first_;
    first_ = done->next;
    if (first_ == nullptr) last_ = nullptr;
    cache_->GiveBack(done);
  }
}

void OutQueue::Clear() { Consume(size_); }

}  // namespace pulse::net
