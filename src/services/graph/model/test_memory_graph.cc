#include "services/graph/model/test_memory_graph.h"

#include <algorithm>

#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

absl::Status NoSuch(std::string_view what, uint64_t id) {
  return absl::NotFoundError(Concat("there is no ", what, " ", id));
}

template <typename Map, typename Id>
void Fill(const Map& owners, const Id& id, Token key, Column* out) {
  const auto owner = owners.find(id);
  if (owner == owners.end()) return out->values.emplace_back(), void();
  const auto it = owner->second.properties.find(key);
  out->values.push_back(it == owner->second.properties.end() ? Value() : it->second);
}

void Start(Column* out) {
  out->kind = Column::Kind::kValues;
  out->values.clear();
}

// Numbers of one kind go as such, so that callers meet each kind of column.
void Finish(Column* out) {
  const auto all = [out](Type type) {
    return std::all_of(out->values.begin(), out->values.end(),
                       [type](const Value& v) { return v.is_null() || v.type() == type; });
  };
  const bool ints = all(Type::kInt);
  if (!ints && !all(Type::kFloat)) return;
  out->kind = ints ? Column::Kind::kInts : Column::Kind::kFloats;
  out->ints.clear();
  out->floats.clear();
  out->valid.clear();
  for (const Value& v : out->values) {
    out->valid.push_back(v.is_null() ? 0 : 1);
    if (ints) out->ints.push_back(v.is_null() ? 0 : v.as_int());
    if (!ints) out->floats.push_back(v.is_null() ? 0 : v.as_float());
  }
}

}  // namespace

std::optional<Token> MemoryGraph::Find(const std::vector<std::string>& names,
                                       std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return std::nullopt;
  return static_cast<Token>(it - names.begin());
}

Token MemoryGraph::Add(std::vector<std::string>* names, std::string_view name) {
  if (const auto known = Find(*names, name)) return *known;
  names->emplace_back(name);
  return static_cast<Token>(names->size() - 1);
}

void MemoryGraph::CreateIndex(std::string_view label, const std::vector<std::string>& keys) {
  indexes_.emplace(Add(&labels_, label), KeysOf(keys));
}

void MemoryGraph::DropIndex(std::string_view label, const std::vector<std::string>& keys) {
  indexes_.erase({Add(&labels_, label), KeysOf(keys)});
}

std::vector<Token> MemoryGraph::KeysOf(const std::vector<std::string>& names) {
  std::vector<Token> keys;
  for (const std::string& name : names) keys.push_back(Add(&keys_, name));
  return keys;
}

MemoryGraph::State MemoryGraph::GetState() const {
  State state;
  for (const auto& [id, node] : nodes_) {
    state.nodes.insert(id);
    for (const Token label : node.labels) state.labels.insert(labels_[label]);
    for (const auto& [key, value] : node.properties) {
      state.properties.insert(Concat("node ", id, " ", keys_[key], " ", ValueText(value, *this)));
    }
  }
  for (const auto& [id, edge] : edges_) {
    state.edges.insert(id);
    for (const auto& [key, value] : edge.properties) {
      state.properties.insert(Concat("edge ", id, " ", keys_[key], " ", ValueText(value, *this)));
    }
  }
  return state;
}

absl::StatusOr<size_t> MemoryGraph::ScanNodes(Token label, uint64_t* position,
                                              std::span<NodeId> out) const {
  size_t count = 0;
  auto it = nodes_.lower_bound(*position);
  for (; it != nodes_.end() && count < out.size(); ++it) {
    const auto& labels = it->second.labels;
    if (label != kNoToken && std::find(labels.begin(), labels.end(), label) == labels.end())
      continue;
    out[count++] = it->first;
  }
  *position = it == nodes_.end() ? next_node_ : it->first;
  return count;
}

absl::StatusOr<size_t> MemoryGraph::ScanEdges(std::span<const Token> types, uint64_t* position,
                                              std::span<EdgeRef> out) const {
  size_t count = 0;
  auto it = edges_.lower_bound(*position);
  for (; it != edges_.end() && count < out.size(); ++it) {
    const EdgeRef& ref = it->second.ref;
    if (!types.empty() && std::find(types.begin(), types.end(), ref.type) == types.end()) continue;
    out[count++] = ref;
  }
  *position = it == edges_.end() ? next_edge_ : it->first;
  return count;
}

