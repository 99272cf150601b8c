// Whether `pulse serve` puts an agent in front of its server: as --offload says, and by default
// where the agent has CPUs of its own. On CPUs that both share, forwarding a write through the
// agent costs more than its reads save: on two of them, SETs came to three quarters.
//
// Pure functions: any thread, nothing blocks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::redis {

enum class OffloadMode { kAuto, kOn, kOff };

struct OffloadFacts {
  OffloadMode mode = OffloadMode::kAuto;
  std::string uri;                // --uri
  bool separate_agent = false;    // --host-socket: clients come to another agent
  std::vector<int> server_cpus;   // --cpus; empty: those of the process
  std::vector<int> agent_cpus;    // --agent-cpus; empty: those of the process
  std::vector<int> process_cpus;  // that the process may use; empty: not known
};

struct OffloadChoice {
  bool on = false;
  std::string reason;  // a clause, for the log
};

// InvalidArgument: --offload on where no agent can be in front, with the remedy.
absl::StatusOr<OffloadChoice> ChooseOffload(const OffloadFacts& facts);

// What the default does on a machine where a process may use these CPUs, for `pulse doctor`.
std::string DescribeDefaultOffload(const std::vector<int>& process_cpus);

}  // namespace pulse::redis
