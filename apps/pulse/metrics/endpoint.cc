#include "apps/pulse/metrics/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/metrics/collector.h"
#include "base/errors.h"
#include "base/unique_fd.h"

namespace pulse::metrics {
namespace {

absl::Status NoAddress(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--metrics \"", text,
      "\": expected PORT, ADDRESS:PORT or [ADDRESS]:PORT, such as 9464 or 127.0.0.1:9464"));
}

union AnyAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// The address in the kernel's form; its length, 0 for none.
socklen_t Encode(const Address& a, AnyAddress* out) {
  std::memset(out, 0, sizeof(*out));
  if (inet_pton(AF_INET, a.host.c_str(), &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons(static_cast<uint16_t>(a.port));
    return sizeof(out->v4);
  }
  if (inet_pton(AF_INET6, a.host.c_str(), &out->v6.sin6_addr) == 1) {
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(static_cast<uint16_t>(a.port));
    return sizeof(out->v6);
  }
  return 0;
}

// The library says only that it could not: so the cause is found out before.
absl::Status TryListen(const Address& a) {
  AnyAddress address;
  const socklen_t length = Encode(a, &address);
  UniqueFd fd(socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (fd.valid()) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (!fd.valid() || bind(fd.get(), &address.any, length) != 0 || listen(fd.get(), 1) != 0) {
    const int err = errno;
    const char* remedy = err == EADDRINUSE ? "another program has this port; choose another one"
                         : err == EADDRNOTAVAIL ? "this machine has no such address"
                         : err == EACCES        ? "choose a port from 1024 on"
                                                : "";
    return ErrnoError(err, "--metrics: listening on", a.ToString(), remedy);
  }
  return absl::OkStatus();
}

}  // namespace

std::string Address::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  Address a;
  const size_t colon = text.rfind(':');
  std::string port = text;
  if (colon != std::string::npos) {
    port = text.substr(colon + 1);
    a.host = text.substr(0, colon);
    const bool bracketed = a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']';
    if (bracketed) a.host = a.host.substr(1, a.host.size() - 2);
    if (bracketed != (a.host.find(':') != std::string::npos)) return NoAddress(text);
  } else {
    a.host = "127.0.0.1";
  }
  if (a.host == "localhost") a.host = "127.0.0.1";
  const bool digits = port.find_first_not_of("0123456789") == std::string::npos;
  if (port.empty() || !digits || !absl::SimpleAtoi(port, &a.port) || a.port > 65535) {
    return NoAddress(text);
  }
  AnyAddress address;
  if (Encode(a, &address) == 0) return NoAddress(text);
  a.loopback = address.any.sa_family == AF_INET ? (ntohl(address.v4.sin_addr.s_addr) >> 24) == 127
                                                : IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr) != 0;
  return a;
}

Endpoint::Endpoint() = default;
Endpoint::~Endpoint() = default;

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Open(const std::string& text, bool anywhere,
                                                         Sources sources) {
  auto address = ParseAddress(text);
  if (!address.ok()) return address.status();
  if (!address->loopback && !anywhere) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics ", text,
        ": whoever reaches this address could read what is counted here, and the names of "
        "databases, without a password; add --metrics-anywhere if that is meant, or use "
        "127.0.0.1"));
  }
  PULSE_RETURN_IF_ERROR(TryListen(*address));
  std::unique_ptr<Endpoint> e(new Endpoint());
  e->collector_ = std::make_shared<Collector>(std::move(sources));
  try {
    // A client that says nothing holds a thread for two seconds, and not for ever.
    e->exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address->ToString(), "num_threads", "6",
                                 "request_timeout_ms", "2000", "keep_alive_timeout_ms", "500"});
    e->exposer_->RegisterCollectable(e->collector_);
    const std::vector<int> ports = e->exposer_->GetListeningPorts();
    if (!ports.empty()) address->port = ports[0];
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("--metrics: listening on ", address->ToString(), ": ", error.what()));
  }
  e->url_ = absl::StrCat("http://", address->ToString(), "/metrics");
  return e;
}

}  // namespace pulse::metrics
