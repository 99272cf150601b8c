// The agent that merges for a benchmark: a process of `pulse agent --graph` on a CPU of its own,
// and runs in memory that it may map. Main thread only: the agent dies with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/macro/program_process.h"
#include "channel/region.h"
#include "services/graph/engines/host_merger.h"

namespace pulse::bench {

class MergeAgentProcess {
 public:
  // In `dir` lie its socket and its log. On `cpu`; -1: any.
  static absl::StatusOr<std::unique_ptr<MergeAgentProcess>> Start(const std::string& dir, int cpu);
  const std::string& socket() const { return socket_; }
  graph::Merger* merger() { return merger_.get(); }
  // CPU time of all its threads.
  int64_t CpuNanos() const;

 private:
  MergeAgentProcess() = default;
  std::string socket_;
  std::unique_ptr<graph::engines::AgentMerger> merger_;
  ProgramProcess process_;
};

// A run in memory that nobody can change any more, so that an agent may map it.
struct SharedRun {
  std::shared_ptr<const graph::RunReader> reader;
  UniqueFd file;
};
absl::StatusOr<SharedRun> ShareRun(const std::string& bytes);

// Memory of a fixed size, all of it there, that a run is written to by this process or an agent.
class ArenaSink : public graph::RunSink {
 public:
  static absl::StatusOr<std::unique_ptr<ArenaSink>> Create(uint64_t bytes);
  char* Window(uint64_t offset, uint64_t size) override;
  absl::Status Append(absl::string_view bytes) override;
  // For the next run.
  void Clear() { used_ = 0; }
  uint64_t used() const { return used_; }
  int fd() const { return region_.fd(); }
  const char* data() const { return region_.data(); }

 private:
  explicit ArenaSink(Region region) : region_(std::move(region)) {}
  Region region_;
  uint64_t used_ = 0;
};

}  // namespace pulse::bench
