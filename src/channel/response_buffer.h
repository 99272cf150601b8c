// Responses of the file service: one producer, the agent, and many threads of the host that take
// them. DDS 4.3. The request's way is progress_ring.h.
//
// The agent reserves a response's space before it starts the request's I/O, in the order of the
// requests, and the I/O engine puts what it reads there: nothing is copied on the agent. Three
// tails:
//
//   allocated  end of what is reserved
//   buffered   end of the prefix whose requests have finished
//   completed  end of what the host was given
//
// completed <= buffered <= allocated <= host's head + capacity. A batch of finished responses goes
// to the host in one call of the mover, which also moves the tail that announces it.
//
// Bounded: when the space, or the number of requests in flight, is used up, Allocate says no; the
// request waits in its ring, and its producers are told to retry. Nothing grows, nothing blocks.
//
// Region: as a message ring's (message_ring.h), one page of pointers and `capacity` bytes. The tail
// is `completed`; the progress pointer is not used. A response never wraps. Each side checks what
// the other wrote: the agent keeps what it must know of its responses to itself.
#pragma once

#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "base/errors.h"
#include "channel/message_ring.h"

namespace pulse {

// Of one response; its data follow.
struct ResponseHeader {
  uint32_t span;  // bytes to the next response, this header included; a multiple of 8
  uint16_t kind;  // kPadding (of which only the first 8 bytes count), or what the service defines
  uint16_t reserved;
  uint64_t id;     // the request's
  int64_t result;  // bytes or 0; -errno on failure; kPending while the request is carried out
};
static_assert(sizeof(ResponseHeader) == 24);
inline constexpr int64_t kPending = std::numeric_limits<int64_t>::min();

struct ResponseShape {
  uint64_t capacity = uint64_t{1} << 20;  // as RingShape's
  uint64_t batch = uint64_t{16} << 10;    // finished bytes that are delivered at once
  uint32_t requests = 1024;               // the most in flight: a power of two
};

inline bool Valid(const ResponseShape& s) {
  return Valid(RingShape{s.capacity, s.capacity}) && s.batch <= s.capacity && s.requests > 0 &&
         (s.requests & (s.requests - 1)) == 0;
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
        in_flight_(shape.requests) {}

  // Data for which Allocate finds room in an empty buffer, wherever its tails are.
  uint64_t MaxData(uint64_t align = 8) const {
    const uint64_t taken = sizeof(ResponseHeader) + (align > 8 ? align : 0);
    return shape_.capacity / 2 > taken ? shape_.capacity / 2 - taken : 0;
  }

  // Reserves space for `bytes` of data, which begin at a multiple of `align` (a power of two, at
  // most a page) from the beginning of the buffer. Requests are answered in the order of these
  // calls. `mark` is the caller's, usually the end of the request in its ring; see finished_mark().
  // False when there is no room for now, or never (above MaxData).
  bool Allocate(uint64_t id, uint16_t kind, uint64_t bytes, uint64_t mark, Reservation* out,
                uint64_t align = 8) {
    if (bytes > MaxData(align) || count_ == shape_.requests) return false;
    const uint64_t span = sizeof(ResponseHeader) + RoundUp(bytes, 8);
    uint64_t start = Align(allocated_, align);
    if ((start & mask()) + span > shape_.capacity) {
      start = Align(RoundUp(start, shape_.capacity), align);
    }
    if (start + span - head_ > shape_.capacity) {
      if (!LookAtHead() || start + span - head_ > shape_.capacity) return false;
    }
    for (uint64_t at = allocated_; at != start;) {
      const uint64_t lap = shape_.capacity - (at & mask());
      const uint64_t skip = start - at < lap ? start - at : lap;
      const Prefix padding{static_cast<uint32_t>(skip), kPadding, 0};
      Memory::Copy(messages_ + (at & mask()), &padding, sizeof(padding));
      at += skip;
    }
    const uint32_t ticket = (first_ + count_) & (shape_.requests - 1);
    ++count_;
    in_flight_[ticket] = {
        start, start + span, mark, false, {static_cast<uint32_t>(span), kind, 0, id, kPending}};
    allocated_ = start + span;
    WriteHeader(in_flight_[ticket]);
    *out = {ticket, messages_ + (start & mask()) + sizeof(ResponseHeader)};
    return true;
  }

  // The request has its result, and its data are in place. In any order; once for each ticket.
  void Finish(uint32_t ticket, int64_t result) {
    InFlight& f = in_flight_[ticket];
    f.done = true;
    f.header.result = result;
    WriteHeader(f);
    for (; count_ > 0 && in_flight_[first_].done; --count_) {
      in_flight_[first_].done = false;
      buffered_ = in_flight_[first_].end;
      finished_mark_ = in_flight_[first_].mark;
      first_ = (first_ + 1) & (shape_.requests - 1);
    }
  }

  // Gives the host what has finished, if it is a batch, or if `now`: say so when the caller has
  // nothing else to do. True when something was delivered: the host may sleep, wake it.
  absl::StatusOr<bool> Deliver(bool now) {
    const uint64_t ready = buffered_ - completed_;
    if (ready == 0 || (ready < shape_.batch && !now)) return false;
    const uint64_t at = completed_ & mask();
    const uint64_t first = ready < shape_.capacity - at ? ready : shape_.capacity - at;
    // Release pairs with the host's acquire of the tail; of a mover that copies, the order of spans
    // has the same effect.
    pointers_->tail.store(buffered_, std::memory_order_release);
    const MoverSpan spans[3] = {
        {wire::kPage + at, first}, {wire::kPage, ready - first}, {kTailOffset, sizeof(uint64_t)}};
    ++calls_;
    const absl::Status st = mover_->PushSpans(spans, 3);
    if (!st.ok()) return st;
    completed_ = buffered_;
    return true;
  }

  // The mark of the last request of the finished prefix: all requests up to it are done with.
  uint64_t finished_mark() const { return finished_mark_; }
  // Finished and not delivered; reserved and not finished.
  uint64_t undelivered() const { return buffered_ - completed_; }
  uint32_t in_flight() const { return count_; }
  // The host's head was nonsense: nothing more is allocated.
  bool corrupt() const { return corrupt_; }
  uint64_t calls() const { return calls_; }

 private:
  struct Prefix {
    uint32_t span;
    uint16_t kind;
    uint16_t reserved;
  };
  static_assert(sizeof(Prefix) == 8);
  struct InFlight {
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t mark = 0;
    bool done = false;
    ResponseHeader header = {};
  };

  uint64_t mask() const { return shape_.capacity - 1; }
  static uint64_t Align(uint64_t start, uint64_t align) {
    if (align <= 8) return start;
    return RoundUp(start + sizeof(ResponseHeader), align) - sizeof(ResponseHeader);
  }
  void WriteHeader(const InFlight& f) {
    Memory::Copy(messages_ + (f.start & mask()), &f.header, sizeof(f.header));
  }

  // One call of the mover. Acquire pairs with the host's release: it has read what we overwrite.
  bool LookAtHead() {
    if (corrupt_) return false;
    const MoverSpan span{kHeadOffset, sizeof(uint64_t)};
    ++calls_;
    if (!mover_->PullSpans(&span, 1).ok()) return false;  // Deliver will say so
    const uint64_t head = pointers_->head.load(std::memory_order_acquire);
    if (head - head_ > completed_ - head_ || head % 8 != 0) {
      corrupt_ = true;
      return false;
    }
    head_ = head;
    return true;
  }

  MoverT* mover_;
  RingPointers<Memory>* pointers_;
  char* messages_;
  ResponseShape shape_;
  std::vector<InFlight> in_flight_;  // a ring
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint64_t allocated_ = 0;
  uint64_t buffered_ = 0;
  uint64_t completed_ = 0;
  uint64_t head_ = 0;
  uint64_t finished_mark_ = 0;
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
  uint64_t span = 0;      // for Done
};

// The host's end. Thread-safe: share one among all threads. A lock is held for a few instructions,
// never while data are copied, and never across a system call.
//
// Space goes back to the agent when no thread holds a response. Threads that keep overlapping delay
// that at most until all that was delivered is taken.
template <typename Memory = StdMemory, typename Mutex = std::mutex>
class ResponseReader {
 public:
  ResponseReader(RingPointers<Memory>* pointers, const char* messages, uint64_t capacity)
      : pointers_(pointers), messages_(messages), capacity_(capacity) {}