void MemoryGraph::Neighbours(NodeId id, Direction direction, std::span<const Token> types,
                             uint32_t origin, NeighbourBatch* out) const {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const auto add = [&](EdgeId edge, bool in) {
    const EdgeRef& ref = edges_.at(edge).ref;
    if (!types.empty() && std::find(types.begin(), types.end(), ref.type) == types.end()) return;
    if (in && direction == Direction::kBoth && ref.source == ref.target) return;
    out->Add(origin, edge, in ? ref.source : ref.target, ref.type, in);
  };
  if (direction != Direction::kIn) {
    for (const EdgeId edge : found->second.out) add(edge, false);
  }
  if (direction != Direction::kOut) {
    for (const EdgeId edge : found->second.in) add(edge, true);
  }
}

// In small pieces, so that callers meet positions inside a node.
absl::Status MemoryGraph::Expand(std::span<const NodeId> nodes, Direction direction,
                                 std::span<const Token> types, size_t limit,
                                 ExpandPosition* position, NeighbourBatch* out) const {
  const size_t end = out->size() + std::min<size_t>(limit, 7);
  while (position->node < nodes.size() && out->size() < end) {
    NeighbourBatch all;
    Neighbours(nodes[position->node], direction, types, static_cast<uint32_t>(position->node),
               &all);
    for (; position->inner < all.size() && out->size() < end; ++position->inner) {
      const size_t i = position->inner;
      out->Add(all.origin[i], all.edge[i], all.node[i], all.type[i], all.incoming[i] != 0);
    }
    if (position->inner < all.size()) return absl::OkStatus();
    *position = {position->node + 1, 0};
  }
  return absl::OkStatus();
}

absl::Status MemoryGraph::Degrees(std::span<const NodeId> nodes, Direction direction,
                                  std::span<const Token> types, std::span<uint64_t> degrees) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    NeighbourBatch all;
    Neighbours(nodes[i], direction, types, 0, &all);
    degrees[i] += all.size();
  }
  return absl::OkStatus();
}

absl::Status MemoryGraph::ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                           Column* out) const {
  Start(out);
  for (const NodeId node : nodes) Fill(nodes_, node, key, out);
  Finish(out);
  return absl::OkStatus();
}

absl::Status MemoryGraph::ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                           Column* out) const {
  Start(out);
  for (const EdgeRef& edge : edges) Fill(edges_, edge.id, key, out);
  Finish(out);
  return absl::OkStatus();
}

absl::Status MemoryGraph::ReadNodeProperties(NodeId node, Properties* out) const {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return NoSuch("node", node);
  out->assign(it->second.properties.begin(), it->second.properties.end());
  return absl::OkStatus();
}

absl::Status MemoryGraph::ReadEdgeProperties(const EdgeRef& edge, Properties* out) const {
  const auto it = edges_.find(edge.id);
  if (it == edges_.end()) return NoSuch("relationship", edge.id);
  out->assign(it->second.properties.begin(), it->second.properties.end());
  return absl::OkStatus();
}

absl::Status MemoryGraph::ReadLabels(NodeId node, std::vector<Token>* out) const {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return NoSuch("node", node);
  *out = it->second.labels;
  return absl::OkStatus();
}

absl::Status MemoryGraph::HasLabel(Token label, std::span<const NodeId> nodes,
                                   std::span<uint8_t> out) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto it = nodes_.find(nodes[i]);
    out[i] = it != nodes_.end() && std::find(it->second.labels.begin(), it->second.labels.end(),
                                             label) != it->second.labels.end();
  }
  return absl::OkStatus();
}

