// Experiments made of random writes: throughput, tails, stalls, and who does how much.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/macro/fill_runs.h"
#include "bench/macro/opponent.h"
#include "bench/macro/paper/experiment.h"
#include "bench/macro/paper/figures.h"
#include "bench/macro/session.h"

namespace pulse::bench {

// One line of an experiment's comparison.
struct Comparison {
  std::string label;
  Quantity quantity;  // which decides about the target, too
};

struct FillExperimentSpec {
  std::string name;
  std::string title;
  nlohmann::json paper;
  std::vector<uint64_t> value_sizes = {1024};
  std::vector<uint64_t> quick_sizes = {1024};  // with --quick
  bool overwrite = false;
  uint64_t queue_bytes = kUsualQueueBytes;  // the largest that an opponent has
  bool pool = false;                        // an opponent has one
  size_t opponent_count = 3;
  // PulseDB is reached through the target.
  std::function<std::vector<Opponent>(const Session&, const PulseTarget&)> opponents;
  // Not empty: for all runs PulseDB has one agent in a process of its own, `pulse agent` with
  // these.
  std::vector<std::string> agent_options;
  std::vector<Comparison> comparisons;
  // Not empty: one value size, a row for all of them, and a row for each.
  std::vector<FillPhase> phases;
  bool optional = false;
};

inline constexpr char kAllPhases[] = "all phases";

std::unique_ptr<Experiment> MakeFillExperiment(FillExperimentSpec spec);

}  // namespace pulse::bench
