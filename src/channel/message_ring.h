// What the message rings of the file service have in common: the layout in memory, the header of a
// message, how a message is placed, and the consumer that takes batches of them through a Mover.
// DDS 4.1. progress_ring.h is the ring to use; bench/rivals has what it is compared with.
//
// A ring is a region of RingBytes(shape): one page of pointers, then `capacity` bytes of messages.
// Positions are free-running 64-bit byte counts, multiples of 8; a position's place is its
// remainder by the capacity. A message is a MessageHeader and its payload, padded to 8 bytes; it
// never wraps: what is left of a lap, and what alignment skips, is a message of kind kPadding.
//
// Host: many producers. Agent: one consumer, one thread. Neither end blocks, allocates or grows.
// The host is untrusted: the consumer copies pointers and headers once, checks the copy and uses
// the copy. (With the mover `shared` payload may still change under the consumer: whoever reads a
// payload copies the fields it checks.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/errors.h"
#include "channel/wire.h"
#include "mover/mover.h"

namespace pulse {

struct RingShape {
  uint64_t capacity = uint64_t{1} << 20;  // bytes of messages: a power of two, at least a page
  // M: the most that may be announced and not yet fetched. Bounds a batch, and how long producers
  // can keep the consumer from one (progress_ring.h). At most `capacity`.
  uint64_t limit = uint64_t{1} << 18;
};

inline bool Valid(const RingShape& s) {
  return s.capacity >= wire::kPage && s.capacity <= uint64_t{1} << 31 &&
         (s.capacity & (s.capacity - 1)) == 0 && s.limit >= 64 && s.limit <= s.capacity &&
         s.limit % 8 == 0;
}
inline size_t RingBytes(const RingShape& s) { return wire::kPage + s.capacity; }

struct MessageHeader {
  uint32_t length;  // of the payload
  uint16_t kind;    // kPadding, or what the service defines, from 1
  uint16_t reserved;
};
static_assert(sizeof(MessageHeader) == 8);
inline constexpr uint16_t kPadding = 0;

inline constexpr uint64_t RoundUp(uint64_t n, uint64_t to) { return (n + to - 1) & ~(to - 1); }
inline constexpr uint64_t MessageSpan(uint64_t length) {
  return sizeof(MessageHeader) + RoundUp(length, 8);
}

// How the rings reach memory; a parameter so that tests can drive every execution
// (test_ring_model.h).
struct StdMemory {
  template <typename T>
  using Atomic = std::atomic<T>;
  static void Copy(void* to, const void* from, size_t n) {
    if (n > 0) std::memcpy(to, from, n);
  }
};

// The page of pointers. Progress comes before tail, so that one read in ascending order takes them
// in the order that the algorithm needs.
template <typename Memory = StdMemory>
struct RingPointers {
  using Word = typename Memory::template Atomic<uint64_t>;
  alignas(wire::kCacheLine) Word progress{};  // producers: bytes whose insertion is complete
  alignas(wire::kCacheLine) Word tail{};      // producers: bytes reserved
  alignas(wire::kCacheLine) Word head{};      // consumer: bytes that may be overwritten
};
static_assert(sizeof(RingPointers<>) == 3 * wire::kCacheLine);
inline constexpr uint64_t kProgressOffset = 0;
inline constexpr uint64_t kTailOffset = wire::kCacheLine;
inline constexpr uint64_t kHeadOffset = 2 * wire::kCacheLine;

inline RingPointers<>* PointersOf(char* region) {
  return reinterpret_cast<RingPointers<>*>(region);
}
inline char* MessagesOf(char* region) { return region + wire::kPage; }

// A piece of a message to be.
struct Piece {
  const void* data = nullptr;
  size_t size = 0;
};

enum class PushResult {
  kDone,
  kRetry,    // the ring is full: try again when the consumer had time to fetch
  kRefused,  // will never be taken: longer than MaxMessage, or its body cannot be aligned
};

// Where a message goes and how it is written; positions come from the ring that uses it.
template <typename Memory>
class MessagePlacer {
 public:
  MessagePlacer(char* messages, const RingShape& shape) : messages_(messages), shape_(shape) {}

  // The longest payload for which there is room in an empty ring, wherever its tail is.
  uint64_t MaxMessage(uint64_t body_align = 8) const {
    const uint64_t taken = sizeof(MessageHeader) + (body_align > 8 ? body_align : 0);
    return shape_.limit / 2 > taken ? (shape_.limit / 2 - taken) & ~uint64_t{7} : 0;
  }

  // The position where a message begins that is put at `tail`, or later for the sake of the wrap
  // and of the alignment of what follows the first `head` bytes of its payload.
  uint64_t Start(uint64_t tail, uint64_t head, uint64_t span, uint64_t body_align) const {
    uint64_t start = Align(tail, head, body_align);
    if ((start & (shape_.capacity - 1)) + span > shape_.capacity) {
      start = Align(RoundUp(start, shape_.capacity), head, body_align);
    }
    return start;
  }

