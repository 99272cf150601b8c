#include "services/ops/operation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"

namespace pulse::ops {

absl::StatusOr<std::vector<EngineTraits>> EnginesFor(const Processors& processors,
                                                     absl::string_view name) {
  std::vector<EngineTraits> engines;
  if (processors.in_calling_thread) {
    engines.push_back({std::string(name), Side::kHost, 1, {}});
    return engines;
  }
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

absl::StatusOr<Engine*> EngineCache::Get(const std::string& what, const Make& make) {
  const auto it = engines_.find(what);
  if (it != engines_.end()) return it->second.get();
  PULSE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made, make());
  return engines_.emplace(what, std::move(made)).first->second.get();
}

absl::StatusOr<Engine*> KeepEngine(const Processors& processors, const std::string& what,
                                   const EngineCache::Make& make,
                                   std::vector<std::unique_ptr<Engine>>& owned) {
  if (processors.in_calling_thread && processors.engines != nullptr) {
    return processors.engines->Get(what, make);
  }
  PULSE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made, make());
  owned.push_back(std::move(made));
  return owned.back().get();
}

}  // namespace pulse::ops
