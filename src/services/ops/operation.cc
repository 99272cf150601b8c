#include "services/ops/operation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"

namespace pulse::ops {

absl::StatusOr<std::vector<EngineTraits>> EnginesFor(const Processors& processors,
                                                     absl::string_view name) {
  std::vector<EngineTraits> engines;
  const auto& host = processors.host_cpus;
  const auto& agent = processors.agent_cpus;
  if (!host.empty() || agent.empty()) {
    const int lanes = host.empty() ? AllowedCpus() : static_cast<int>(host.size());
    engines.push_back({std::string(name), Side::kHost, std::max(1, lanes), host});
  }
  if (!agent.empty()) {
    engines.push_back(
        {absl::StrCat(name, "@agent"), Side::kAgent, static_cast<int>(agent.size()), agent});
  }
  const auto kind = processors.placement.kind;
  if ((kind == Placement::Kind::kAgent || kind == Placement::Kind::kSplit) && agent.empty()) {
    return absl::InvalidArgumentError(
        "this placement needs an agent's CPUs; name them with --agent-cpus");
  }
  if ((kind == Placement::Kind::kHost || kind == Placement::Kind::kSplit) && host.empty() &&
      !agent.empty()) {
    return absl::InvalidArgumentError(
        "this placement needs the host's CPUs; name them with --cpus");
  }
  return engines;
}

}  // namespace pulse::ops
