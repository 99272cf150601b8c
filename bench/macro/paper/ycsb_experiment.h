// The YCSB workloads as an experiment of the paper.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/macro/opponent.h"
#include "bench/macro/paper/experiment.h"

namespace pulse::bench {

struct YcsbOpponents {
  size_t count = 0;
  std::function<std::vector<Opponent>(const Session&, const PulseTarget&)> make;
};
std::unique_ptr<Experiment> MakeYcsbExperiment(YcsbOpponents opponents);

// The same with an agent of its own process. Optional.
struct PlacedAgent {
  std::string profile;
  std::vector<std::string> agent_options;
};
std::unique_ptr<Experiment> MakeYcsbExperiment(YcsbOpponents opponents, PlacedAgent placed);

}  // namespace pulse::bench
