// The compaction-alone probe: freeze a level 0, then let each opponent compact a copy of it.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "bench/macro/session.h"

namespace pulse::bench {

struct CompactionArgs {
  CommonArgs common;
  std::vector<uint64_t> values = {128, 512, 1024, 2048};
  bool unique_keys = false;
};

// The frozen level 0 that all opponents start from.
struct Frozen {
  std::string name;  // of its sub-directory
  uint64_t value_bytes = 0;
  uint64_t num = 0;  // writes that made it
  uint64_t files = 0;
  uint64_t table_bytes = 0;
};

// Runs the whole benchmark and prints its tables. Main thread only.
absl::Status RunCompactionBench(const CompactionArgs& args);

// For other benchmarks: a level 0 of `size` in values of 1 KiB, frozen, and compacted by
// `opponents` in rounds. Says no tables. The result has "opponents" and "runs".
absl::StatusOr<nlohmann::json> RunFrozen(Session* session, uint64_t size, const std::string& label,
                                         const std::vector<Opponent>& opponents);
// Disk that it takes at the most.
uint64_t FrozenSpace(uint64_t size);

// The report on one value size, as text for people; adds the same to `json`.
std::string ReportCompaction(const Session& session, const Frozen& frozen,
                             const std::vector<Opponent>& opponents, const RunSet& runs,
                             nlohmann::json* json);

}  // namespace pulse::bench
