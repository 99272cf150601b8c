// What checkpoint and log say of a damaged database: nodes, names, indexes, and what the log has of
// relationships. Operations are applied although others before them were lost. Internal.
//
// Pure; one thread. Any operations are taken.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "services/graph/core/operations.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {

class SalvagedGraph {
 public:
  struct Node {
    bool deleted = false;
    std::vector<Token> labels;
    std::string properties;
  };
  struct LoggedEdge {
    EdgeRef ref;
    uint64_t sequence = 0;  // of the last operation
    bool deleted = false;
    bool written = false;
    std::string known;    // properties as far as the log tells
    std::string changes;  // since what is in runs; null removes
  };

  // Relationships up to `flushed` are in runs.
  void SetFlushed(uint64_t flushed) { flushed_ = flushed; }
  // Applies what comes in order. DataLoss: the operations are damaged from some place on.
  absl::Status Apply(uint64_t sequence, std::string_view payload);

  // Null: nothing is known of it.
  const Node* FindNode(NodeId node) const {
    const auto it = nodes_.find(node);
    return it == nodes_.end() ? nullptr : &it->second;
  }
  LoggedEdge* FindEdge(EdgeId edge) {
    const auto it = edges_.find(edge);
    return it == edges_.end() ? nullptr : &it->second;
  }
  void AddBareNode(NodeId node) {
    nodes_[node];
    CountNode(node);
  }
  void CountEdge(EdgeId edge) {
    if (edge < kLocalEdgeIds && edge >= next_edge_) next_edge_ = edge + 1;
  }
  const absl::flat_hash_map<NodeId, Node>& nodes() const { return nodes_; }
  absl::flat_hash_map<EdgeId, LoggedEdge>& edges() { return edges_; }
  const std::map<Token, std::string>& names(NameKind kind) const {
    return names_[static_cast<size_t>(kind)];
  }
  const std::map<std::string, IndexDefinition, std::less<>>& indexes() const { return indexes_; }
  NodeId next_node() const { return next_node_; }
  EdgeId next_edge() const { return next_edge_; }
  // The first and the last node that the last call of Apply() has made; first > last: none.
  NodeId first_made() const { return first_made_; }
  NodeId last_made() const { return last_made_; }

 private:
  void CountNode(NodeId node) { next_node_ = std::max(next_node_, node + 1); }
  void ApplyNode(const Operation& op);
  void ApplyEdge(uint64_t sequence, const Operation& op);

  uint64_t flushed_ = 0;
  absl::flat_hash_map<NodeId, Node> nodes_;
  absl::flat_hash_map<EdgeId, LoggedEdge> edges_;
  std::map<Token, std::string> names_[3];
  std::map<std::string, IndexDefinition, std::less<>> indexes_;
  NodeId next_node_ = 0;
  EdgeId next_edge_ = 0;
  NodeId first_made_ = 1, last_made_ = 0;
};

}  // namespace pulse::graph
