// Random writes with automatic compaction, run by several variants in turn: what `fill` and the
// experiments of `paper` have in common. Main thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/pair_stats.h"
#include "bench/macro/session.h"
#include "bench/macro/variant.h"

namespace pulse::bench {

// Busy threads of nobody's beside a part of the writes.
struct FillPhase {
  std::string name;
  int on_host_cpus = 0;
  int on_agent_cpus = 0;
};

struct FillSettings {
  uint64_t num = 0;  // of writes
  uint64_t value_bytes = 1024;
  int threads = 1;
  DbShape shape;
  // Into a database that has as many writes already: stock RocksDB makes it once, and each run
  // writes into a copy.
  bool overwrite = false;
  bool measure_memory = false;  // of host and agent (MemoryMeter)
  // Not empty: the writes come in so many equal parts, each followed by a wait until compactions
  // rest, while others keep the processors busy.
  std::vector<FillPhase> phases;

  uint64_t data_bytes() const;
  // Disk that a run, and what it begins with, take at the most; a pool takes run_space() more.
  uint64_t run_space() const;
  uint64_t space() const;
};

class FillRuns {
 public:
  FillRuns(Session* session, const FillSettings& settings)
      : session_(session), settings_(settings) {}

  // All rounds of all variants. After its first run each variant's
  // database is read back and compared with what the first variant left. Leaves nothing on disk.
  absl::StatusOr<Runs> Run(const std::vector<Variant>& variants, const std::string& label);

  // One run of `variant`, nothing of which is kept or checked.
  absl::StatusOr<nlohmann::json> Once(const Variant& variant) {
    return RunOne(variant, "", /*first=*/false);
  }

 private:
  nlohmann::json Spec(const Variant& variant, const std::string& dir, uint64_t key_seed) const;
  absl::StatusOr<nlohmann::json> RunOne(const Variant& variant, const std::string& label,
                                        bool first);

  Session* const session_;
  const FillSettings settings_;
  std::optional<Contents> contents_;
};

// Tables of medians, by variant.
std::string FillTables(const std::vector<Variant>& variants, const RunSet& runs);

}  // namespace pulse::bench
