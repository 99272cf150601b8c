// Session: one host process attached to the agent: its control page, doorbells, queues and service.
// limits.h bounds what it may hold.
//
// Lives on one worker thread; every method runs there, except where said. The peer is untrusted.
// A session that broke the protocol, or whose host died, is drained and freed (gate, drain, free).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/counters.h"
#include "agent/limits.h"
#include "agent/service.h"
#include "agent/service_spec.h"
#include "agent/status.h"
#include "base/clock.h"
#include "channel/doorbell.h"
#include "channel/queue_pair.h"
#include "channel/region.h"
#include "mover/mover.h"

namespace pulse {

using MoverWrapper =
    std::function<std::unique_ptr<Mover>(std::unique_ptr<Mover> mover, bool first)>;

// One queue of a session, with what only the agent knows about it.
class SessionQueue {
 public:
  // `outstanding` and `origin` are the session's, and outlive its queues.
  SessionQueue(uint32_t id, AgentQueue queue, Region region, std::unique_ptr<Mover> mover,
               RequestCount* outstanding, const IoOrigin* origin)
      : id_(id),
        queue_(std::move(queue)),
        region_(std::move(region)),
        mover_(std::move(mover)),
        outstanding_(outstanding),
        origin_(origin) {}

  AgentQueue& ring() { return queue_; }
  Mover& mover() { return *mover_; }
  uint32_t id() const { return id_; }
  uint64_t arena_bytes() const { return queue_.arena_bytes(); }
  // [offset, offset+length) lies within the arena.
  bool InArena(uint64_t offset, uint64_t length) const {
    return offset <= arena_bytes() && length <= arena_bytes() - offset;
  }

  // What its requests are, as far as is known before they are taken: those of the last output that
  // was begun on it.
  void set_io_class(IoClass io_class) { io_class_ = io_class; }
  IoClass io_class() const { return io_class_; }

  // Takes a request. False when there is none, or when the session has so many in flight, or kept
  // completions that its host does not take, that it must be made to wait; or so much waiting for
  // the device in the queue's class that more would only use up what the other classes need.
  bool TryTake(wire::Descriptor* d) {
    if (!MayTake() || !queue_.TryPop(d)) return false;
    ++outstanding_->now;
    return true;
  }
  bool HasWork() const { return MayTake() && queue_.HasSubmissions(); }
  bool HasDeferred() const { return !deferred_.empty(); }

  bool Untaken() const { return queue_.HasSubmissions(); }

  // Pushes a completion, or keeps it for later when the ring is full: the loop never waits for a
  // slow host (PulseDB III-D's deferred event queue).
  void Complete(const wire::Completion& c);
  // Retries kept completions; true when some were delivered.
  bool FlushDeferred();
  // Nobody will ever take kept completions.
  void DropDeferred();
  // True once after completions were pushed; the worker then notifies the host.
  bool TakeNotify() {
    const bool n = notify_;
    notify_ = false;
    return n;
  }

  // Arena space is given back in order. Track() enters the payload that ends at `position`; false
  // when the position is not plausible. Untrack() marks it done and publishes what became
  // contiguous.
  bool Track(uint64_t position, uint64_t* ticket);
  void Untrack(uint64_t ticket);

  int buffer_index = -1;

 private:
  struct Extent {
    uint64_t position;
    bool done;
  };

  void PublishReclaimed();
  bool MayTake() const {
    return outstanding_->now < outstanding_->most && !origin_->Full(io_class_);
  }

  uint32_t id_;
  AgentQueue queue_;
  Region region_;  // empty for an embedded agent, whose host owns the memory
  std::unique_ptr<Mover> mover_;
  RequestCount* outstanding_;
  const IoOrigin* origin_;
  IoClass io_class_ = IoClass::kUnknown;
  std::deque<wire::Completion> deferred_;
  bool notify_ = false;
  std::deque<Extent> extents_;
  uint64_t first_ticket_ = 0;
  uint64_t last_position_ = 0;
  uint64_t reclaimed_ = 0;
};

class Session {
 public:
  struct Config {
    MoverKind mover = MoverKind::kShared;
    AgentLimits limits;
    bool embedded = false;
    pid_t peer = 0;
    UniqueFd
        peer_process;  // pidfd: readable when the host has ended, though a child of it lives on
    std::string name;  // for log lines
    std::shared_ptr<AgentUsage> usage;  // shared by the agent's sessions; none: they are alone
    // Runs a function on the session's worker thread soon; from any thread. For services whose work
    // is finished elsewhere. May be empty where there is none.
    std::function<void(std::function<void()>)> post;
    // Put around each mover of the session, as it is made; none: movers are used as they are.
    // `first`: the session had none before.
    MoverWrapper wrap_mover;
    // Where the session enters itself, for those who watch; may be null.
    std::shared_ptr<AgentStatus> status;
    const ServiceSpec* service = nullptr;  // as it is shown there; null: tests
  };

  // `control` is mapped by the caller for embedded sessions (then `control_region` is empty).
  Session(Config config, wire::ControlPage* control, Region control_region, UniqueFd kick_fd,
          UniqueFd notify_fd, UniqueFd socket, FileEngine* engine, const ServiceFactory& factory);
  ~Session();

  // Adds a queue whose region is at `region`. For embedded sessions the region stays the host's.
  absl::Status AttachQueue(uint32_t id, uint64_t arena_bytes, uint64_t peer_address, Region region,
                           const Region* host_region);

