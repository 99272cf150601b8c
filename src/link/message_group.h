// HostMessageGroup: the host's end of one message group (channel/group_wire.h): its region, the
// request ring's producer, the response buffer's reader, and the table of outstanding requests.
// DDS 4.2.
//
// A request takes a slot of the table, in which the service may keep what it wants of it (by the
// slot's number), and gives it back when it completes: by a response, or by the report of the
// agent's loss. Whoever completes it claims it by one compare-and-swap on the slot's id, so each
// completes once.
//
// Ownership: the caller owns the group; the channel outlives it. Threads: any. Submit does not
// block; Wait blocks as asked.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/wake_event.h"
#include "channel/group_wire.h"
#include "channel/progress_ring.h"
#include "channel/response_buffer.h"
#include "link/message_channel.h"

namespace pulse {

class HostMessageGroup {
 public:
  static constexpr uint32_t kNoSlot = ~uint32_t{0};
  static constexpr int64_t kForever = -1;

  // Blocks for the agent's answer. InvalidArgument for a shape that is none.
  static absl::StatusOr<std::unique_ptr<HostMessageGroup>> Create(MessageChannel* channel,
                                                                  const GroupShape& shape);
  ~HostMessageGroup() { End(); }
  // Before the destructor at the latest: nothing may be called any more. While the channel is open
  // the group is given back: the agent has room for another one. Blocks until the agent has let go
  // of the region, or is gone, or does not answer, or the closed channel's time is over: then the
  // region stays mapped for good, and the result is false.
  bool End();

  // A slot for a request, the caller's until Submit; kNoSlot when all are taken: take completions,
  // then try again. The id in which the request is known from now on.
  uint32_t TakeSlot(uint64_t* id);
  // Sends the request of `slot`: `header`, then `body`, as one message of `kind`, its body aligned
  // to `align`. OK: it will complete. Any other status: it was not sent, and the slot is free
  // again; Unavailable without a message: no room, take completions, then try again.
  absl::Status Submit(uint32_t slot, uint64_t id, uint16_t kind, Piece header, Piece body,
                      uint64_t align = 8);

  // What completes requests, of which there are at most `max` in one call of Take.
  class Taker {
   public:
    virtual ~Taker() = default;
    // A response to the request of `slot`. True: its memory is kept until Release of its ticket.
    virtual bool OnResponse(const TakenResponse& response, uint32_t slot) = 0;
    // The agent was lost before it answered; whether it did what was asked is not known.
    virtual void OnLost(uint64_t id, uint32_t slot) = 0;
  };
  // Gives up to `max` completions to `taker`; returns as soon as there is one. `timeout_us`: 0 only
  // looks, kForever sleeps until there is one or Wake. 0 after the time-out, and at once when an
  // operation found no room and nothing is outstanding. Aborted once the agent was lost and
  // everything has been reported.
  absl::StatusOr<size_t> Wait(Taker* taker, size_t max, int64_t timeout_us);
  void Wake();
  void Release(uint32_t ticket) { responses_->Done(ticket); }

  const GroupShape& shape() const { return shape_; }
  // The alignment of memory that the agent's half asked for.
  uint64_t align() const { return align_; }
  // The longest message, header and body, whose body is aligned to `align`.
  uint64_t MaxMessage(uint64_t align) const { return requests_->MaxMessage(align); }
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_seq_cst); }

 private:
  struct Slot {
    std::atomic<uint64_t> id{0};  // 0: free, or claimed
    std::atomic<uint32_t> next{0};
    uint64_t generation = 0;  // never 0 in an id, however long it runs
  };

  HostMessageGroup() = default;
  void FreeSlot(uint32_t slot);
  // An operation found no room, and its slot, had it one, is free again.
  void NoteRetry();
  // Whether one was since this was last asked by this thread. Each thread hears of it: who waits
  // may be another than who was told.
  bool SeeRetry();
  bool RetryUnseen() const;
  bool TakeFresh() { return fresh_.load(std::memory_order_seq_cst) && fresh_.exchange(false); }
  void WakeAll();
  // The slot of an outstanding request, now the caller's; kNoSlot for an id that is none.
  uint32_t Claim(uint64_t id);
  size_t Take(Taker* taker, size_t max);
  size_t ReportLost(Taker* taker, size_t max);
  void Sleep(int64_t until);
  bool AgentLetGo(int64_t until) const;
  bool AgentIsGone();

  MessageChannel* channel_ = nullptr;
  GroupShape shape_;
  uint32_t number_ = 0;
  bool attached_ = false;
  uint64_t align_ = 8;
  Region region_;
  std::unique_ptr<ProgressProducer<>> requests_;
  std::unique_ptr<ResponseReader<>> responses_;
  std::vector<Slot> slots_;
  // The stack of free slots: its top, and a count that makes each of its states different.
  std::atomic<uint64_t> free_{0};
  std::atomic<uint64_t> outstanding_{0};
  std::atomic<int64_t> looked_{0};  // when the socket was last looked at

  // Waiting for room. Who was told to RETRY must not sleep when nothing is outstanding: no
  // completion would wake him. Sequentially consistent with outstanding_: who sleeps says so, then
  // looks at the count; who lowers the count to zero looks who sleeps.
  uint64_t unique_ = 0;               // of all groups of this process
  std::atomic<uint64_t> retries_{0};  // operations that were told to RETRY
  std::atomic<bool> fresh_{false};    // one was since all sleepers were woken
  std::atomic<uint32_t> hungry_{0};   // sleepers that have not seen the last one

  // Sleeping. One leader sleeps on the doorbell, the others on the condition variable. Who leaves
  // with something wakes another: there may be more than he could take.
  Doorbell notify_;
  WakeEvent wake_;
  std::mutex mu_;
  std::condition_variable cv_;
  bool leader_ = false;
  bool woken_all_ = false;  // wake_ is set for the leader, who clears it
  size_t followers_ = 0;
  std::atomic<uint32_t> wakes_{0};
};

}  // namespace pulse
