// What a transaction sees: its snapshot, and over it what it changed.
#include <algorithm>

#include "base/errors.h"
#include "services/graph/core/transaction.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

// Positions behind those of the snapshot: of what the transaction created, and of the nodes that
// were there before and have a label now that they had not.
constexpr uint64_t kCreated = uint64_t{1} << 62;
constexpr uint64_t kGained = kCreated | uint64_t{1} << 61;
constexpr uint64_t kIndex = (uint64_t{1} << 61) - 1;

bool Has(std::span<const Token> labels, Token label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

void PutFrom(const Column& from, size_t at, size_t slot, ColumnGather* out) {
  switch (from.kind) {
    case Column::Kind::kInts:
      if (from.valid[at] != 0) out->PutInt(slot, from.ints[at]);
      return;
    case Column::Kind::kFloats:
      if (from.valid[at] != 0) out->PutFloat(slot, from.floats[at]);
      return;
    case Column::Kind::kValues:
      if (!from.values[at].is_null()) out->Put(slot, from.values[at]);
  }
}

}  // namespace

absl::StatusOr<size_t> Transaction::ScanNodes(Token label, uint64_t* position,
                                              std::span<NodeId> out) const {
  while (*position < kCreated) {
    PULSE_ASSIGN_OR_RETURN(const size_t count, base_->ScanNodes(label, position, out));
    if (count == 0) {
      *position = kCreated;
      break;
    }
    if (writes_.nodes.empty()) return count;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto it = writes_.nodes.find(out[i]);
      if (it != writes_.nodes.end() &&
          (it->second.deleted || (label != kNoToken && !Has(it->second.labels, label)))) {
        continue;
      }
      out[kept++] = out[i];
    }
    if (kept > 0) return kept;
  }
  size_t count = 0;
  if (*position < kGained) {
    size_t at = *position & kIndex;
    for (; at < writes_.created_nodes.size() && count < out.size(); ++at) {
      const NodeDraft& draft = writes_.created_nodes[at];
      if (!draft.deleted && (label == kNoToken || Has(draft.labels, label)))
        out[count++] = draft.id;
    }
    *position = at == writes_.created_nodes.size() ? kGained : kCreated | at;
    if (count == out.size()) return count;
  }
  size_t at = *position & kIndex;
  if (label == kNoToken) at = drafted_.size();
  for (; at < drafted_.size() && count < out.size(); ++at) {
    const NodeDraft& draft = writes_.nodes.at(drafted_[at]);
    if (draft.deleted || !Has(draft.labels, label)) continue;
    const NodeVersion* version = base_->FindNode(draft.id);
    if (version == nullptr || !version->HasLabel(label)) out[count++] = draft.id;
  }
  *position = kGained | at;
  return count;
}

absl::StatusOr<size_t> Transaction::ScanEdges(std::span<const Token> types, uint64_t* position,
                                              std::span<EdgeRef> out) const {
  while (*position < kCreated) {
    PULSE_ASSIGN_OR_RETURN(const size_t count, base_->ScanEdges(types, position, out));
    if (count == 0) {
      *position = kCreated;
      break;
    }
    if (deleted_edges_ == 0) return count;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto it = writes_.edges.find(out[i].id);
      if (it == writes_.edges.end() || !it->second.deleted) out[kept++] = out[i];
    }
    if (kept > 0) return kept;
  }
  size_t count = 0;
  size_t at = *position & kIndex;
  for (; at < writes_.created_edges.size() && count < out.size(); ++at) {
    const EdgeDraft& draft = writes_.created_edges[at];
    if (!draft.deleted && HasType(types, draft.ref.type)) out[count++] = draft.ref;
  }
  *position = kCreated | at;
  return count;
}

void Transaction::LinkCreated() const {
  for (; linked_ < writes_.created_edges.size(); ++linked_) {
    const EdgeRef& ref = writes_.created_edges[linked_].ref;
    out_[ref.source].push_back(static_cast<uint32_t>(linked_));
    in_[ref.target].push_back(static_cast<uint32_t>(linked_));
  }
}

void Transaction::OwnEdges(NodeId node, uint32_t origin, Direction direction,
                           std::span<const Token> types, size_t* from, size_t most,
                           NeighbourBatch* out) const {
  size_t at = 0;  // of both lists together
  const auto walk = [&](const Linked& linked, bool incoming) {
    const auto it = linked.find(node);
    if (it == linked.end()) return;
    const auto& list = it->second;
    if (*from >= at + list.size()) {
      at += list.size();
      return;
    }
    for (size_t i = *from - at; i < list.size() && out->size() < most; ++i) {
      ++*from;
      const EdgeDraft& draft = writes_.created_edges[list[i]];
      const EdgeRef& ref = draft.ref;
      if (draft.deleted || !HasType(types, ref.type)) continue;
      if (incoming && direction == Direction::kBoth && ref.source == ref.target) continue;
      out->Add(origin, ref.id, incoming ? ref.source : ref.target, ref.type, incoming);
    }
    at += list.size();
  };
  if (direction != Direction::kIn) walk(out_, false);
  if (direction != Direction::kOut && *from >= at) walk(in_, true);
}

