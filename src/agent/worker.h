// Worker: one agent thread with its I/O back-end, serving a set of sessions. PulseDB III-B.3.
//
// The loop: run posted functions, read control messages, take descriptors (a bounded batch from
// every queue of every session, in turn: fairness), submit I/O in one call, harvest, deliver
// completions. When there is nothing to do it spins briefly, raises the sleep flags, looks once
// more, and blocks in epoll_wait: an idle agent uses no CPU.
//
// Start and Stop from any thread; Post and AddSession from any thread; the rest is the worker's
// own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/session.h"
#include "base/wake_event.h"
#include "uring/file_engine.h"

namespace pulse {

// Hears what workers do, to make them as slow as another processor would be. Called on the workers'
// threads; may sleep.
class WorkerPace {
 public:
  virtual ~WorkerPace() = default;
  // A round that did something has ended.
  virtual void DidWork() = 0;
  // A round has found nothing to do, and another one follows at once: to look for work takes no
  // longer on a slow processor than on a fast one.
  virtual void FoundNoWork() = 0;
  // After such rounds one has found something, before DidWork; or the worker falls asleep.
  virtual void StoppedLooking() = 0;
};

struct WorkerOptions {
  std::string name = "pulse-agent";  // at most 15 bytes: shown by top and counted by the benchmarks
  std::vector<int> cpus;
  IoBackendOptions backend;
  // Before sleeping: in general, and for requests that a host will likely make of what it was just
  // given. The longest; how long it really is depends on whether it helps.
  int64_t spin_nanos = 20'000;
  int64_t answer_spin_nanos = 60'000;
  // Do not preempt running threads when woken (SCHED_BATCH): for an agent that shares its CPUs with
  // the threads it works for. On CPUs of its own it makes no difference.
  bool background = false;
  int nice = 0;
  size_t batch = 16;                    // descriptors taken from one queue in one round
  std::shared_ptr<WorkerPace> pace;     // may be none
  std::shared_ptr<AgentStatus> status;  // where the worker enters itself; may be null
};

class Worker {
 public:
  // Starts the thread and waits until its back-end is ready.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(WorkerOptions options);
  // Drains and frees every session, then joins the thread.
  ~Worker();

  // Runs `fn` on the worker's thread soon.
  void Post(std::function<void()> fn);
  // Runs `fn` on the worker's thread and waits for it.
  void Run(const std::function<void()>& fn);

  // On the worker's thread only:
  void AddSession(std::unique_ptr<Session> session);
  // Drains the session; frees it once nothing is in flight, then calls `freed`.
  void EndSession(Session* session, std::function<void()> freed);
  FileEngine* engine() { return engine_.get(); }
  // From any thread.
  size_t session_count() const { return session_count_.load(std::memory_order_relaxed); }
  EngineKind engine_kind() const { return engine_kind_; }

 private:
  struct Ending {
    Session* session;
    std::function<void()> freed;
  };

  explicit Worker(WorkerOptions options) : options_(std::move(options)) {}
  absl::Status Init();
  void Loop();
  bool RunOnce();
  void Sleep();
  bool HandleEvents(int timeout_ms);
  void ArmDueTimer(int64_t when);
  // Tells options_.pace of a round.
  void Looked(bool in_vain);
  void Reap();
  absl::Status Watch(int fd, uint64_t data);
  void Unwatch(Session& session);

  const WorkerOptions options_;
  std::unique_ptr<FileEngine> engine_;
  EngineKind engine_kind_ = EngineKind::kUring;
  UniqueFd epoll_;
  UniqueFd due_timer_;  // wakes the worker for what its engine holds back until a time
  WakeEvent wake_;
  std::mutex mu_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> has_posted_{false};
  std::atomic<bool> stop_{false};
  std::atomic<size_t> session_count_{0};
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<Ending> ending_;
  bool looking_ = false;
  std::thread thread_;
};

}  // namespace pulse
