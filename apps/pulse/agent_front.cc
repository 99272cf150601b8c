#include "apps/pulse/agent_front.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "net/address.h"
#include "net/signature.h"

namespace pulse {
namespace {

// A port alone is this machine's; a path is a Unix socket.
std::string FullAddress(const std::string& text) {
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    return absl::StrCat("127.0.0.1:", text);
  }
  return text.front() == '/' || text.front() == '.' ? absl::StrCat("unix:", text) : text;
}

}  // namespace

absl::StatusOr<director::DirectorOptions> FrontOptions(const FrontArgs& args) {
  if (args.serve.empty() || args.host.empty()) {
    return absl::InvalidArgumentError(
        "answering remote reads needs --serve [ADDRESS:]PORT, where clients come to, and "
        "--serve-host ADDRESS:PORT or SOCKET, the program that answers what the agent does not");
  }
  director::DirectorOptions options;
  options.listen.clear();
  for (const std::string& text : args.serve) {
    if (text.empty()) return absl::InvalidArgumentError("--serve: expected [ADDRESS:]PORT");
    const auto address = director::ParseAddress(FullAddress(text));
    if (!address.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--serve ", text, ": ", address.status().message()));
    }
    if (!address->is_unix() && !address->is_loopback() && !args.anywhere) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--serve ", text,
          ": others could read without a password and without encryption; listen on 127.0.0.1, or "
          "give --serve-anywhere on a network where that is all right"));
    }
    options.listen.push_back(FullAddress(text));
  }
  for (const std::string& rule : args.match) {
    if (const auto parsed = director::Signature::Parse({rule}); !parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--match ", rule, ": ", parsed.status().message()));
    }
  }
  options.match = args.match;
  options.net_options.spin_nanos = args.spin_us * int64_t{1000};
  options.host = FullAddress(args.host);
  if (const auto host = director::ParseAddress(options.host); !host.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--serve-host ", args.host, ": ", host.status().message()));
  }
  return options;
}

FrontStatus DirectorStatus(const director::Director& director, std::string service) {
  FrontStatus f;
  f.service = std::move(service);
  f.cpu_nanos = static_cast<uint64_t>(director.cpu_nanos());
  const director::DirectorStats s = director.stats();
  f.connections = s.connections;
  f.spliced_connections = s.spliced_connections;
  f.accepted = s.accepted;
  f.refused = s.refused;
  f.cut = s.cut;
  f.requests = s.requests;
  f.forwarded = s.forwarded;
  f.lost = s.lost;
  f.host_connections = s.host_connections;
  f.host_failures = s.host_failures;
  f.spliced_bytes = s.spliced_bytes;
  f.held_bytes = s.held_bytes;
  f.pauses = s.pauses;
  return f;
}

}  // namespace pulse
