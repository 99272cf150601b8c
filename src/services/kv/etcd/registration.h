// EtcdRegistration: a server's endpoints in etcd, for clients to find it by: section 5 of the
// DPU-KV paper. One key for each endpoint, PREFIX/ID, whose value is JSON:
//
//   {"id": "40 digits", "host": "10.0.0.1", "port": 6379, "first_slot": 0, "last_slot": 16383,
//    "cluster": false, "protocols": ["redis", "memcached"], "tls": false}
//
// Where datagrams are served, protocols have "udp", and there is one field more, the port of each
// partition: "udp_ports": [7000, 7001]. (The seed of the hash, by which a client chooses among
// them, is no matter of who reads etcd: the endpoints tell it to their clients.)
//
// A thread keeps their lease alive (lease.h) until the object goes, and then takes them away; of a
// server that dies, etcd does so when the time to live is over.
//
// Threads: Open and the destructor for one. Blocking: Open does not; the destructor waits for etcd,
// for a bounded time. Errors: of the URL alone; an etcd that is away is logged.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "services/kv/etcd/http_client.h"
#include "services/kv/etcd/lease.h"
#include "services/redis/commands/cluster.h"

namespace pulse::kv {

struct EtcdOptions {
  std::string url;
  std::string prefix = "/pulse/kv";
  int64_t ttl_seconds = 5;
  std::vector<std::string> protocols;
  bool tls = false;
  std::vector<uint16_t> udp_ports = {};  // by partition
};

class EtcdRegistration {
 public:
  // Of endpoints that listen already.
  static absl::StatusOr<std::unique_ptr<EtcdRegistration>> Open(const EtcdOptions& options,
                                                                const redis::Cluster& endpoints);
  ~EtcdRegistration();

 private:
  EtcdRegistration(const EtcdOptions& options, const redis::Cluster& endpoints,
                   std::unique_ptr<HttpClient> http);
  void Run();

  const std::unique_ptr<HttpClient> http_;
  EtcdLease lease_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace pulse::kv
