// A small random graph in memory, and queries on it, for tests that compare them with what they
// find by themselves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"

namespace pulse::cypher {

using Labels = std::set<std::string>;

class FirstColumn : public ResultSink {
 public:
  explicit FirstColumn(const GraphView* graph) : graph_(graph) {}
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      texts.push_back(ValueText(rows[i * stride + static_cast<size_t>(columns[0])], *graph_));
    }
    return true;
  }
  std::vector<std::string> texts;

 private:
  const GraphView* const graph_;
};

// The seed is printed. Queries run with and without the planner's shortcuts.
class RandomGraphTest : public testing::Test {
 protected:
  struct Edge {
    size_t from, to;
    std::string type;
  };

  void SetUp() override { random_.seed(testing_util::TestSeed()); }

  // Labels A to D; Never is a name that no node has. Types R to T.
  void MakeGraph(size_t nodes, size_t edges) {
    for (size_t i = 0; i < nodes; ++i) {
      Labels labels;
      std::vector<Token> tokens;
      for (const char* name : {"A", "B", "C", "D"}) {
        if (random_() % 3 != 0) continue;
        labels.insert(name);
        tokens.push_back(*graph_.AddLabelName(name));
      }
      const Token n = *graph_.AddKeyName("n");
      ids_.push_back(
          *graph_.CreateNode(tokens, {{n, Value::Int(static_cast<int64_t>(nodes_.size()))}}));
      nodes_.push_back(labels);
    }
    const Token n = *graph_.AddKeyName("n");
    for (size_t i = 0; i < edges; ++i) {
      const Edge edge{random_() % nodes, random_() % nodes,
                      std::string(1, static_cast<char>('R' + random_() % 3))};
      ASSERT_TRUE(graph_
                      .CreateEdge(ids_[edge.from], ids_[edge.to], *graph_.AddTypeName(edge.type),
                                  {{n, Value::Int(static_cast<int64_t>(i))}})
                      .ok());
      edges_.push_back(edge);
    }
  }

  // What one column has, sorted as text; with and without the planner's shortcuts.
  std::vector<std::string> Run(const std::string& query) {
    std::vector<std::string> rows[2];
    for (const bool shortcuts : {false, true}) {
      const auto plan =
          MakePlan(query, graph_, nullptr, {.shortcuts = shortcuts, .statistics_from = 1});
      if (!plan.ok()) {
        ADD_FAILURE() << query << ": " << plan.status();
        return {};
      }
      auto found = RowsOf(**plan, shortcuts ? 1 : ~size_t{0});
      EXPECT_TRUE(found.ok()) << query << ": " << found.status();
      if (found.ok()) rows[shortcuts ? 1 : 0] = *std::move(found);
    }
    EXPECT_EQ(rows[0], rows[1]) << query;
    return rows[1];
  }

  // The same of a plan. `columns_from`: how many rows make expressions go by columns; 1: several
  // threads run it, too.
  absl::StatusOr<std::vector<std::string>> RowsOf(
      const Plan& plan, size_t columns_from = ExecuteOptions().columns_from) {
    ExecuteOptions options;
    options.view = &graph_;
    options.columns_from = columns_from;
    if (columns_from == 1) {
      options.parallel = {.threads = 3, .from_nodes = 1, .from_nanos = 0, .morsel_nodes = 8};
    }
    options.parameters = &parameters_;
    FirstColumn sink(&graph_);
    const absl::Status status = Execute(plan, options, &sink, nullptr);
    if (!status.ok()) return status;
    std::sort(sink.texts.begin(), sink.texts.end());
    return std::move(sink.texts);
  }

  std::string PlanOf(const std::string& query) {
    const auto plan = MakePlan(query, graph_, nullptr);
    return plan.ok() ? PlanText(**plan) : std::string(plan.status().message());
  }

  std::vector<std::string> NodesWhere(const std::function<bool(size_t)>& holds) const {
    std::vector<std::string> rows;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (holds(i)) rows.push_back(std::to_string(i));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  std::vector<std::string> EdgesWhere(const std::function<bool(const Edge&)>& holds) const {
    std::vector<std::string> rows;
    for (size_t i = 0; i < edges_.size(); ++i) {
      if (holds(edges_[i])) rows.push_back(std::to_string(i));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  std::mt19937_64 random_;
  MemoryGraph graph_;
  ValueMap parameters_;
  std::vector<NodeId> ids_;
  std::vector<Labels> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace pulse::cypher
