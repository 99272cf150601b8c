// What a run's child measures around work on its database, and how it words latencies.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/cpu_meter.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

// Wall time, CPU time of host and agent, context switches. Start and Stop from one thread.
class RunMeter {
 public:
  // For an agent in its own process, finds that process: it must be up.
  static absl::StatusOr<std::unique_ptr<RunMeter>> Create(const Variant& variant);

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

// Does `work` and waits until the compactions it left behind rest. The result has wall_s of the
// work; settle_s, the wait; CPU time of host and agent over both, since what is left behind is owed
// work; stall_share, the part of wall_s in which RocksDB held the foreground up (one writer waits
// for all in a stall, however many threads write); delayed_share and stopped_share, of samples each
// 10 ms; the bytes of flushes and compactions, and PulseDB's syncs. `db` was opened for this as
// `variant`. Without `settle` it does not wait.
absl::StatusOr<nlohmann::json> MeasureRun(BenchDb* db, const Variant& variant,
                                          const std::function<absl::Status()>& work,
                                          bool settle = true);

// Adds mean_us, p50_us, p99_us, p99.9_us, p99.99_us and max_us, each with `prefix` before it, of
// nanoseconds.
void AddLatencies(const Histogram& latency, const std::string& prefix, nlohmann::json* result);

}  // namespace pulse::bench
