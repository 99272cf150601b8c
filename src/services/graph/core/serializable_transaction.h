// A transaction that remembers what it reads, and whose commit is refused where somebody has
// changed that since its snapshot (read_set.h). One thread at a time.
#pragma once

#include <memory>
#include <utility>

#include "services/graph/core/read_set.h"
#include "services/graph/core/transaction.h"

namespace pulse::graph {

class SerializableTransaction : public Transaction {
 public:
  // `registration` keeps the footprints of commits from the snapshot on.
  SerializableTransaction(TransactionHost* host, std::shared_ptr<const View> base,
                          std::shared_ptr<void> registration)
      : Transaction(host, std::move(base)), registration_(std::move(registration)) {}

  std::optional<Token> FindLabel(std::string_view name) const override {
    return Found(NameKind::kLabel, name, Transaction::FindLabel(name));
  }
  std::optional<Token> FindType(std::string_view name) const override {
    return Found(NameKind::kType, name, Transaction::FindType(name));
  }
  std::optional<Token> FindKey(std::string_view name) const override {
    return Found(NameKind::kKey, name, Transaction::FindKey(name));
  }
  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override {
    reads_.AddLabel(label);
    return Transaction::ScanNodes(label, position, out);
  }
  absl::StatusOr<size_t> ScanEdges(std::span<const Token> types, uint64_t* position,
                                   std::span<EdgeRef> out) const override {
    reads_.AddTypes(types, false);
    return Transaction::ScanEdges(types, position, out);
  }
  absl::StatusOr<size_t> ScanEdgeProperty(std::span<const Token> types, Token key,
                                          uint64_t* position, size_t limit,
                                          Column* out) const override {
    // Not relationship by relationship.
    reads_.AddTypes(types, true);
    return Transaction::ScanEdgeProperty(types, key, position, limit, out);
  }
  absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                      std::span<const Token> types, size_t limit, ExpandPosition* position,
                      NeighbourBatch* out) const override {
    const size_t first = position->node;
    const absl::Status status = Transaction::Expand(nodes, direction, types, limit, position, out);
    for (size_t i = first; i < nodes.size() && i <= position->node; ++i) {
      reads_.AddAdjacency(nodes[i], direction);
    }
    return status;
  }
  absl::Status Degrees(std::span<const NodeId> nodes, Direction direction,
                       std::span<const Token> types, std::span<uint64_t> degrees) const override {
    for (const NodeId node : nodes) reads_.AddAdjacency(node, direction);
    return Transaction::Degrees(nodes, direction, types, degrees);
  }
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                Column* out) const override {
    for (const NodeId node : nodes) reads_.AddNode(node);
    return Transaction::ReadNodeProperty(key, nodes, out);
  }
  absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                Column* out) const override {
    for (const EdgeRef& edge : edges) reads_.AddEdge(edge.id);
    return Transaction::ReadEdgeProperty(key, edges, out);
  }
  absl::Status ReadNodeProperties(NodeId node, Properties* out) const override {
    reads_.AddNode(node);
    return Transaction::ReadNodeProperties(node, out);
  }
  absl::Status ReadEdgeProperties(const EdgeRef& edge, Properties* out) const override {
    reads_.AddEdge(edge.id);
    return Transaction::ReadEdgeProperties(edge, out);
  }
  absl::Status ReadLabels(NodeId node, std::vector<Token>* out) const override {
    reads_.AddNode(node);
    return Transaction::ReadLabels(node, out);
  }
  absl::Status HasLabel(Token label, std::span<const NodeId> nodes,
                        std::span<uint8_t> out) const override {
    for (const NodeId node : nodes) reads_.AddNode(node);
    return Transaction::HasLabel(label, nodes, out);
  }
  // True would be read of nodes that nobody asks for.
  bool EveryNodeHas(Token /*label*/) const override { return false; }
  absl::StatusOr<bool> NodeExists(NodeId node) const override {
    reads_.AddNode(node);
    return Transaction::NodeExists(node);
  }
  absl::StatusOr<bool> EdgeExists(const EdgeRef& edge) const override {
    reads_.AddEdge(edge.id);
    return Transaction::EdgeExists(edge);
  }
  // A change by which a node is found, or no longer, gives one of the keys its value, or is the
  // node's.
  absl::Status Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                    std::vector<NodeId>* out) const override {
    const size_t before = out->size();
    for (size_t i = 0; i < keys.size(); ++i) reads_.AddSeek(label, keys[i], values[i]);
    const absl::Status status = Transaction::Seek(label, keys, values, out);
    for (size_t i = before; i < out->size(); ++i) reads_.AddNode((*out)[i]);
    return status;
  }

  // Of ranges nothing is kept: a scan reads the label.
  absl::StatusOr<bool> SeekRange(Token /*label*/, Token /*key*/,
                                 std::span<const cypher::Bound> /*bounds*/, size_t /*most*/,
                                 std::vector<NodeId>* /*out*/) const override {
    return false;
  }

 protected:
  const ReadSet* reads() const override { return &reads_; }

 private:
  std::optional<Token> Found(NameKind kind, std::string_view name,
                             std::optional<Token> token) const {
    if (!token.has_value()) reads_.AddMissingName(kind, name);
    return token;
  }

  const std::shared_ptr<void> registration_;
  mutable ReadSet reads_;
};

}  // namespace pulse::graph
