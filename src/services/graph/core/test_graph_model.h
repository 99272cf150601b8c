// The oracle of the store's tests: a MemoryGraph (model/test_memory_graph.h) that goes by the
// store's identifiers, random operations that both take, and a text of all that a view shows. For
// tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "services/graph/core/store.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/text.h"

namespace pulse::graph {

using cypher::Concat;
using cypher::Direction;
using cypher::EdgeId;
using cypher::EdgeRef;
using cypher::GraphTransaction;
using cypher::GraphView;
using cypher::MemoryGraph;
using cypher::NodeId;
using cypher::Properties;
using cypher::Token;
using cypher::Value;

struct ModelOp {
  enum Kind { kNode, kEdge, kSetNode, kSetEdge, kAddLabel, kRemoveLabel, kDeleteEdge, kDetach };
  Kind kind = kNode;
  NodeId node = 0;
  EdgeRef edge;  // the store's; of kEdge, too
  std::string name, key;
  Value value;
};

// Names rather than tokens: both graphs have their own.
template <typename Graph>
Properties OneProperty(Graph* graph, const ModelOp& op) {
  if (op.key.empty() || op.value.is_null()) return {};
  return {{*graph->AddKeyName(op.key), op.value}};
}

class Oracle {
 public:
  // Applies what the store has done with success.
  void Apply(const ModelOp& op) {
    switch (op.kind) {
      case ModelOp::kNode: {
        const Token label = *graph_.AddLabelName(op.name);
        nodes_[op.node] = *graph_.CreateNode({&label, 1}, OneProperty(&graph_, op));
        return;
      }
      case ModelOp::kEdge: {
        const auto made = graph_.CreateEdge(nodes_.at(op.edge.source), nodes_.at(op.edge.target),
                                            *graph_.AddTypeName(op.name), OneProperty(&graph_, op));
        ASSERT_TRUE(made.ok()) << made.status();
        edges_[op.edge.id] = *made;
        return;
      }
      case ModelOp::kSetNode:
        Check(graph_.SetNodeProperty(nodes_.at(op.node), *graph_.AddKeyName(op.key), op.value));
        return;
      case ModelOp::kSetEdge:
        Check(graph_.SetEdgeProperty(edges_.at(op.edge.id), *graph_.AddKeyName(op.key), op.value));
        return;
      case ModelOp::kAddLabel:
        Check(graph_.AddLabel(nodes_.at(op.node), *graph_.AddLabelName(op.name)));
        return;
      case ModelOp::kRemoveLabel:
        Check(graph_.RemoveLabel(nodes_.at(op.node), *graph_.AddLabelName(op.name)));
        return;
      case ModelOp::kDeleteEdge:
        Check(graph_.DeleteEdge(edges_.at(op.edge.id)));
        edges_.erase(op.edge.id);
        return;
      case ModelOp::kDetach:
        Check(graph_.DeleteNode(nodes_.at(op.node)));
        nodes_.erase(op.node);
        return;
    }
  }
  std::string Dump() const;
  const std::map<NodeId, NodeId>& nodes() const { return nodes_; }

 private:
  static void Check(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }

  MemoryGraph graph_;
  std::map<NodeId, NodeId> nodes_;  // the store's to ours
  std::map<EdgeId, EdgeRef> edges_;
};

inline std::string PropertiesText(const GraphView& view, const Properties& properties) {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : properties)
    sorted[view.KeyName(key)] = cypher::ValueText(value, view);
  std::string out;
  for (const auto& [key, text] : sorted) out += Concat(" ", key, "=", text);
  return out;
}

inline Value ColumnValue(const cypher::Column& column, size_t i) {
  if (column.kind == cypher::Column::Kind::kValues) return column.values[i];
  if (column.valid[i] == 0) return {};
  return column.kind == cypher::Column::Kind::kInts ? Value::Int(column.ints[i])
                                                    : Value::Float(column.floats[i]);
}

