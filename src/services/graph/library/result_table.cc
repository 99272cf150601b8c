#include "services/graph/library/result_table.h"

#include <utility>

#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::graph {

using cypher::Concat;
using cypher::GraphView;
using cypher::Type;

bool TableSink::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  // Rows that are no longer wanted are no error for the engine, which would commit.
  if (list_ != nullptr) list_->Terminate(entry_->id(), {});
  return false;
}

bool TableSink::Restart() {
  table_.values_.clear();
  table_.rows_ = 0;
  table_.entities_.reset();
  bytes_ = 0;
  return true;
}

bool TableSink::OnRows(const GraphView& view, const Value* rows, size_t stride, size_t count,
                       std::span<const cypher::Slot> columns) {
  std::vector<Value>& values = table_.values_;
  if (values.empty()) values.reserve(count * columns.size());
  for (size_t i = 0; i < count; ++i) {
    const Value* const row = rows + i * stride;
    for (const cypher::Slot column : columns) {
      const Value& value = row[column];
      if (value.type() >= Type::kString) {
        if (!value.is_temporal() && !Take(view, value)) return false;
        bytes_ += value.Bytes();
      }
      values.push_back(value);
    }
  }
  table_.rows_ += count;
  bytes_ += count * columns.size() * sizeof(Value);
  if (most_bytes_ == 0 || bytes_ <= most_bytes_) return true;
  return Fail(cypher::LimitError(
      absl::StatusCode::kResourceExhausted,
      Concat("the result needs more than the query's limit of ", most_bytes_, " bytes of memory")));
}

bool TableSink::Take(const GraphView& view, const Value& value) {
  switch (value.type()) {
    case Type::kList:
      for (const Value& item : value.as_list()) {
        if (item.type() >= Type::kList && !Take(view, item)) return false;
      }
      return true;
    case Type::kMap:
      for (const auto& [key, item] : value.as_map()) {
        if (item.type() >= Type::kList && !Take(view, item)) return false;
      }
      return true;
    case Type::kNode:
      return TakeNode(view, value.as_node());
    case Type::kEdge:
      return TakeEdge(view, value.as_edge());
    case Type::kPath:
      for (const NodeId node : value.as_path().nodes) {
        if (!TakeNode(view, node)) return false;
      }
      for (const EdgeRef& edge : value.as_path().edges) {
        if (!TakeEdge(view, edge)) return false;
      }
      return true;
    default:
      return true;
  }
}

void TableSink::TakeProperties(const GraphView& view, const cypher::Properties& properties) {
  auto& keys = table_.entities_->keys;
  for (const auto& [key, value] : properties) {
    bytes_ += sizeof(properties[0]) + (value.type() >= Type::kString ? value.Bytes() : 0);
    if (!keys.contains(key)) keys.emplace(key, view.KeyName(key));
  }
}

bool TableSink::TakeNode(const GraphView& view, NodeId node) {
  if (table_.entities_ == nullptr) table_.entities_ = std::make_unique<EntityRecords>();
  const auto [at, is_new] = table_.entities_->nodes.try_emplace(node);
  if (!is_new) return true;
  NodeRecord& record = at->second;
  const auto exists = view.NodeExists(node);
  if (!exists.ok()) return Fail(exists.status());
  if (!*exists) return true;
  if (auto st = view.ReadLabels(node, &record.labels); !st.ok()) return Fail(std::move(st));
  if (auto st = view.ReadNodeProperties(node, &record.properties); !st.ok()) {
    return Fail(std::move(st));
  }
  bytes_ += sizeof(NodeRecord) + record.labels.size() * sizeof(Token);
  for (const Token label : record.labels) {
    auto& labels = table_.entities_->labels;
    if (!labels.contains(label)) labels.emplace(label, view.LabelName(label));
  }
  TakeProperties(view, record.properties);
  return true;
}

bool TableSink::TakeEdge(const GraphView& view, const EdgeRef& edge) {
  if (table_.entities_ == nullptr) table_.entities_ = std::make_unique<EntityRecords>();
  const auto [at, is_new] = table_.entities_->edges.try_emplace(edge.id);
  if (!is_new) return true;
  auto& types = table_.entities_->types;
  if (!types.contains(edge.type)) types.emplace(edge.type, view.TypeName(edge.type));
  const auto exists = view.EdgeExists(edge);
  if (!exists.ok()) return Fail(exists.status());
  if (!*exists) return true;
  EdgeRecord& record = at->second;
  if (auto st = view.ReadEdgeProperties(edge, &record.properties); !st.ok()) {
    return Fail(std::move(st));
  }
  bytes_ += sizeof(EdgeRecord);
  TakeProperties(view, record.properties);
  return true;
}

}  // namespace pulse::graph
