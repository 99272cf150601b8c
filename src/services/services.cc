#include "services/services.h"

#include "services/echo/spec.h"
#include "services/files/agent_module.h"
#include "services/lsm/plugin/agent_module.h"

namespace pulse {
namespace {

constexpr const ServiceEntry* kServices[] = {&lsm::kEntry, &files::kEntry, &echo::kEntry};

}  // namespace

std::span<const ServiceEntry* const> AllServices() { return kServices; }

}  // namespace pulse
