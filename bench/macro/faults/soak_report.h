// What a soak found, as text and as JSON. Plain values and computation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/macro/faults/soak_samples.h"

namespace pulse::bench {

struct SoakOutcome {
  double seconds = 0;  // of the load that was sampled
  SoakLoad::Figures figures;
  Stats stats = {};
  std::array<uint64_t, kAgentFaults> faults{};
  std::vector<NamedTrend> trends;
  SoakSpeeds speeds;
  double worst_write_ms = 0;
  uint64_t keys_checked = 0;  // on stock RocksDB, after the end
  uint64_t keys_wrong = 0;
  bool checked = false;               // everything was read back
  std::vector<std::string> problems;  // of any kind, worded
};

// Growth is listed among the problems, so that these alone decide.
bool Passed(const SoakOutcome& outcome);

nlohmann::json ToJson(const SoakOutcome& outcome);
std::string Render(const nlohmann::json& outcome);

}  // namespace pulse::bench
