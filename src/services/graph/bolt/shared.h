// What all connections of a Bolt server share. Constant while it serves, but for the counters.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "net/logon_throttle.h"
#include "net/users.h"
#include "services/graph/session/service.h"

namespace pulse::bolt {

struct BoltLimits {
  size_t message_bytes = size_t{16} << 20;
  size_t message_bytes_before_logon = size_t{64} << 10;
  // Of one result: rows that were made before the client asked for them.
  size_t read_ahead_bytes = size_t{256} << 10;
  // Of all results of a transaction together: where the client asks for something else before it
  // has taken all.
  size_t buffered_bytes = size_t{256} << 20;
  size_t results = 1000;                    // of a transaction that were not taken to their end
  std::chrono::milliseconds logon{30'000};  // in which a client has to say who it is
  // In which a client that has not taken all of a result has to ask for more, or it is ended.
  std::chrono::milliseconds stalled{60'000};
};

class BoltConnection;

// Connections whose client has not said who it is, which are not waited for. Thread-safe.
class UnauthenticatedList {
 public:
  struct Entry {
    std::weak_ptr<const BoltConnection> connection;
    std::function<void()> cut;  // ends the connection; must not block
  };
  void Add(Entry entry);
  // Cuts off those that are unknown since before `then`.
  void Sweep(int64_t then);

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

struct BoltShared {
  cypher::GraphService* service = nullptr;
  const net::Users* users = nullptr;
  std::shared_ptr<net::LogonThrottle> throttle = std::make_shared<net::LogonThrottle>();
  WorkerPool* pool = nullptr;
  BoltLimits limits;
  std::string address;  // for routing tables of clients that do not say how they came here
  UnauthenticatedList unauthenticated;
  std::atomic<uint64_t> connections{0};  // so far
  std::atomic<uint64_t> messages{0};
  std::atomic<uint64_t> failures{0};
};

}  // namespace pulse::bolt
