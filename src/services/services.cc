#include "services/services.h"

#include <algorithm>

#include "services/echo/spec.h"
#include "services/echo/wire.h"
#include "services/files/spec.h"
#include "services/files/wire.h"
#include "services/front/front_options.h"
#include "services/graph/engines/spec.h"
#include "services/graph/engines/wire.h"
#include "services/kv/agent/front_module.h"
#include "services/kv/agent/wire.h"
#include "services/kv/shm/wire.h"
#include "services/lsm/core/wire.h"
#include "services/lsm/plugin/agent_module.h"
#include "services/offload/front_module.h"
#include "services/ops/ingest/spec.h"
#include "services/ops/remote/spec.h"
#include "services/ops/remote/wire.h"
#include "services/redis/offload/front_module.h"

namespace pulse {
namespace {

constexpr const ServiceEntry* kServices[] = {
    &lsm::kEntry,   &files::kEntry, &echo::kEntry,        &front::kEntry,          &offload::kEntry,
    &redis::kEntry, &kv::kEntry,    &ops::remote::kEntry, &graph::engines::kEntry, &ingest::kEntry};

// Every number that a hello may name, also those that only sockets of other servers know. One that
// is two services' would have a stranger taken for a peer of another release.
constexpr uint32_t kIds[] = {
    lsm::kServiceId,             // 0
    files::kServiceId,           // 1
    ops::remote::kServiceId,     // 2
    graph::engines::kServiceId,  // 3
    kv::kShmService,             // 4
    kv::kLaneService,            // 5
    echo::kServiceId,            // 255
};
static_assert(std::is_sorted(std::begin(kIds), std::end(kIds)) &&
                  std::adjacent_find(std::begin(kIds), std::end(kIds)) == std::end(kIds),
              "each service has an id of its own");

}  // namespace

std::span<const ServiceEntry* const> AllServices() { return kServices; }

absl::StatusOr<std::unique_ptr<ServiceModules>> OpenServices(const OptionValues& options,
                                                             const AgentFacts& facts) {
  if (absl::Status st = front::CheckFronts(kServices, options); !st.ok()) return st;
  return ServiceModules::Open(kServices, options, facts);
}

}  // namespace pulse
