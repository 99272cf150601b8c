#include "services/ops/operation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"

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
  const auto kind = processors.placement.kind;
  const bool remote = processors.agent != nullptr;
  if (remote && !agent.empty()) {
    return absl::InvalidArgumentError(
        "CPUs of this process stand for an agent, or another process is the agent; name one of the "
        "two (--agent-cpus, --agent)");
  }
  const bool agent_only = remote && host.empty() && kind == Placement::Kind::kAgent;
  if (!agent_only && (!host.empty() || agent.empty())) {
    const int lanes = host.empty() ? AllowedCpus() : static_cast<int>(host.size());
    engines.push_back({std::string(name), Side::kHost, std::max(1, lanes), host});
  }
  if (!agent.empty()) {
    engines.push_back(
        {absl::StrCat(name, "@agent"), Side::kAgent, static_cast<int>(agent.size()), agent});
  }
  if ((kind == Placement::Kind::kAgent || kind == Placement::Kind::kSplit) && agent.empty() &&
      !remote) {
    return absl::InvalidArgumentError(
        "this placement needs an agent: name its CPUs with --agent-cpus, its socket with --agent, "
        "or a device with --engine");
  }
  if ((kind == Placement::Kind::kHost || kind == Placement::Kind::kSplit) && host.empty() &&
      !agent.empty()) {
    return absl::InvalidArgumentError(
        "this placement needs the host's CPUs; name them with --cpus");
  }
  return engines;
}

SerialCpus SerialCpusFor(const Processors& processors) {
  if (processors.in_calling_thread) return {};
  const auto& host = processors.host_cpus;
  const auto& agent = processors.agent_cpus;
  const auto kind = processors.placement.kind;
  if (agent.empty() || kind == Placement::Kind::kHost) return {host, host};
  if (host.empty() || kind == Placement::Kind::kAgent) return {agent, agent};
  return {host, agent};
}

QueueOptions OptionsFor(const Processors& processors, const EngineOrder& order) {
  QueueOptions options;
  options.placement = processors.placement;
  options.rates = processors.rates;
  options.in_calling_thread = processors.in_calling_thread;
  if (processors.numbers != nullptr) {
    options.report = [numbers = processors.numbers, task = TaskOf(order)](const auto& report) {
      numbers->Add(task, report);
    };
  }
  return options;
}

absl::StatusOr<Engine*> EngineCache::Get(const std::string& what, const Make& make) {
  const auto it = engines_.find(what);
  if (it != engines_.end()) return it->second.get();
  PULSE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made, make());
  return engines_.emplace(what, std::move(made)).first->second.get();
}

namespace {

// An engine of the cache, if there is one, or a new one that goes to `owned`.
absl::StatusOr<Engine*> KeepEngine(const Processors& processors, const std::string& what,
                                   const EngineCache::Make& make,
                                   std::vector<std::unique_ptr<Engine>>& owned) {
  if (processors.engines != nullptr) return processors.engines->Get(what, make);
  PULSE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made, make());
  owned.push_back(std::move(made));
  return owned.back().get();
}

}  // namespace

absl::StatusOr<std::vector<Engine*>> MakeEngines(const Processors& processors,
                                                 absl::string_view name, const std::string& what,
                                                 const EngineSupplier::MakeLocal& make,
                                                 const EngineOrder& order,
                                                 std::vector<std::unique_ptr<Engine>>& owned) {
  std::vector<Engine*> engines;
  PULSE_ASSIGN_OR_RETURN(const std::vector<EngineTraits> traits, EnginesFor(processors, name));
  EngineSupplier* const lane_agent = processors.in_calling_thread ? processors.lane_agent : nullptr;
  for (const EngineTraits& of : traits) {
    const EngineCache::Make make_one = [&] {
      if (lane_agent == nullptr) return make(of);
      // Its rates are not those of this process.
      return lane_agent->Make(order, {absl::StrCat(name, "@agent"), of.side, of.lanes, of.cpus},
                              make);
    };
    PULSE_ASSIGN_OR_RETURN(
        Engine * engine, KeepEngine(processors, absl::StrCat(what, " ", of.name), make_one, owned));
    engines.push_back(engine);
  }
  if (processors.agent == nullptr || processors.in_calling_thread ||
      processors.placement.kind == Placement::Kind::kHost) {
    return engines;
  }
  const EngineTraits remote{absl::StrCat(name, "@agent"), Side::kAgent, 1, processors.host_cpus};
  const auto made = KeepEngine(
      processors, absl::StrCat(what, " of the agent"),
      [&] { return processors.agent->Make(order, remote, make); }, owned);
  if (made.ok()) {
    engines.push_back(*made);
    return engines;
  }
  const bool full = absl::IsResourceExhausted(made.status());
  if (!(full || absl::IsUnavailable(made.status())) || engines.empty()) return made.status();
  LogOnce(full ? "ops agent full" : "ops agent lost",
          absl::StrCat(made.status().message(), "; the host does ",
                       full ? "this operation by itself" : "all by itself"));
  return engines;
}

}  // namespace pulse::ops
