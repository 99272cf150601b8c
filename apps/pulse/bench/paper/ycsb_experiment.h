// The YCSB workloads as an experiment of the paper.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/opponent.h"
#include "bench/paper/experiment.h"

namespace pulse::bench {

std::unique_ptr<Experiment> MakeYcsbExperiment();

// The same with an agent of its own process, and these opponents. Optional.
struct PlacedAgent {
  std::string profile;
  std::vector<std::string> agent_options;
  size_t opponent_count = 0;
  std::function<std::vector<Opponent>(const Session&, const PulseTarget&)> opponents;
};
std::unique_ptr<Experiment> MakeYcsbExperiment(PlacedAgent placed);

}  // namespace pulse::bench