  // Handles pending control messages; false when the peer is gone or broke the protocol: the
  // session is then to be ended.
  bool HandleSocket();
  // Empties this agent's doorbell; false when the host has closed its end of it.
  bool HandleDoorbell();
  // Takes descriptors, class by class: at most `batch` from each queue, so that no queue starves
  // another, and in each class from so many queues that no session gets ahead by having more of
  // them. Where taking costs time, since payload is copied, a class also has no more than its
  // quantum in a round. Returns how many.
  size_t PollQueues(size_t batch);
  bool HasWork() const;
  // Completions wait for the host to make room, of which it does not tell.
  bool HasDeferred() const;
  bool ExpectsRequests() const { return service_->ExpectsRequests(); }
  // Somebody on the host waits for completions (PulseDB III-D's progress message): serve it first.
  // The flag is the host's, and read once a round: nobody gets two turns. So is its pressure.
  bool LatchUrgent() {
    urgent_ = control_->urgent.value.load(std::memory_order_relaxed) != 0;
    origin_.set_urgent(urgent_);
    const uint32_t word = control_->pressure.value.load(std::memory_order_relaxed);
    if (word != pressure_word_ || origin_.pressure() != 0) LatchPressure(word, NowNanos());
    return urgent_;
  }
  bool urgent() const { return urgent_; }
  // How much its work waits for the agent's, as the host said: none without news for
  // kPressureNanos.
  static constexpr int64_t kPressureNanos = 5'000'000'000;
  void LatchPressure(uint32_t word, int64_t now);
  uint32_t pressure() const { return origin_.pressure(); }
  // For whom its service's requests are scheduled.
  IoOrigin& origin() { return origin_; }
  // By IoClass. Written by the worker, read by any thread while the session lives.
  const std::array<IoClassCounters, kIoClasses>& class_counters() const {
    return origin_.counters();
  }
  // Delivers deferred completions and notifies the host if it waits. True when something was done.
  bool Deliver();
  // A sign of life for the host that pings, also without any work.
  void Beat() { control_->agent_progress.value.fetch_add(1, std::memory_order_relaxed); }

  // Accounts for a descriptor of the host's that its service keeps: 0, or the errno with which it
  // is refused. GiveDescriptorBack once it is closed.
  int TakeDescriptor();
  void GiveDescriptorBack();

  // A mover of the session's kind for memory that is mapped here at `mapped` and by the host at
  // `peer_address`.
  absl::StatusOr<std::unique_ptr<Mover>> MakeMover(char* mapped, uint64_t peer_address,
                                                   size_t bytes);

  // Accounts for memory of the host's that its service attaches, until it is given back: whether
  // there may be so much, to be asked before any of it is touched; and that there is.
  absl::Status CheckMemory(uint64_t bytes) const;
  void AddMemory(uint64_t bytes);
  void GiveMemoryBack(uint64_t bytes);

  // The host has ended. What it had asked for is still done, as far as its rings can hold: bytes
  // that it has handed over are then in the file, as if they had been in the page cache. After that
  // the session shuts itself down. False when it is to be ended at once.
  bool Orphan();
  bool orphan() const { return orphan_; }
  // Asked before this agent writes into a host's memory by address (mover=vmread): a host that has
  // left may have something else there.
  bool HostMayBeGone() const;
  void BeginShutdown();
  bool shutting_down() const { return shutting_down_; }
  bool Drained() const { return service_->Drained(); }

  Doorbell& doorbell() { return doorbell_; }
  wire::ControlPage* control() { return control_; }
  int socket() const { return socket_.get(); }
  int peer_process() const { return config_.peer_process.get(); }
  FileEngine* engine() { return engine_; }
  const Config& config() const { return config_; }
  SessionCounters& counters() { return counters_; }
  size_t queue_count() const { return queues_.size(); }

 private:
  bool HandleMessage(const wire::Message& m, std::vector<UniqueFd> fds, bool fds_lost);
  // Sends an answer with `st`; false when the session is to be ended.
  bool Answer(const absl::Status& st, wire::Message* ack);
  size_t TakeFrom(SessionQueue* q, size_t batch, uint64_t* budget);
  void Refuse(const absl::Status& why);

  const Config config_;
  wire::ControlPage* control_;
  Region control_region_;
  Doorbell doorbell_;  // the host rings, this agent sleeps
  Doorbell notifier_;  // this agent rings, the host sleeps
  UniqueFd socket_;
  FileEngine* engine_;
  IoOrigin origin_;
  RequestCount outstanding_;
  std::vector<std::unique_ptr<SessionQueue>> queues_;
  bool has_movers_ = false;
  std::array<size_t, kIoClasses> next_queue_{};  // whose turn it is
  uint64_t arena_total_ = 0;
  size_t descriptors_ = 0;
  bool broken_ = false;  // the peer broke the protocol
  bool shutting_down_ = false;
  bool orphan_ = false;
  size_t orphan_budget_ = 0;  // requests that may still be taken
  bool urgent_ = false;
  uint32_t pressure_word_ = 0;
  int64_t pressure_at_ = 0;  // when it last changed
  SessionCounters counters_;
  uint64_t status_id_ = 0;  // in config_.status
  std::unique_ptr<Service> service_;
};

}  // namespace pulse
