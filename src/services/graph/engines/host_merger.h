// AgentMerger: compactions by an agent process (`pulse agent --graph`), the host's half. The agent
// is given the files of the runs and of the output, and does the whole of it: reading, finding the
// order, encoding, copies by plan, writing. The host's thread sleeps meanwhile. Section III-B of
// the DSA paper. ThreadMerger: the same by a thread of this process, on CPUs of its own.
//
// An agent that dies, hangs, refuses or talks nonsense is an Unavailable, which says so; the next
// compaction connects again. Its output is checked by whoever opens the run.
//
// Thread-safe. Merge blocks. The destructor does not wait for an agent.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "link/agent_link.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph::engines {

struct AgentMergerOptions {
  std::string socket;
  // An agent without a sign of life for so long counts as lost.
  int64_t silence_ms = 10'000;
  // One that takes longer than this and so many bytes of the runs a second, too, whatever it says.
  uint64_t least_rate = 10'000'000;
};

class AgentMerger : public Merger {
 public:
  explicit AgentMerger(AgentMergerOptions options) : options_(std::move(options)) {}

  // OK: an agent is there, and offers compactions. Else why not, and how to start one.
  absl::Status Connect();
  absl::StatusOr<MergeStats> Merge(const MergeJob& job) override;

 private:
  absl::StatusOr<std::shared_ptr<AgentLink>> Connected();

  const AgentMergerOptions options_;
  std::mutex mu_;
  std::shared_ptr<AgentLink> link_;  // null: not connected
};

class ThreadMerger : public Merger {
 public:
  // `cpus`: of the thread; empty: any.
  explicit ThreadMerger(std::vector<int> cpus) : cpus_(std::move(cpus)) {}
  absl::StatusOr<MergeStats> Merge(const MergeJob& job) override;

 private:
  const std::vector<int> cpus_;
};

}  // namespace pulse::graph::engines
