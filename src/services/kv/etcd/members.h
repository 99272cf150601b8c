// EtcdMembers: the nodes of a cluster of several processes, as their registrations in etcd
// (registration.h) tell of them: who is there, and for which slots. Section 5 of the DPU-KV paper
// has clients find servers by etcd; here servers find each other by it, too.
//
// A node is there as long as its key is. One whose key went, as its process ended or died, has
// failed, and its slots are nobody's until a process that was given them registers. Of nodes with
// slots in common, the one whose key is older has them: so a second process for the same slots
// waits, and takes over when the first one's key goes. A process that starts again at its address
// writes over its own key, which stays as old as it was.
//
// While etcd is away, the members are those that were known last; if nothing is known when a
// process starts, it takes its slots. Before the first answer, or failure, it does not.
//
// Threads: Open and the destructor for one; a thread of its own reads etcd, each second at least,
// and calls Cluster::SetMembers. Blocking: Open does not; the destructor waits for a request on its
// way, which is cancelled. Errors: of the URL alone; others are logged, once. Values in etcd are
// untrusted: one that makes no sense is no member.
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
#include "services/kv/etcd/values.h"
#include "services/redis/commands/cluster.h"

namespace pulse::kv {

// A node's registration.
struct RegisteredNode {
  redis::Cluster::Member node;
  int64_t revision = 0;
};
// Those of a cluster's nodes among the values.
std::vector<RegisteredNode> NodesIn(const std::vector<EtcdValue>& values);
// Who has which slots, ordered by these. `known`: what was so before.
redis::Cluster::Members MembersOf(const redis::Cluster& cluster,
                                  const std::vector<RegisteredNode>& registered,
                                  const redis::Cluster::Members& known);

class EtcdMembers {
 public:
  // `cluster` listens already, with WaitForMembers, is spread, and outlives this object.
  static absl::StatusOr<std::unique_ptr<EtcdMembers>> Open(const std::string& url,
                                                           std::string prefix,
                                                           redis::Cluster* cluster);
  ~EtcdMembers();

 private:
  EtcdMembers(std::string prefix, redis::Cluster* cluster, std::unique_ptr<HttpClient> http);
  void Run();
  void Read();
  void Tell(const redis::Cluster::Members& before, const redis::Cluster::Members& now) const;

  const std::string prefix_;
  redis::Cluster* const cluster_;
  const std::unique_ptr<HttpClient> http_;
  bool heard_ = true;  // of etcd, at the last try
  bool heard_once_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace pulse::kv
