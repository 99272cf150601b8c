// What the offload engine counts beside its front, for people and metrics.
#pragma once

#include <vector>

#include "agent/numbers.h"
#include "services/offload/engine.h"

namespace pulse::offload {

std::vector<Number> FrontNumbers(const EngineStats& stats);

}  // namespace pulse::offload
