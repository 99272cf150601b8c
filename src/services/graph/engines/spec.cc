#include "services/graph/engines/spec.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/graph/engines/wire.h"

namespace pulse::graph::engines {
namespace {

constexpr int64_t kMostMemoryMib = int64_t{1} << 20;

constexpr OptionSpec kOptions[] = {
    {.name = "--graph",
     .kind = OptionSpec::Kind::kFlag,
     .help = "offer compactions of graph databases: pulse graph --engine agent"},
    {.name = "--graph-threads",
     .kind = OptionSpec::Kind::kInteger,
     .help = "of --graph: compactions at a time",
     .value = "1",
     .least = 1,
     .most = 256,
     .needs = {"--graph"}},
    {.name = "--graph-memory",
     .kind = OptionSpec::Kind::kInteger,
     .help = "of --graph: MiB for the runs that are merged; hosts do larger compactions themselves",
     .value = "1024",
     .least = 1,
     .most = kMostMemoryMib,
     .needs = {"--graph"}}};
constexpr const OptionSpec& kGraph = kOptions[0];
constexpr const OptionSpec& kThreads = kOptions[1];
constexpr const OptionSpec& kMemory = kOptions[2];

class Module : public ServiceModule {
 public:
  explicit Module(MergeAgentOptions options)
      : describe_(absl::StrCat(", compactions of graphs on ", options.threads,
                               options.threads == 1 ? " thread" : " threads")),
        agent_(std::move(options)) {}

  std::optional<OfferedService> Offer() override { return Offered(&agent_); }
  NumberGroup Numbers() const override { return MergeNumbers(agent_.counters()); }
  std::string Describe() const override { return describe_; }

 private:
  const std::string describe_;
  mutable MergeAgent agent_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& options,
                                                    const AgentFacts& facts) {
  if (!options.Flag(kGraph)) return nullptr;
  MergeAgentOptions merges;
  merges.threads = static_cast<int>(options.Integer(kThreads).value_or(1));
  merges.most_memory = static_cast<uint64_t>(options.Integer(kMemory).value_or(1024)) << 20;
  merges.cpus = facts.cpus;
  // Those come before this one in the table of services.
  merges.idle_only = std::any_of(facts.opened.begin(), facts.opened.end(),
                                 [](const auto& one) { return one.second->front() != nullptr; });
  return std::make_unique<Module>(std::move(merges));
}

}  // namespace

const ServiceSpec kSpec = {.name = "graph",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent --graph"};

const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

OfferedService Offered(MergeAgent* agent) { return {&kSpec, agent->Factory()}; }

}  // namespace pulse::graph::engines
