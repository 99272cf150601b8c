// Compactions of graphs as agents and hosts know them; offered with `pulse agent --graph`.
#pragma once

#include "agent/service_module.h"
#include "services/graph/engines/agent_service.h"

namespace pulse::graph::engines {

extern const ServiceSpec kSpec;
extern const ServiceEntry kEntry;

// As an agent offers it.
OfferedService Offered(MergeAgent* agent);

}  // namespace pulse::graph::engines