// Everything that a view shows, by every way in which it can be read; `node_of` and `edge_of` give
// the identifiers to write.
template <typename NodeOf, typename EdgeOf>
std::string DumpView(const GraphView& view, const NodeOf& node_of, const EdgeOf& edge_of) {
  std::map<NodeId, std::string> nodes;
  std::map<EdgeId, std::string> edges;
  std::set<Token> types;
  std::vector<NodeId> ids;
  std::vector<NodeId> batch(5);
  uint64_t position = 0;
  while (true) {
    const auto count = view.ScanNodes(cypher::kNoToken, &position, batch);
    EXPECT_TRUE(count.ok()) << count.status();
    if (!count.ok() || *count == 0) break;
    ids.insert(ids.end(), batch.begin(), batch.begin() + static_cast<long>(*count));
  }
  for (const NodeId id : ids) {
    std::vector<Token> labels;
    EXPECT_TRUE(view.ReadLabels(id, &labels).ok());
    EXPECT_TRUE(*view.NodeExists(id));
    std::vector<std::string> names;
    for (const Token label : labels) names.push_back(view.LabelName(label));
    std::sort(names.begin(), names.end());
    std::string text = Concat("node ", node_of(id));
    for (const std::string& name : names) text += ":" + name;
    Properties properties;
    EXPECT_TRUE(view.ReadNodeProperties(id, &properties).ok());
    for (const auto& [key, value] : properties) {
      cypher::Column column;
      EXPECT_TRUE(view.ReadNodeProperty(key, {&id, 1}, &column).ok());
    }
    text += PropertiesText(view, properties);
    // Each direction, in pieces.
    for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBoth}) {
      std::vector<std::string> found;
      cypher::ExpandPosition at;
      cypher::NeighbourBatch neighbours;
      while (at.node < 1) {
        EXPECT_TRUE(view.Expand({&id, 1}, direction, {}, 3, &at, &neighbours).ok());
      }
      for (size_t i = 0; i < neighbours.size(); ++i) {
        found.push_back(Concat(edge_of(neighbours.edge[i]), neighbours.incoming[i] != 0 ? "<" : ">",
                               node_of(neighbours.node[i])));
      }
      std::sort(found.begin(), found.end());
      uint64_t degree = 0;
      EXPECT_TRUE(view.Degrees({&id, 1}, direction, {}, {&degree, 1}).ok());
      EXPECT_EQ(degree, found.size());
      text += " [";
      for (const std::string& f : found) text += f + " ";
      text += "]";
    }
    EXPECT_TRUE(nodes.emplace(node_of(id), text).second) << "node " << id << " twice";
  }
  for (const char* name : {"A", "B", "C"}) {
    const auto label = view.FindLabel(name);
    if (!label) continue;
    position = 0;
    std::vector<NodeId> found;
    while (true) {
      const auto count = view.ScanNodes(*label, &position, batch);
      EXPECT_TRUE(count.ok());
      if (!count.ok() || *count == 0) break;
      for (size_t i = 0; i < *count; ++i) found.push_back(node_of(batch[i]));
    }
    std::sort(found.begin(), found.end());
    for (const NodeId id : found) nodes[id] += Concat(" in ", name);
  }
  position = 0;
  std::vector<EdgeRef> refs(7);
  const auto weight = view.FindKey("w");
  while (true) {
    const auto count = view.ScanEdges({}, &position, refs);
    EXPECT_TRUE(count.ok()) << count.status();
    if (!count.ok() || *count == 0) break;
    const std::span<const EdgeRef> part(refs.data(), *count);
    cypher::Column column;
    if (weight) {
      EXPECT_TRUE(view.ReadEdgeProperty(*weight, part, &column).ok());
    }
    for (size_t i = 0; i < part.size(); ++i) {
      const EdgeRef& ref = part[i];
      types.insert(ref.type);
      Properties properties;
      EXPECT_TRUE(view.ReadEdgeProperties(ref, &properties).ok());
      EXPECT_TRUE(*view.EdgeExists(ref));
      const Value w = weight ? ColumnValue(column, i) : Value();
      const std::string text =
          Concat("edge ", edge_of(ref.id), " ", node_of(ref.source), "->", node_of(ref.target), " ",
                 view.TypeName(ref.type), PropertiesText(view, properties), " w ",
                 cypher::ValueText(w, view));
      EXPECT_TRUE(edges.emplace(edge_of(ref.id), text).second) << "edge " << ref.id << " twice";
    }
  }
  if (weight) {
    // The same by the scan of a column: a sum, and how many there are.
    double sum = 0;
    size_t all = 0;
    position = 0;
    cypher::Column column;
    while (true) {
      const auto count = view.ScanEdgeProperty({}, *weight, &position, 7, &column);
      EXPECT_TRUE(count.ok()) << count.status();
      if (!count.ok() || *count == 0) break;
      all += *count;
      for (size_t i = 0; i < *count; ++i) {
        const Value w = ColumnValue(column, i);
        if (w.is_number()) sum += w.as_number();
      }
    }
    EXPECT_EQ(all, edges.size());
    // By type, there are as many together.
    size_t typed = 0;
    for (const Token type : types) {
      position = 0;
      while (true) {
        const auto count = view.ScanEdgeProperty({&type, 1}, *weight, &position, 7, &column);
        EXPECT_TRUE(count.ok()) << count.status();
        if (!count.ok() || *count == 0) break;
        typed += *count;
      }
    }
    EXPECT_EQ(typed, edges.size());
    if (sum != 0) nodes[~NodeId{0}] = Concat("sum ", cypher::FloatText(sum));
  }
  std::string out;
  for (const auto& [id, text] : nodes) out += text + "\n";
  for (const auto& [id, text] : edges) out += text + "\n";
  return out;
}

