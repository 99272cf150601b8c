// The two ends of a single-producer single-consumer ring over memory that both sides map.
//
// Cursors are free-running 64-bit counters; capacity is a power of two. Each end keeps a private
// copy of its own cursor and trusts only that: a peer that writes nonsense into the other cursor
// can make this end see "full" or Corrupt(), never index outside the slots.
//
// Memory order: the producer's release store of `tail` pairs with the consumer's acquire load (slot
// contents become visible); the consumer's release store of `head` pairs with the producer's
// acquire load (the slot was read before it is overwritten).
//
// `Atomic` is a parameter so that tests drive every interleaving (ring_test.cc). Neither end
// blocks, allocates or makes a system call. One thread per end.
#pragma once

#include <atomic>
#include <cstdint>

namespace pulse {

template <typename T, template <typename> class Atomic = std::atomic>
class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(T* slots, uint32_t capacity, Atomic<uint64_t>* head, Atomic<uint64_t>* tail)
      : slots_(slots), mask_(capacity - 1), head_(head), tail_(tail) {}

  // False when the ring is full.
  bool TryPush(const T& value) {
    if (next_ - seen_head_ > mask_) {
      const uint64_t head = head_->load(std::memory_order_acquire);
      // A head beyond our tail or behind what we saw cannot be honest: stay full.
      if (head - seen_head_ > next_ - seen_head_ || next_ - head > mask_) return false;
      seen_head_ = head;
    }
    slots_[next_ & mask_] = value;
    tail_->store(++next_, std::memory_order_release);
    return true;
  }

  uint64_t pushed() const { return next_; }

 private:
  T* slots_ = nullptr;
  uint64_t mask_ = 0;
  Atomic<uint64_t>* head_ = nullptr;
  Atomic<uint64_t>* tail_ = nullptr;
  uint64_t next_ = 0;
  uint64_t seen_head_ = 0;
};

template <typename T, template <typename> class Atomic = std::atomic>
class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(const T* slots, uint32_t capacity, Atomic<uint64_t>* head, Atomic<uint64_t>* tail)
      : slots_(slots), mask_(capacity - 1), head_(head), tail_(tail) {}

  // Copies the oldest entry out; false when the ring is empty or the peer corrupted its cursor.
  bool TryPop(T* out) {
    if (next_ == seen_tail_) {
      const uint64_t tail = tail_->load(std::memory_order_acquire);
      if (tail - next_ > mask_ + 1) {
        corrupt_ = true;
        return false;
      }
      if (tail == next_) return false;
      seen_tail_ = tail;
    }
    *out = slots_[next_ & mask_];
    head_->store(++next_, std::memory_order_release);
    return true;
  }

  bool Empty() const {
    return next_ == seen_tail_ && tail_->load(std::memory_order_acquire) == next_;
  }
  bool corrupt() const { return corrupt_; }

 private:
  const T* slots_ = nullptr;
  uint64_t mask_ = 0;
  Atomic<uint64_t>* head_ = nullptr;
  Atomic<uint64_t>* tail_ = nullptr;
  uint64_t next_ = 0;
  uint64_t seen_tail_ = 0;
  bool corrupt_ = false;
};

}  // namespace pulse
