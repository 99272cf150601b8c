// The LSM service as agents, hosts and those who watch know it.
#pragma once

#include "agent/service_spec.h"

namespace pulse::lsm {

extern const ServiceSpec kSpec;

}  // namespace pulse::lsm