absl::Status MemoryGraph::Seek(Token label, std::span<const Token> keys,
                               std::span<const Value> values, std::vector<NodeId>* out) const {
  if (!HasIndex(label, keys)) return absl::FailedPreconditionError("there is no such index");
  for (const auto& [id, node] : nodes_) {
    if (std::find(node.labels.begin(), node.labels.end(), label) == node.labels.end()) continue;
    bool equal = true;
    for (size_t i = 0; i < keys.size() && equal; ++i) {
      const auto it = node.properties.find(keys[i]);
      equal = it != node.properties.end() && Equals(it->second, values[i]) == 1;
    }
    if (equal) out->push_back(id);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryGraph::SeekRange(Token label, Token key, std::span<const Bound> bounds,
                                            size_t most, std::vector<NodeId>* out) const {
  if (!HasIndex(label, {&key, 1})) return false;
  const auto within = [](const Value& value, const Bound& bound) {
    if (bound.kind == Bound::Kind::kBeginsWith) {
      return value.is_string() && bound.value.is_string() &&
             value.as_string().starts_with(bound.value.as_string());
    }
    const int c = Compare(value, bound.value);
    return c == 0 || c == (bound.kind == Bound::Kind::kAtLeast ? 1 : -1);
  };
  out->clear();
  for (const auto& [id, node] : nodes_) {
    if (std::find(node.labels.begin(), node.labels.end(), label) == node.labels.end()) continue;
    const auto it = node.properties.find(key);
    if (it == node.properties.end()) continue;
    const bool all = std::all_of(bounds.begin(), bounds.end(),
                                 [&](const Bound& bound) { return within(it->second, bound); });
    if (all) out->push_back(id);
  }
  std::sort(out->begin(), out->end());
  return out->size() <= most;
}

std::vector<std::vector<Token>> MemoryGraph::WideIndexes(Token label) const {
  std::vector<std::vector<Token>> found;
  for (const auto& [of, keys] : indexes_) {
    if (of == label && keys.size() > 1) found.push_back(keys);
  }
  return found;
}

uint64_t MemoryGraph::NodeCount(Token label) const {
  if (label == kNoToken) return nodes_.size();
  return static_cast<uint64_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [label](const auto& entry) {
        const auto& labels = entry.second.labels;
        return std::find(labels.begin(), labels.end(), label) != labels.end();
      }));
}

uint64_t MemoryGraph::EdgeCount(Token type) const {
  return static_cast<uint64_t>(std::count_if(
      edges_.begin(), edges_.end(),
      [type](const auto& entry) { return type == kNoToken || entry.second.ref.type == type; }));
}

absl::StatusOr<NodeId> MemoryGraph::CreateNode(std::span<const Token> labels,
                                               const Properties& properties) {
  Node node;
  node.labels.assign(labels.begin(), labels.end());
  node.properties.insert(properties.begin(), properties.end());
  nodes_[next_node_] = std::move(node);
  return next_node_++;
}

absl::StatusOr<EdgeRef> MemoryGraph::CreateEdge(NodeId source, NodeId target, Token type,
                                                const Properties& properties) {
  if (!nodes_.contains(source)) return NoSuch("node", source);
  if (!nodes_.contains(target)) return NoSuch("node", target);
  Edge edge;
  edge.ref = {next_edge_++, source, target, type};
  edge.properties.insert(properties.begin(), properties.end());
  nodes_[source].out.push_back(edge.ref.id);
  nodes_[target].in.push_back(edge.ref.id);
  edges_[edge.ref.id] = edge;
  return edge.ref;
}

absl::Status MemoryGraph::SetNodeProperty(NodeId node, Token key, const Value& value) {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return NoSuch("node", node);
  if (value.is_null())
    it->second.properties.erase(key);
  else
    it->second.properties[key] = value;
  return absl::OkStatus();
}

absl::Status MemoryGraph::SetEdgeProperty(const EdgeRef& edge, Token key, const Value& value) {
  const auto it = edges_.find(edge.id);
  if (it == edges_.end()) return NoSuch("relationship", edge.id);
  if (value.is_null())
    it->second.properties.erase(key);
  else
    it->second.properties[key] = value;
  return absl::OkStatus();
}

absl::Status MemoryGraph::AddLabel(NodeId node, Token label) {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return NoSuch("node", node);
  auto& labels = it->second.labels;
  if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
  return absl::OkStatus();
}

absl::Status MemoryGraph::RemoveLabel(NodeId node, Token label) {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return NoSuch("node", node);
  std::erase(it->second.labels, label);
  return absl::OkStatus();
}

absl::Status MemoryGraph::DeleteNode(NodeId node) {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return NoSuch("node", node);
  if (!it->second.out.empty() || !it->second.in.empty()) {
    return absl::FailedPreconditionError(Concat("node ", node, " has relationships"));
  }
  nodes_.erase(it);
  return absl::OkStatus();
}

absl::Status MemoryGraph::DeleteEdge(const EdgeRef& edge) {
  const auto it = edges_.find(edge.id);
  if (it == edges_.end()) return NoSuch("relationship", edge.id);
  std::erase(nodes_[it->second.ref.source].out, edge.id);
  std::erase(nodes_[it->second.ref.target].in, edge.id);
  edges_.erase(it);
  return absl::OkStatus();
}

}  // namespace pulse::cypher
