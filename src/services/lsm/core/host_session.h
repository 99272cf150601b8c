// HostSession: the host's end of the channel. Owns the connection to the agent, dispatches
// completions, and goes on without an agent, or with the next one, when the agent is lost.
//
// Threads: every method may be called by any thread, except that a StreamQueue belongs to the
// thread that leased it. State that completions change is guarded by mu(). There is no completion
// thread: who waits, drains. One waiter at a time (the leader) sleeps on the agent's doorbell; the
// others sleep on a condition variable that the leader signals. One thread of the session,
// pulse-ag-watch, waits for the agent's death, tells a hung agent from a slow one, finishes what a
// lost one left undone, and looks for its successor.
//
// Every wait ends: by its condition, or because the connection is dead.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/trace.h"
#include "base/wake_event.h"
#include "link/heartbeat.h"
#include "services/lsm/core/counters.h"
#include "services/lsm/core/host_connection.h"
#include "services/lsm/core/options.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {

class HostSession {
 public:
  using Connection = std::shared_ptr<AgentConnection>;

  // Starts or reaches the agent; blocks as ConnectToAgent does.
  static absl::StatusOr<std::shared_ptr<HostSession>> Open(const Options& options);
  ~HostSession();

  const Options& options() const { return options_; }
  std::mutex& mu() { return mu_; }
  AtomicCounters& counters() { return counters_; }
  SyncTimes& sync_times_locked() { return sync_times_; }
  OpenOutputs& open_outputs_locked() { return open_outputs_; }
  // The directories of open databases, for those who watch.
  void SetDatabasesLocked(const std::set<std::string>& dirs) {
    databases_.assign(dirs.begin(), dirs.end());
  }
  // What waits in the queues of the moment's agent.
  struct Occupancy {
    uint64_t streams = 0;   // leased
    uint64_t bytes = 0;     // of payload that the agent has not given back
    uint64_t requests = 0;  // that it has not taken
  };
  Occupancy occupancy();
  // Time without any agent so far.
  uint64_t agentless_nanos();
  // Tells the agent that a database of this session is near a stall (wire::kPressure...), as seen
  // now: it fades. Not below what listeners know; kPressureNone for that alone.
  void NotePressure(uint32_t level);
  // What a listener knows: so many column families more, or fewer, are at `level`.
  void AddStalls(uint32_t level, int64_t families);
  // The agent of the moment; null while there is none.
  Connection connection();

  // A queue for one output stream; the caller is its only producer until it is returned. The queues
  // most recently returned go first: their memory is warm. ResourceExhausted when `streams` are
  // out; Unavailable without an agent.
  struct Lease {
    Connection connection;
    StreamQueue* queue;
  };
  // `prefer_idle`: one that the agent has nothing left to do on, if there is one.
  absl::StatusOr<Lease> LeaseQueue(bool prefer_idle = false);
  void ReturnQueueLocked(const Lease& lease);
  // Prepares a first queue in the background (its memory takes milliseconds to touch and pin), so
  // that the first flush or compaction finds one. From the first call on, with every new agent.
  void Prewarm();
  // A queue apart from the pool, of another size. Lives as long as the connection.
  absl::StatusOr<StreamQueue*> AddQueue(const Connection& c, uint64_t arena_bytes);

  // File numbers. Register before the first request that names the number; Unregister when no
  // completion can follow.
  uint32_t Register(AgentConnection* c, CompletionTarget* target);

  // Pushes a request; waits while the ring is full. Unavailable when the agent is dead. Does not
  // wake the agent: ring `kick` after the last of a batch.
  absl::Status Push(const Connection& c, StreamQueue* queue, const wire::Descriptor& d);

  // Waits until `done()` (evaluated with mu() held). Returns early when `c` is null or dead and
  // `done()` still does not hold.
  template <typename Done>
  void Wait(std::unique_lock<std::mutex>& lock, Connection c, Done done) {
    while (true) {
      if (c != nullptr) DrainLocked(c.get());
      if (done() || c == nullptr || c->dead) return;
      WaitOnce(lock, c.get(), done);
    }
  }
  // Waits until `done()`, which some thread of the host brings about and announces by
  // NotifyLocked().
  template <typename Done>
  void WaitForHost(std::unique_lock<std::mutex>& lock, Done done) {
    cv_.wait(lock, done);
  }
  void NotifyLocked();
  // Handles what has arrived, without waiting.
  void DrainLocked(AgentConnection* c);
  // Has the watching thread call target->Rescue(false); until then the target must stay alive.
  void RescueLaterLocked(CompletionTarget* target);
  // The agent answered with nonsense, or not at all: part with it.
  void SuspectLocked(AgentConnection* c, const absl::Status& why);

 private:
  explicit HostSession(const Options& options) : options_(options) {}
  absl::StatusOr<StreamQueue*> AttachQueue(const Connection& c, uint32_t id, uint64_t arena_bytes);
  void PublishPressureLocked(uint32_t level);
  void WaitOnce(std::unique_lock<std::mutex>& lock, AgentConnection* c,
                absl::FunctionRef<bool()> done);
  static bool SomethingArrived(const AgentConnection& c);

  // host_watch.cc: the watching thread.
  void Watch();
  bool CheckAgent(const Connection& c, AgentHeartbeat* heartbeat);
  void LoseAgent(const Connection& c, OutstandingWork work, const absl::Status& why);
  bool TryReconnect();
  void WarmUp(const Connection& c);
  // Somebody may look at the numbers that this host publishes.
  bool IsWatched() const { return !options_.socket_path.empty() || !options_.status.empty(); }
  void Publish(const Connection& c);

  const Options options_;
  std::shared_ptr<trace::Timeline> timeline_;  // null: none was asked for
  AtomicCounters counters_;
  std::mutex mu_;
  SyncTimes sync_times_;
  OpenOutputs open_outputs_;
  std::vector<std::string> databases_;
  std::condition_variable cv_;
  Connection current_;
  std::vector<CompletionTarget*> rescues_;
  int64_t agentless_since_ = 0;  // 0: there is one
  uint32_t pressure_count_ = 0;
  std::array<int64_t, 3> stalls_{};  // of listeners, by level
  std::atomic<uint32_t> stall_{0};   // the worst of them
  bool prewarm_ = false;
  bool prewarmed_ = false;  // ... the current connection

  int sleeping_leaders_ = 0;
  WakeEvent wake_leader_;  // the host itself has brought something about
  WakeEvent wake_watch_;
  WakeEvent stopping_;  // set once ~HostSession has begun
  std::thread warm_;    // of the watching thread
  std::thread watch_;
};

}  // namespace pulse::lsm
