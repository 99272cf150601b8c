// ResultTable: the rows of a statement, with what their nodes and relationships were when it ran,
// so that it can be read when the transaction is over. TableSink fills one.
//
// Ownership: a table owns all that it shows. Threads: one at a time. Nothing blocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "services/graph/session/service.h"

namespace pulse::graph {

using cypher::EdgeRef;
using cypher::NodeId;
using cypher::Token;
using cypher::Value;

struct NodeRecord {
  std::vector<Token> labels;
  cypher::Properties properties;
};

struct EdgeRecord {
  cypher::Properties properties;
};

// The nodes and relationships that the values of a result name. What the statement has deleted has
// no labels and properties.
struct EntityRecords {
  absl::flat_hash_map<NodeId, NodeRecord> nodes;
  absl::flat_hash_map<cypher::EdgeId, EdgeRecord> edges;
  absl::flat_hash_map<Token, std::string> labels, types, keys;
};

class ResultTable {
 public:
  explicit ResultTable(std::shared_ptr<const cypher::Statement> statement)
      : statement_(std::move(statement)), width_(statement_->columns().size()) {}

  const std::vector<std::string>& columns() const { return statement_->columns(); }
  size_t width() const { return width_; }
  size_t rows() const { return rows_; }
  const Value& At(size_t row, size_t column) const { return values_[row * width_ + column]; }
  const Value* Row(size_t row) const { return values_.data() + row * width_; }
  // Null where no value names any.
  const EntityRecords* entities() const { return entities_.get(); }
  const cypher::Outcome& outcome() const { return outcome_; }
  const cypher::Statement& statement() const { return *statement_; }

 private:
  friend class TableSink;
  friend class EmbeddedGraph;
  friend class EmbeddedTransaction;
  std::shared_ptr<const cypher::Statement> statement_;
  size_t width_;
  std::vector<Value> values_;
  size_t rows_ = 0;
  std::unique_ptr<EntityRecords> entities_;
  cypher::Outcome outcome_;
};

class TableSink : public cypher::RowSink {
 public:
  // `most_bytes`: of the table, estimated; 0: no limit. The sink outlives neither.
  TableSink(ResultTable* table, size_t most_bytes) : table_(*table), most_bytes_(most_bytes) {}

  bool OnRows(const cypher::GraphView& view, const Value* rows, size_t stride, size_t count,
              std::span<const cypher::Slot> columns) override;
  bool Restart() override;
  // What ended the rows early. The statement is to be ended with it, and not committed: `end` of
  // the running entry is called when it happens.
  absl::Status status() const override { return status_; }
  void EndBy(cypher::RunningList* list, cypher::RunningEntry* entry) {
    list_ = list;
    entry_ = entry;
  }

 private:
  bool Fail(absl::Status status);
  bool Take(const cypher::GraphView& view, const Value& value);
  bool TakeNode(const cypher::GraphView& view, NodeId node);
  bool TakeEdge(const cypher::GraphView& view, const EdgeRef& edge);
  void TakeProperties(const cypher::GraphView& view, const cypher::Properties& properties);

  ResultTable& table_;
  const size_t most_bytes_;
  size_t bytes_ = 0;
  absl::Status status_;
  cypher::RunningList* list_ = nullptr;
  cypher::RunningEntry* entry_ = nullptr;
};

}  // namespace pulse::graph
