#include "services/offload/front_module.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/sibling_program.h"
#include "net/director.h"
#include "services/files/spec.h"
#include "services/front/front_options.h"
#include "services/offload/engine.h"
#include "services/offload/program.h"

namespace pulse::offload {
namespace {

constexpr OptionSpec kModuleOptions[] = {
    {.name = "--offload",
     .help = "answer remote reads of the store's files as this offload program says (see\n"
             "pulse/offload.h), by the path of its shared object. Needs --store, --serve and\n"
             "--serve-host",
     .needs = {"--store", "--serve", "--serve-host"}},
    {.name = "--offload-loops",
     .kind = OptionSpec::Kind::kInteger,
     .help = "threads that serve its clients",
     .value = "1",
     .least = 1,
     .most = net::kMostThreads,
     .needs = {"--offload"}},
    {.name = "--offload-items",
     .kind = OptionSpec::Kind::kInteger,
     .help = "items that its cache table has room for",
     .value = "1048576",
     .least = 1,
     .most = int64_t{1} << 30,
     .needs = {"--offload"}},
    {.name = "--offload-reads",
     .kind = OptionSpec::Kind::kInteger,
     .help = "reads under way, and buffers of 64 KiB for them, of each loop; beyond that, the\n"
             "host answers",
     .value = "1024",
     .least = 1,
     .most = 65536,
     .needs = {"--offload"}},
    {.name = "--offload-copying",
     .kind = OptionSpec::Kind::kFlag,
     .help = "copy offloaded data twice more, to compare with",
     .needs = {"--offload"}}};
constexpr const OptionSpec& kProgramOption = kModuleOptions[0];
constexpr const OptionSpec& kLoopsOption = kModuleOptions[1];
constexpr const OptionSpec& kItemsOption = kModuleOptions[2];
constexpr const OptionSpec& kReadsOption = kModuleOptions[3];
constexpr const OptionSpec& kCopyingOption = kModuleOptions[4];

constexpr NumberSpec kBytes = {"read_bytes", Unit::kBytes, NumberKind::kCounter,
                               "pulse_offload_read_bytes_total", "Bytes in answers from files."};
constexpr NumberSpec kOff = {
    "off", Unit::kCount, NumberKind::kGauge, "pulse_offload_off",
    "1: a function of the offload program has failed, and the host answers everything."};
constexpr NumberSpec kItems = {"cache_items", Unit::kCount, NumberKind::kGauge,
                               "pulse_offload_cache_items", "Items in the cache table."};
constexpr NumberSpec kTableBytes = {"cache_bytes", Unit::kBytes, NumberKind::kGauge,
                                    "pulse_offload_cache_bytes", "Memory of the cache table."};
constexpr NumberSpec kInserts = {"cache_inserts", Unit::kCount, NumberKind::kCounter,
                                 "pulse_offload_cache_inserts_total", "Items with new keys."};
constexpr NumberSpec kEvictions = {"cache_evictions", Unit::kCount, NumberKind::kCounter,
                                   "pulse_offload_cache_evictions_total",
                                   "Items that made way for others."};

// The agent once had the examples' programs built in, by their names.
std::string ExampleHint(const std::string& name) {
  const std::string object = SiblingProgram(absl::StrCat("pulse-", name, "-offload.so"));
  if (absl::StrContains(name, "/") || access(object.c_str(), F_OK) != 0) return {};
  return absl::StrCat("; that of the example pulse-", name, " is ", object);
}

class Module final : public ServiceModule, public NetworkFront {
 public:
  Module(std::unique_ptr<Engine> engine, const OptionValues& options)
      : engine_(std::move(engine)), options_(options) {}

  std::optional<OfferedService> Offer() override { return std::nullopt; }
  NetworkFront* front() override { return this; }

  absl::Status Listen() override {
    PULSE_ASSIGN_OR_RETURN(auto made, front::DirectorOptionsOf(options_));
    made.application = engine_.get();
    made.threads = static_cast<int>(*options_.Integer(kLoopsOption));
    // One for each read, and for those whose replies are on their way.
    made.buffers.blocks = 2 * engine_->options().contexts;
    PULSE_ASSIGN_OR_RETURN(director_, net::Director::Open(std::move(made)));
    return absl::OkStatus();
  }
  void Stop() override { director_.reset(); }
  FrontStatus Status() const override;
  std::string DescribeFront() const override {
    return absl::StrCat("offload ", engine_->options().program->name, " at ",
                        front::FirstServe(options_), " (port ",
                        director_ == nullptr ? 0 : director_->port(), "), host ",
                        front::HostOf(options_));
  }

 private:
  const std::unique_ptr<Engine>
      engine_;  // lives until the sessions, which tell it of writes, are gone
  const OptionValues options_;
  std::unique_ptr<net::Director> director_;
};

FrontStatus Module::Status() const {
  FrontStatus f = front::DirectorStatus(*director_, engine_->options().program->name);
  const EngineStats s = engine_->stats();
  f.answered = s[EngineStats::kOffloaded] + s[EngineStats::kAnswered];
  f.to_host = {{"not_offloadable", s[EngineStats::kToHost]},
               {"no_place", s[EngineStats::kNoPlace]},
               {"not_there", s[EngineStats::kNotThere]},
               {"full", s[EngineStats::kFull]},
               {"changed", s[EngineStats::kChanged]},
               {"order", s[EngineStats::kOrder]},
               {"rejected", s[EngineStats::kRejected]},
               {"device", s[EngineStats::kDevice]},
               {"off", s[EngineStats::kOff]}};
  f.numbers = {{&kBytes, s[EngineStats::kBytes]}, {&kOff, s.off ? uint64_t{1} : 0},
               {&kItems, s.table.items},          {&kTableBytes, s.table.bytes},
               {&kInserts, s.table.inserted},     {&kEvictions, s.table.evicted}};
  return f;
}

absl::StatusOr<std::unique_ptr<ServiceModule>> OpenModule(const OptionValues& options,
                                                          const AgentFacts& facts) {
  const std::string path = options.Text(kProgramOption);
  if (path.empty()) return nullptr;
  ServiceModule* const store_module = facts.Opened(files::kEntry);
  if (store_module == nullptr) {
    return absl::InvalidArgumentError(
        "--offload reads files of a store; give it with --store (pulse pool create makes one)");
  }
  if (const auto made = front::DirectorOptionsOf(options); !made.ok()) return made.status();
  auto program = LoadProgram(path);
  if (!program.ok()) {
    return absl::Status(program.status().code(),
                        absl::StrCat("--offload: ", program.status().message(), ExampleHint(path)));
  }
  EngineOptions engine_options;
  engine_options.program = *program;
  engine_options.store = files::StoreOf(store_module);
  engine_options.table_items = static_cast<uint64_t>(*options.Integer(kItemsOption));
  engine_options.contexts = static_cast<uint32_t>(*options.Integer(kReadsOption));
  engine_options.copying = options.Flag(kCopyingOption);
  PULSE_ASSIGN_OR_RETURN(auto engine, Engine::Open(engine_options));
  return std::make_unique<Module>(std::move(engine), options);
}

}  // namespace

const ServiceEntry kEntry = {nullptr, kModuleOptions, &OpenModule, &kProgramOption};

}  // namespace pulse::offload
