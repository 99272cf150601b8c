#include <algorithm>

#include "services/graph/core/transaction.h"

namespace pulse::graph {
namespace {

std::string ChangesOf(const std::map<Token, Value>& changes) {
  return EncodeProperties(Properties(changes.begin(), changes.end()), true);
}

}  // namespace

NodeOutcome OutcomeOf(const NodeDraft& draft, const NodeVersion* latest) {
  NodeOutcome out{draft.labels, draft.properties};
  if (latest == nullptr) return out;
  out.labels.assign(latest->labels().begin(), latest->labels().end());
  for (const auto& [label, add] : draft.label_changes) {
    std::erase(out.labels, label);
    if (add) out.labels.push_back(label);
  }
  ChangeProperties(latest->properties(), ChangesOf(draft.changes), &out.properties);
  return out;
}

const NodeDraft* WriteSet::FindCreated(NodeId node) const {
  if (created_nodes.empty() || node < created_nodes.front().id) return nullptr;
  const auto it = std::lower_bound(created_nodes.begin(), created_nodes.end(), node,
                                   [](const NodeDraft& draft, NodeId id) { return draft.id < id; });
  return it != created_nodes.end() && it->id == node ? &*it : nullptr;
}

const NodeDraft* WriteSet::FindNode(NodeId node) const {
  if (const NodeDraft* created = FindCreated(node)) return created;
  if (nodes.empty()) return nullptr;
  const auto it = nodes.find(node);
  return it == nodes.end() ? nullptr : &it->second;
}

const EdgeDraft* WriteSet::FindEdge(EdgeId edge) const {
  if (!created_edges.empty() && edge >= created_edges.front().ref.id) {
    const auto it =
        std::lower_bound(created_edges.begin(), created_edges.end(), edge,
                         [](const EdgeDraft& draft, EdgeId id) { return draft.ref.id < id; });
    if (it != created_edges.end() && it->ref.id == edge) return &*it;
  }
  if (edges.empty()) return nullptr;
  const auto it = edges.find(edge);
  return it == edges.end() ? nullptr : &it->second;
}

std::string WriteSet::Encode(const NameTable& table) const {
  OperationWriter out;
  for (const auto& [kind, token] : names) out.Name(kind, token, table.NameOf(kind, token));
  for (const NodeDraft& node : created_nodes) {
    if (!node.deleted) out.CreateNode(node.id, node.labels, node.properties);
  }
  for (const auto& [id, node] : nodes) {
    if (node.deleted) continue;
    for (const auto& [label, add] : node.label_changes) {
      if (add) {
        out.AddLabel(id, label);
      } else {
        out.RemoveLabel(id, label);
      }
    }
    if (!node.changes.empty()) out.SetNode(id, ChangesOf(node.changes));
  }
  for (const EdgeDraft& edge : created_edges) {
    if (!edge.deleted) out.CreateEdge(edge.ref, edge.properties);
  }
  for (const auto& [id, edge] : edges) {
    if (edge.deleted) {
      out.DeleteEdge(edge.ref);
    } else if (!edge.changes.empty()) {
      out.SetEdge(edge.ref, ChangesOf(edge.changes));
    }
  }
  for (const auto& [id, node] : nodes) {
    if (node.deleted) out.DeleteNode(id);
  }
  return out.Take();
}

}  // namespace pulse::graph
