// Responses of the file service: one producer, the agent, and many threads of the host that take
// them. DDS 4.3. The request's way is progress_ring.h.
//
// The agent reserves the space of a response's data before it starts the request's I/O, in the
// order of the requests, and the I/O engine puts what it reads there: nothing is copied on the
// agent. What is finished is said by an entry in a ring of its own, in the order of finishing: one
// slow request holds up nobody. (In the paper, responses go out in the order of the requests.)
// Three tails:
//
//   allocated  responses reserved; each has a ticket, in this order
//   buffered   entries of the ring: responses that have finished
//   completed  of them, those that the host was given
//
// completed <= buffered <= allocated <= host's head + slots. A batch of finished responses goes to
// the host in one call of the mover (more when their data are in many pieces), which also moves the
// tail that announces it. The host gives tickets back in the order of their allocation, and the
// data with them: a response that is held keeps the space of those behind it, until there is none.
//
// Bounded: when the space or the tickets are used up, Allocate says no; the request waits in its
// ring, and its producers are told to retry. Nothing grows, nothing blocks. An entry is overwritten
// only once its response has been given back: so many tickets further on is the next one there.
//
// Region: one page of pointers as a message ring's (message_ring.h), `capacity` bytes of data, then
// `slots` entries. The tail is `completed`, in entries; the head counts tickets that were given
// back; the progress pointer is not used. The data of a response never wrap. Each side checks what
// the other wrote: the agent keeps what it must know of its responses to itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "channel/message_ring.h"

namespace pulse {

// Of one response that has finished.
struct ResponseEntry {
  uint64_t id;      // the request's
  int64_t result;   // bytes or 0; -errno on failure
  uint32_t offset;  // of the data, from the beginning of the buffer
  uint32_t length;  // of the data
  uint32_t ticket;  // modulo `slots`
  uint16_t kind;    // the service's
  uint16_t reserved;
};
static_assert(sizeof(ResponseEntry) == 32);

struct ResponseShape {
  uint64_t capacity = uint64_t{1} << 20;  // as RingShape's
  uint64_t batch = uint64_t{16} << 10;    // finished bytes that are delivered at once
  // The most that are not given back: a power of two. A request that takes long holds the tickets
  // behind it, though not their delivery: have several times as many as requests in flight.
  uint32_t slots = 4096;
};

inline bool Valid(const ResponseShape& s) {
  return Valid(RingShape{s.capacity, s.capacity}) && s.batch <= s.capacity && s.slots > 0 &&
         s.slots <= uint32_t{1} << 20 && (s.slots & (s.slots - 1)) == 0;
}
inline size_t ResponseBytes(const ResponseShape& s) {
  return wire::kPage + s.capacity + s.slots * sizeof(ResponseEntry);
}

// Where the I/O of a request puts its result.
struct Reservation {
  uint32_t ticket = 0;  // names it in Finish
  char* data = nullptr;
};

// The agent's end; one thread.
template <typename Memory = StdMemory, typename MoverT = Mover>
class ResponseBuffer {
 public:
  // `pointers` and `messages` are in the mover's local memory, zeroed. All must outlive this.
  ResponseBuffer(MoverT* mover, RingPointers<Memory>* pointers, char* messages,
                 const ResponseShape& shape)
      : mover_(mover),
        pointers_(pointers),
        messages_(messages),
        shape_(shape),
        copies_(mover->kind() != MoverKind::kShared),
        responses_(shape.slots) {}

  // Data for which Allocate finds room in an empty buffer, wherever its tails are.
  uint64_t MaxData(uint64_t align = 8) const {
    const uint64_t skip = align > 8 ? align : 0;
    return shape_.capacity / 2 > skip ? shape_.capacity / 2 - skip : 0;
  }

  // Reserves space for `bytes` of data, which begin at a multiple of `align` (a power of two, 8 to
  // a page) from the beginning of the buffer. False when there is no room for now, or never (above
  // MaxData).
  bool Allocate(uint64_t id, uint16_t kind, uint64_t bytes, Reservation* out, uint64_t align = 8) {
    if (corrupt_ || bytes > MaxData(align)) return false;
    uint64_t start = bytes == 0 ? allocated_end_ : RoundUp(allocated_end_, align);
    if ((start & mask()) + bytes > shape_.capacity) start = RoundUp(start, shape_.capacity);
    const uint64_t end = start + RoundUp(bytes, 8);
    const auto full = [&] {
      return allocated_ - head_ == shape_.slots || end - head_end_ > shape_.capacity;
    };
    if (full() && (!LookAtHead() || full())) return false;
    const auto ticket = static_cast<uint32_t>(allocated_++ & (shape_.slots - 1));
    responses_[ticket] = {
        end, kUnfinished, id, static_cast<uint32_t>(start & mask()), static_cast<uint32_t>(bytes),
        kind};
    allocated_end_ = end;
    *out = {ticket, messages_ + (start & mask())};
    return true;
  }

