// The services of this release, which an agent can offer. A new service is a folder beside this
// file and a line in services.cc.
#pragma once

#include <span>

#include "agent/service_module.h"

namespace pulse {

// In the order in which an agent opens them. Constants.
std::span<const ServiceEntry* const> AllServices();

}  // namespace pulse
