// A server of the Bolt protocol on a graph database: listeners, TLS, users, limits. Neo4j's drivers
// are its clients. A director's loops read and write; a pool of threads runs queries, so that a
// long one delays nobody.
//
// Ownership: the service outlives the server. Threads: Open, Stop and the destructor are for one
// thread; the rest is for any. Open and Stop block. Errors say what failed and the remedy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/access.h"
#include "net/logon_throttle.h"
#include "services/graph/bolt/shared.h"
#include "services/graph/session/service.h"

namespace pulse::bolt {

struct BoltOptions : net::AccessOptions {
  std::string bind = "127.0.0.1";
  uint16_t port = 7687;  // 0: chosen by the kernel
  int threads = 1;       // loops
  // Threads that run queries. A client that is slow in taking a large result gives its own away
  // meanwhile, as long as no more than kMostWaiting do.
  int workers = 64;
  std::vector<int> cpus;
  uint32_t max_clients = 1000;
  BoltLimits limits;
  // Of wrong passwords, shared with other doors to the same graph; null: the server has its own.
  std::shared_ptr<net::LogonThrottle> throttle;
};

struct BoltNumbers {
  uint64_t connections = 0;  // now
  uint64_t connections_total = 0;
  uint64_t messages = 0;
  uint64_t failures = 0;
};

class BoltServer {
 public:
  static absl::StatusOr<std::unique_ptr<BoltServer>> Open(cypher::GraphService* service,
                                                          const BoltOptions& options);
  virtual ~BoltServer() = default;
  virtual uint16_t port() const = 0;
  virtual BoltNumbers numbers() const = 0;
  // No new connections; what runs has some seconds to end, then it is ended.
  virtual void Stop() = 0;
};

}  // namespace pulse::bolt
