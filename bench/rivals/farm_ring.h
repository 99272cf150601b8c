// A message ring with a flag in each message, after the rings of FaRM: DDS 8.5's first variant of
// the progress ring, kept to be compared with it (`pulse bench ring`).
//
// Slots of one cache line. A producer takes a slot, writes, and then sets the slot's flag; the
// consumer polls the flag of the slot that is due, and clears it when it has the message. FaRM's
// ring has one producer; for many, the flag is the number of the turn that it is valid for, and
// producers share a tail that the consumer never reads.
//
// Costs: a call of the mover for each message, since only the message itself says that it is there,
// besides the calls that find the flag not set; and a call to clear each one. In return it needs
// nothing but the message: no pointer is read, and one message in an idle ring takes one call.
//
// Flag of slot s, turn t (t % slots == s): t, free; t + 1, holds message t; t + slots, free again.
// Host: any number of threads, lock-free. Agent: one thread. Neither blocks or allocates.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "absl/status/statusor.h"
#include "base/errors.h"
#include "channel/message_ring.h"

namespace pulse {

struct FarmSlot {
  static constexpr size_t kPayload = 48;
  // Before the message, so that one ascending read takes it first.
  std::atomic<uint64_t> flag;
  MessageHeader header;
  char payload[kPayload];
};
static_assert(sizeof(FarmSlot) == wire::kCacheLine);

struct FarmShape {
  uint32_t slots = 1024;  // a power of two
};
inline bool Valid(const FarmShape& s) {
  return s.slots >= 2 && s.slots <= 1u << 24 && (s.slots & (s.slots - 1)) == 0;
}
inline size_t RingBytes(const FarmShape& s) { return wire::kPage + s.slots * sizeof(FarmSlot); }

// The host's end. Thread-safe and lock-free: share one among all threads.
class FarmProducer {
 public:
  // On a region of RingBytes(shape) zeroed bytes, before the consumer looks at it.
  FarmProducer(char* region, const FarmShape& shape)
      : tail_(&PointersOf(region)->tail),
        slots_(reinterpret_cast<FarmSlot*>(region + wire::kPage)),
        mask_(shape.slots - 1) {
    for (uint64_t s = 0; s < shape.slots; ++s) slots_[s].flag.store(s, std::memory_order_relaxed);
  }

  PushResult TryPush(uint16_t kind, Piece message) {
    if (message.size > FarmSlot::kPayload) return PushResult::kRefused;
    uint64_t turn = tail_->load(std::memory_order_relaxed);
    while (true) {
      FarmSlot& slot = slots_[turn & mask_];
      // Acquire pairs with the consumer's release: it has read what is overwritten.
      const uint64_t flag = slot.flag.load(std::memory_order_acquire);
      if (flag != turn) {
        const uint64_t now = tail_->load(std::memory_order_relaxed);
        if (now == turn) return PushResult::kRetry;
        turn = now;
        continue;
      }
      if (!tail_->compare_exchange_weak(turn, turn + 1, std::memory_order_relaxed)) continue;
      slot.header = {static_cast<uint32_t>(message.size), kind, 0};
      if (message.size > 0) std::memcpy(slot.payload, message.data, message.size);
      // Release pairs with the consumer's acquire: the message is written.
      slot.flag.store(turn + 1, std::memory_order_release);
      return PushResult::kDone;
    }
  }

 private:
  std::atomic<uint64_t>* tail_;
  FarmSlot* slots_;
  uint64_t mask_;
};

// The agent's end. One thread.
class FarmConsumer {
 public:
  FarmConsumer(Mover* mover, const FarmShape& shape)
      : mover_(mover),
        slots_(reinterpret_cast<FarmSlot*>(mover->local() + wire::kPage)),
        mask_(shape.slots - 1) {}

  // Looks at the slot that is due; true with a message, whose data stay until Release. Release it
  // before the next call. An error, DataLoss for a length that cannot be, is final.
  absl::StatusOr<bool> Fetch(RingMessage* out) {
    FarmSlot& slot = slots_[turn_ & mask_];
    const uint64_t at = OffsetOf(slot);
    // The flag first: of a message that it says is there, all is read after it.
    const MoverSpan whole[1] = {{at, sizeof(FarmSlot)}};
    const MoverSpan parts[2] = {{at, sizeof(uint64_t)},
                                {at + sizeof(uint64_t), sizeof(FarmSlot) - sizeof(uint64_t)}};
    ++calls_;
    PULSE_RETURN_IF_ERROR(kSpansReadAscending ? mover_->PullSpans(whole, 1)
                                              : mover_->PullSpans(parts, 2));
    if (slot.flag.load(std::memory_order_acquire) != turn_ + 1) return false;
    const MessageHeader header = slot.header;
    if (header.length > FarmSlot::kPayload) {
      return absl::DataLossError("the request ring holds a length that cannot be");
    }
    *out = {header.kind, header.length, slot.payload, ++turn_};
    return true;
  }

  // Clears the message that Fetch found last.
  absl::Status Release() {
    FarmSlot& slot = slots_[(turn_ - 1) & mask_];
    slot.flag.store(turn_ + mask_, std::memory_order_release);
    const MoverSpan span{OffsetOf(slot), sizeof(uint64_t)};
    ++calls_;
    return mover_->PushSpans(&span, 1);
  }

  uint64_t calls() const { return calls_; }

 private:
  uint64_t OffsetOf(const FarmSlot& slot) const {
    return static_cast<uint64_t>(reinterpret_cast<const char*>(&slot) - mover_->local());
  }

  Mover* mover_;
  FarmSlot* slots_;
  uint64_t mask_;
  uint64_t turn_ = 0;
  uint64_t calls_ = 0;
};

inline absl::StatusOr<FarmConsumer> MakeFarmConsumer(Mover* mover, const FarmShape& shape) {
  if (!Valid(shape) || mover->size() < RingBytes(shape)) {
    return absl::InvalidArgumentError("a message ring of impossible size");
  }
  return FarmConsumer(mover, shape);
}

}  // namespace pulse
