// HostSession: the host's end of the channel. Owns the link, the queues and the dispatch of
// completions.
//
// Threads: every method may be called by any thread, except that a StreamQueue belongs to the
// thread that leased it. State that completions change is guarded by mu(). There is no completion
// thread: who waits, drains. One waiter at a time (the leader) sleeps on the agent's doorbell; the
// others sleep on a condition variable that the leader signals.
//
// Every wait ends: by its condition, or because the agent is dead (then Failover has run).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "channel/queue_pair.h"
#include "lsm/counters.h"
#include "lsm/host_link.h"
#include "lsm/options.h"
#include "lsm/wire.h"

namespace pulse::lsm {

// Receives the completions of one file number.
class CompletionTarget {
 public:
  virtual ~CompletionTarget() = default;
  // Called with mu() held.
  virtual void OnCompletion(const wire::Completion& c) = 0;
  // The agent is dead and will answer nothing more. Called once, with mu() held.
  virtual void OnAgentDeath() = 0;
};

// A queue and the producer's position in its arena. `position` counts arena bytes handed out,
// free-running.
struct StreamQueue {
  Region region;
  HostQueue queue;
  uint64_t position = 0;
};

class HostSession {
 public:
  static absl::StatusOr<std::shared_ptr<HostSession>> Open(const Options& options);
  ~HostSession();

  const Options& options() const { return options_; }
  std::mutex& mu() { return mu_; }
  AtomicCounters& counters() { return counters_; }
  bool dead() const { return dead_.load(std::memory_order_acquire); }

  // A queue for one output stream; the caller is its only producer until it is returned. The queues
  // most recently returned go first: their memory is warm. ResourceExhausted when `streams` are
  // out.
  absl::StatusOr<StreamQueue*> LeaseQueue();
  void ReturnQueue(StreamQueue* queue);
  // Prepares a first queue in the background (its memory takes milliseconds to touch and pin), so
  // that the first flush or compaction finds one. Once per session; later calls do nothing.
  void Prewarm();
  // A queue apart from the pool, of another size. Lives as long as the session.
  absl::StatusOr<StreamQueue*> AddQueue(uint64_t arena_bytes);

  // File numbers. Register before the first request that names the number; Unregister when no
  // completion can follow.
  uint32_t Register(CompletionTarget* target);
  void UnregisterLocked(uint32_t file);

  // Passes `fd` to the agent; see AgentLink::SendFile.
  absl::Status SendFile(uint32_t file, int fd, uint32_t* flags, uint64_t* aux) {
    return link_->SendFile(file, fd, flags, aux);
  }

  // Pushes a request; waits while the ring is full. Unavailable when the agent is dead. Does not
  // wake the agent: call Ring() after the last of a batch.
  absl::Status Push(StreamQueue* queue, const wire::Descriptor& d);
  void Ring() { link_->kick().Ring(); }

  // Waits until `done()` (evaluated with mu() held). Returns early when the agent dies and `done()`
  // still does not hold.
  template <typename Done>
  void Wait(std::unique_lock<std::mutex>& lock, Done done) {
    while (true) {
      DrainLocked();
      if (done() || dead()) return;
      WaitOnce(lock, done);
    }
  }
  // Handles what has arrived, without waiting.
  void DrainLocked();

 private:
  explicit HostSession(const Options& options) : options_(options) {}
  void WaitOnce(std::unique_lock<std::mutex>& lock, absl::FunctionRef<bool()> done);
  bool SomethingArrived() const;
  void DieLocked();

  const Options options_;
  AtomicCounters counters_;
  std::mutex mu_;
  std::condition_variable cv_;
  bool leader_ = false;
  size_t followers_ = 0;
  std::atomic<bool> dead_{false};
  uint32_t next_file_ = 1;
  std::unordered_map<uint32_t, CompletionTarget*> targets_;
  std::vector<std::unique_ptr<StreamQueue>> queues_;
  std::vector<StreamQueue*> free_queues_;
  size_t leased_ = 0;
  std::once_flag prewarm_once_;
  std::thread prewarm_;
  std::unique_ptr<AgentLink> link_;  // last: it goes before the memory it works on
};

}  // namespace pulse::lsm
