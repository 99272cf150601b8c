#include "services/redis/offload/front_module.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/uri_options.h"
#include "services/front/front_options.h"
#include "services/redis/offload/front_numbers.h"
#include "services/redis/private_directory.h"

namespace pulse::redis {
namespace {

constexpr OptionSpec kModuleOptions[] = {
    {.name = "--serve-db",
     .help = "answer reads of Redis clients from this RocksDB, which `pulse serve --db DIR\n"
             "--host-socket SOCKET` has open; needs --serve and --serve-host SOCKET",
     .needs = {"--serve", "--serve-host"}},
    {.name = "--serve-cache",
     .help = "memory for values and blocks of it that were read",
     .value = "64M",
     .needs = {"--serve-db"}},
    {.name = "--serve-max-value",
     .help = "the longest argument of a request: what `pulse serve` has as --max-value",
     .value = "32M",
     .needs = {"--serve-db"}},
    {.name = "--serve-no-password",
     .kind = OptionSpec::Kind::kFlag,
     .help = "the server wants no password: answer everyone, also who comes while the server is\n"
             "away; else a connection's first read is the server's",
     .needs = {"--serve-db"}},
    {.name = "--serve-idle-timeout",
     .kind = OptionSpec::Kind::kInteger,
     .help = "seconds after which a client that asks nothing is cut off; 0: never",
     .value = "0",
     .most = 1'000'000'000,
     .needs = {"--serve-db"}},
    {.name = "--serve-loops",
     .kind = OptionSpec::Kind::kInteger,
     .help = "threads that serve its clients",
     .value = "1",
     .least = 1,
     .most = net::kMostThreads,
     .needs = {"--serve-db"}}};
constexpr const OptionSpec& kDbOption = kModuleOptions[0];
constexpr const OptionSpec& kCacheOption = kModuleOptions[1];
constexpr const OptionSpec& kMaxValueOption = kModuleOptions[2];
constexpr const OptionSpec& kNoPasswordOption = kModuleOptions[3];
constexpr const OptionSpec& kIdleOption = kModuleOptions[4];
constexpr const OptionSpec& kLoopsOption = kModuleOptions[5];

struct FrontSetup {
  OffloadOptions reads;           // but for the secondary's directory
  net::DirectorOptions director;  // but for the application
  std::string at;                 // as given, for messages
  std::string host;
};

absl::StatusOr<FrontSetup> SetupOf(const OptionValues& options, const std::vector<int>& cpus) {
  FrontSetup setup;
  PULSE_ASSIGN_OR_RETURN(auto made, front::DirectorOptionsOf(options));
  // A client that is passed through writes without the agent's knowledge, and comes to the server's
  // private socket.
  if (!made.match.empty()) {
    return absl::InvalidArgumentError(
        "--match does not go with --serve-db: the agent has to see all writes, or its answers "
        "would be old values");
  }
  setup.director = std::move(made);
  setup.at = front::FirstServe(options);
  setup.host = front::HostOf(options);
  const auto cache = ParseBytes(options.Text(kCacheOption));
  if (!cache.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--serve-cache: ", cache.status().message()));
  }
  const auto longest =
      ParseSizeOption(kMaxValueOption.name, options.Text(kMaxValueOption), kMostMaxBulk);
  if (!longest.ok()) return longest.status();
  OffloadOptions& reads = setup.reads;
  reads.limits.max_bulk = *longest;
  LimitMessages(reads.limits, &setup.director.limits);
  reads.host = setup.director.host;
  reads.secondary.db = options.Text(kDbOption);
  reads.DivideMemory(*cache);
  reads.secondary.cpus = cpus;
  reads.cpus = cpus;
  // Whether the server wants a password is its secret until it has answered, unless we are told.
  reads.needs_auth = !options.Flag(kNoPasswordOption);
  setup.director.threads = static_cast<int>(*options.Integer(kLoopsOption));
  setup.director.limits.idle_ms = *options.Integer(kIdleOption) * 1000;
  setup.director.cpus = cpus;
  return setup;
}

class Module final : public ServiceModule, public NetworkFront {
 public:
  explicit Module(FrontSetup setup) : setup_(std::move(setup)) {}

  std::optional<OfferedService> Offer() override { return std::nullopt; }
  NetworkFront* front() override { return this; }

  absl::Status Listen() override {
    directory_.emplace();
    PULSE_RETURN_IF_ERROR(directory_->Make());
    setup_.reads.secondary.directory = directory_->path();
    PULSE_ASSIGN_OR_RETURN(application_, OffloadedResp::Open(setup_.reads));
    setup_.director.application = application_.get();
    PULSE_ASSIGN_OR_RETURN(director_, net::Director::Open(setup_.director));
    return absl::OkStatus();
  }
  void Stop() override {
    director_.reset();
    application_.reset();
    directory_.reset();
  }
  FrontStatus Status() const override { return FrontStatusOf(*director_, *application_); }
  std::string DescribeFront() const override {
    return absl::StrCat("reads of ", setup_.reads.secondary.db, " at ", setup_.at, " (port ",
                        director_ == nullptr ? 0 : director_->port(), "), server ", setup_.host);
  }

 private:
  FrontSetup setup_;
  // In this order they end from the last.
  std::optional<PrivateDirectory> directory_;  // for the secondary's own files
  std::unique_ptr<OffloadedResp> application_;
  std::unique_ptr<net::Director> director_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> OpenModule(const OptionValues& options,
                                                          const AgentFacts& facts) {
  if (options.Text(kDbOption).empty()) return nullptr;
  PULSE_ASSIGN_OR_RETURN(auto setup, SetupOf(options, facts.cpus));
  return std::make_unique<Module>(std::move(setup));
}

}  // namespace

const ServiceEntry kEntry = {nullptr, kModuleOptions, &OpenModule, &kDbOption};

FrontStatus FrontStatusOf(const net::Director& director, const OffloadedResp& reads) {
  FrontStatus f = front::DirectorStatus(director, "redis");
  const OffloadCounters& c = reads.counters();
  // What is part of another number, or taken from it, in the order in which neither exceeds it.
  std::vector<Number> numbers = FrontNumbers(reads);
  const uint64_t forwarded = c.forwarded;
  f.answered = c.offloaded;
  f.to_host = {{"dirty", c.dirty},     {"changed", c.changed},
               {"order", c.order},     {"not_permitted", c.not_permitted},
               {"no_view", c.no_view}, {"full", c.full}};
  // The rest are writes and other commands, less the reads that have two of these reasons.
  uint64_t told = 0;
  for (const auto& [reason, count] : f.to_host) told += count;
  f.to_host.emplace_back("not_offloadable", forwarded > told ? forwarded - told : 0);
  f.numbers = std::move(numbers);
  return f;
}

}  // namespace pulse::redis
