// The options of `pulse kv` that make it a part of a cluster: this process's slots, and who has the
// others. Errors name the option. Thread-safe; never blocks.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "services/redis/commands/cluster.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse {

struct ClusterArgs {
  bool cluster = false;
  std::string announce_host;
  std::string part;     // "K/N"
  std::string members;  // "HOST:PORT[/NODES],..."
};

void AddClusterOptions(CLI::App* cmd, ClusterArgs* args);

// Of this process, and of the list of members all nodes; none without such a list.
struct ClusterShare {
  redis::SlotRange slots;
  redis::Cluster::Members members;
};
// `host`, `port` and `nodes`: this process's. `has_etcd`: the others are found there.
absl::StatusOr<ClusterShare> ReadClusterShare(const ClusterArgs& args, const std::string& host,
                                              uint16_t port, int nodes, bool has_etcd);

}  // namespace pulse
