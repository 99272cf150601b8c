// Calls from an agent to its host: the agent sends requests, any thread of the host takes and
// answers them. It is the file service's channel turned round, on the same two rings and no third:
//
//   calls    a response buffer (response_buffer.h): the agent produces, many threads consume; space
//            goes back to the agent when a call was answered
//   answers  a progress ring (progress_ring.h): many threads produce, the agent consumes
//
// The agent drives both through movers, as ever; the host only touches its own memory.
//
// Trust: neither side has any. The agent keeps to itself what it must know of its calls, and takes
// an answer only for a call that is open, of that call's kind, once. The host checks each call's
// place and kind before it gives it to a thread. What makes no sense is DataLoss at the agent and
// corrupt() at the host, for good: end the session. Payload that a peer can still change (on both
// sides with the mover `shared`, and always on the host) must be copied before it is checked.
//
// Bounded: at most `calls.slots` are open, in `calls.capacity` bytes; answers wait at the host
// while their ring is full. Nothing blocks. An agent that has calls open must go on to take
// answers.
//
// Region: calls, then answers from AnswersOffset, each with a mover of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/errors.h"
#include "channel/progress_ring.h"
#include "channel/response_buffer.h"

namespace pulse {

struct CallShape {
  ResponseShape calls;
  RingShape answers;
};
inline bool Valid(const CallShape& s) { return Valid(s.calls) && Valid(s.answers); }
inline size_t AnswersOffset(const CallShape& s) {
  return RoundUp(ResponseBytes(s.calls), wire::kPage);
}
inline size_t CallBytes(const CallShape& s) { return AnswersOffset(s) + RingBytes(s.answers); }

// In front of an answer's data.
struct AnswerHeader {
  uint64_t id;     // the call's
  int64_t result;  // the service's
};
static_assert(sizeof(AnswerHeader) == 16);

// An answer in the agent's hands; `data` until the next NextAnswer.
struct CallAnswer {
  uint64_t cookie = 0;
  uint16_t kind = 0;
  int64_t result = 0;
  const char* data = nullptr;
  uint32_t length = 0;
};

// The agent's end; one thread.
template <typename Memory = StdMemory, typename MoverT = Mover>
class AgentCaller {
 public:
  AgentCaller(ResponseBuffer<Memory, MoverT> calls, ProgressConsumer<Memory, MoverT> answers,
              uint32_t slots)
      : calls_(std::move(calls)), answers_(std::move(answers)), open_(slots) {
    for (uint32_t i = slots; i > 0; --i) free_.push_back(i - 1);
  }

  // Puts a call into the next batch; `payload` is copied. `kind` is not 0. False when there is no
  // room for now, or never (above MaxPayload): take answers, then try again. `cookie` never leaves
  // here.
  bool Call(uint64_t cookie, uint16_t kind, Piece payload) {
    if (free_.empty() || kind == kPadding) return false;
    const uint32_t slot = free_.back();
    OpenCall& call = open_[slot];
    Reservation place;
    if (!calls_.Allocate(uint64_t{call.turn} << 32 | slot, kind, payload.size, &place))
      return false;
    Memory::Copy(place.data, payload.data, payload.size);
    calls_.Finish(place.ticket, 0);
    free_.pop_back();
    call.cookie = cookie;
    call.kind = kind;
    return true;
  }
  uint64_t MaxPayload() const { return calls_.MaxData(); }

  // Sends what is a batch, or, with `now`, everything. True when the host was given some: it may
  // sleep, wake it.
  absl::StatusOr<bool> Send(bool now) {
    if (corrupt_ || calls_.corrupt()) return Corrupt();
    return calls_.Deliver(now);
  }

  // The next answer, in the order of answering; false when there is none for now. Errors are final.
  absl::StatusOr<bool> NextAnswer(CallAnswer* out) {
    if (corrupt_ || calls_.corrupt()) return Corrupt();
    if (held_ != 0) answers_.Release(std::exchange(held_, 0));
    RingMessage m;
    if (!answers_.Next(&m)) {
      if (answers_.corrupt()) return Corrupt();
      PULSE_ASSIGN_OR_RETURN(const bool some, answers_.Fetch());
      if (!some || !answers_.Next(&m)) {
        if (answers_.corrupt()) return Corrupt();
        return false;
      }
    }
    held_ = m.end;
    return Accept(m, out);
  }

  // Calls without an answer.
  size_t outstanding() const { return open_.size() - free_.size(); }

 private:
  // One place for a call; it is open while its kind is not kPadding.
  struct OpenCall {
    uint64_t cookie = 0;
    uint32_t turn =
        0;  // counts the calls that this place had: an old answer is not taken for a new
    uint16_t kind = kPadding;
  };

