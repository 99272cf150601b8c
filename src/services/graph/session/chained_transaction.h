// ChainedTransaction: one transaction after the other, as one that its users never have to change.
// It is that of a statement with CALL { … } IN TRANSACTIONS, which commits on the way: what was
// read before stays as it was read, and what is read afterwards sees what was committed.
//
// As a transaction, it is used by one thread. Errors and blocking are those of the transactions.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "services/graph/model/database.h"

namespace pulse::cypher {

class ChainedTransaction : public DatabaseTransaction {
 public:
  using BeginNext = std::function<absl::StatusOr<std::unique_ptr<DatabaseTransaction>>()>;

  ChainedTransaction(std::unique_ptr<DatabaseTransaction> first, BeginNext next)
      : now_(std::move(first)), next_(std::move(next)) {}

  absl::Status CommitAndGoOn() override {
    const absl::Status committed = now_->Commit();
    auto next = next_();
    // The one that is over must not be gone on with, as after a conflict.
    if (!next.ok()) return lost_ = next.status();
    now_ = *std::move(next);
    return committed;
  }
  absl::Status RollbackAndGoOn() override {
    if (!lost_.ok()) return lost_;
    auto next = next_();
    if (!next.ok()) return lost_ = next.status();
    now_ = *std::move(next);  // the end of one that was not committed rolls it back
    return absl::OkStatus();
  }
  absl::Status Commit() override { return now_->Commit(); }

  std::optional<Token> FindLabel(std::string_view name) const override {
    return now_->FindLabel(name);
  }
  std::optional<Token> FindType(std::string_view name) const override {
    return now_->FindType(name);
  }
  std::optional<Token> FindKey(std::string_view name) const override { return now_->FindKey(name); }
  std::string LabelName(Token label) const override { return now_->LabelName(label); }
  std::string TypeName(Token type) const override { return now_->TypeName(type); }
  std::string KeyName(Token key) const override { return now_->KeyName(key); }
  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override {
    return now_->ScanNodes(label, position, out);
  }
  absl::StatusOr<size_t> ScanEdges(std::span<const Token> types, uint64_t* position,
                                   std::span<EdgeRef> out) const override {
    return now_->ScanEdges(types, position, out);
  }
  absl::StatusOr<size_t> ScanEdgeProperty(std::span<const Token> types, Token key,
                                          uint64_t* position, size_t limit,
                                          Column* out) const override {
    return now_->ScanEdgeProperty(types, key, position, limit, out);
  }
  size_t SkipEdges(std::span<const Token> types, std::span<const PropertyBound> bounds,
                   uint64_t* position) const override {
    return now_->SkipEdges(types, bounds, position);
  }
  absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                      std::span<const Token> types, size_t limit, ExpandPosition* position,
                      NeighbourBatch* out) const override {
    return now_->Expand(nodes, direction, types, limit, position, out);
  }
  absl::Status Degrees(std::span<const NodeId> nodes, Direction direction,
                       std::span<const Token> types, std::span<uint64_t> degrees) const override {
    return now_->Degrees(nodes, direction, types, degrees);
  }
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                Column* out) const override {
    return now_->ReadNodeProperty(key, nodes, out);
  }
  absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                Column* out) const override {
    return now_->ReadEdgeProperty(key, edges, out);
  }
  absl::Status ReadNodeProperties(NodeId node, Properties* out) const override {
    return now_->ReadNodeProperties(node, out);
  }
  absl::Status ReadEdgeProperties(const EdgeRef& edge, Properties* out) const override {
    return now_->ReadEdgeProperties(edge, out);
  }
  absl::Status ReadLabels(NodeId node, std::vector<Token>* out) const override {
    return now_->ReadLabels(node, out);
  }
  absl::Status HasLabel(Token label, std::span<const NodeId> nodes,
                        std::span<uint8_t> out) const override {
    return now_->HasLabel(label, nodes, out);
  }
  bool EveryNodeHas(Token label) const override { return now_->EveryNodeHas(label); }
  absl::StatusOr<bool> NodeExists(NodeId node) const override { return now_->NodeExists(node); }
  absl::StatusOr<bool> EdgeExists(const EdgeRef& edge) const override {
    return now_->EdgeExists(edge);
  }
  bool HasIndex(Token label, std::span<const Token> keys) const override {
    return now_->HasIndex(label, keys);
  }
  absl::StatusOr<bool> SeekRange(Token label, Token key, std::span<const Bound> bounds, size_t most,
                                 std::vector<NodeId>* out) const override {
    return now_->SeekRange(label, key, bounds, most, out);
  }
  absl::Status Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                    std::vector<NodeId>* out) const override {
    return now_->Seek(label, keys, values, out);
  }
  std::vector<std::vector<Token>> WideIndexes(Token label) const override {
    return now_->WideIndexes(label);
  }
  uint64_t NodeCount(Token label) const override { return now_->NodeCount(label); }
  uint64_t EdgeCount(Token type) const override { return now_->EdgeCount(type); }
  absl::StatusOr<size_t> SampleNodes(Token label, std::span<NodeId> out) const override {
    return now_->SampleNodes(label, out);
  }

  absl::StatusOr<Token> AddLabelName(std::string_view name) override {
    return now_->AddLabelName(name);
  }
  absl::StatusOr<Token> AddTypeName(std::string_view name) override {
    return now_->AddTypeName(name);
  }
  absl::StatusOr<Token> AddKeyName(std::string_view name) override {
    return now_->AddKeyName(name);
  }
  absl::StatusOr<NodeId> CreateNode(std::span<const Token> labels,
                                    const Properties& properties) override {
    return now_->CreateNode(labels, properties);
  }
  absl::StatusOr<EdgeRef> CreateEdge(NodeId source, NodeId target, Token type,
                                     const Properties& properties) override {
    return now_->CreateEdge(source, target, type, properties);
  }
  absl::Status SetNodeProperty(NodeId node, Token key, const Value& value) override {
    return now_->SetNodeProperty(node, key, value);
  }
  absl::Status SetEdgeProperty(const EdgeRef& edge, Token key, const Value& value) override {
    return now_->SetEdgeProperty(edge, key, value);
  }
  absl::Status AddLabel(NodeId node, Token label) override { return now_->AddLabel(node, label); }
  absl::Status RemoveLabel(NodeId node, Token label) override {
    return now_->RemoveLabel(node, label);
  }
  absl::Status DeleteNode(NodeId node) override { return now_->DeleteNode(node); }
  absl::Status DeleteEdge(const EdgeRef& edge) override { return now_->DeleteEdge(edge); }
  uint64_t ChangeBytes() const override { return now_->ChangeBytes(); }
  uint64_t ChangeLimit() const override { return now_->ChangeLimit(); }

 private:
  std::unique_ptr<DatabaseTransaction> now_;
  const BeginNext next_;
  absl::Status lost_;  // why there is no transaction to go on with
};

}  // namespace pulse::cypher
