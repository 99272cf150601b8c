// The services of this release, which an agent can offer. A new service is a folder beside this
// file and a line in services.cc.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "agent/service_modules.h"

namespace pulse {

// In the order in which an agent opens them. Constants.
std::span<const ServiceEntry* const> AllServices();

// Those that the options ask for. Blocks, and fails, as each of them says.
absl::StatusOr<std::unique_ptr<ServiceModules>> OpenServices(const OptionValues& options,
                                                             const AgentFacts& facts);

}  // namespace pulse