  absl::StatusOr<bool> Accept(const RingMessage& m, CallAnswer* out) {
    AnswerHeader header;
    if (m.length < sizeof(header)) return Corrupt();
    Memory::Copy(&header, m.data, sizeof(header));
    const auto slot = static_cast<uint32_t>(header.id);
    if (slot >= open_.size()) return Corrupt();
    OpenCall& call = open_[slot];
    if (call.kind == kPadding || call.kind != m.kind || call.turn != header.id >> 32) {
      return Corrupt();
    }
    *out = {call.cookie, m.kind, header.result, m.data + sizeof(header),
            static_cast<uint32_t>(m.length - sizeof(header))};
    call.kind = kPadding;
    ++call.turn;
    free_.push_back(slot);
    return true;
  }
  absl::Status Corrupt() {
    corrupt_ = true;
    return absl::DataLossError(
        "the host answered what was not asked, or gave back what it had not");
  }

  ResponseBuffer<Memory, MoverT> calls_;
  ProgressConsumer<Memory, MoverT> answers_;
  std::vector<OpenCall> open_;
  std::vector<uint32_t> free_;
  uint64_t held_ = 0;  // the end of the answer that the caller has; 0: none
  bool corrupt_ = false;
};

// A call in the hands of a host thread; `data` until it was answered.
struct HostCall {
  uint16_t kind = 0;
  const char* data = nullptr;
  uint64_t length = 0;
  uint64_t id = 0;      // for Answer
  uint32_t ticket = 0;  // for Answer
};

// The host's end. Thread-safe: share one among all threads.
template <typename Memory = StdMemory, typename Mutex = std::mutex>
class HostResponder {
 public:
  HostResponder(RingPointers<Memory>* calls, const char* calls_data, RingPointers<Memory>* answers,
                char* answers_data, const CallShape& shape)
      : calls_(calls, calls_data, shape.calls), answers_(answers, answers_data, shape.answers) {}

  // Takes the oldest call that no thread has; false when there is none, or what the agent wrote
  // makes no sense.
  bool Take(HostCall* out) {
    TakenResponse taken;
    if (corrupt() || !calls_.Take(&taken)) return false;
    if (taken.kind == kPadding) {
      corrupt_.store(true, std::memory_order_relaxed);
      return false;
    }
    *out = {taken.kind, taken.data, taken.capacity, taken.id, taken.ticket};
    return true;
  }

  // Answers a call that was taken, once. kRetry: the agent has not fetched enough; the call is
  // still the thread's. kRefused, the same: `data` are more than MaxAnswer. After kDone wake the
  // agent, and touch the call's data no more.
  PushResult Answer(const HostCall& call, int64_t result, Piece data) {
    const AnswerHeader header{call.id, result};
    const PushResult pushed = answers_.TryPush(call.kind, {&header, sizeof(header)}, data);
    if (pushed == PushResult::kDone) calls_.Done(call.ticket);
    return pushed;
  }
  uint64_t MaxAnswer() const { return answers_.MaxMessage() - sizeof(AnswerHeader); }

  // Whether Take would find something. A hint: another thread may be faster.
  bool Ready() const { return calls_.Ready(); }
  bool corrupt() const { return corrupt_.load(std::memory_order_relaxed) || calls_.corrupt(); }

 private:
  ResponseReader<Memory, Mutex> calls_;
  ProgressProducer<Memory> answers_;
  std::atomic<bool> corrupt_{false};
};

// The movers cover the parts of a region of CallBytes(shape), and must outlive the caller.
inline absl::StatusOr<std::unique_ptr<AgentCaller<>>> MakeAgentCaller(Mover* calls, Mover* answers,
                                                                      const CallShape& shape) {
  if (!Valid(shape) || calls->size() < ResponseBytes(shape.calls) ||
      answers->size() < RingBytes(shape.answers)) {
    return absl::InvalidArgumentError("rings for calls of impossible size");
  }
  return std::make_unique<AgentCaller<>>(
      ResponseBuffer<>(calls, PointersOf(calls->local()), MessagesOf(calls->local()), shape.calls),
      ProgressConsumer<>(answers, PointersOf(answers->local()), MessagesOf(answers->local()),
                         shape.answers),
      shape.calls.slots);
}

// On a region of CallBytes(shape) zeroed bytes. The shape was checked with Valid.
inline std::unique_ptr<HostResponder<>> MakeHostResponder(char* region, const CallShape& shape) {
  char* const answers = region + AnswersOffset(shape);
  return std::make_unique<HostResponder<>>(PointersOf(region), MessagesOf(region),
                                           PointersOf(answers), MessagesOf(answers), shape);
}

}  // namespace pulse