  void Write(uint64_t tail, uint64_t start, uint16_t kind, Piece head, Piece body) const {
    while (tail != start) {
      const uint64_t lap = shape_.capacity - (tail & (shape_.capacity - 1));
      const uint64_t skip = start - tail < lap ? start - tail : lap;
      WriteHeader(tail, skip - sizeof(MessageHeader), kPadding);
      tail += skip;
    }
    char* to = At(start) + sizeof(MessageHeader);
    Memory::Copy(to, head.data, head.size);
    Memory::Copy(to + head.size, body.data, body.size);
    WriteHeader(start, head.size + body.size, kind);
  }

  const RingShape& shape() const { return shape_; }

 private:
  static uint64_t Align(uint64_t start, uint64_t head, uint64_t align) {
    if (align <= 8) return start;
    return RoundUp(start + sizeof(MessageHeader) + head, align) - sizeof(MessageHeader) - head;
  }
  char* At(uint64_t position) const { return messages_ + (position & (shape_.capacity - 1)); }
  void WriteHeader(uint64_t position, uint64_t length, uint16_t kind) const {
    const MessageHeader header{static_cast<uint32_t>(length), kind, 0};
    Memory::Copy(At(position), &header, sizeof(header));
  }

  char* messages_;
  RingShape shape_;
};

// A message in the consumer's hands: `data` stays as it is until Release(end).
struct RingMessage {
  uint16_t kind = 0;
  uint32_t length = 0;
  const char* data = nullptr;  // in the mover's local memory, at the ring's offset: do I/O from it
  uint64_t end = 0;            // the position behind the message
};

// Takes batches. kProgress says how it is known that all that is reserved is written: by a progress
// pointer equal to the tail, or (the lock ring of bench/rivals) by a tail that only grows when all
// is written.
//
// What a batch costs in calls of the mover: one for the pointers, which also brings the messages
// when they are few; one more for the messages when they are many; one to give the space back, when
// a quarter of the limit has gathered or nothing else was to be done.
//
// Space: with a mover that copies, the host gets space back as soon as it was fetched, and fetching
// stops short of local bytes that were not released: outstanding requests never overlap, and nobody
// copies a request to keep it. With `shared` the host's memory is what the I/O reads, and space
// goes back when it is released.
template <bool kProgress, typename Memory = StdMemory, typename MoverT = Mover>
class BatchConsumer {
 public:
  // `pointers` and `messages` are in the mover's local memory. All must outlive the consumer.
  BatchConsumer(MoverT* mover, RingPointers<Memory>* pointers, const char* messages,
                const RingShape& shape)
      : mover_(mover),
        pointers_(pointers),
        messages_(messages),
        shape_(shape),
        copies_(mover->kind() != MoverKind::kShared) {}

  // Looks for messages; true when it is worth to call Next. False also while what is there needs
  // space that was not released. An error, DataLoss for a ring with nonsense in it, is final.
  absl::StatusOr<bool> Fetch() {
    if (corrupt_) return Corrupt();
    if (complete_ == fetched_) PULSE_RETURN_IF_ERROR(FetchPointers());
    PULSE_RETURN_IF_ERROR(FetchMessages());
    if (parsed_ != fetched_ && fetched_ != waits_at_) return true;
    if (idle_) {  // nothing else to do: the host may have all its space back
      PULSE_RETURN_IF_ERROR(Publish(8));
    }
    return false;
  }

  // The next message of what was fetched; false at its end, and when it makes no sense (corrupt()).
  bool Next(RingMessage* out) {
    while (parsed_ != fetched_) {
      MessageHeader header;
      Memory::Copy(&header, messages_ + (parsed_ & mask()), sizeof(header));
      const uint64_t span = MessageSpan(header.length);
      const uint64_t lap = shape_.capacity - (parsed_ & mask());
      if (span > complete_ - parsed_ || span > lap) {
        corrupt_ = true;
        return false;
      }
      if (span > fetched_ - parsed_) {  // its end waits for space here
        waits_at_ = fetched_;
        return false;
      }
      const uint64_t begin = parsed_;
      parsed_ += span;
      if (header.kind == kPadding) {
        // Producers skip the rest of a lap, and for alignment; more is there to keep us busy.
        if (++paddings_ > 2) {
          corrupt_ = true;
          return false;
        }
        if (released_ == begin) released_ = parsed_;
        continue;
      }
      paddings_ = 0;
      last_end_ = parsed_;
      *out = {header.kind, header.length, messages_ + (begin & mask()) + sizeof(header), parsed_};
      return true;
    }
    return false;
  }

  // No message that ends at or before `end` is needed any more. Ends come from RingMessage and are
  // released in ascending order.
  void Release(uint64_t end) { released_ = end == last_end_ ? parsed_ : end; }

