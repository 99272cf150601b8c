#include "services/ops/ingest/spec.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/option_error.h"
#include "base/uri_options.h"
#include "services/ops/filter/rules_file.h"
#include "services/ops/ingest/ingest.h"

namespace pulse::ingest {
namespace {

constexpr OptionSpec kOptions[] = {
    {.name = "--ingest",
     .help = "PORT (on 127.0.0.1) or ADDRESS:PORT: filter the streams of lines that clients\n"
             "send here, compressed or not, by --filter, and give what matches to --to",
     .needs = {"--filter", "--to"}},
    {.name = "--ingest-anywhere",
     .kind = OptionSpec::Kind::kFlag,
     .help = "let --ingest listen beyond loopback, where everybody who connects is served",
     .needs = {"--ingest"}},
    {.name = "--ingest-max-decompressed",
     .help = "reset a client's stream that is compressed to more than this, such as 10G;\n"
             "default: no limit",
     .needs = {"--ingest"}},
    {.name = "--ingest-max-line",
     .help = "reset a client's stream that has a longer line; at most 1G",
     .value = "64M",
     .needs = {"--ingest"}},
    {.name = "--filter",
     .help = "with --ingest: a file of rules, one a line, as pulse filter --rules has it",
     .needs = {"--ingest"}},
    {.name = "--to",
     .help = "with --ingest: HOST:PORT, where each client's records go by a connection",
     .needs = {"--ingest"}}};
constexpr const OptionSpec& kListen = kOptions[0];
constexpr const OptionSpec& kAnywhere = kOptions[1];
constexpr const OptionSpec& kMaxDecompressed = kOptions[2];
constexpr const OptionSpec& kMaxLine = kOptions[3];
constexpr const OptionSpec& kFilter = kOptions[4];
constexpr const OptionSpec& kTo = kOptions[5];

class Module : public ServiceModule {
 public:
  Module(std::unique_ptr<IngestServer> server, std::string host)
      : server_(std::move(server)), host_(std::move(host)) {}

  void Stop() override {
    server_->Stop();
    const IngestStats s = server_->stats();
    Say(
        absl::StrFormat("pulse agent: %d stream(s) filtered, %d of them reset; %d bytes received, "
                        "%d decompressed, %d sent",
                        s.streams, s.failed, s.bytes_received, s.bytes_filtered, s.bytes_sent));
  }

  std::optional<OfferedService> Offer() override { return std::nullopt; }
  NumberGroup Numbers() const override { return IngestNumbers(server_->stats()); }
  std::string Describe() const override {
    return absl::StrCat(", filters streams sent to ", server_->address().ToString(), " for ",
                        host_);
  }

 private:
  const std::unique_ptr<IngestServer> server_;
  const std::string host_;
};

absl::Status ReadAddresses(const OptionValues& given, IngestOptions* options) {
  const std::string text = given.Text(kListen);
  const bool is_port = text.find(':') == std::string::npos;
  auto listen = net::ParseAddress(is_port ? absl::StrCat("127.0.0.1:", text) : text);
  if (!listen.ok()) return OptionError(kListen.name, listen.status());
  options->listen = *listen;
  if (!given.Flag(kAnywhere) && !listen->is_loopback() && !listen->is_unix()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kListen.name, " ", text,
        ": other machines reach it, and everybody who connects is served; say so with ",
        kAnywhere.name));
  }
  auto host = net::ParseAddress(given.Text(kTo));
  if (!host.ok()) return OptionError(kTo.name, host.status());
  options->host = *host;
  return absl::OkStatus();
}

absl::Status ReadLimits(const OptionValues& given, IngestOptions* options) {
  if (given.given(kMaxDecompressed.name)) {
    PULSE_ASSIGN_OR_RETURN(options->max_decompressed,
                           ParseSizeOption(kMaxDecompressed.name, given.Text(kMaxDecompressed),
                                           std::numeric_limits<uint64_t>::max()));
  }
  PULSE_ASSIGN_OR_RETURN(options->max_record, ParseSizeOption(kMaxLine.name, given.Text(kMaxLine),
                                                              filter::kMostRecordBytes));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& given,
                                                    const AgentFacts& facts) {
  if (!given.given(kListen.name)) return nullptr;
  IngestOptions options;
  options.cpus = facts.cpus;
  PULSE_RETURN_IF_ERROR(ReadAddresses(given, &options));
  PULSE_RETURN_IF_ERROR(ReadLimits(given, &options));
  // Clients of a service with a front go first.
  options.idle_only = std::any_of(facts.opened.begin(), facts.opened.end(), [](const auto& module) {
    return module.second->front() != nullptr;
  });
  PULSE_ASSIGN_OR_RETURN(auto rules, filter::ReadRulesFile(kFilter.name, given.Text(kFilter)));
  PULSE_ASSIGN_OR_RETURN(auto set,
                         filter::RuleSet::Compile(std::move(rules), filter::RuleSetOptions()));
  auto server = IngestServer::Open(std::move(options), std::move(set));
  if (!server.ok()) return OptionError(kListen.name, server.status());
  return std::make_unique<Module>(*std::move(server), given.Text(kTo));
}

}  // namespace

const ServiceEntry kEntry = {nullptr, kOptions, &Open};

}  // namespace pulse::ingest
