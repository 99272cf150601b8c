// Signature: which connections a director looks at, by their 5-tuple. DDS section 5.1. Immutable
// once parsed, and so thread-safe.
//
// Text: patterns separated by ';', any of which may match. A pattern is
//   PROTOCOL,CLIENT,CLIENT-PORTS,SERVER,SERVER-PORTS
// PROTOCOL is tcp or unix; CLIENT and SERVER are an address or a prefix (10.0.0.0/8, fd00::/8);
// ports are one, or a range (1024-65535). Each may be '*'. Unix sockets have no addresses: only '*'
// matches theirs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "net/address.h"

namespace pulse::director {

class Signature {
 public:
  // Empty text matches everything.
  static absl::StatusOr<Signature> Parse(std::string_view text);
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
  };
  struct Pattern {
    Protocol protocol = Protocol::kAny;
    Prefix client;
    Ports client_ports;
    Prefix server;
    Ports server_ports;
  };

  static absl::StatusOr<Pattern> ParsePattern(std::string_view text);
  static absl::Status ParsePrefix(std::string_view text, Prefix* prefix);
  static absl::Status ParsePorts(std::string_view text, Ports* ports);
  static bool Matches(const Prefix& prefix, const Ports& ports, const Address& address);

  std::vector<Pattern> patterns_;
};

}  // namespace pulse::director
