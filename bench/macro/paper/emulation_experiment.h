// The check of the virtual DPU itself, as an experiment: how fast it does a whole compaction.
#pragma once

#include <memory>

#include "bench/macro/paper/experiment.h"

namespace pulse::bench {

std::unique_ptr<Experiment> MakeEmulationExperiment();

}  // namespace pulse::bench
