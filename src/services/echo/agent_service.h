// The agent's half of the echo service for one session: each request comes back.
#pragma once

#include <memory>

#include "agent/service.h"

namespace pulse::echo {

std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* engine);

}  // namespace pulse::echo
