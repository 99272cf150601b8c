// Cluster: the endpoints of a server, and what each of them answers for. In cluster mode these are
// nodes: as in Redis Cluster, a key belongs to one of 16384 slots, and a node, which is a thread
// with a TCP port and a part of the keys, has a range of slots. Otherwise there is one endpoint,
// which has all slots.
//
// Threads: Listen is called once, before a client can connect; from then on all is constant and for
// any thread. Nothing blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::redis {

inline constexpr int kSlots = 16384;

// CRC16 (XMODEM) of the key, or of its hash tag: what lies between its first '{' and the next '}',
// unless that is nothing.
int SlotOf(std::string_view key);

class Cluster {
 public:
  struct Node {
    std::string id;  // 40 hexadecimal digits, of this run alone
    uint16_t port = 0;
    int first_slot = 0;
    int last_slot = 0;
  };
  // `host`: where clients reach it; empty if that is not known, which cluster mode does not allow.
  Cluster(bool enabled, int nodes, std::string host);

  bool enabled() const { return enabled_; }
  const std::string& host() const { return host_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  int NodeOf(int slot) const { return slot * static_cast<int>(nodes_.size()) / kSlots; }
  // The port of each node.
  void Listen(const std::vector<uint16_t>& ports);
  // "host:port", as MOVED has it.
  std::string AddressOf(int node) const;

 private:
  const bool enabled_;
  const std::string host_;
  std::vector<Node> nodes_;
};

// One node as its own commands see it; without a cluster in other modes.
struct ClusterNode {
  const Cluster* cluster = nullptr;
  int index = 0;

  explicit operator bool() const { return cluster != nullptr; }
  const Cluster::Node& self() const { return cluster->nodes()[static_cast<size_t>(index)]; }
  bool Has(std::string_view key) const { return cluster->NodeOf(SlotOf(key)) == index; }
};

// `bytes` random bytes as hexadecimal digits.
std::string RandomHex(size_t bytes);

}  // namespace pulse::redis
