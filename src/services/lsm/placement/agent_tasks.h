// TaskRunner: the compactions that an external agent does all of, each on a thread of its own (what
// DComp offloads, PulseDB II-C). It knows nothing of RocksDB: it is given the function that does
// the work.
//
// Compactions of level 0 go first, since writers wait for them: of several slots, the last is kept
// for one, and the threads of the others have a lower priority.
//
// Thread-safe. Start never blocks on a task; the destructor cancels all of them and waits. While a
// task runs, its host gets a beat every quarter of a second, with the share of a CPU that the tasks
// have. A task whose host has closed its end of the reply is cancelled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "services/lsm/placement/cpu_share.h"
#include "services/lsm/placement/task_counters.h"
#include "services/lsm/placement/task_slots.h"
#include "services/lsm/placement/task_wire.h"

namespace pulse::lsm {

// Does the task and returns its result. Unimplemented for one that this agent will never be able to
// do. It must check `canceled` often, and end soon once that is set.
using TaskFunction =
    std::function<absl::StatusOr<std::string>(const TaskRequest&, std::atomic<bool>* canceled)>;

struct TaskRunnerOptions {
  size_t max_tasks = 1;   // at a time; more are refused
  std::vector<int> cpus;  // of the tasks' threads; empty: all
  int nice = 0;
  int deeper_nice = 0;                    // more, for those that are not urgent
  bool background = false;                // SCHED_BATCH
  int beat_ms = kTaskBeatMs;              // between two signs of life for a host
  std::function<void()> on_thread_start;  // on each task's thread, before its task; may be empty
};

class TaskRunner {
 public:
  TaskRunner(TaskRunnerOptions options, TaskFunction function);
  ~TaskRunner();
  TaskRunner(const TaskRunner&) = delete;
  TaskRunner& operator=(const TaskRunner&) = delete;

  // Begins the task whose request is in `request`, a sealed memfd; it answers with TaskFrames on
  // `reply`, a stream socket. InvalidArgument for a bad request; an errno of EBUSY when no slot is
  // free for it.
  absl::Status Start(UniqueFd request, UniqueFd reply);

  size_t running() const { return counters_->running.load(std::memory_order_relaxed); }
  size_t max_tasks() const { return options_.max_tasks; }
  // For the agent's status; may outlive this.
  std::shared_ptr<const TaskCounters> counters() const { return counters_; }

 private:
  struct Task {
    TaskRequest request;
    UniqueFd reply;
    std::shared_ptr<TaskSlots::Slot> slot;
    std::mutex reply_mu;  // frames are written whole
    std::atomic<bool> canceled{false};
    std::atomic<bool> ended{false};
    std::atomic<pid_t> tid{0};  // while it runs
    std::thread thread;
  };

  void Run(Task* task);
  void BeatLoop();
  // The share that the next beat tells.
  uint32_t ShareLocked();
  // Joins the tasks that have ended.
  void ReapLocked();

  const TaskRunnerOptions options_;
  const TaskFunction function_;
  const std::shared_ptr<TaskCounters> counters_ = std::make_shared<TaskCounters>();
  std::atomic<bool> stopping_{false};
  TaskSlots slots_;  // outlives the tasks
  std::mutex mu_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::list<std::unique_ptr<Task>> tasks_;
  CpuShare share_;
  int64_t ended_nanos_ = 0;  // CPU time of tasks that have ended
  std::thread beat_;         // started with the first task
};

}  // namespace pulse::lsm
