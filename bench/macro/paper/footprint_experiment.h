// Section IV.G: the memory that PulseDB takes.
#pragma once

#include <memory>

#include "bench/macro/paper/experiment.h"

namespace pulse::bench {

std::unique_ptr<Experiment> MakeFootprintExperiment();

}  // namespace pulse::bench