  // Takes the oldest response that no thread has; false when there is none, or what the agent wrote
  // makes no sense (corrupt()). `data` stay until Done.
  bool Take(TakenResponse* out) {
    const std::lock_guard<Mutex> lock(mu_);
    while (!corrupt_) {
      if (taken_ == tail_) {
        // Acquire pairs with the agent's release: the responses before it are written.
        tail_ = pointers_->tail.load(std::memory_order_acquire);
        if (tail_ - head_ > capacity_ || tail_ - taken_ > capacity_ || tail_ % 8 != 0) break;
        if (taken_ == tail_) return false;
      }
      ResponseHeader h = {};
      const char* at = messages_ + (taken_ & (capacity_ - 1));
      const uint64_t lap = capacity_ - (taken_ & (capacity_ - 1));
      Memory::Copy(&h, at, 8);
      const uint64_t least = h.kind == kPadding ? 8 : sizeof(h);
      if (h.span < least || h.span % 8 != 0 || h.span > lap || h.span > tail_ - taken_) break;
      taken_ += h.span;
      if (h.kind == kPadding) {
        Finish(h.span);
        continue;
      }
      // The span was checked: of the rest only the fields behind it are read again.
      constexpr size_t kRest = sizeof(h) - 8;
      Memory::Copy(reinterpret_cast<char*>(&h) + 8, at + 8, kRest);
      *out = {h.kind, h.id, h.result, at + sizeof(h), h.span - sizeof(h), h.span};
      return true;
    }
    corrupt_ = true;
    return false;
  }

