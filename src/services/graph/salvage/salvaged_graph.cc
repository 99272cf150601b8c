#include "services/graph/salvage/salvaged_graph.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "services/graph/core/view.h"
#include "services/graph/nodes/node_table.h"

namespace pulse::graph {
namespace {

// Makes both one list of changes; the later ones count.
void AddChanges(std::string_view more, std::string* changes) {
  Properties both, fresh;
  if (!DecodeProperties(*changes, &both) || !DecodeProperties(more, &fresh)) return;
  both.insert(both.end(), fresh.begin(), fresh.end());
  *changes = EncodeProperties(both, true);
}

// No database has so many labels, types or keys: a greater number comes from damage.
constexpr Token kMostNames = Tables::kMaxTokens;

// Properties that can be read; what cannot is none.
std::string Readable(std::string_view bytes) {
  Properties properties;
  return DecodeProperties(bytes, &properties) ? EncodeProperties(properties) : std::string();
}

bool HasGoodTokens(const Operation& op) {
  using Kind = Operation::Kind;
  const bool of_edge = op.kind == Kind::kCreateEdge || op.kind == Kind::kSetEdge;
  if (of_edge && op.edge.type >= kMostNames) return false;
  const bool has_token =
      op.kind == Kind::kName || op.kind == Kind::kAddLabel || op.kind == Kind::kRemoveLabel;
  if (has_token && op.token >= kMostNames) return false;
  if (op.kind == Kind::kCreateNode) {
    for (const Token label : op.labels) {
      if (label >= kMostNames) return false;
    }
  }
  const bool has_properties = of_edge || op.kind == Kind::kCreateNode || op.kind == Kind::kSetNode;
  Properties properties;
  if (!has_properties || !DecodeProperties(op.properties, &properties)) return true;
  return std::all_of(properties.begin(), properties.end(),
                     [](const auto& property) { return property.first < kMostNames; });
}

void Change(std::string_view changes, std::string* properties) {
  std::string changed;
  if (ChangeProperties(*properties, changes, &changed)) *properties = std::move(changed);
}

}  // namespace

absl::Status SalvagedGraph::Apply(uint64_t sequence, std::string_view payload) {
  first_made_ = 1;
  last_made_ = 0;
  OperationReader reader(payload);
  Operation op;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const bool more, reader.Next(&op));
    if (!more) return absl::OkStatus();
    if (!HasGoodTokens(op)) return absl::DataLossError("the number of a name");
    using Kind = Operation::Kind;
    switch (op.kind) {
      case Kind::kName:
        names_[static_cast<size_t>(op.name_kind)][op.token] = op.text;
        break;
      case Kind::kCreateNode:
      case Kind::kSetNode:
      case Kind::kAddLabel:
      case Kind::kRemoveLabel:
      case Kind::kDeleteNode:
        if (op.node >= NodeTable::kCapacity) return absl::DataLossError("a node's number");
        ApplyNode(op);
        break;
      case Kind::kCreateEdge:
      case Kind::kSetEdge:
      case Kind::kDeleteEdge:
        if (op.edge.source >= NodeTable::kCapacity || op.edge.target >= NodeTable::kCapacity) {
          return absl::DataLossError("a relationship's nodes");
        }
        ApplyEdge(sequence, op);
        break;
      case Kind::kCreateIndex:
        // A later one of the name: that this one was dropped is lost.
        indexes_.insert_or_assign(op.index.name, op.index);
        break;
      case Kind::kDropIndex:
        if (const auto it = indexes_.find(op.text); it != indexes_.end()) indexes_.erase(it);
        break;
      case Kind::kCounters:
        next_node_ = std::max<NodeId>(next_node_, op.node);
        next_edge_ = std::max<EdgeId>(next_edge_, op.edge.id);
        break;
    }
  }
}

void SalvagedGraph::ApplyNode(const Operation& op) {
  using Kind = Operation::Kind;
  CountNode(op.node);
  Node& node = nodes_[op.node];  // where its creation was lost, what comes is known all the same
  switch (op.kind) {
    case Kind::kCreateNode:
      if (first_made_ > last_made_) first_made_ = op.node;
      last_made_ = op.node;
      node.deleted = false;
      node.labels = op.labels;
      node.properties = Readable(op.properties);
      break;
    case Kind::kSetNode:
      Change(op.properties, &node.properties);
      break;
    case Kind::kAddLabel:
      if (std::find(node.labels.begin(), node.labels.end(), op.token) == node.labels.end()) {
        node.labels.push_back(op.token);
      }
      break;
    case Kind::kRemoveLabel:
      std::erase(node.labels, op.token);
      break;
    default:
      node = Node();
      node.deleted = true;
      break;
  }
}

void SalvagedGraph::ApplyEdge(uint64_t sequence, const Operation& op) {
  using Kind = Operation::Kind;
  CountEdge(op.edge.id);
  LoggedEdge& edge = edges_[op.edge.id];
  edge.ref = op.edge;
  edge.sequence = sequence;
  if (op.kind == Kind::kDeleteEdge) {
    edge.deleted = true;
    return;
  }
  if (op.kind == Kind::kCreateEdge) {
    edge.known = Readable(op.properties);
    return;
  }
  Change(op.properties, &edge.known);
  if (sequence > flushed_) AddChanges(op.properties, &edge.changes);
}

}  // namespace pulse::graph
