#include "services/graph/core/operations.h"

#include <algorithm>

#include "services/graph/model/property_type.h"
#include "services/graph/model/text.h"
#include "services/graph/nodes/node_table.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {
namespace {

// An index with what format 3 brought: relationships (8 among its flags), and a type.
constexpr uint8_t kCreateExtended = 13;

}  // namespace

void OperationWriter::Text(std::string_view text) {
  Number(text.size());
  bytes_ += text;
}

void OperationWriter::Id(uint64_t id, uint64_t* last) {
  Number(cypher::ZigZag(static_cast<int64_t>(id - *last)));
  *last = id;
}

void OperationWriter::Edge(const EdgeRef& edge) {
  Id(edge.id, &last_edge_);
  Id(edge.source, &last_node_);
  Number(edge.target);
  Number(edge.type);
}

void OperationWriter::Name(NameKind kind, Token token, std::string_view name) {
  Begin(Operation::Kind::kName);
  bytes_.push_back(static_cast<char>(kind));
  Number(token);
  Text(name);
}

void OperationWriter::CreateNode(NodeId node, std::span<const Token> labels,
                                 std::string_view properties) {
  Begin(Operation::Kind::kCreateNode);
  Id(node, &last_node_);
  Number(labels.size());
  for (const Token label : labels) Number(label);
  Text(properties);
}

void OperationWriter::CreateEdge(const EdgeRef& edge, std::string_view properties) {
  Begin(Operation::Kind::kCreateEdge);
  Edge(edge);
  Text(properties);
}

void OperationWriter::SetNode(NodeId node, std::string_view changes) {
  Begin(Operation::Kind::kSetNode);
  Id(node, &last_node_);
  Text(changes);
}

void OperationWriter::SetEdge(const EdgeRef& edge, std::string_view changes) {
  Begin(Operation::Kind::kSetEdge);
  Edge(edge);
  Text(changes);
}

void OperationWriter::AddLabel(NodeId node, Token label) {
  Begin(Operation::Kind::kAddLabel);
  Id(node, &last_node_);
  Number(label);
}

void OperationWriter::RemoveLabel(NodeId node, Token label) {
  Begin(Operation::Kind::kRemoveLabel);
  Id(node, &last_node_);
  Number(label);
}

void OperationWriter::DeleteNode(NodeId node) {
  Begin(Operation::Kind::kDeleteNode);
  Id(node, &last_node_);
}

void OperationWriter::DeleteEdge(const EdgeRef& edge) {
  Begin(Operation::Kind::kDeleteEdge);
  Edge(edge);
}

void OperationWriter::CreateIndex(const IndexDefinition& index) {
  Begin(index.IsExtended() ? static_cast<Operation::Kind>(kCreateExtended)
                           : Operation::Kind::kCreateIndex);
  Text(index.name);
  Text(index.label);
  Number(index.keys.size());
  for (const std::string& key : index.keys) Text(key);
  bytes_.push_back(static_cast<char>((index.constraint ? 1 : 0) | (index.unique ? 2 : 0) |
                                     (index.required ? 4 : 0) | (index.of_edges ? 8 : 0)));
  if (index.IsExtended()) Text(index.type);
}

void OperationWriter::DropIndex(std::string_view name) {
  Begin(Operation::Kind::kDropIndex);
  Text(name);
}

void OperationWriter::Counters(NodeId next_node, EdgeId next_edge) {
  Begin(Operation::Kind::kCounters);
  Number(next_node);
  Number(next_edge);
}

absl::StatusOr<bool> OperationReader::Next(Operation* operation) {
  if (left_.empty()) return false;
  if (!Read(operation)) {
    return absl::DataLossError(
        cypher::Concat("a commit's operations are damaged at byte ", bytes_.size() - left_.size()));
  }
  return true;
}

bool OperationReader::ReadToken(Token* token) {
  uint64_t number;
  if (!Number(&number) || number >= cypher::kNoToken) return false;
  *token = static_cast<Token>(number);
  return true;
}

