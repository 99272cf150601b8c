// HostGroup: the library's end of one poll group: its region, the request ring's producer, the
// response buffer's reader, and the table of outstanding requests. DDS 4.2.
//
// Any thread; Submit does not block; Wait blocks as asked. A slot of the table is taken by a submit
// and freed by whoever claims it: a response, or the report of the agent's loss. Claims are one
// compare-and-swap on the slot's id, so each request completes once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/wake_event.h"
#include "channel/progress_ring.h"
#include "channel/response_buffer.h"
#include "services/files/host_connection.h"

namespace pulse::files {

enum class ReadMode : uint8_t { kNone, kPieces, kInPlace };

// What the library keeps of a request until it completes.
struct Outstanding {
  uint64_t cookie = 0;
  Operation operation = Operation::kNone;
  ReadMode mode = ReadMode::kNone;
  uint8_t pieces = 0;
  uint16_t skip = 0;  // of a read's response: what lies before its offset in the block
  Piece piece[Library::kMaxPieces];
};

class HostGroup {
 public:
  // `poll`: what the library calls it.
  static absl::StatusOr<std::unique_ptr<HostGroup>> Create(Connection* connection, uint32_t poll,
                                                           const PollOptions& options);
  // After Connection::Close. Blocks until the agent has let go of the region, or is gone, or the
  // connection's time is over: then the region stays mapped for good.
  ~HostGroup();

  // OK: it will complete. Unavailable without a message: full. `request`.id is filled in.
  absl::Status Submit(const Outstanding& what, Request request, pulse::Piece body, bool direct,
                      RequestId* id);
  absl::StatusOr<size_t> Wait(Completion* out, size_t max, int64_t timeout_us);
  void Wake();
  void Release(Completion* completion);

  uint64_t max_read() const { return max_read_; }
  uint64_t max_write() const { return max_write_; }
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_seq_cst); }
  uint32_t poll() const { return poll_; }

 private:
  struct Slot {
    std::atomic<uint64_t> id{0};  // 0: free, or claimed
    std::atomic<uint32_t> next{0};
    uint64_t generation = 0;  // never 0 in an id, however long it runs
    Outstanding what;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  HostGroup() = default;
  uint32_t TakeSlot();
  void FreeSlot(uint32_t slot);
  // An operation was told to RETRY, and its slot, had it one, is free again.
  void Retried();
  // Whether one was since this was last asked by this thread. Each thread hears of it: who waits
  // may be another than who was told.
  bool SeeRetry();
  bool RetryUnseen() const;
  bool TakeFresh() { return fresh_.load(std::memory_order_seq_cst) && fresh_.exchange(false); }
  void WakeAll();
  // The slot of an outstanding request, now the caller's; kNone for an id that is none.
  uint32_t Claim(uint64_t id);
  size_t Take(Completion* out, size_t max);
  void Fill(const TakenResponse& r, uint32_t slot, Completion* out);
  size_t ReportLost(Completion* out, size_t max);
  void Sleep(int64_t until);
  bool AgentLetGo(int64_t until) const;
  bool AgentIsGone();

  Connection* connection_ = nullptr;
  uint32_t poll_ = 0;
  GroupShape shape_;
  uint64_t align_ = 8;
  uint64_t max_read_ = 0;
  uint64_t max_write_ = 0;
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

}  // namespace pulse::files
