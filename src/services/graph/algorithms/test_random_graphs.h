// Random graphs for tests of algorithms, as lists and as what a store or a graph in memory has.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "services/graph/model/graph.h"
#include "services/graph/model/value.h"

namespace pulse::graph::algorithms {

struct Edge {
  size_t from, to;
  double weight;  // -1: it has no such property
  bool second_type;
};

// A random graph, as a list and as what a view shows. Nodes 0 to n - 1 in the order of their ids.
struct TestGraph {
  std::vector<NodeId> ids;
  std::vector<bool> labelled;  // has the label L
  std::vector<Edge> edges;
};

inline void Insert(cypher::GraphTransaction* graph, const TestGraph& made, size_t begin,
                   size_t end) {
  const Token types[2] = {*graph->AddTypeName("A"), *graph->AddTypeName("B")};
  const Token weight = *graph->AddKeyName("w");
  for (size_t i = begin; i < end; ++i) {
    const Edge& edge = made.edges[i];
    cypher::Properties properties;
    if (edge.weight >= 0) {
      const bool whole = edge.weight == std::floor(edge.weight);
      properties.emplace_back(weight, whole ? cypher::Value::Int(static_cast<int64_t>(edge.weight))
                                            : cypher::Value::Float(edge.weight));
    }
    ASSERT_TRUE(graph
                    ->CreateEdge(made.ids[edge.from], made.ids[edge.to],
                                 types[edge.second_type ? 1 : 0], properties)
                    .ok());
  }
}

inline void InsertNodes(cypher::GraphTransaction* graph, TestGraph* made) {
  const Token label = *graph->AddLabelName("L");
  for (NodeId& id : made->ids) {
    const bool has = made->labelled[static_cast<size_t>(&id - made->ids.data())];
    id = *graph->CreateNode(has ? std::span(&label, 1) : std::span<const Token>(), {});
  }
}

inline TestGraph RandomGraph(std::mt19937_64* random) {
  TestGraph graph;
  const size_t nodes = 1 + (*random)() % 60;
  graph.ids.resize(nodes);
  for (size_t i = 0; i < nodes; ++i) graph.labelled.push_back((*random)() % 4 != 0);
  const size_t edges = (*random)() % (nodes * 4);
  const uint64_t mode = (*random)() % 3;
  for (size_t i = 0; i < edges; ++i) {
    const auto end = [&] {
      // Some graphs with a hub, which also makes relationships that repeat, and loops.
      return mode == 0 && (*random)() % 3 == 0 ? 0 : (*random)() % nodes;
    };
    const uint64_t kind = (*random)() % 8;
    const double weight = kind == 0   ? -1
                          : kind == 1 ? 0
                          : kind < 5  ? static_cast<double>((*random)() % 10)
                                      : static_cast<double>((*random)() % 1000) / 64;
    graph.edges.push_back({end(), end(), weight, (*random)() % 3 == 0});
  }
  return graph;
}

}  // namespace pulse::graph::algorithms
