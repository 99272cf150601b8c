// The echo service as agents and hosts know it; offered with `pulse agent --echo`.
#pragma once

#include "agent/service_module.h"

namespace pulse::echo {

extern const ServiceSpec kSpec;
extern const ServiceEntry kEntry;

}  // namespace pulse::echo
