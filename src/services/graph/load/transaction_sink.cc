#include "services/graph/load/transaction_sink.h"

#include <algorithm>
#include <iterator>

#include "base/errors.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

void PropertiesAt(const LoadColumns& columns, size_t row, cypher::Properties* out) {
  out->clear();
  for (const auto& [key, column] : columns) {
    Value value = ValueAt(column, row);
    if (!value.is_null()) out->emplace_back(key, std::move(value));
  }
}

}  // namespace

absl::Status TransactionSink::AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) {
  cypher::Properties properties;
  for (size_t i = 0; i < batch.count; ++i) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted_, i));
    PropertiesAt(batch.columns, i, &properties);
    const auto& labels = batch.label_sets[batch.label_set.empty() ? 0 : batch.label_set[i]];
    PULSE_ASSIGN_OR_RETURN(const NodeId id, transaction_.CreateNode(labels, properties));
    ids->push_back(id);
    PULSE_RETURN_IF_ERROR(CheckChanges());
  }
  return absl::OkStatus();
}

absl::Status TransactionSink::AddEdges(const EdgeBatch& batch) {
  cypher::Properties properties;
  for (size_t i = 0; i < batch.sources.size(); ++i) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted_, i));
    PropertiesAt(batch.columns, i, &properties);
    PULSE_RETURN_IF_ERROR(
        transaction_.CreateEdge(batch.sources[i], batch.targets[i], batch.type, properties)
            .status());
    PULSE_RETURN_IF_ERROR(CheckChanges());
  }
  return absl::OkStatus();
}

void TransactionSink::CheckConstraints(const std::vector<cypher::IndexDefinition>& indexes) {
  std::copy_if(indexes.begin(), indexes.end(), std::back_inserter(constraints_),
               [](const cypher::IndexDefinition& index) { return index.Refuses(); });
}

absl::StatusOr<bool> TransactionSink::HasNode(const cypher::IndexDefinition& constraint,
                                              std::span<const cypher::Value> values) {
  const auto label = transaction_.FindLabel(constraint.label);
  if (!label) return false;
  std::vector<Token> keys;
  for (const std::string& name : constraint.keys) {
    const auto key = transaction_.FindKey(name);
    if (!key) return false;
    keys.push_back(*key);
  }
  // Whoever drops it meanwhile allows all values.
  if (!transaction_.HasIndex(*label, keys)) return false;
  std::vector<NodeId> found;
  PULSE_RETURN_IF_ERROR(transaction_.Seek(*label, keys, values, &found));
  return !found.empty();
}

absl::Status TransactionSink::CheckChanges() const {
  if (change_bytes_ == 0 || transaction_.ChangeBytes() <= change_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      cypher::Concat("what the load writes needs more than its limit of ", change_bytes_,
                     " bytes of memory", hint_));
}

}  // namespace pulse::graph
