// The nodes of an index in the order of their values: made when a range is asked for first, and
// kept up from then on. 24 bytes a node, and a third more.
//
// Threads: any. A reader takes the lock for a few hundred nodes at a time.
#pragma once

#include <atomic>
#include <shared_mutex>
#include <vector>

#include "absl/container/btree_set.h"
#include "services/graph/nodes/node_table.h"
#include "services/graph/nodes/value_order.h"

namespace pulse::graph {

class IndexOrder {
 public:
  struct Entry {
    OrderPlace place;
    NodeId node;
    auto operator<=>(const Entry&) const = default;
  };

  // For snapshots from `since` on.
  explicit IndexOrder(uint64_t since) : since_(since) {}

  // Whether it has all nodes that the snapshot may find.
  bool Serves(uint64_t sequence) const {
    return complete_.load(std::memory_order_acquire) && sequence >= since_;
  }
  void Add(const Entry& entry);
  void Drop(const Entry& entry);
  // Adds those that there were before Add() was called; then it is complete.
  void Complete(std::vector<Entry> entries);
  // Appends the nodes of a range, by place; one with several values may come several times. False:
  // there are more than `most`, as far as it can tell.
  bool Find(const OrderRange& range, size_t most, std::vector<NodeId>* out) const;

 private:
  // Places at equal distances, as long as most entries were there when these were chosen.
  static constexpr size_t kSteps = 256;
  bool AreMany(const OrderRange& range, size_t most) const;

  const uint64_t since_;
  std::atomic<bool> complete_{false};
  mutable std::shared_mutex mu_;
  absl::btree_set<Entry> entries_;
  std::vector<OrderPlace> steps_;
  size_t changes_ = 0;  // since these were chosen
};

}  // namespace pulse::graph
