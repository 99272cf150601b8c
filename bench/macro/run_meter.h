// What a child measures around its work: wall time, CPU time of host and agent, context switches.
// Start and Stop from one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "bench/macro/cpu_meter.h"
#include "bench/macro/opponent.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

class RunMeter {
 public:
  // For an agent in its own process, finds that process: it must be up.
  static absl::StatusOr<std::unique_ptr<RunMeter>> Create(const Opponent& opponent);

  absl::Status Start();

  // Ends the wall time; CPU time goes on until Stop(), for work that outlives the measured one.
  void StopWall();

  // Adds wall_s, host_cpu_s, compaction_cpu_s (of it), agent_cpu_s, voluntary_switches and
  // involuntary_switches to `result`.
  absl::Status Stop(nlohmann::json* result);

  double wall_seconds() const { return static_cast<double>(wall_nanos_) / 1e9; }

 private:
  explicit RunMeter(CpuMeter::Agent agent, pid_t pid) : cpu_(agent, pid) {}

  CpuMeter cpu_;
  int64_t start_ = 0;
  int64_t wall_nanos_ = 0;
};

}  // namespace pulse::bench