void Transaction::DropDeleted(size_t from, NeighbourBatch* batch) const {
  if (deleted_edges_ == 0) return;
  size_t kept = from;
  for (size_t i = from; i < batch->size(); ++i) {
    const auto it = writes_.edges.find(batch->edge[i]);
    if (it != writes_.edges.end() && it->second.deleted) continue;
    batch->origin[kept] = batch->origin[i];
    batch->edge[kept] = batch->edge[i];
    batch->node[kept] = batch->node[i];
    batch->type[kept] = batch->type[i];
    batch->incoming[kept] = batch->incoming[i];
    ++kept;
  }
  batch->Resize(kept);
}

absl::Status Transaction::Expand(std::span<const NodeId> nodes, Direction direction,
                                 std::span<const Token> types, size_t limit,
                                 ExpandPosition* position, NeighbourBatch* out) const {
  if (EdgesUntouched()) return base_->Expand(nodes, direction, types, limit, position, out);
  LinkCreated();
  if (out->ends_only && deleted_edges_ > 0) {
    // What was deleted is known by its identifier.
    NeighbourBatch whole;
    PULSE_RETURN_IF_ERROR(Expand(nodes, direction, types, limit, position, &whole));
    out->origin.insert(out->origin.end(), whole.origin.begin(), whole.origin.end());
    out->node.insert(out->node.end(), whole.node.begin(), whole.node.end());
    return absl::OkStatus();
  }
  const size_t most = out->size() + limit;
  for (; position->node < nodes.size(); *position = {position->node + 1, 0}) {
    const NodeId node = nodes[position->node];
    const auto origin = static_cast<uint32_t>(position->node);
    while ((position->inner & kCreated) == 0) {
      if (out->size() >= most) return absl::OkStatus();
      const size_t before = out->size();
      ExpandPosition base{0, position->inner};
      PULSE_RETURN_IF_ERROR(base_->Expand({&node, 1}, direction, types, most - before, &base, out));
      std::fill(out->origin.begin() + static_cast<long>(before), out->origin.end(), origin);
      DropDeleted(before, out);
      position->inner = base.node == 0 ? base.inner : kCreated;
    }
    size_t from = position->inner & kIndex;
    OwnEdges(node, origin, direction, types, &from, most, out);
    position->inner = kCreated | from;
    // There may be more; what is not appended then is found at the next call.
    if (out->size() >= most) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Transaction::Degrees(std::span<const NodeId> nodes, Direction direction,
                                  std::span<const Token> types, std::span<uint64_t> degrees) const {
  if (EdgesUntouched()) return base_->Degrees(nodes, direction, types, degrees);
  ExpandPosition position;
  NeighbourBatch batch;
  while (position.node < nodes.size()) {
    batch.clear();
    PULSE_RETURN_IF_ERROR(Expand(nodes, direction, types, 4096, &position, &batch));
    for (const uint32_t origin : batch.origin) ++degrees[origin];
  }
  return absl::OkStatus();
}

absl::Status Transaction::ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                           Column* out) const {
  if (writes_.created_nodes.empty() && writes_.nodes.empty()) {
    return base_->ReadNodeProperty(key, nodes, out);
  }
  ColumnGather gather(nodes.size(), out);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::span<const Token> labels;
    std::string_view properties;
    if (!Look(nodes[i], &labels, &properties)) continue;
    Value value = PropertyValue(properties, key);
    if (value.is_int()) {
      gather.PutInt(i, value.as_int());
    } else if (!value.is_null()) {
      gather.Put(i, std::move(value));
    }
  }
  return absl::OkStatus();
}

absl::Status Transaction::ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                           Column* out) const {
  std::vector<const EdgeDraft*> drafts;
  if (!writes_.created_edges.empty() || !writes_.edges.empty()) {
    for (size_t i = 0; i < edges.size(); ++i) {
      const EdgeDraft* draft = writes_.FindEdge(edges[i].id);
      if (draft == nullptr) continue;
      drafts.resize(edges.size());
      drafts[i] = draft;
    }
  }
  if (drafts.empty()) return base_->ReadEdgeProperty(key, edges, out);
  std::vector<EdgeRef> others;
  for (size_t i = 0; i < edges.size(); ++i) {
    if (drafts[i] == nullptr) others.push_back(edges[i]);
  }
  Column column;
  PULSE_RETURN_IF_ERROR(base_->ReadEdgeProperty(key, others, &column));
  ColumnGather gather(edges.size(), out);
  for (size_t i = 0, other = 0; i < edges.size(); ++i) {
    if (drafts[i] == nullptr) {
      PutFrom(column, other++, i, &gather);
      continue;
    }
    if (drafts[i]->deleted) continue;
    Value value = PropertyValue(drafts[i]->properties, key);
    if (value.is_int()) {
      gather.PutInt(i, value.as_int());
    } else if (!value.is_null()) {
      gather.Put(i, std::move(value));
    }
  }
  return absl::OkStatus();
}

