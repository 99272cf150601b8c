#include "services/ops/remote/spec.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "services/ops/remote/check.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {
namespace {

constexpr int kMostThreads = 1024;

constexpr const char* kRequestKinds[] = {"prepare", "chunk"};

constexpr OptionSpec kOptions[] = {
    {.name = "--ops",
     .kind = OptionSpec::Kind::kFlag,
     .help = "offer operators: chunks of pulse compress, decompress and filter --agent"},
    {.name = "--ops-threads",
     .kind = OptionSpec::Kind::kInteger,
     .help = "of --ops: threads that process chunks (default: one for each CPU of the agent)",
     .least = 1,
     .most = kMostThreads,
     .needs = {"--ops"}}};
constexpr const OptionSpec& kOps = kOptions[0];
constexpr const OptionSpec& kOpsThreads = kOptions[1];

class Module : public ServiceModule {
 public:
  explicit Module(OpsAgentOptions options)
      : describe_(absl::StrCat(", operators on ", options.threads,
                               options.threads == 1 ? " thread" : " threads",
                               options.idle_only ? " that give way" : "")),
        agent_(std::move(options)) {}

  std::optional<OfferedService> Offer() override { return Offered(&agent_); }
  NumberGroup Numbers() const override { return OpsNumbers(agent_.counters()); }
  std::string Describe() const override { return describe_; }

 private:
  const std::string describe_;
  mutable OpsAgent agent_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& options,
                                                    const AgentFacts& facts) {
  if (!options.Flag(kOps)) return nullptr;
  OpsAgentOptions ops;
  const int cpus = facts.cpus.empty() ? AllowedCpus() : static_cast<int>(facts.cpus.size());
  ops.threads = static_cast<int>(options.Integer(kOpsThreads).value_or(std::max(1, cpus)));
  ops.cpus = facts.cpus;
  // Those come before this one in the table of services.
  ops.idle_only = std::any_of(facts.opened.begin(), facts.opened.end(),
                              [](const auto& one) { return one.second->front() != nullptr; });
  return std::make_unique<Module>(std::move(ops));
}

}  // namespace

const ServiceSpec kSpec = {.name = "ops",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent --ops",
                           .request_kinds = kRequestKinds};

const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

OfferedService Offered(OpsAgent* agent) {
  const auto threads = static_cast<uint64_t>(std::min(agent->threads(), (1 << kThreadBits) - 1));
  return {
      &kSpec, agent->Factory(), {threads | uint64_t{CodecVersions()} << kThreadBits, EngineBits()}};
}

}  // namespace pulse::ops::remote
