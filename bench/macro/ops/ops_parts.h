// The parts of `pulse bench ops`. Each measures, prints its tables and adds its rows to the report.
// Main thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/macro/ops/corpus.h"
#include "bench/macro/ops/work.h"
#include "nlohmann/json.hpp"
#include "vdpu/profile.h"

namespace pulse::bench {

struct OpsBench {
  std::vector<CorpusFile> files;
  CorpusFile accidents;
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
  std::vector<vdpu::Profile> cards;
  uint64_t chunk = 1 << 20;
  int step = 10;  // of offloaded percent
  int pairs = 5;
  uint64_t seed = 1;
  bool tiny = false;

  nlohmann::json report;
  // What the paper has figures for, by its key in data/ops.json.
  std::map<std::string, double> here;
};

// Tables 2 and 3: the cards and their accelerators.
absl::Status RunCardsPart(OpsBench* bench);
// Their rows of one card: what its profile has, and the paper.
nlohmann::json CardRows(const vdpu::Profile& card);
// Figures 7 and 9 to 12: each library, and the card, by file.
absl::Status RunCodecsPart(OpsBench* bench);
// Figure 13: the queries by size of buffers, and by tasks in flight.
absl::Status RunRegexPart(OpsBench* bench);
// Figure 6: what a task consists of.
absl::Status RunTasksPart(OpsBench* bench);
// Figure 8: moving buffers between memories.
absl::Status RunDmaPart(OpsBench* bench);
// Figure 15: a director that forwards, beside work that loads memory and work that computes.
absl::Status RunRoutingPart(OpsBench* bench);
// Figure 14, and `auto` against the best fixed split of each row.
absl::Status RunOffloadPart(OpsBench* bench);
// `auto` against the best fixed split where speeds or sizes change on the way.
absl::Status RunChangesPart(OpsBench* bench);

inline constexpr double kMiB = 1048576;

}  // namespace pulse::bench
