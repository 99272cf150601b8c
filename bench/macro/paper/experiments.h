// The kinds of experiments, and who takes part: as data/experiments.json says. Main thread only.
#pragma once

#include <memory>
#include <vector>

#include "bench/macro/experiment.h"
#include "bench/macro/session.h"

namespace pulse::bench {

// Random writes: throughput, tails, stalls, memory, and who does how much.
std::unique_ptr<Experiment> MakeFillExperiment(const nlohmann::json& spec);
// The YCSB workloads; with "agent_options" on an agent of its own process.
std::unique_ptr<Experiment> MakeYcsbExperiment(const nlohmann::json& spec);
// The check of the virtual DPU itself: how fast it does a whole compaction.
std::unique_ptr<Experiment> MakeEmulationExperiment(const nlohmann::json& spec);

// Those of `names`; PulseDB is reached through `target`.
std::vector<Variant> ExperimentVariants(const nlohmann::json& names, const Session& session,
                                        const PulseTarget& target);

}  // namespace pulse::bench