  // The request has its result, and its data are in place. In any order; once for each ticket.
  void Finish(uint32_t ticket, int64_t result) {
    Response& r = responses_[ticket];
    r.entry = buffered_++;
    ready_ += r.length + sizeof(ResponseEntry);
    const ResponseEntry entry{r.id, result, r.offset, r.length, ticket, r.kind, 0};
    Memory::Copy(messages_ + PlaceOf(r.entry), &entry, sizeof(entry));
    if (copies_ && r.length > 0) spans_.push_back({wire::kPage + r.offset, r.length});
  }

  // Gives the host what has finished, if it is a batch, or if `now`: say so when the caller has
  // nothing else to do. True when something was delivered: the host may sleep, wake it.
  absl::StatusOr<bool> Deliver(bool now) {
    if (buffered_ == completed_ || (ready_ < shape_.batch && !now)) return false;
    // Release pairs with the host's acquire of the tail; of a mover that copies, the order of spans
    // has the same effect.
    pointers_->tail.store(buffered_, std::memory_order_release);
    PULSE_RETURN_IF_ERROR(Push());
    completed_ = buffered_;
    ready_ = 0;
    return true;
  }

  // Finished and not delivered; reserved and not finished.
  uint64_t undelivered() const { return buffered_ - completed_; }
  uint64_t in_flight() const { return allocated_ - buffered_; }
  // The host's head was nonsense: nothing more is allocated.
  bool corrupt() const { return corrupt_; }
  uint64_t calls() const { return calls_; }

 private:
  static constexpr uint64_t kUnfinished = ~uint64_t{0};
  struct Response {
    uint64_t end = 0;    // of its data, as a position
    uint64_t entry = 0;  // its number in the ring
    uint64_t id = 0;
    uint32_t offset = 0;
    uint32_t length = 0;
    uint16_t kind = 0;
  };

  uint64_t mask() const { return shape_.capacity - 1; }
  uint64_t PlaceOf(uint64_t entry) const {
    return shape_.capacity + (entry & (shape_.slots - 1)) * sizeof(ResponseEntry);
  }

  // Data first, then entries, then the tail.
  absl::Status Push() {
    if (!copies_) {
      ++calls_;
      return mover_->PushSpans(nullptr, 0);
    }
    Merge();
    const uint64_t n = buffered_ - completed_;
    const uint64_t at = completed_ & (shape_.slots - 1);
    const uint64_t first = std::min<uint64_t>(n, shape_.slots - at);
    spans_.push_back({wire::kPage + PlaceOf(completed_), first * sizeof(ResponseEntry)});
    spans_.push_back({wire::kPage + PlaceOf(0), (n - first) * sizeof(ResponseEntry)});
    spans_.push_back({kTailOffset, sizeof(uint64_t)});
    absl::Status st;
    for (size_t i = 0; i < spans_.size() && st.ok(); i += Mover::kMaxSpans) {
      ++calls_;
      st = mover_->PushSpans(&spans_[i], std::min(Mover::kMaxSpans, spans_.size() - i));
    }
    spans_.clear();
    return st;
  }
  // Neighbours become one.
  void Merge() {
    std::sort(spans_.begin(), spans_.end(),
              [](const MoverSpan& a, const MoverSpan& b) { return a.offset < b.offset; });
    size_t n = 0;
    for (const MoverSpan& s : spans_) {
      if (n > 0 && s.offset == RoundUp(spans_[n - 1].offset + spans_[n - 1].length, 8)) {
        spans_[n - 1].length = s.offset + s.length - spans_[n - 1].offset;
      } else {
        spans_[n++] = s;
      }
    }
    spans_.resize(n);
  }

  // One call of the mover. Acquire pairs with the host's release: it has read what we overwrite.
  bool LookAtHead() {
    const MoverSpan span{kHeadOffset, sizeof(uint64_t)};
    ++calls_;
    if (!mover_->PullSpans(&span, 1).ok()) return false;  // Deliver will say so
    const uint64_t head = pointers_->head.load(std::memory_order_acquire);
    while (head_ != head) {
      const Response& r = responses_[head_ & (shape_.slots - 1)];
      // Nobody gives back what he was not given.
      if (head_ == allocated_ || r.entry >= completed_) {
        corrupt_ = true;
        return false;
      }
      head_end_ = r.end;
      ++head_;
    }
    return true;
  }

