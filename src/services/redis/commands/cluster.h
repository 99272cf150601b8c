// Cluster: the endpoints of a server, and what each of them answers for. In cluster mode these are
// nodes: as in Redis Cluster, a key belongs to one of 16384 slots, and a node, which is a thread
// with a TCP port and a part of the keys, has a range of slots. Otherwise there is one endpoint,
// which has all slots.
//
// A cluster may be spread over several processes: each has a share of the slots, which its own
// nodes divide, and is told of the nodes of the others (SetMembers), of which some may have failed.
//
// Threads: Listen is called once, before a client can connect; SetMembers by one thread at a time,
// after it; all else is for any thread. Blocking: members() and OwnerOf take a lock for an
// instant, the latter only for another process's slot; nothing else waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::redis {

inline constexpr int kSlots = 16384;

// CRC16 (XMODEM) of the key, or of its hash tag: what lies between its first '{' and the next '}',
// unless that is nothing.
int SlotOf(std::string_view key);

struct SlotRange {
  int first = 0;
  int last = kSlots - 1;

  int size() const { return last - first + 1; }
  bool Has(int slot) const { return slot >= first && slot <= last; }
  bool Overlaps(const SlotRange& other) const { return first <= other.last && other.first <= last; }
  // Piece `index` of `count` that are as equal as can be; count <= size().
  SlotRange Piece(int index, int count) const;
};

class Cluster {
 public:
  struct Node {
    std::string id;  // 40 hexadecimal digits; of a cluster in one process, of this run alone
    uint16_t port = 0;
    int first_slot = 0;
    int last_slot = 0;

    SlotRange slots() const { return {first_slot, last_slot}; }
    bool operator==(const Node&) const = default;
  };
  enum class State {
    kServes,
    kFailed,      // it was there, and its process is not, or cannot be heard of
    kSuperseded,  // another node has its slots
  };
  // A node as the whole cluster sees it.
  struct Member : Node {
    std::string host;
    State state = State::kServes;

    bool operator==(const Member&) const = default;
  };
  using Members = std::vector<Member>;

  // `host`: where clients reach it; empty if that is not known, which cluster mode does not allow.
  // `slots`: this process's share; others have the rest.
  Cluster(bool enabled, int nodes, std::string host, SlotRange slots = {});

  bool enabled() const { return enabled_; }
  // Over several processes.
  bool spread() const { return owners_ != nullptr; }
  const std::string& host() const { return host_; }
  SlotRange slots() const { return slots_; }
  // Of this process, by their slots.
  const std::vector<Node>& nodes() const { return nodes_; }
  // The node of this process where a key of the slot is kept, if it is kept here.
  int NodeOf(int slot) const {
    const int count = static_cast<int>(nodes_.size());
    // Another process's slot: memcached's clients choose servers by themselves.
    if (!slots_.Has(slot)) return slot * count / kSlots;
    return (slot - slots_.first) * count / slots_.size();
  }
  // Whether clients are to come to this process's node `index` with keys of the slot.
  bool Serves(int slot, int index) const {
    return spread() ? owners_[static_cast<size_t>(slot)].load(std::memory_order_relaxed) == index
                    : NodeOf(slot) == index;
  }
  // Before Listen, in a spread cluster whose members are yet to be heard of: until SetMembers this
  // process's nodes have no slots, as another process may have them.
  void WaitForMembers() { waits_ = true; }
  // Before Listen, of a server without cluster mode: where clients are told to go instead, which is
  // an agent's port in front of it.
  void Announce(uint16_t port) { announced_port_ = port; }
  // The port of each node. Then the members are this process's nodes.
  void Listen(const std::vector<uint16_t>& ports);
  // "host:port", as MOVED has it.
  std::string AddressOf(int node) const;

  // All nodes of a spread cluster, with this process's; no two that serve have a slot in common.
  void SetMembers(Members members);
  // Another one once SetMembers has changed whose slots are whose.
  uint64_t generation() const { return generation_.load(); }
  std::shared_ptr<const Members> members() const;
  // Where clients find a slot's keys, as MOVED has it; empty: nobody serves it now.
  std::string OwnerOf(int slot) const;

 private:
  static constexpr int16_t kElsewhere = -1;

  const bool enabled_;
  const std::string host_;
  const SlotRange slots_;
  bool waits_ = false;
  uint16_t announced_port_ = 0;  // 0: the one that Listen is given
  std::vector<Node> nodes_;
  // Of a spread cluster: by slot, which of nodes_ serves it, or kElsewhere.
  std::unique_ptr<std::atomic<int16_t>[]> owners_;
  std::atomic<uint64_t> generation_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const Members> members_ = std::make_shared<Members>();
};

// One node as its own commands see it; without a cluster in other modes.
struct ClusterNode {
  const Cluster* cluster = nullptr;
  int index = 0;

  explicit operator bool() const { return cluster != nullptr; }
  const Cluster::Node& self() const { return cluster->nodes()[static_cast<size_t>(index)]; }
  bool HasSlot(int slot) const { return cluster->Serves(slot, index); }
  bool Has(std::string_view key) const { return HasSlot(SlotOf(key)); }
};

// What a node of a cluster of several processes is called: the same for all who know its address.
std::string NodeIdOf(std::string_view host, uint16_t port);

// `bytes` random bytes as hexadecimal digits.
std::string RandomHex(size_t bytes);

}  // namespace pulse::redis
