#include "net/signature.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errors.h"

namespace pulse::net {
namespace {

constexpr int kMappedBits = 96;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Status Malformed(std::string_view part, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", View(part), "' ", View(why),
                   "; expected KEY=VALUE[,KEY=VALUE...] of client, client-port, server, "
                   "server-port and protocol, such as client=10.0.0.0/8,server-port=9000"));
}

std::array<uint8_t, 16> Mapped(const in_addr& v4) {
  std::array<uint8_t, 16> bytes{};
  bytes[10] = bytes[11] = 0xff;
  memcpy(bytes.data() + 12, &v4, sizeof(v4));
  return bytes;
}

// False for what is no IP address.
bool BytesOf(const Address& address, std::array<uint8_t, 16>* bytes) {
  if (address.storage.ss_family == AF_INET) {
    *bytes = Mapped(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr);
    return true;
  }
  if (address.storage.ss_family != AF_INET6) return false;
  memcpy(bytes->data(), &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, 16);
  return true;
}

bool SameBits(const std::array<uint8_t, 16>& a, const std::array<uint8_t, 16>& b, int bits) {
  const size_t whole = static_cast<size_t>(bits / 8);
  if (memcmp(a.data(), b.data(), whole) != 0) return false;
  const int rest = bits % 8;
  return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

}  // namespace

absl::Status Signature::ParsePrefix(std::string_view text, Prefix* prefix) {
  if (text == "*") return absl::OkStatus();
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  in_addr v4{};
  int base = 0;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    prefix->bytes = Mapped(v4);
    base = kMappedBits;
  } else if (inet_pton(AF_INET6, address.c_str(), prefix->bytes.data()) != 1) {
    return Malformed(text, "is no IP address");
  }
  int bits = 128 - base;
  if (slash != std::string_view::npos &&
      (!absl::SimpleAtoi(View(text.substr(slash + 1)), &bits) || bits < 0 || bits > 128 - base)) {
    return Malformed(text, absl::StrCat("has a prefix length that is not from 0 to ", 128 - base));
  }
  prefix->bits = base + bits;
  // Bits beyond the length are likely to be a mistake: 10.1.0.0/8.
  std::array<uint8_t, 16> kept{};
  for (int i = 0; i < prefix->bits; ++i) {
    const auto byte = static_cast<size_t>(i / 8);
    kept[byte] = static_cast<uint8_t>(kept[byte] | (prefix->bytes[byte] & (0x80 >> i % 8)));
  }
  if (kept != prefix->bytes) return Malformed(text, "has address bits beyond its prefix length");
  return absl::OkStatus();
}

absl::Status Signature::ParsePorts(std::string_view text, Ports* ports) {
  if (text == "*") return absl::OkStatus();
  const size_t dash = text.find('-');
  int first = -1;
  int last = -1;
  const bool numbers =
      absl::SimpleAtoi(View(text.substr(0, dash)), &first) &&
      absl::SimpleAtoi(View(dash == std::string_view::npos ? text : text.substr(dash + 1)), &last);
  if (!numbers || first < 0 || last > 65535) {
    return Malformed(text, "is no port, nor a range of ports, from 0 to 65535");
  }
  if (first > last) return Malformed(text, "is a range of ports that ends before it begins");
  ports->first = static_cast<uint16_t>(first);
  ports->last = static_cast<uint16_t>(last);
  return absl::OkStatus();
}

absl::Status Signature::ParseProtocol(std::string_view text, Protocol* protocol) {
  if (text == "tcp") {
    *protocol = Protocol::kTcp;
  } else if (text == "unix") {
    *protocol = Protocol::kUnix;
  } else if (text != "*") {
    return Malformed(text, "is none of the protocols tcp, unix and *");
  }
  return absl::OkStatus();
}

absl::StatusOr<Signature::Rule> Signature::ParseRule(std::string_view text) {
  Rule rule;
  std::set<std::string> seen;
  const std::vector<std::string> parts = absl::StrSplit(View(text), ',');
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) return Malformed(part, "is no KEY=VALUE");
    const std::string key(absl::StripAsciiWhitespace(View(part).substr(0, equals)));
    const std::string value(absl::StripAsciiWhitespace(View(part).substr(equals + 1)));
    if (!seen.insert(key).second) return Malformed(key, "is given twice");
    absl::Status st;
    if (key == "protocol") {
      st = ParseProtocol(value, &rule.protocol);
    } else if (key == "client") {
      st = ParsePrefix(value, &rule.client);
    } else if (key == "client-port") {
      st = ParsePorts(value, &rule.client_ports);
    } else if (key == "server") {
      st = ParsePrefix(value, &rule.server);
    } else if (key == "server-port") {
      st = ParsePorts(value, &rule.server_ports);
    } else {
      st = Malformed(key, "is no key of a rule");
    }
    if (!st.ok()) return st;
  }
  const bool any = rule.client.bits == 0 && rule.server.bits == 0 && rule.client_ports.any() &&
                   rule.server_ports.any();
  if (rule.protocol == Protocol::kUnix && !any) {
    return Malformed(text, "never matches, since Unix sockets have no addresses and ports");
  }
  return rule;
}

absl::StatusOr<Signature> Signature::Parse(const std::vector<std::string>& rules) {
  Signature signature;
  for (const std::string& text : rules) {
    PULSE_ASSIGN_OR_RETURN(auto rule, ParseRule(text));
    signature.rules_.push_back(rule);
  }
  return signature;
}

bool Signature::Matches(const Prefix& prefix, const Ports& ports, const Address& address) {
  std::array<uint8_t, 16> bytes{};
  if (!BytesOf(address, &bytes)) return prefix.bits == 0 && ports.any();
  const uint16_t port = address.port();
  return SameBits(prefix.bytes, bytes, prefix.bits) && ports.first <= port && port <= ports.last;
}

bool Signature::Matches(const Address& client, const Address& server) const {
  if (rules_.empty()) return true;
  const Protocol protocol = server.is_unix() ? Protocol::kUnix : Protocol::kTcp;
  for (const Rule& r : rules_) {
    if (r.protocol != Protocol::kAny && r.protocol != protocol) continue;
    if (Matches(r.client, r.client_ports, client) && Matches(r.server, r.server_ports, server)) {
      return true;
    }
  }
  return false;
}

}  // namespace pulse::net
