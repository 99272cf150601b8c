// MergeAgent: what an agent does of graphs: whole compactions, by the plans of runs/merge.h, with
// its own CPUs and memory, so that the host's are free. Section III-B of the DSA paper, with an
// agent in the place of the on-chip engine. The host's half is host_merger.h.
//
// Hosts are not trusted. A run's bytes are copied to memory of the agent's own before anything of
// them is relied on, or mapped where they are in memory that is sealed against all change; the
// reader of runs checks them. What a host may have of threads and memory is bounded, and the
// agent refuses what is more: the host then merges by itself.
//
// The threads give way, as those of ops do (SCHED_BATCH, nice 5; SCHED_IDLE beside a network
// front).
//
// Threads: any. The destructor ends what is under way and waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "agent/compute_pool.h"
#include "agent/service_spec.h"
#include "base/numbers.h"
#include "base/private_memory.h"
#include "services/graph/engines/shared_mappings.h"

namespace pulse::graph::engines {

struct MergeAgentOptions {
  int threads = 1;
  std::vector<int> cpus;  // empty: any
  bool idle_only = false;
  // In bytes, each by itself: of the inputs of all compactions under way together; of what one of
  // them merges at a time; of hosts' memory that stays mapped.
  uint64_t most_memory = uint64_t{1} << 30;
  // For tests: called by a compaction's thread before each piece of its output is written.
  std::function<void()> before_write = {};
};

struct MergeCounters {
  std::atomic<uint64_t> merges{0};  // begun
  std::atomic<uint64_t> failed{0};  // of them; also those that the host gave up
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> running{0};
  std::atomic<uint64_t> waiting{0};
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};
  std::atomic<uint64_t> bytes_copied{0};   // of bytes_out, as they were
  std::atomic<uint64_t> bytes_encoded{0};  // of bytes_out, anew
  std::atomic<uint64_t> cpu_nanos{0};
};

NumberGroup MergeNumbers(const MergeCounters& counters);

class MergeAgent {
 public:
  // So many compactions of one host wait or run at a time, and for each thread of the agent's.
  static constexpr size_t kMostOfSession = 4;
  static constexpr size_t kMostOfThread = 4;
  // Of memory that is kept for the next compactions.
  static constexpr uint64_t kMostSpare = uint64_t{256} << 20;

  explicit MergeAgent(MergeAgentOptions options);
  ~MergeAgent();
  MergeAgent(const MergeAgent&) = delete;
  MergeAgent& operator=(const MergeAgent&) = delete;

  ServiceFactory Factory();
  const MergeAgentOptions& options() const { return options_; }
  MergeCounters& counters() { return counters_; }

  // What is kept of one session's host, as long as a compaction of it is under way, too.
  struct Host {
    explicit Host(std::shared_ptr<MappingBudget> budget) : mappings(std::move(budget)) {}
    std::atomic<size_t> under_way{0};  // compactions
    SharedMappings mappings;
  };
  std::shared_ptr<Host> NewHost() { return std::make_shared<Host>(mappings_); }
  // A session's service, on its worker's thread: takes a compaction's socket.
  absl::Status Start(std::shared_ptr<Host> host, UniqueFd socket);

 private:
  void Run(int socket, SharedMappings* mappings);
  // Memory of at least so many bytes, whose pages are mostly there; it comes back with its owner.
  absl::StatusOr<std::shared_ptr<PrivateMemory>> TakeMemory(uint64_t bytes);

  const MergeAgentOptions options_;
  MergeCounters counters_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> memory_{0};  // that inputs take
  // Sessions, and compactions after them, may outlive this.
  const std::shared_ptr<MappingBudget> mappings_;
  std::mutex spare_mu_;
  uint64_t spare_bytes_ = 0;
  std::vector<PrivateMemory> spare_;  // of earlier inputs, the last one in the back
  ComputePool pool_;                  // last: its threads use the rest
};

}  // namespace pulse::graph::engines
