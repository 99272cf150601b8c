// Designs: which processor does what for a server whose keys are in memory, by the names of the
// DPU-KV paper (sections 4.3 to 4.5), changed while it runs:
//
//   cpu   all on the host: loops on its CPUs carry commands out themselves
//   dpu   all on the agent's CPUs
//   lat   loops (receive, split, reply) on the agent's CPUs, commands on the host's, a thread for
//         each loop
//   sav   the same with one thread of the host for all loops
//   dual  as sav, but a quarter of the loops, one at least, are on the host as with cpu
//   shrd  half of the loops as with cpu, half as with dpu
//   adaptive  one of cpu, lat, sav and dual at a time, by measurement (adaptive_choice.h). Not dpu
//         and shrd: they have to move the keys, which the keyspace does before they are set.
//
// A loop takes up a change before its next batch of commands, so none is lost or reordered: a
// connection has one batch under way at a time.
//
// Threads: Set, name and status are thread-safe; WorkerFor is for loops. Nothing blocks but for a
// mutex while the design changes. The object outlives the loops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "net/application.h"
#include "services/redis/adaptive_choice.h"

namespace pulse::redis {

class Designs {
 public:
  // Empty CPUs: any. `no_dual`: why host and agent cannot both serve connections; empty: they can.
  Designs(int loops, std::vector<int> host_cpus, std::vector<int> agent_cpus,
          std::string no_dual = {});
  ~Designs();

  // InvalidArgument, or FailedPrecondition where this set-up cannot run it: says why. The old one
  // stays in force.
  absl::Status Set(std::string_view name);
  // Whether Set would take it now.
  absl::Status Check(std::string_view name) const;
  // What was set.
  std::string name() const;
  struct Status {
    std::string now;             // what is in force: another name where `adaptive` was set
    uint64_t changes = 0;        // of what is in force
    int64_t host_cpu_nanos = 0;  // of loops and threads on the host, so far
  };
  Status status() const;
  // The loops have ended. What the threads have begun is carried out.
  void StopWorkers();

  // Whether no CPU of the agent's is the host's, too: then its loops look for events instead of
  // sleeping, as their time is theirs, and who wakes them pays for it.
  bool agent_is_alone() const { return agent_alone_; }
  // Of the calling loop: the thread that carries its next `requests` commands out; null: itself.
  // Moves the loop to the CPUs of the design.
  WorkerPool* WorkerFor(net::EventLoop* loop, size_t requests) {
    const uint64_t now = generation_.load(std::memory_order_acquire);
    thread_local Seen seen;
    if (seen.owner != this || seen.generation != now) TakeUp(loop, &seen);
    std::atomic<uint64_t>& sum = loops_[static_cast<size_t>(loop->index())].requests;
    sum.store(sum.load(std::memory_order_relaxed) + requests, std::memory_order_relaxed);
    return seen.worker;
  }

 private:
  struct Seen {
    const Designs* owner = nullptr;
    uint64_t generation = 0;
    WorkerPool* worker = nullptr;
  };
  struct alignas(64) LoopFacts {
    std::atomic<uint64_t> requests{0};  // the loop writes it
    // Of the mutex.
    int thread = 0;  // its number; 0: it has carried nothing out yet
    bool on_host = true;
    int64_t cpu_since = 0;       // of the thread, when on_host last changed
    int64_t host_cpu_nanos = 0;  // until then
  };
  void TakeUp(net::EventLoop* loop, Seen* seen);
  // With the mutex. Returns the name as it is known.
  absl::StatusOr<std::string_view> CheckLocked(std::string_view name) const;
  // NoThreadError(): what is in force stays so.
  absl::Status Enforce(std::string_view name);
  bool IsOnHost(size_t loop) const;
  int64_t HostCpu() const;
  void RunAdaptive();
  // What `adaptive` chooses among; it begins with the first.
  std::vector<std::string_view> Admissible() const;

  const std::vector<int> host_cpus_;
  const std::vector<int> agent_cpus_;
  const bool agent_alone_;
  const std::string no_dual_;
  std::vector<LoopFacts> loops_;
  mutable std::mutex mutex_;
  std::string name_ = "cpu";  // as set
  std::string now_ = "cpu";   // in force
  uint64_t changes_ = 0;
  std::vector<std::unique_ptr<WorkerPool>> workers_;  // made when they are first needed
  std::atomic<uint64_t> generation_{0};
  std::thread adaptive_;  // made when it is first needed
  std::condition_variable wake_;
  bool stopping_ = false;
};

}  // namespace pulse::redis
