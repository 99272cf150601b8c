// The operators as agents and hosts know them; offered with `pulse agent --ops`.
#pragma once

#include "agent/service_module.h"
#include "services/ops/remote/agent_service.h"

namespace pulse::ops::remote {

extern const ServiceSpec kSpec;
extern const ServiceEntry kEntry;

// As an agent offers it.
OfferedService Offered(OpsAgent* agent);

}  // namespace pulse::ops::remote