absl::Status Transaction::ReadNodeProperties(NodeId node, Properties* out) const {
  std::span<const Token> labels;
  std::string_view properties;
  if (!Look(node, &labels, &properties)) {
    return absl::NotFoundError(Concat("there is no node ", node));
  }
  if (!DecodeProperties(properties, out)) return absl::DataLossError("damaged properties");
  return absl::OkStatus();
}

absl::Status Transaction::ReadEdgeProperties(const EdgeRef& edge, Properties* out) const {
  const EdgeDraft* draft = writes_.FindEdge(edge.id);
  if (draft == nullptr) return base_->ReadEdgeProperties(edge, out);
  if (draft->deleted) return absl::NotFoundError(Concat("there is no relationship ", edge.id));
  if (!DecodeProperties(draft->properties, out)) return absl::DataLossError("damaged properties");
  return absl::OkStatus();
}

absl::Status Transaction::ReadLabels(NodeId node, std::vector<Token>* out) const {
  std::span<const Token> labels;
  std::string_view properties;
  if (!Look(node, &labels, &properties)) {
    return absl::NotFoundError(Concat("there is no node ", node));
  }
  out->assign(labels.begin(), labels.end());
  return absl::OkStatus();
}

absl::Status Transaction::HasLabel(Token label, std::span<const NodeId> nodes,
                                   std::span<uint8_t> out) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::span<const Token> labels;
    std::string_view properties;
    out[i] = Look(nodes[i], &labels, &properties) && Has(labels, label) ? 1 : 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Transaction::EdgeExists(const EdgeRef& edge) const {
  const EdgeDraft* draft = writes_.FindEdge(edge.id);
  if (draft == nullptr) return base_->EdgeExists(edge);
  return !draft->deleted;
}

absl::StatusOr<bool> Transaction::SeekRange(Token label, Token key,
                                            std::span<const cypher::Bound> bounds, size_t most,
                                            std::vector<NodeId>* out) const {
  // All that were changed are looked at.
  if (touched_.size() > most) return false;
  const absl::StatusOr<bool> found = base_->SeekRange(label, key, bounds, most, out);
  if (!found.ok() || !*found || (touched_.empty() && writes_.nodes.empty())) return found;
  std::erase_if(*out, [this](NodeId node) { return writes_.nodes.contains(node); });
  for (const NodeId node : touched_) {
    std::span<const Token> labels;
    std::string_view properties;
    if (Look(node, &labels, &properties) && Has(labels, label)) out->push_back(node);
  }
  std::sort(out->begin(), out->end());
  out->erase(std::unique(out->begin(), out->end()), out->end());
  return true;
}

// Of a node and a value of its own in two hash tables.
static constexpr int64_t kOwnEntryBytes = 96;

absl::Status Transaction::Seek(Token label, std::span<const Token> keys,
                               std::span<const Value> values, std::vector<NodeId>* out) const {
  const size_t before = out->size();
  PULSE_RETURN_IF_ERROR(base_->Seek(label, keys, values, out));
  if (touched_.empty() && writes_.nodes.empty()) return absl::OkStatus();
  // Nodes that were changed are looked at again.
  size_t kept = before;
  for (size_t i = before; i < out->size(); ++i) {
    if (!writes_.nodes.contains((*out)[i])) (*out)[kept++] = (*out)[i];
  }
  out->resize(kept);
  if (!Index::Indexable(values[0])) return absl::OkStatus();
  // By the first key; the others are compared.
  OwnIndex& own = own_indexes_[{label, keys[0]}];
  std::span<const Token> labels;
  std::string_view properties;
  const auto current = [&](NodeId node) {
    return Look(node, &labels, &properties) && Has(labels, label);
  };
  for (; own.upto < touched_.size(); ++own.upto) {
    const NodeId node = touched_[own.upto];
    if (!current(node)) continue;
    const Value found = PropertyValue(properties, keys[0]);
    if (found.is_null()) continue;
    own.nodes[cypher::Hash(found)].insert(node);
    change_bytes_ += kOwnEntryBytes;
  }
  const auto it = own.nodes.find(cypher::Hash(values[0]));
  if (it == own.nodes.end()) return absl::OkStatus();
  for (const NodeId node : it->second) {
    if (current(node) && HasValues(properties, keys, values)) out->push_back(node);
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
