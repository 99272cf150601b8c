// The page of `pulse graph serve --http`, and its one request, POST /query with JSON. On loopback
// alone: whoever is elsewhere comes by a tunnel.
//
// A page of a stranger, in the browser of a user of this machine, must not reach the graph:
// requests with another Host than this server's (DNS rebinding), with another Origin, or with
// another content type than JSON (forms) are refused; so is what a browser says to come from
// another site. Users are those of the Bolt server, by HTTP's basic authentication.
//
// Ownership: the service outlives the server. Threads: Open and the destructor are for one;
// requests run on threads of the server. The destructor ends what runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/access.h"
#include "net/logon_throttle.h"
#include "services/graph/session/service.h"

struct mg_connection;
struct mg_context;

namespace pulse {

// With @NONCE@ where the nonce of the content security policy goes.
extern const char kGraphPage[];

struct PageLimits {
  size_t request_bytes = size_t{4} << 20;
  size_t rows = 10'000;
  size_t answer_bytes = size_t{16} << 20;  // of rows
  size_t drawn = 400;                      // nodes, and twice as many relationships
  int64_t query_nanos = 60'000'000'000;    // or the service's, if that is less
};

class PageServer {
 public:
  // `port` 0: one that the kernel chooses. Unavailable: somebody has it.
  // `throttle`: of wrong passwords, shared with the Bolt server.
  static absl::StatusOr<std::unique_ptr<PageServer>> Open(
      cypher::GraphService* service, const net::AccessOptions& access,
      std::shared_ptr<net::LogonThrottle> throttle, uint16_t port, const PageLimits& limits = {});
  ~PageServer();
  uint16_t port() const { return port_; }

 private:
  PageServer(cypher::GraphService* service, std::shared_ptr<net::LogonThrottle> throttle,
             const PageLimits& limits)
      : service_(service), throttle_(std::move(throttle)), limits_(limits) {}
  static int OnRequest(mg_connection* connection);
  void Serve(mg_connection* connection);
  // Null, and the request is answered, where it may not be.
  const net::User* CheckRequest(mg_connection* connection);
  void SendPage(mg_connection* connection, bool body);
  void Query(mg_connection* connection, const net::User& user);
  // The answer to a request's body, and its status code.
  std::string Answer(const std::string& body, const net::User& user, int* code);

  cypher::GraphService* const service_;
  const std::shared_ptr<net::LogonThrottle> throttle_;
  const PageLimits limits_;
  net::Access access_;
  uint16_t port_ = 0;
  mg_context* context_ = nullptr;
  std::atomic<bool> stopping_{false};
};

}  // namespace pulse
