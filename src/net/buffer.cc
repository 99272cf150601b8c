#include "net/buffer.h"

#include <sys/mman.h>

#include <atomic>
#include <utility>
#include <vector>

#include "base/check.h"

namespace pulse::net {

namespace {
constexpr uint32_t kNone = ~uint32_t{0};
}

// Free blocks are two stacks of indices: one is the owner's; onto the other any thread pushes, and
// the owner takes it whole, so that no index can be reused under a push.
struct Buffer::Shared {
  explicit Shared(const BufferPool::Options& options)
      : block_bytes(options.block_bytes), blocks(options.blocks), next(options.blocks) {
    void* p = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      blocks = 0;  // used up from the start
      return;
    }
    memory = static_cast<char*>(p);
    for (uint32_t i = 0; i < blocks; ++i) next[i] = i + 1 < blocks ? i + 1 : kNone;
    own = blocks > 0 ? 0 : kNone;
  }
  ~Shared() {
    if (memory != nullptr) munmap(memory, bytes());
  }
  size_t stride() const { return block_bytes + BufferPool::kAlignment; }
  size_t bytes() const { return stride() * next.size(); }

  uint32_t Pop() {
    if (own == kNone) own = returned.exchange(kNone, std::memory_order_acquire);
    const uint32_t slot = own;
    if (slot != kNone) own = next[slot];
    return slot;
  }
  void Push(uint32_t slot) {
    uint32_t head = returned.load(std::memory_order_relaxed);
    do {
      next[slot] = head;
      // Pairs with the acquire in Pop: `next`, and what was read from the block, come before.
    } while (!returned.compare_exchange_weak(head, slot, std::memory_order_release,
                                             std::memory_order_relaxed));
    used.fetch_sub(1, std::memory_order_relaxed);
  }

  const size_t block_bytes;
  uint32_t blocks;
  char* memory = nullptr;
  std::vector<uint32_t> next;
  uint32_t own = kNone;
  std::atomic<uint32_t> returned{kNone};
  std::atomic<uint32_t> used{0};
};

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->Push(slot_);
  block_ = std::exchange(other.block_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  size_ = std::exchange(other.size_, 0);
  slot_ = other.slot_;
  pool_ = std::move(other.pool_);
  return *this;
}

Buffer::~Buffer() {
  if (pool_ != nullptr) pool_->Push(slot_);
}

char* Buffer::Prepend(size_t bytes) {
  PULSE_CHECK(bytes <= headroom());
  data_ -= bytes;
  size_ += bytes;
  return data_;
}

char* Buffer::Grow(size_t bytes) {
  PULSE_CHECK(bytes <= tailroom());
  char* const end = data_ + size_;
  size_ += bytes;
  return end;
}

void Buffer::Trim(size_t begin, size_t size) {
  PULSE_CHECK(begin <= size_ && size <= size_ - begin);
  data_ += begin;
  size_ = size;
}

BufferPool::BufferPool(const Options& options)
    : shared_(std::make_shared<Buffer::Shared>(options)) {}

BufferPool::~BufferPool() = default;

std::optional<Buffer> BufferPool::Take(size_t size, size_t headroom) {
  if (size > shared_->block_bytes || headroom > kAlignment) return std::nullopt;
  const uint32_t slot = shared_->Pop();
  if (slot == kNone) return std::nullopt;
  shared_->used.fetch_add(1, std::memory_order_relaxed);
  Buffer buffer;
  buffer.block_ = shared_->memory + slot * shared_->stride();
  buffer.data_ = buffer.block_ + kAlignment;
  buffer.capacity_ = shared_->stride();
  buffer.size_ = size;
  buffer.slot_ = slot;
  buffer.pool_ = shared_;
  return buffer;
}

uint32_t BufferPool::in_use() const { return shared_->used.load(std::memory_order_relaxed); }

}  // namespace pulse::net
