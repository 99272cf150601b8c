// TransactionSink: bulk load into any graph, node by node through one transaction. The caller
// commits or rolls back; the transaction outlives the sink. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "services/graph/load/sink.h"

namespace pulse::graph {

class TransactionSink : public LoadSink {
 public:
  // `change_bytes`: ResourceExhausted where the transaction's changes take more (0: no limit).
  // The error of that ends with `hint`.
  explicit TransactionSink(cypher::GraphTransaction* transaction, uint64_t change_bytes = 0,
                           std::string hint = {})
      : transaction_(*transaction), change_bytes_(change_bytes), hint_(std::move(hint)) {}

  absl::StatusOr<Token> Label(std::string_view name) override {
    return transaction_.AddLabelName(name);
  }
  absl::StatusOr<Token> Type(std::string_view name) override {
    return transaction_.AddTypeName(name);
  }
  absl::StatusOr<Token> Key(std::string_view name) override {
    return transaction_.AddKeyName(name);
  }
  absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) override;
  absl::Status AddEdges(const EdgeBatch& batch) override;
  // Of these indexes, those that are constraints; without it, their violation is an error of the
  // commit.
  void CheckConstraints(const std::vector<cypher::IndexDefinition>& indexes);
  std::vector<cypher::IndexDefinition> Constraints() const override { return constraints_; }
  absl::StatusOr<bool> HasNode(const cypher::IndexDefinition& constraint,
                               std::span<const cypher::Value> values) override;

 private:
  absl::Status CheckChanges() const;

  cypher::GraphTransaction& transaction_;
  const uint64_t change_bytes_;
  const std::string hint_;
  std::vector<cypher::IndexDefinition> constraints_;
};

}  // namespace pulse::graph
