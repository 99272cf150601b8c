// A graph in memory, simple rather than fast: for tests of the query engine, and the oracle for
// tests of stores. For tests only. One thread. A copy of it is a snapshot.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "services/graph/model/database.h"

namespace pulse::cypher {

class MemoryGraph : public DatabaseTransaction {
 public:
  struct Node {
    std::vector<Token> labels;
    std::map<Token, Value> properties;
    std::vector<EdgeId> out, in;
  };
  struct Edge {
    EdgeRef ref;
    std::map<Token, Value> properties;
  };

  // What a query changed is the difference of two of these, as the openCypher TCK counts it.
  struct State {
    std::set<NodeId> nodes;
    std::set<EdgeId> edges;
    std::set<std::string> labels;
    std::set<std::string> properties;  // owner, key and value as text
  };
  State GetState() const;

  void CreateIndex(std::string_view label, const std::vector<std::string>& keys);
  void DropIndex(std::string_view label, const std::vector<std::string>& keys);
  DatabaseNames Names() const { return {labels_, types_, keys_}; }
  // There is nothing to commit to: MemoryDatabase's transactions do.
  absl::Status Commit() override { return absl::OkStatus(); }
  const std::map<NodeId, Node>& nodes() const { return nodes_; }
  const std::map<EdgeId, Edge>& edges() const { return edges_; }

  std::optional<Token> FindLabel(std::string_view name) const override {
    return Find(labels_, name);
  }
  std::optional<Token> FindType(std::string_view name) const override { return Find(types_, name); }
  std::optional<Token> FindKey(std::string_view name) const override { return Find(keys_, name); }
  std::string LabelName(Token label) const override { return labels_.at(label); }
  std::string TypeName(Token type) const override { return types_.at(type); }
  std::string KeyName(Token key) const override { return keys_.at(key); }
  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override;
  absl::StatusOr<size_t> ScanEdges(std::span<const Token> types, uint64_t* position,
                                   std::span<EdgeRef> out) const override;
  absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                      std::span<const Token> types, size_t limit, ExpandPosition* position,
                      NeighbourBatch* out) const override;
  absl::Status Degrees(std::span<const NodeId> nodes, Direction direction,
                       std::span<const Token> types, std::span<uint64_t> degrees) const override;
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                Column* out) const override;
  absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                Column* out) const override;
  absl::Status ReadNodeProperties(NodeId node, Properties* out) const override;
  absl::Status ReadEdgeProperties(const EdgeRef& edge, Properties* out) const override;
  absl::Status ReadLabels(NodeId node, std::vector<Token>* out) const override;
  absl::Status HasLabel(Token label, std::span<const NodeId> nodes,
                        std::span<uint8_t> out) const override;
  bool EveryNodeHas(Token label) const override { return NodeCount(label) == nodes_.size(); }
  absl::StatusOr<bool> NodeExists(NodeId node) const override { return nodes_.contains(node); }
  absl::StatusOr<bool> EdgeExists(const EdgeRef& edge) const override {
    return edges_.contains(edge.id);
  }
  bool HasIndex(Token label, std::span<const Token> keys) const override {
    return indexes_.contains({label, {keys.begin(), keys.end()}});
  }
  std::vector<std::vector<Token>> WideIndexes(Token label) const override;
  absl::Status Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                    std::vector<NodeId>* out) const override;
  absl::StatusOr<bool> SeekRange(Token label, Token key, std::span<const Bound> bounds, size_t most,
                                 std::vector<NodeId>* out) const override;
  uint64_t NodeCount(Token label) const override;
  uint64_t EdgeCount(Token type) const override;

  absl::StatusOr<Token> AddLabelName(std::string_view name) override { return Add(&labels_, name); }
  absl::StatusOr<Token> AddTypeName(std::string_view name) override { return Add(&types_, name); }
  absl::StatusOr<Token> AddKeyName(std::string_view name) override { return Add(&keys_, name); }
  absl::StatusOr<NodeId> CreateNode(std::span<const Token> labels,
                                    const Properties& properties) override;
  absl::StatusOr<EdgeRef> CreateEdge(NodeId source, NodeId target, Token type,
                                     const Properties& properties) override;
  absl::Status SetNodeProperty(NodeId node, Token key, const Value& value) override;
  absl::Status SetEdgeProperty(const EdgeRef& edge, Token key, const Value& value) override;
  absl::Status AddLabel(NodeId node, Token label) override;
  absl::Status RemoveLabel(NodeId node, Token label) override;
  absl::Status DeleteNode(NodeId node) override;
  absl::Status DeleteEdge(const EdgeRef& edge) override;

 private:
  static std::optional<Token> Find(const std::vector<std::string>& names, std::string_view name);
  static Token Add(std::vector<std::string>* names, std::string_view name);
  std::vector<Token> KeysOf(const std::vector<std::string>& names);
  // The relationships of one node, in a fixed order.
  void Neighbours(NodeId node, Direction direction, std::span<const Token> types, uint32_t origin,
                  NeighbourBatch* out) const;

  std::vector<std::string> labels_, types_, keys_;
  std::map<NodeId, Node> nodes_;
  std::map<EdgeId, Edge> edges_;
  std::set<std::pair<Token, std::vector<Token>>> indexes_;  // of labels and keys
  NodeId next_node_ = 0;
  EdgeId next_edge_ = 0;
};

}  // namespace pulse::cypher
