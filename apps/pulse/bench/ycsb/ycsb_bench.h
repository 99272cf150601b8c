// The YCSB workloads, run on one loaded database after the other. Main thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/opponent.h"
#include "bench/pair_stats.h"
#include "bench/session.h"
#include "bench/ycsb/workload_spec.h"

namespace pulse::bench {

struct YcsbPlan {
  std::vector<WorkloadSpec> workloads;
  uint64_t records = 0;
  uint64_t operations = 0;  // of each workload but the load, by all threads together
  uint64_t value_bytes = 1024;
  int threads = 10;
  int jobs = 4;  // RocksDB's
};

// Disk that the runs take at the most.
uint64_t YcsbSpace(const YcsbPlan& plan);

// Stock RocksDB on the host's CPU, on both CPUs, PulseDB: those that the paper's figures ask for.
// The tuned forms of stock take part when `names` says so.
absl::StatusOr<std::vector<Opponent>> YcsbOpponents(const Session& session,
                                                    const std::vector<std::string>& names);

// Runs all workloads with all opponents. Says the tables, and adds settings and "workloads" to the
// session's report.
//
// Every run begins with the same database: stock RocksDB loads it once, on all CPUs, and waits
// until its compactions rest; each run works on a copy (tables as hard links). So no workload sees
// what another one wrote, and an opponent's own load tells only in the load.
absl::Status RunYcsb(Session* session, const YcsbPlan& plan,
                     const std::vector<Opponent>& opponents);

// One workload's tables; the same and the single figures into `section`.
std::string ReportYcsb(const WorkloadSpec& workload, const std::vector<Opponent>& opponents,
                       const RunSet& runs, bool tiny, nlohmann::json* section);

}  // namespace pulse::bench