  // The data are not needed any more.
  void Done(const TakenResponse& response) {
    const std::lock_guard<Mutex> lock(mu_);
    Finish(response.span);
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
  void Finish(uint64_t span) {
    done_ += span;
    if (done_ != taken_) return;
    head_ = taken_;
    // Release pairs with the agent's acquire of the head: it overwrites what was read.
    pointers_->head.store(head_, std::memory_order_release);
  }

  RingPointers<Memory>* pointers_;
  const char* messages_;
  uint64_t capacity_;
  mutable Mutex mu_;
  // head_ <= done_ (as a sum) <= taken_ <= tail_.
  uint64_t head_ = 0;
  uint64_t done_ = 0;
  uint64_t taken_ = 0;
  uint64_t tail_ = 0;
  bool corrupt_ = false;
};

// `mover` covers the buffer's whole region and must outlive it.
inline absl::StatusOr<std::unique_ptr<ResponseBuffer<>>> MakeResponseBuffer(
    Mover* mover, const ResponseShape& shape) {
  if (!Valid(shape) || mover->size() < wire::kPage + shape.capacity) {
    return absl::InvalidArgumentError("a response buffer of impossible size");
  }
  return std::make_unique<ResponseBuffer<>>(mover, PointersOf(mover->local()),
                                            MessagesOf(mover->local()), shape);
}

// On a region of wire::kPage + capacity zeroed bytes.
inline std::unique_ptr<ResponseReader<>> MakeResponseReader(char* region, uint64_t capacity) {
  return std::make_unique<ResponseReader<>>(PointersOf(region), MessagesOf(region), capacity);
}

}  // namespace pulse
