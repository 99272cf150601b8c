// What a soak looks at once a second, and what follows from it: trends, throughput with and without
// an agent. Main thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "bench/macro/faults/soak_load.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/soak_agent.h"
#include "nlohmann/json.hpp"
#include "pulse/rocksdb.h"

namespace pulse::bench {

// What a process holds. Zero when it is gone.
struct ProcessUse {
  uint64_t rss_bytes = 0;  // shared memory included
  uint64_t anonymous_bytes = 0;
  uint64_t descriptors = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessUse, rss_bytes, anonymous_bytes, descriptors)
ProcessUse UseOf(pid_t pid);

// Rates and deltas are those of the interval that ends at `at_s`.
struct SoakSample {
  double at_s = 0;
  double seconds = 0;
  ProcessUse host;
  ProcessUse agent;  // zero without one
  double ops_per_s = 0;
  double worst_write_ms = 0;
  uint64_t bytes_persisted = 0;
  uint64_t bytes_inline = 0;
  uint64_t failovers = 0;
  // At the end of the interval.
  uint64_t queued_bytes = 0;
  uint64_t queued_requests = 0;
  double agentless_share = 0;
  bool disturbed = false;  // the agent was stopped, slowed, ended or started in it
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SoakSample, at_s, seconds, host, agent, ops_per_s,
                                   worst_write_ms, bytes_persisted, bytes_inline, failovers,
                                   queued_bytes, queued_requests, agentless_share, disturbed)

class SoakSampler {
 public:
  // `start` is the time 0 of all samples. The agent and the load must outlive it.
  SoakSampler(int64_t start, const rocksdb::FileSystem* fs, SoakAgent* agent, SoakLoad* load);

  void Take(int64_t now, bool disturbed);

  const std::vector<SoakSample>& samples() const { return samples_; }
  Stats stats() const;

 private:
  const int64_t start_;
  const rocksdb::FileSystem* const fs_;
  SoakAgent* const agent_;
  SoakLoad* const load_;
  int64_t last_;
  uint64_t last_ops_;
  Stats last_stats_;
  std::vector<SoakSample> samples_;
};

struct NamedTrend {
  const char* name;
  bool bytes;
  Trend trend;
};

// Memory and descriptors of both processes, and what waits in the queues. The tolerances are part
// of what the soak promises.
inline constexpr double kTrendShare = 0.1;
inline constexpr double kTrendFloorBytes = 16 << 20;
inline constexpr double kTrendFloorDescriptors = 16;
inline constexpr double kTrendFloorRequests = 256;
std::vector<NamedTrend> JudgeTrends(const std::vector<SoakSample>& samples);

// Medians of operations per second; 0 where no sample was of the kind.
struct SoakSpeeds {
  double with_agent = 0;  // undisturbed
  double disturbed = 0;   // partly without, stopped or slowed
  double without = 0;     // no agent in all of the interval
  size_t with_samples = 0;
  size_t disturbed_samples = 0;
  size_t without_samples = 0;
};
SoakSpeeds SpeedsOf(const std::vector<SoakSample>& samples);

}  // namespace pulse::bench