  MoverT* mover_;
  RingPointers<Memory>* pointers_;
  char* messages_;
  ResponseShape shape_;
  bool copies_;
  std::vector<Response> responses_;  // by ticket
  std::vector<MoverSpan> spans_;     // data that a mover is to copy
  uint64_t allocated_ = 0;           // tickets
  uint64_t allocated_end_ = 0;       // the end of their data, as a position
  uint64_t buffered_ = 0;
  uint64_t completed_ = 0;
  uint64_t ready_ = 0;  // bytes buffered and not completed
  uint64_t head_ = 0;   // tickets
  uint64_t head_end_ = 0;
  uint64_t calls_ = 0;
  bool corrupt_ = false;
};

// A response in the hands of a host thread.
struct TakenResponse {
  uint16_t kind = 0;
  uint64_t id = 0;
  int64_t result = 0;
  const char* data = nullptr;
  uint64_t capacity = 0;  // bytes at `data`; an honest result is not larger
  uint32_t ticket = 0;    // for Done
};

// The host's end. Thread-safe: share one among all threads. A lock is held for a few instructions,
// never while data are copied, and never across a system call.
template <typename Memory = StdMemory, typename Mutex = std::mutex>
class ResponseReader {
 public:
  ResponseReader(RingPointers<Memory>* pointers, const char* messages, const ResponseShape& shape)
      : pointers_(pointers),
        messages_(messages),
        shape_(shape),
        state_(shape.slots, State::kIdle) {}

  // Takes the oldest response that no thread has; false when there is none, or what the agent wrote
  // makes no sense (corrupt()). `data` stay until Done.
  bool Take(TakenResponse* out) {
    const std::lock_guard<Mutex> lock(mu_);
    if (corrupt_) return false;
    if (taken_ == tail_) {
      // Acquire pairs with the agent's release: the responses before it are written.
      const uint64_t tail = pointers_->tail.load(std::memory_order_acquire);
      if (tail - taken_ > shape_.slots || tail - head_ > shape_.slots) return Corrupt();
      tail_ = tail;
      if (taken_ == tail_) return false;
    }
    ResponseEntry e = {};
    Memory::Copy(&e, messages_ + shape_.capacity + (taken_ & (shape_.slots - 1)) * sizeof(e),
                 sizeof(e));
    if (e.offset > shape_.capacity || e.length > shape_.capacity - e.offset ||
        e.ticket >= shape_.slots || state_[e.ticket] != State::kIdle) {
      return Corrupt();
    }
    state_[e.ticket] = State::kTaken;
    ++taken_;
    *out = {e.kind, e.id, e.result, messages_ + e.offset, e.length, e.ticket};
    return true;
  }

  // The data are not needed any more. Once for each response that was taken.
  void Done(uint32_t ticket) {
    const std::lock_guard<Mutex> lock(mu_);
    if (ticket >= shape_.slots || state_[ticket] != State::kTaken) return;
    state_[ticket] = State::kDone;
    const uint64_t before = head_;
    while (state_[head_ & (shape_.slots - 1)] == State::kDone) {
      state_[head_++ & (shape_.slots - 1)] = State::kIdle;
    }
    // Release pairs with the agent's acquire of the head: it overwrites what was read.
    if (head_ != before) pointers_->head.store(head_, std::memory_order_release);
  }

  // Whether Take would find something. A hint: another thread may be faster.
  bool Ready() const {
    const std::lock_guard<Mutex> lock(mu_);
    return taken_ != pointers_->tail.load(std::memory_order_acquire);
  }
  bool corrupt() const {
    const std::lock_guard<Mutex> lock(mu_);
    return corrupt_;
  }

 private:
  enum class State : uint8_t { kIdle, kTaken, kDone };
  bool Corrupt() {
    corrupt_ = true;
    return false;
  }

  RingPointers<Memory>* pointers_;
  const char* messages_;
  const ResponseShape shape_;
  mutable Mutex mu_;
  std::vector<State> state_;  // by ticket
  uint64_t head_ = 0;         // tickets: all before it were given back
  uint64_t taken_ = 0;        // entries
  uint64_t tail_ = 0;         // entries, as last seen
  bool corrupt_ = false;
};

// `mover` covers the buffer's whole region and must outlive it.
inline absl::StatusOr<std::unique_ptr<ResponseBuffer<>>> MakeResponseBuffer(
    Mover* mover, const ResponseShape& shape) {
  if (!Valid(shape) || mover->size() < ResponseBytes(shape)) {
    return absl::InvalidArgumentError("a response buffer of impossible size");
  }
  return std::make_unique<ResponseBuffer<>>(mover, PointersOf(mover->local()),
                                            MessagesOf(mover->local()), shape);
}

// On a region of ResponseBytes(shape) zeroed bytes. The shape is the agent's.
inline std::unique_ptr<ResponseReader<>> MakeResponseReader(char* region,
                                                            const ResponseShape& shape) {
  return std::make_unique<ResponseReader<>>(PointersOf(region), MessagesOf(region), shape);
}

}  // namespace pulse
