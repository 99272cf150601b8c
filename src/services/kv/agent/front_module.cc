#include "services/kv/agent/front_module.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/uri_options.h"
#include "net/tls.h"
#include "services/front/front_options.h"
#include "services/kv/agent/agent_front.h"

namespace pulse::kv {
namespace {

constexpr OptionSpec kModuleOptions[] = {
    {.name = "--serve-kv",
     .help = "serve the clients of the store that `pulse kv --agent-socket SOCKET` has, Redis's\n"
             "and memcached's: this socket; needs --serve",
     .needs = {"--serve"}},
    {.name = "--serve-kv-max-value",
     .help = "the longest argument of a request: what `pulse kv` has as --max-value",
     .value = "32M",
     .needs = {"--serve-kv"}},
    {.name = "--serve-kv-loops",
     .kind = OptionSpec::Kind::kInteger,
     .help = "threads that serve its clients",
     .value = "1",
     .least = 1,
     .most = net::kMostThreads,
     .needs = {"--serve-kv"}},
    {.name = "--serve-kv-clients",
     .kind = OptionSpec::Kind::kInteger,
     .help = "clients at a time; one more is told so, and closed",
     .value = "10000",
     .least = 1,
     .most = 1'000'000,
     .needs = {"--serve-kv"}},
    {.name = "--serve-kv-idle-timeout",
     .kind = OptionSpec::Kind::kInteger,
     .help = "seconds after which a client that asks nothing is cut off; 0: never",
     .value = "0",
     .most = 1'000'000'000,
     .needs = {"--serve-kv"}},
    {.name = "--serve-kv-tls-cert",
     .help = "serve TLS alone, with this certificate (PEM)",
     .needs = {"--serve-kv", "--serve-kv-tls-key"}},
    {.name = "--serve-kv-tls-key",
     .help = "... and its key (PEM)",
     .needs = {"--serve-kv", "--serve-kv-tls-cert"}},
    {.name = "--serve-kv-tls-ca",
     .help = "clients must show a certificate that is signed by one of these (PEM)",
     .needs = {"--serve-kv", "--serve-kv-tls-cert"}}};
constexpr const OptionSpec& kSocketOption = kModuleOptions[0];
constexpr const OptionSpec& kMaxValueOption = kModuleOptions[1];
constexpr const OptionSpec& kLoopsOption = kModuleOptions[2];
constexpr const OptionSpec& kClientsOption = kModuleOptions[3];
constexpr const OptionSpec& kIdleOption = kModuleOptions[4];
constexpr const OptionSpec& kCertOption = kModuleOptions[5];
constexpr const OptionSpec& kKeyOption = kModuleOptions[6];
constexpr const OptionSpec& kCaOption = kModuleOptions[7];

constexpr NumberSpec kNumbers[] = {
    {"lanes", Unit::kCount, NumberKind::kGauge, "pulse_kv_agent_lanes",
     "Loops of the agent that are attached to the store."},
    {"lanes_lost", Unit::kCount, NumberKind::kCounter, "pulse_kv_agent_lanes_lost_total",
     "Times that one of them has lost it."},
    {"transfers", Unit::kCount, NumberKind::kCounter, "pulse_kv_agent_transfers_total",
     "Batches that were handed over to the store."},
    {"handed_over", Unit::kCount, NumberKind::kCounter, "pulse_kv_agent_descriptors_total",
     "Descriptors in them: requests, pieces of long ones, and beginnings and ends of clients."},
    {"unknown", Unit::kCount, NumberKind::kCounter, "pulse_kv_agent_unknown_total",
     "Requests that the store was lost with: they may have been carried out."},
    {"while_away", Unit::kCount, NumberKind::kCounter, "pulse_kv_agent_while_away_total",
     "Requests that were refused because there was no store."},
};

struct Setup {
  AgentFrontOptions front;  // but for the transport
  std::unique_ptr<net::TlsContext> tls;
  std::string at;  // as given, for messages
};

absl::StatusOr<Setup> SetupOf(const OptionValues& options, const std::vector<int>& cpus) {
  Setup setup;
  const std::string cert = options.Text(kCertOption);
  const std::string key = options.Text(kKeyOption);
  const std::string ca = options.Text(kCaOption);
  PULSE_ASSIGN_OR_RETURN(auto director, front::DirectorOptionsWithoutHost(options));
  if (!director.match.empty()) {
    return absl::InvalidArgumentError(
        "--match does not go with --serve-kv: there is no program to pass clients through to");
  }
  if (!cert.empty()) {
    PULSE_ASSIGN_OR_RETURN(setup.tls, net::TlsContext::Open(cert, key, ca));
    director.transport = [tls = setup.tls.get()] { return tls->NewTransport(); };
  }
  setup.at = front::FirstServe(options);
  setup.front.host = options.Text(kSocketOption);
  PULSE_ASSIGN_OR_RETURN(
      setup.front.limits.max_bulk,
      ParseSizeOption(kMaxValueOption.name, options.Text(kMaxValueOption), redis::kMostMaxBulk));
  director.threads = static_cast<int>(*options.Integer(kLoopsOption));
  director.limits.connections = static_cast<uint32_t>(*options.Integer(kClientsOption));
  director.limits.idle_ms = *options.Integer(kIdleOption) * 1000;
  director.thread_name = "pulse-agent-kv";
  director.cpus = cpus;
  setup.front.director = std::move(director);
  return setup;
}

class Module final : public ServiceModule, public NetworkFront {
 public:
  explicit Module(Setup setup) : setup_(std::move(setup)) {}

  std::optional<OfferedService> Offer() override { return std::nullopt; }
  NetworkFront* front() override { return this; }

  absl::Status Listen() override {
    PULSE_ASSIGN_OR_RETURN(front_, AgentFront::Open(setup_.front));
    return absl::OkStatus();
  }
  void Stop() override { front_.reset(); }
  FrontStatus Status() const override {
    FrontStatus f = front::DirectorStatus(front_->director(), "kv");
    const LaneCounters& c = front_->counters();
    f.forwarded = f.requests;
    const uint64_t values[] = {c.attached, c.lost, c.transfers, c.requests, c.unknown, c.refused};
    for (size_t i = 0; i < std::size(kNumbers); ++i) f.numbers.push_back({&kNumbers[i], values[i]});
    return f;
  }
  std::string DescribeFront() const override {
    return absl::StrCat("clients at ", setup_.at, " (port ",
                        front_ == nullptr ? 0 : front_->director().port(), "), store ",
                        setup_.front.host, setup_.tls == nullptr ? "" : ", TLS");
  }

 private:
  const Setup setup_;
  std::unique_ptr<AgentFront> front_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> OpenModule(const OptionValues& options,
                                                          const AgentFacts& facts) {
  if (options.Text(kSocketOption).empty()) return nullptr;
  PULSE_ASSIGN_OR_RETURN(auto setup, SetupOf(options, facts.cpus));
  return std::make_unique<Module>(std::move(setup));
}

}  // namespace

const ServiceEntry kEntry = {nullptr, kModuleOptions, &OpenModule, &kSocketOption};

}  // namespace pulse::kv
