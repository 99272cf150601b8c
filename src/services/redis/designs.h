// Designs: which processor does what for a server whose keys are in memory, by the names of the
// DPU-KV paper, changed while it runs:
//
//   cpu  all on the host: loops on its CPUs carry commands out themselves
//   dpu  all on the agent's CPUs
//   lat  loops (receive, split, reply) on the agent's CPUs, commands on the host's, a thread for
//        each loop
//   sav  the same with one thread of the host for all loops
//
// A loop takes up a change before its next batch of commands, so none is lost or reordered: a
// connection has one batch under way at a time.
//
// Threads: Set and name are thread-safe; WorkerFor is for loops. Nothing blocks but for a mutex
// while the design changes. The object outlives the loops.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "services/redis/worker_pool.h"

namespace pulse::redis {

class Designs {
 public:
  // Empty CPUs: any.
  Designs(int loops, std::vector<int> host_cpus, std::vector<int> agent_cpus);

  // InvalidArgument, or FailedPrecondition where this set-up cannot run it: says why. The old one
  // stays in force.
  absl::Status Set(std::string_view name);
  std::string name() const;
  // What its threads were given is carried out; the loops have ended.
  void StopWorkers();

  // Of the calling loop: the thread that carries its commands out; null: itself. Moves the loop to
  // the CPUs of the design.
  WorkerPool* WorkerFor(int loop) {
    const uint64_t now = generation_.load(std::memory_order_acquire);
    thread_local Seen seen;
    if (seen.owner != this || seen.generation != now) TakeUp(loop, &seen);
    return seen.worker;
  }

 private:
  struct Seen {
    const Designs* owner = nullptr;
    uint64_t generation = 0;
    WorkerPool* worker = nullptr;
  };
  void TakeUp(int loop, Seen* seen);

  const std::vector<int> host_cpus_;
  const std::vector<int> agent_cpus_;
  const int loops_;
  mutable std::mutex mutex_;
  std::string name_ = "cpu";
  std::vector<std::unique_ptr<WorkerPool>> workers_;  // made when they are first needed
  std::atomic<uint64_t> generation_{0};
};

}  // namespace pulse::redis
