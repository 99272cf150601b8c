// The progress ring: many producers on the host, one consumer on the agent, requests of any length
// with their payload inside. DDS 4.1; layout and consumer in message_ring.h.
//
// Three pointers. A producer raises `tail` to reserve space, writes, and then raises `progress` by
// as much. The consumer reads progress, then tail, in one call of the mover; when they are equal
// nobody is in the middle of an insertion, and everything from its head to tail is one batch.
// Nobody takes a lock, the host makes no system call, and a batch costs the agent two or three
// calls of the mover, however many messages it has.
//
// Can the producers keep progress from ever meeting tail? No: nothing is reserved beyond head +
// limit. Unless the consumer takes a batch, at most limit / 16 insertions begin; they end, and then
// the pointers are equal and stay so, since every further attempt is told to retry. So the wait is
// bounded by `limit` bytes of insertions, given that a producer that has reserved goes on; one that
// is preempted between its two pointers holds the ring up until it runs again. One that dies there
// holds it up for good; but it dies with its process, and the ring with it.
//
// Memory order, producer: acquire on head, pairs with the consumer's release (the space was read
// before it is overwritten). Relaxed on tail: it orders nothing by itself, only decides who gets
// which space. Release on progress: the message is visible to whoever acquires this value or a
// later one. The consumer's part is in BatchConsumer::FetchPointers.
//
// progress_ring_test.cc runs these templates through every execution of small cases.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "channel/message_ring.h"

namespace pulse {

// The host's end. Thread-safe and lock-free: share one among all threads.
template <typename Memory = StdMemory>
class ProgressProducer {
 public:
  ProgressProducer(RingPointers<Memory>* pointers, char* messages, const RingShape& shape)
      : pointers_(pointers), place_(messages, shape) {}

  // Inserts one message: `head`, then `body`. The body begins at a multiple of `body_align` (a
  // power of two, at most a page) from the beginning of the ring's messages, so that the agent can
  // do direct I/O from it; for more than 8, the size of `head` must be a multiple of 8. `kind` is
  // not kPadding.
  PushResult TryPush(uint16_t kind, Piece head, Piece body = {}, uint64_t body_align = 8) {
    const uint64_t length = head.size + body.size;
    if (length > place_.MaxMessage(body_align) || (body_align > 8 && head.size % 8 != 0)) {
      return PushResult::kRefused;
    }
    const uint64_t span = MessageSpan(length);
    uint64_t tail = pointers_->tail.load(std::memory_order_relaxed);
    bool again = false;
    while (true) {
      const uint64_t head_position = pointers_->head.load(std::memory_order_acquire);
      const uint64_t used = tail - head_position;
      if (used > place_.shape().limit || tail % 8 != 0) {
        // Our tail is older than the head that we see. Read once more it is not, unless the agent
        // writes nonsense: then stay full.
        if (again) return PushResult::kRetry;
        again = true;
        tail = pointers_->tail.load(std::memory_order_relaxed);
        continue;
      }
      const uint64_t start = place_.Start(tail, head.size, span, body_align);
      const uint64_t next = start + span;
      if (next - head_position > place_.shape().limit) return PushResult::kRetry;
      if (!pointers_->tail.compare_exchange_weak(tail, next, std::memory_order_relaxed,
                                                 std::memory_order_relaxed)) {
        again = false;
        continue;
      }
#if defined(__SANITIZE_THREAD__)
      // Who had this space before us ended before the agent raised head. The sanitizer cannot see
      // that order, as an agent in this process has the ring mapped a second time; but he raised
      // progress, too, and that it sees.
      if constexpr (std::is_same_v<Memory, StdMemory>) {
        pointers_->progress.load(std::memory_order_acquire);
      }
#endif
      place_.Write(tail, start, kind, head, body);
      pointers_->progress.fetch_add(next - tail, std::memory_order_release);
      return PushResult::kDone;
    }
  }

  // The longest payload that is not refused.
  uint64_t MaxMessage(uint64_t body_align = 8) const { return place_.MaxMessage(body_align); }

 private:
  RingPointers<Memory>* pointers_;
  MessagePlacer<Memory> place_;
};

// On a region of RingBytes(shape) zeroed bytes.
inline ProgressProducer<> MakeProgressProducer(char* region, const RingShape& shape) {
  return {PointersOf(region), MessagesOf(region), shape};
}

// The agent's end: Fetch, then Next until it is false, then again; Release when requests are done.
//
//   while (running) {
//     absl::StatusOr<bool> some = ring.Fetch();
//     if (!some.ok()) return EndSession(some.status());
//     for (RingMessage m; ring.Next(&m);) Start(m);      // I/O straight from m.data
//     ... as requests finish, in order: ring.Release(m.end)
//   }
template <typename Memory = StdMemory, typename MoverT = Mover>
using ProgressConsumer = BatchConsumer<true, Memory, MoverT>;

// `mover` covers the ring's whole region and must outlive the consumer.
inline absl::StatusOr<ProgressConsumer<>> MakeProgressConsumer(Mover* mover,
                                                               const RingShape& shape) {
  if (!Valid(shape) || mover->size() < RingBytes(shape)) {
    return absl::InvalidArgumentError("a message ring of impossible size");
  }
  return ProgressConsumer<>(mover, PointersOf(mover->local()), MessagesOf(mover->local()), shape);
}

}  // namespace pulse