bool OperationReader::Text(std::string_view* text) {
  uint64_t length;
  return Number(&length) && cypher::ReadBytes(&left_, length, text);
}

bool OperationReader::String(std::string* text) {
  std::string_view view;
  if (!Text(&view)) return false;
  *text = view;
  return true;
}

bool OperationReader::Id(uint64_t* id, uint64_t* last) {
  uint64_t difference;
  if (!Number(&difference)) return false;
  *id = *last + static_cast<uint64_t>(cypher::UnZigZag(difference));
  *last = *id;
  return true;
}

bool OperationReader::Edge(EdgeRef* edge) {
  return Id(&edge->id, &last_edge_) && IsEdgeId(edge->id) && Id(&edge->source, &last_node_) &&
         Number(&edge->target) && ReadToken(&edge->type);
}

bool OperationReader::Index(bool extended, IndexDefinition* index) {
  uint64_t keys;
  if (!String(&index->name) || !String(&index->label) || !Number(&keys) || keys > left_.size()) {
    return false;
  }
  index->keys.resize(keys);
  for (std::string& key : index->keys) {
    if (!String(&key)) return false;
  }
  if (left_.empty()) return false;
  const auto flags = static_cast<uint8_t>(left_.front());
  left_.remove_prefix(1);
  index->constraint = (flags & 1) != 0;
  index->unique = (flags & 2) != 0;
  index->required = (flags & 4) != 0;
  index->of_edges = extended && (flags & 8) != 0;
  index->type.clear();
  if (!extended) return true;
  return String(&index->type) &&
         (index->type.empty() || cypher::ParsePropertyType(index->type).has_value());
}

bool OperationReader::Read(Operation* op) {
  const auto kind = static_cast<uint8_t>(left_.front());
  left_.remove_prefix(1);
  const bool extended = kind == kCreateExtended;
  op->kind = extended ? Operation::Kind::kCreateIndex : static_cast<Operation::Kind>(kind);
  // Of what was read into it before.
  op->labels.clear();
  op->properties = {};
  op->text = {};
  switch (op->kind) {
    case Operation::Kind::kName: {
      if (left_.empty() || static_cast<uint8_t>(left_.front()) > 2) return false;
      op->name_kind = static_cast<NameKind>(left_.front());
      left_.remove_prefix(1);
      return ReadToken(&op->token) && Text(&op->text);
    }
    case Operation::Kind::kCreateNode: {
      uint64_t labels;
      if (!Id(&op->node, &last_node_) || !Number(&labels) || labels > left_.size()) return false;
      op->labels.resize(labels);
      for (Token& label : op->labels) {
        if (!ReadToken(&label)) return false;
      }
      return Text(&op->properties);
    }
    case Operation::Kind::kCreateEdge:
    case Operation::Kind::kSetEdge:
      return Edge(&op->edge) && Text(&op->properties);
    case Operation::Kind::kSetNode:
      return Id(&op->node, &last_node_) && Text(&op->properties);
    case Operation::Kind::kAddLabel:
    case Operation::Kind::kRemoveLabel:
      return Id(&op->node, &last_node_) && ReadToken(&op->token);
    case Operation::Kind::kDeleteNode:
      return Id(&op->node, &last_node_);
    case Operation::Kind::kDeleteEdge:
      return Edge(&op->edge);
    case Operation::Kind::kCreateIndex:
      return Index(extended, &op->index);
    case Operation::Kind::kDropIndex:
      return Text(&op->text);
    case Operation::Kind::kCounters:
      if (!Number(&op->node) || !Number(&op->edge.id)) return false;
      // Each one that found none left has counted on.
      op->node = std::min(op->node, NodeTable::kCapacity);
      op->edge.id = std::min(op->edge.id, kLocalEdgeIds);
      return true;
  }
  return false;
}

}  // namespace pulse::graph
