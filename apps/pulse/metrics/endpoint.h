// An HTTP endpoint for Prometheus, of an agent or of a server: GET /metrics. Listens from Open
// until destruction, on threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/status.h"
#include "net/address.h"

namespace pulse::redis {
struct ServerNumbers;
}  // namespace pulse::redis
namespace pulse::kv {
struct AgentServerNumbers;
struct UdpNumbers;
}  // namespace pulse::kv
namespace pulse::metrics {
struct GraphNumbers;
}  // namespace pulse::metrics
namespace CLI {
class App;
}  // namespace CLI
namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace pulse::metrics {

// Where numbers come from; what is null has none.
struct Sources {
  std::shared_ptr<const AgentStatus> agent;    // and its front
  std::shared_ptr<const FrontRegistry> front;  // without such an agent
  std::function<redis::ServerNumbers()> server;
  std::function<kv::UdpNumbers()> udp = nullptr;  // of a server of datagrams
  std::function<kv::AgentServerNumbers()> kv_agents = nullptr;
  std::function<GraphNumbers()> graph = nullptr;
};

class Endpoint {
 public:
  // "PORT", on 127.0.0.1, or what net::ParseAddress reads. One beyond loopback is refused unless
  // `anywhere`: what is served has no password, and names databases and processes.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Open(const std::string& address, bool anywhere,
                                                        Sources sources);
  ~Endpoint();

  // The options of a command that has one.
  static void AddOptions(CLI::App* command, const char* example_port, std::string* address,
                         bool* anywhere);
  // As it may be given to a browser.
  const std::string& url() const { return url_; }

 private:
  Endpoint();
  std::shared_ptr<prometheus::Collectable> collector_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::optional<net::Address> address_;  // where it listens
  std::string url_;
};

}  // namespace pulse::metrics