  // Gives the host the space that was released, where that costs nothing; Fetch does so in any
  // case, by and by. Before a completion is delivered, so that its space can be used at once.
  absl::Status GiveBack() { return copies_ ? absl::OkStatus() : Publish(8); }

  bool corrupt() const { return corrupt_; }
  // Bytes given to the caller and not released.
  uint64_t outstanding() const { return parsed_ - released_; }
  // Mover calls so far, of all kinds.
  uint64_t calls() const { return calls_; }

 private:
  // Messages up to this many bytes come with the pointers.
  static constexpr uint64_t kAlong = 512;

  uint64_t mask() const { return shape_.capacity - 1; }
  uint64_t Room() const { return released_ + shape_.capacity - fetched_; }

  absl::Status FetchPointers() {
    MoverSpan spans[3];
    size_t n = 0;
    if (!kProgress) {
      spans[n++] = {kTailOffset, sizeof(uint64_t)};
    } else if (kSpansReadAscending) {
      spans[n++] = {kProgressOffset, kTailOffset + sizeof(uint64_t) - kProgressOffset};
    } else {
      spans[n++] = {kProgressOffset, sizeof(uint64_t)};
      spans[n++] = {kTailOffset, sizeof(uint64_t)};
    }
    // Messages that come along are read after the pointers; of them counts what the pointers cover.
    uint64_t along = 0;
    if (copies_ && last_batch_ <= kAlong) {
      const uint64_t at = fetched_ & mask();
      along = Min(Min(kAlong, Room()), shape_.capacity - at);
      if (along > 0) spans[n++] = {wire::kPage + at, along};
    }
    PULSE_RETURN_IF_ERROR(Pull(spans, n));
    // Progress before tail. Each insertion raises tail, writes, then raises progress: a tail, read
    // later, that equals progress leaves none begun and not ended. The acquire pairs with the
    // producers' release on progress (each later one continues its release sequence), or on tail.
    const uint64_t progress = kProgress ? pointers_->progress.load(std::memory_order_acquire) : 0;
    const uint64_t tail =
        pointers_->tail.load(kProgress ? std::memory_order_relaxed : std::memory_order_acquire);
    if (tail - complete_ > shape_.limit - (complete_ - published_) || tail % 8 != 0) {
      corrupt_ = true;
      return Corrupt();
    }
    idle_ = false;
    if (kProgress && progress != tail) return absl::OkStatus();  // somebody is in the middle
    idle_ = tail == complete_;
    last_batch_ = tail - complete_;
    complete_ = tail;
    fetched_ += Min(along, complete_ - fetched_);
    return absl::OkStatus();
  }

  absl::Status FetchMessages() {
    const uint64_t wanted = Min(complete_ - fetched_, Room());
    if (wanted > 0) {
      const uint64_t at = fetched_ & mask();
      const uint64_t first = Min(wanted, shape_.capacity - at);
      const MoverSpan spans[2] = {{wire::kPage + at, first}, {wire::kPage, wanted - first}};
      if (copies_) PULSE_RETURN_IF_ERROR(Pull(spans, wanted == first ? 1 : 2));
      fetched_ += wanted;
    }
    return Publish(copies_ ? shape_.limit / 4 : 8);
  }

  // Gives back the space that can be, if it is as much as `least`. Release pairs with the
  // producers' acquire of head: what was read is read before it is overwritten.
  absl::Status Publish(uint64_t least) {
    const uint64_t free = copies_ ? fetched_ : released_;
    if (free - published_ < least) return absl::OkStatus();
    published_ = free;
    pointers_->head.store(free, std::memory_order_release);
    const MoverSpan span{kHeadOffset, sizeof(uint64_t)};
    ++calls_;
    return mover_->PushSpans(&span, 1);
  }

  absl::Status Pull(const MoverSpan* spans, size_t n) {
    ++calls_;
    return mover_->PullSpans(spans, n);
  }
  static absl::Status Corrupt() {
    return absl::DataLossError("the request ring holds a position or length that cannot be");
  }
  static uint64_t Min(uint64_t a, uint64_t b) { return a < b ? a : b; }

  MoverT* mover_;
  RingPointers<Memory>* pointers_;
  const char* messages_;
  RingShape shape_;
  bool copies_;
  bool corrupt_ = false;
  int paddings_ = 0;   // in a row
  bool idle_ = false;  // the last look at the pointers found nothing new
  // published_ <= released_ or fetched_; released_ <= parsed_ <= fetched_ <= complete_.
  uint64_t published_ = 0;
  uint64_t released_ = 0;
  uint64_t parsed_ = 0;
  uint64_t fetched_ = 0;
  uint64_t complete_ = 0;
  uint64_t waits_at_ = 0;  // fetched_ when its last message was not whole
  uint64_t last_end_ = 0;
  uint64_t last_batch_ = 0;
  uint64_t calls_ = 0;
};

}  // namespace pulse
