// TransactionSink: bulk load into any graph, node by node through one transaction. The caller
// commits or rolls back; the transaction outlives the sink. One thread.
#pragma once

#include <vector>

#include "services/graph/load/sink.h"

namespace pulse::graph {

class TransactionSink : public LoadSink {
 public:
  explicit TransactionSink(cypher::GraphTransaction* transaction) : transaction_(*transaction) {}

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

 private:
  cypher::GraphTransaction& transaction_;
};

}  // namespace pulse::graph
