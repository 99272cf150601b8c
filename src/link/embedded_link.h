// The link to an agent embedded in this process: one worker thread with one session. PulseDB
// III-B.3.
//
// Starting blocks until the worker's I/O back-end is ready. The link's end drains the session.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "agent/service_spec.h"
#include "agent/session.h"
#include "agent/worker.h"
#include "link/agent_link.h"

namespace pulse {

struct EmbeddedOptions {
  const ServiceSpec* service = nullptr;
  ServiceFactory factory;
  WorkerOptions worker;  // its `status` is set here
  MoverKind mover = MoverKind::kShared;
  std::string
      status_path;  // where the agent tells what it does (agent/status_server.h); empty: nowhere
};

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(EmbeddedOptions options);

}  // namespace pulse
