// What operations share: which processors they use, and what they report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "services/ops/engine.h"
#include "services/ops/queue.h"
#include "services/ops/rates.h"
#include "services/ops/scheduler.h"

namespace pulse::ops {

struct Processors {
  // One lane for each CPU. Both empty: every CPU that this process may use is the host's.
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
  Placement placement;
  RateTable* rates = nullptr;
  // Now and then, by the calling thread: bytes read and written so far. False: cancel.
  std::function<bool(uint64_t in, uint64_t out)> progress;
};

// The traits of the engines to be made: host's first, and agent's if it has CPUs. InvalidArgument:
// the placement names a side that has none. `name` is that of the codec.
absl::StatusOr<std::vector<EngineTraits>> EnginesFor(const Processors& processors,
                                                     absl::string_view name);

}  // namespace pulse::ops
