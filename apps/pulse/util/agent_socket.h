// Who listens on an agent's Unix socket. Thread-safe; blocks for a local connection at most.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace pulse {

struct AgentPeer {
  pid_t pid = 0;  // 0 when it lives in another container
  uid_t uid = 0;
};

// Connects to the socket at `path`, asks the kernel who answers, and hangs up. Errors say how to
// start an agent there.
absl::StatusOr<AgentPeer> FindAgent(const std::string& path);

}  // namespace pulse
