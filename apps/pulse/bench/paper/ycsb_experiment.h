// The YCSB workloads as an experiment of the paper.
#pragma once

#include <memory>

#include "bench/paper/experiment.h"

namespace pulse::bench {

std::unique_ptr<Experiment> MakeYcsbExperiment();

}  // namespace pulse::bench
