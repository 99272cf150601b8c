// The echo service as agents and hosts know it; offered with `pulse agent --echo`.
#pragma once

#include "agent/service_module.h"

namespace pulse::echo {

extern const ServiceSpec kSpec;
extern const ServiceEntry kEntry;

// The agent's half for one session: each request comes back.
std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* engine);

}  // namespace pulse::echo
