#include "services/services.h"

#include "services/echo/spec.h"
#include "services/files/spec.h"
#include "services/front/front_options.h"
#include "services/graph/engines/spec.h"
#include "services/kv/agent/front_module.h"
#include "services/lsm/plugin/agent_module.h"
#include "services/offload/front_module.h"
#include "services/ops/remote/spec.h"
#include "services/redis/offload/front_module.h"

namespace pulse {
namespace {

constexpr const ServiceEntry* kServices[] = {
    &lsm::kEntry,   &files::kEntry, &echo::kEntry,        &front::kEntry,         &offload::kEntry,
    &redis::kEntry, &kv::kEntry,    &ops::remote::kEntry, &graph::engines::kEntry};

}  // namespace

std::span<const ServiceEntry* const> AllServices() { return kServices; }

absl::StatusOr<std::unique_ptr<ServiceModules>> OpenServices(const OptionValues& options,
                                                             const AgentFacts& facts) {
  if (absl::Status st = front::CheckFronts(kServices, options); !st.ok()) return st;
  return ServiceModules::Open(kServices, options, facts);
}

}  // namespace pulse
