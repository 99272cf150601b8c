// The file service as agents, hosts and those who watch know it.
#pragma once

#include "agent/service_spec.h"

namespace pulse::files {

extern const ServiceSpec kSpec;

}  // namespace pulse::files
