// A message ring whose producers take a lock: DDS 8.5's second variant of the progress ring, kept
// to be compared with it (`pulse bench ring`). Layout, messages and consumer are the progress
// ring's, in message_ring.h; what differs is how producers keep out of each other's way.
//
// A producer checks the space, writes and raises the tail while it holds the lock. So the tail
// alone says what is written: the consumer's read of the pointers is one word, and no batch is ever
// held back by an insertion that is under way. Costs: for the consumer the same calls of the mover;
// for producers a lock and an unlock around the copy, with what goes with locks: whoever is
// preempted while it holds the lock stops all others at once, and not only when the ring is full.
//
// The lock is a parameter: std::mutex, which sleeps in the kernel, or SpinLock, which yields.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "channel/message_ring.h"

namespace pulse {

// Tests before it sets, gives the processor away when that does not help.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; locked_.exchange(true, std::memory_order_acquire);) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (++spins % kSpins == 0) {
          std::this_thread::yield();
        } else {
#if defined(__x86_64__)
          __builtin_ia32_pause();
#endif
        }
      }
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 32;
  std::atomic<bool> locked_{false};
};

// The host's end. Thread-safe: share one among all threads. Blocks for the lock.
template <typename Lock = std::mutex>
class LockProducer {
 public:
  // On a region of RingBytes(shape) zeroed bytes.
  LockProducer(char* region, const RingShape& shape)
      : pointers_(PointersOf(region)), place_(MessagesOf(region), shape) {}

  // As ProgressProducer's.
  PushResult TryPush(uint16_t kind, Piece head, Piece body = {}, uint64_t body_align = 8) {
    const uint64_t length = head.size + body.size;
    if (length > place_.MaxMessage(body_align) || (body_align > 8 && head.size % 8 != 0)) {
      return PushResult::kRefused;
    }
    const uint64_t span = MessageSpan(length);
    const std::lock_guard<Lock> lock(lock_);
    const uint64_t start = place_.Start(tail_, head.size, span, body_align);
    const uint64_t next = start + span;
    if (next - head_ > place_.shape().limit) {
      // Acquire pairs with the consumer's release: it has read what is overwritten. A head that is
      // behind the one before, or beyond our tail, cannot be honest: stay full.
      const uint64_t seen = pointers_->head.load(std::memory_order_acquire);
      if (seen - head_ > tail_ - head_) return PushResult::kRetry;
      head_ = seen;
      if (next - head_ > place_.shape().limit) return PushResult::kRetry;
    }
    place_.Write(tail_, start, kind, head, body);
    tail_ = next;
    // Release pairs with the consumer's acquire: the messages before it are written.
    pointers_->tail.store(next, std::memory_order_release);
    return PushResult::kDone;
  }

  uint64_t MaxMessage(uint64_t body_align = 8) const { return place_.MaxMessage(body_align); }

 private:
  RingPointers<>* pointers_;
  MessagePlacer<StdMemory> place_;
  alignas(wire::kCacheLine) Lock lock_;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;
};

// The agent's end, used as ProgressConsumer.
using LockConsumer = BatchConsumer<false>;

// `mover` covers the ring's whole region and must outlive the consumer.
inline absl::StatusOr<LockConsumer> MakeLockConsumer(Mover* mover, const RingShape& shape) {
  if (!Valid(shape) || mover->size() < RingBytes(shape)) {
    return absl::InvalidArgumentError("a message ring of impossible size");
  }
  return LockConsumer(mover, PointersOf(mover->local()), MessagesOf(mover->local()), shape);
}

}  // namespace pulse
