#include "services/graph/core/read_set.h"

#include <algorithm>

#include "base/hash.h"
#include "services/graph/core/transaction.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

template <typename T>
void MakeUnique(std::vector<T>* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

void AddValues(std::span<const Token> labels, Token key, const Value& value, Footprint* out) {
  if (value.is_null()) return;
  for (const Token label : labels) out->values.push_back(SeekHash(label, key, value));
}

void AddAllValues(std::span<const Token> labels, std::string_view bytes, Footprint* out) {
  Properties properties;
  if (labels.empty() || !DecodeProperties(bytes, &properties)) return;
  for (const auto& [key, value] : properties) AddValues(labels, key, value, out);
}

}  // namespace

uint64_t SeekHash(Token label, Token key, const Value& value) {
  const uint64_t words[3] = {label, key, cypher::Hash(value)};
  return XXH3_64bits(words, sizeof(words));
}

Footprint Footprint::Of(const WriteSet& writes, uint64_t sequence) {
  Footprint out;
  out.sequence = sequence;
  out.names = writes.names;
  for (const NodeDraft& node : writes.created_nodes) {
    if (node.deleted) continue;
    out.any_node = true;
    out.nodes.push_back(node.id);
    out.labels.insert(out.labels.end(), node.labels.begin(), node.labels.end());
    AddAllValues(node.labels, node.properties, &out);
  }
  for (const auto& [id, node] : writes.nodes) {
    if (!node.deleted && node.changes.empty() && node.label_changes.empty()) continue;
    out.nodes.push_back(id);
    if (node.deleted) {
      out.any_node = true;
      // Those that it had: its draft was made from them.
      out.labels.insert(out.labels.end(), node.labels.begin(), node.labels.end());
      for (const auto& [label, add] : node.label_changes) out.labels.push_back(label);
      continue;
    }
    for (const auto& [label, add] : node.label_changes) {
      out.labels.push_back(label);
      if (add) AddAllValues({&label, 1}, node.properties, &out);
    }
    for (const auto& [key, value] : node.changes) AddValues(node.labels, key, value, &out);
  }
  const auto structure = [&out](const EdgeRef& edge) {
    out.sources.push_back(edge.source);
    out.targets.push_back(edge.target);
    out.types.push_back(edge.type);
  };
  for (const EdgeDraft& edge : writes.created_edges) {
    if (edge.deleted) continue;
    out.edges.push_back(edge.ref.id);
    structure(edge.ref);
  }
  for (const auto& [id, edge] : writes.edges) {
    if (!edge.deleted && edge.changes.empty()) continue;
    out.edges.push_back(id);
    if (edge.deleted) {
      structure(edge.ref);
    } else {
      out.types_changed.push_back(edge.ref.type);
    }
  }
  for (auto* list : {&out.labels, &out.types, &out.types_changed}) MakeUnique(list);
  for (auto* list : {&out.sources, &out.targets, &out.values}) MakeUnique(list);
  return out;
}

size_t Footprint::bytes() const {
  return sizeof(*this) +
         8 * (nodes.size() + edges.size() + sources.size() + targets.size() + values.size()) +
         sizeof(Token) * (types.size() + types_changed.size() + labels.size()) +
         sizeof(names[0]) * names.size();
}

void ReadSet::Add(uint64_t number, NumberSet* set) {
  if (everything_) return;
  const size_t before = set->words();
  set->Add(number);
  Count(set->words() - before);
}

void ReadSet::Count(size_t words) {
  words_ += words;
  if (words_ <= kMostWords) return;
  everything_ = true;
  nodes_ = edges_ = outgoing_ = incoming_ = NumberSet();
  seeks_ = {};
  missing_ = {};
}

void ReadSet::AddSeek(Token label, Token key, const Value& value) {
  if (!everything_ && seeks_.insert(SeekHash(label, key, value)).second) Count(1);
}

void ReadSet::AddMissingName(NameKind kind, std::string_view name) {
  if (everything_ || !missing_[kind].emplace(name).second) return;
  Count((sizeof(std::string) + name.size()) / 16 + 1);
}

void ReadSet::AddAdjacency(NodeId node, cypher::Direction direction) {
  if (direction != cypher::Direction::kIn) Add(node, &outgoing_);
  if (direction != cypher::Direction::kOut) Add(node, &incoming_);
}

void ReadSet::AddLabel(Token label) {
  if (label == kNoToken) {
    all_nodes_ = true;
  } else {
    labels_.insert(label);
  }
}

void ReadSet::AddTypes(std::span<const Token> types, bool properties) {
  auto add = [&](Token type) {
    types_.insert(type);
    if (properties) types_with_properties_.insert(type);
  };
  if (types.empty()) add(kNoToken);
  for (const Token type : types) add(type);
}

std::optional<std::string> ReadSet::Conflict(const Footprint& commit,
                                             const NameTable& names) const {
  if (everything_ || commit.everything) return "much of the graph";
  for (const NodeId node : commit.nodes) {
    if (nodes_.Contains(node)) return Concat("node ", node);
  }
  for (const EdgeId edge : commit.edges) {
    if (edges_.Contains(edge)) return Concat("relationship ", edge);
  }
  for (const NodeId node : commit.sources) {
    if (outgoing_.Contains(node)) return Concat("relationships of node ", node);
  }
  for (const NodeId node : commit.targets) {
    if (incoming_.Contains(node)) return Concat("relationships of node ", node);
  }
  if (all_nodes_ && commit.any_node) return "which nodes there are";
  for (const Token label : commit.labels) {
    if (labels_.contains(label)) {
      return Concat("which nodes have the label ", names.NameOf(NameKind::kLabel, label));
    }
  }
  const bool sought = std::any_of(commit.values.begin(), commit.values.end(),
                                  [this](uint64_t value) { return seeks_.contains(value); });
  if (sought || (commit.any_value && !seeks_.empty())) {
    return "which nodes have a value that was sought";
  }
  const auto scanned = [&](const absl::flat_hash_set<Token>& read, std::span<const Token> changed) {
    if (read.contains(kNoToken)) return !changed.empty();
    return std::any_of(changed.begin(), changed.end(),
                       [&read](Token type) { return read.contains(type); });
  };
  if (scanned(types_, commit.types)) return "which relationships of a type there are";
  if (scanned(types_with_properties_, commit.types_changed)) {
    return "properties of relationships of a type";
  }
  for (const auto& [kind, token] : commit.names) {
    const auto it = missing_.find(kind);
    if (it == missing_.end()) continue;
    const std::string name = names.NameOf(kind, token);
    if (it->second.contains(name)) return Concat("what has the name ", name);
  }
  return std::nullopt;
}

}  // namespace pulse::graph