inline std::string DumpStore(const GraphView& view) {
  const auto same = [](uint64_t id) { return id; };
  return DumpView(view, same, same);
}

inline std::string Oracle::Dump() const {
  std::map<NodeId, NodeId> nodes;
  std::map<EdgeId, EdgeId> edges;
  for (const auto& [store, ours] : nodes_) nodes[ours] = store;
  for (const auto& [store, ours] : edges_) edges[ours.id] = store;
  return DumpView(
      graph_, [&](NodeId id) { return nodes.at(id); }, [&](EdgeId id) { return edges.at(id); });
}

// Does one random operation in a transaction, and says what it was; nothing where none could be
// done.
class RandomOps {
 public:
  explicit RandomOps(uint64_t seed) : random_(seed) {}
  std::mt19937_64& random() { return random_; }

  void Step(GraphTransaction* tx, std::vector<ModelOp>* done) {
    std::vector<NodeId> nodes(64);
    uint64_t position = 0;
    nodes.resize(*tx->ScanNodes(cypher::kNoToken, &position, nodes));
    std::vector<EdgeRef> edges(256);
    position = 0;
    edges.resize(*tx->ScanEdges({}, &position, edges));
    ModelOp op;
    const uint64_t dice = random_() % 100;
    if (nodes.empty() || (dice < 15 && nodes.size() < 40)) {
      op.kind = ModelOp::kNode;
      op.name = Label();
      SetValue(&op);
      const Token label = *tx->AddLabelName(op.name);
      const auto made = tx->CreateNode({&label, 1}, OneProperty(tx, op));
      ASSERT_TRUE(made.ok()) << made.status();
      op.node = *made;
    } else if (dice < 50) {
      op.kind = ModelOp::kEdge;
      op.name = random_() % 3 == 0 ? "T" : "U";
      SetValue(&op);
      // Hubs are likely.
      const NodeId source = nodes[random_() % (random_() % nodes.size() + 1)];
      const NodeId target = nodes[random_() % nodes.size()];
      const auto made =
          tx->CreateEdge(source, target, *tx->AddTypeName(op.name), OneProperty(tx, op));
      ASSERT_TRUE(made.ok()) << made.status();
      op.edge = *made;
    } else if (dice < 60) {
      op.kind = ModelOp::kSetNode;
      op.node = nodes[random_() % nodes.size()];
      SetValue(&op);
      const absl::Status set = tx->SetNodeProperty(op.node, *tx->AddKeyName(op.key), op.value);
      ASSERT_TRUE(set.ok()) << set;
    } else if (dice < 75) {
      if (edges.empty()) return;
      op.kind = ModelOp::kSetEdge;
      op.edge = edges[random_() % edges.size()];
      SetValue(&op);
      const absl::Status set = tx->SetEdgeProperty(op.edge, *tx->AddKeyName(op.key), op.value);
      ASSERT_TRUE(set.ok()) << set;
    } else if (dice < 83) {
      op.kind = dice < 80 ? ModelOp::kAddLabel : ModelOp::kRemoveLabel;
      op.node = nodes[random_() % nodes.size()];
      op.name = Label();
      const Token label = *tx->AddLabelName(op.name);
      uint8_t has = 0;
      ASSERT_TRUE(tx->HasLabel(label, {&op.node, 1}, {&has, 1}).ok());
      const absl::Status set = op.kind == ModelOp::kAddLabel ? tx->AddLabel(op.node, label)
                                                             : tx->RemoveLabel(op.node, label);
      ASSERT_TRUE(set.ok()) << set;
      // What changes nothing conflicts with nothing.
      if ((has != 0) == (op.kind == ModelOp::kAddLabel)) return;
    } else if (dice < 94) {
      if (edges.empty()) return;
      op.kind = ModelOp::kDeleteEdge;
      op.edge = edges[random_() % edges.size()];
      const absl::Status deleted = tx->DeleteEdge(op.edge);
      ASSERT_TRUE(deleted.ok()) << deleted;
    } else {
      return Detach(tx, nodes[random_() % nodes.size()], done);
    }
    done->push_back(std::move(op));
  }

