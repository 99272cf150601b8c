// How a host of the LSM service starts or reaches its agent, as its options say, and what the agent
// told of itself. Blocking and errors: link/agent_link.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "link/agent_link.h"
#include "services/lsm/core/options.h"

namespace pulse::lsm {

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(const Options& options);
// `cancel_fd` and `may_fall_back` as in link/agent_link.h.
absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const Options& options, int cancel_fd,
                                                          bool* may_fall_back = nullptr);

// Has the agent do all of a compaction (placement/task_wire.h). The descriptors stay the caller's.
// An errno of EBUSY: the agent has no slot free.
absl::Status SendTask(AgentLink* link, int request, int reply);

// How many whole compactions the agent runs at a time, and how fast a core of it is, a host's being
// 1, as it says itself. Of an embedded agent 0 and 1: its host runs them.
int MaxTasks(const AgentLink& link);
double CoreSpeed(const AgentLink& link);

}  // namespace pulse::lsm
