#include "services/front/front_options.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errors.h"
#include "net/address.h"
#include "net/signature.h"

namespace pulse::front {
namespace {

constexpr OptionSpec kOptions[] = {
    {.name = "--serve",
     .help = "where remote clients come to: [ADDRESS:]PORT (a port alone is on 127.0.0.1) or a\n"
             "Unix socket's path; may be repeated",
     .repeated = true},
    {.name = "--serve-host",
     .help = "the program that answers what the agent does not: ADDRESS:PORT, or a Unix\n"
             "socket's path",
     .needs = {"--serve"}},
    {.name = "--match",
     .help = "which clients of --serve the agent looks at: KEY=VALUE,... of client, client-port,\n"
             "server, server-port, protocol, such as client=10.0.0.0/8; all others are passed\n"
             "through to --serve-host untouched. May be repeated [all]",
     .repeated = true,
     .needs = {"--serve"}},
    {.name = "--serve-anywhere",
     .kind = OptionSpec::Kind::kFlag,
     .help = "let --serve listen beyond loopback, where whoever comes is served",
     .needs = {"--serve"}},
    {.name = "--serve-spin-us",
     .kind = OptionSpec::Kind::kInteger,
     .help = "for how long, at the most and while it helps, --serve looks for requests before\n"
             "it sleeps: for CPUs of its own",
     .value = "0",
     .most = 10'000,
     .needs = {"--serve"}}};
constexpr const OptionSpec& kServe = kOptions[0];
constexpr const OptionSpec& kServeHost = kOptions[1];
constexpr const OptionSpec& kMatch = kOptions[2];
constexpr const OptionSpec& kServeAnywhere = kOptions[3];
constexpr const OptionSpec& kServeSpin = kOptions[4];

// A port alone is this machine's; what has a slash is the path of a Unix socket.
std::string FullAddress(const std::string& text) {
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    return absl::StrCat("127.0.0.1:", text);
  }
  const bool is_path = text.front() == '.' || text.find('/') != std::string::npos;
  return is_path && !absl::StartsWith(text, "unix:") ? absl::StrCat("unix:", text) : text;
}

absl::Status CheckListen(const std::string& text, bool anywhere) {
  if (text.empty()) return absl::InvalidArgumentError("--serve: expected [ADDRESS:]PORT");
  const auto address = net::ParseAddress(FullAddress(text));
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--serve ", text, ": ", address.status().message()));
  }
  if (!address->is_unix() && !address->is_loopback() && !anywhere) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--serve ", text,
        ": others could read without a password and without encryption; listen on 127.0.0.1, or "
        "give --serve-anywhere on a network where that is all right"));
  }
  return absl::OkStatus();
}

absl::StatusOr<net::DirectorOptions> ListenOptionsOf(const OptionValues& options) {
  net::DirectorOptions made;
  made.listen.clear();
  for (const std::string& text : options.List(kServe)) {
    PULSE_RETURN_IF_ERROR(CheckListen(text, options.Flag(kServeAnywhere)));
    made.listen.push_back(FullAddress(text));
  }
  made.match = options.List(kMatch);
  for (const std::string& rule : made.match) {
    if (const auto parsed = net::Signature::Parse({rule}); !parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--match ", rule, ": ", parsed.status().message()));
    }
  }
  made.spin_nanos = options.Integer(kServeSpin).value_or(0) * 1000;
  made.side = CpuSide::kAgent;
  return made;
}

}  // namespace

const ServiceEntry kEntry = {nullptr, kOptions, nullptr};

absl::Status CheckFronts(std::span<const ServiceEntry* const> entries,
                         const OptionValues& options) {
  std::vector<std::string> known;
  std::vector<std::string> wanted;
  for (const ServiceEntry* entry : entries) {
    if (entry->front_option == nullptr) continue;
    known.emplace_back(entry->front_option->name);
    if (!options.Text(*entry->front_option).empty()) wanted.push_back(known.back());
  }
  if (wanted.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(wanted, " and "), " are ",
                     wanted.size() == 2 ? "two" : std::to_string(wanted.size()),
                     " services; run an agent for each"));
  }
  if (!wanted.empty()) return absl::OkStatus();
  const bool listens = !options.List(kServe).empty();
  if (listens || !options.Text(kServeHost).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--serve and --serve-host need ", absl::StrJoin(known, " or "), ": what to serve"));
  }
  if (!options.List(kMatch).empty()) {
    return absl::InvalidArgumentError(
        "--match needs --serve: it says which of its clients the agent looks at");
  }
  return absl::OkStatus();
}

absl::StatusOr<net::DirectorOptions> DirectorOptionsOf(const OptionValues& options) {
  const std::string host = HostOf(options);
  const std::vector<std::string> serve = options.List(kServe);
  if (serve.empty() || host.empty()) {
    return absl::InvalidArgumentError(
        "answering remote reads needs --serve [ADDRESS:]PORT, where clients come to, and "
        "--serve-host ADDRESS:PORT or SOCKET, the program that answers what the agent does not");
  }
  PULSE_ASSIGN_OR_RETURN(net::DirectorOptions made, ListenOptionsOf(options));
  made.host = FullAddress(host);
  if (const auto address = net::ParseAddress(made.host); !address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--serve-host ", host, ": ", address.status().message()));
  }
  return made;
}

absl::StatusOr<net::DirectorOptions> DirectorOptionsWithoutHost(const OptionValues& options) {
  if (options.List(kServe).empty()) {
    return absl::InvalidArgumentError("--serve [ADDRESS:]PORT is needed: where clients come to");
  }
  if (!HostOf(options).empty()) {
    return absl::InvalidArgumentError(
        "--serve-host is not for this service, which has another way to its host");
  }
  return ListenOptionsOf(options);
}

std::string FirstServe(const OptionValues& options) {
  const std::vector<std::string> serve = options.List(kServe);
  return serve.empty() ? "" : serve.front();
}

std::string HostOf(const OptionValues& options) { return options.Text(kServeHost); }

FrontStatus DirectorStatus(const net::Director& director, std::string service) {
  FrontStatus f;
  f.service = std::move(service);
  f.cpu_nanos = static_cast<uint64_t>(director.cpu_nanos());
  f.component_nanos = ReadCpuProfile().nanos[static_cast<size_t>(CpuSide::kAgent)];
  static_cast<ConnectionCounts&>(f) = director.stats();
  return f;
}

}  // namespace pulse::front
