// Signature: which connections a director looks at, by their 5-tuple. DDS section 5.1. Immutable
// once parsed, and so thread-safe.
//
// Text: rules, any of which may match. A rule is KEY=VALUE[,KEY=VALUE...], all of which must hold:
//   protocol                  tcp or unix
//   client, server            an IP address, or a prefix such as 10.0.0.0/8 or fd00::/8
//   client-port, server-port  a port, or a range such as 1024-65535
// A key that is not given, or whose value is '*', holds for every connection. Unix sockets have no
// addresses and ports.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "net/address.h"

namespace pulse::net {

class Signature {
 public:
  // Without rules it matches everything. InvalidArgument names the part of a rule that is wrong,
  // and says what is expected.
  static absl::StatusOr<Signature> Parse(const std::vector<std::string>& rules);
  // A connection between these; both of the same family.
  bool Matches(const Address& client, const Address& server) const;

 private:
  enum class Protocol : uint8_t { kAny, kTcp, kUnix };
  // IPv4 as the IPv6 addresses ::ffff:0:0/96 that stand for it.
  struct Prefix {
    std::array<uint8_t, 16> bytes{};
    int bits = 0;  // 0: any
  };
  struct Ports {
    uint16_t first = 0;
    uint16_t last = 65535;
    bool any() const { return first == 0 && last == 65535; }
  };
  struct Rule {
    Protocol protocol = Protocol::kAny;
    Prefix client;
    Ports client_ports;
    Prefix server;
    Ports server_ports;
  };

  static absl::StatusOr<Rule> ParseRule(std::string_view text);
  static absl::Status ParseProtocol(std::string_view text, Protocol* protocol);
  static absl::Status ParsePrefix(std::string_view text, Prefix* prefix);
  static absl::Status ParsePorts(std::string_view text, Ports* ports);
  static bool Matches(const Prefix& prefix, const Ports& ports, const Address& address);

  std::vector<Rule> rules_;
};

}  // namespace pulse::net
