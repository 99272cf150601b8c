// The whole compactions that an agent runs, as numbers for those who watch.
#pragma once

#include "base/numbers.h"
#include "services/lsm/placement/task_counters.h"

namespace pulse::lsm {

NumberGroup TaskNumbers(const TaskCounters& counters);

}  // namespace pulse::lsm
