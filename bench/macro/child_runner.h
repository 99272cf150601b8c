// Every measured run happens in a fresh process on processors of its own: nothing is left over from
// the run before, and what the process used is what the run used. The parent starts this program
// again as `pulse bench child SPEC`; the child prints its result as one line of JSON.
// Main thread only.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

struct ChildOptions {
  std::vector<int> cpus;         // where it may run; empty: wherever this process may
  double timeout_seconds = 900;  // then it is killed
  std::function<void()> tick;    // called every tick_millis while it runs
  int tick_millis = 500;
  // Asked after each tick: true kills the child, which then comes back as Aborted. None: it is let
  // alone.
  std::function<bool()> enough;
};

// Runs spec["job"] in a child and returns what it printed. Its error, its death by a signal and a
// timeout come back as statuses.
absl::StatusOr<nlohmann::json> RunChild(const nlohmann::json& spec, const ChildOptions& options);

// InvalidArgument, with the processors there are, unless this process may use all of `cpus`.
absl::Status CheckCpus(const std::vector<int>& cpus);

}  // namespace pulse::bench