 private:
  void Detach(GraphTransaction* tx, NodeId node, std::vector<ModelOp>* done) {
    cypher::ExpandPosition at;
    cypher::NeighbourBatch found;
    while (at.node < 1) {
      ASSERT_TRUE(tx->Expand({&node, 1}, Direction::kBoth, {}, 16, &at, &found).ok());
    }
    for (size_t i = 0; i < found.size(); ++i) {
      EdgeRef ref{found.edge[i], node, found.node[i], found.type[i]};
      if (found.incoming[i] != 0) std::swap(ref.source, ref.target);
      ASSERT_TRUE(tx->DeleteEdge(ref).ok());
      ModelOp op;
      op.kind = ModelOp::kDeleteEdge;
      op.edge = ref;
      done->push_back(op);
    }
    const absl::Status deleted = tx->DeleteNode(node);
    ASSERT_TRUE(deleted.ok()) << deleted;
    ModelOp op;
    op.kind = ModelOp::kDetach;
    op.node = node;
    done->push_back(op);
  }
  std::string Label() { return std::string(1, static_cast<char>('A' + random_() % 3)); }
  void SetValue(ModelOp* op) {
    op->key = random_() % 2 == 0 ? "w" : "k";
    switch (random_() % 8) {
      case 0:
        op->value = Value();
        return;
      case 1:
        op->value = Value::String(std::string(random_() % 9, 's'));
        return;
      case 2:
        op->value = Value::Float(static_cast<double>(random_() % 100) / 4);
        return;
      default:
        op->value = Value::Int(static_cast<int64_t>(random_() % 300) - 20);
    }
  }

  std::mt19937_64 random_;
};

}  // namespace pulse::graph
