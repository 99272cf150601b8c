// Algorithms against plain ones on a matrix, on random graphs in memory and in a store, of which
// part is in runs and part in layer 0.
#include "services/graph/algorithms/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <new>
#include <random>
#include <set>

#include "base/testing.h"
#include "services/graph/algorithms/test_random_graphs.h"
#include "services/graph/core/store.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/value.h"

namespace pulse::graph::algorithms {
namespace {

using cypher::GraphTransaction;
using cypher::GraphView;
using cypher::Value;
using testing_util::TestSeed;

class TestBudget : public Budget {
 public:
  bool Charge(int64_t bytes) override {
    used += bytes;
    peak = std::max(peak, used);
    if (used > most) status_ = absl::ResourceExhaustedError("too much");
    return status_.ok();
  }
  bool Continue() override {
    if (++asked == end_at) status_ = absl::CancelledError("ended");
    return status_.ok();
  }
  absl::Status status() const override { return status_; }

  int64_t used = 0, peak = 0, most = INT64_MAX;
  int asked = 0, end_at = -1;

 private:
  absl::Status status_;
};

class AlgorithmsTest : public ::testing::Test {
 protected:
  // What the scope of these options has: nodes by index, and pairs (from, to, weight).
  struct Plain {
    size_t n = 0;
    std::vector<Edge> edges;
    std::vector<size_t> of;  // index of each node of the graph, or n
  };
  static Plain PlainOf(const TestGraph& graph, const ScopeOptions& options) {
    Plain plain;
    for (size_t i = 0; i < graph.ids.size(); ++i) {
      plain.of.push_back(!options.labels || graph.labelled[i] ? plain.n++ : SIZE_MAX);
    }
    for (Edge edge : graph.edges) {
      if (options.types && !edge.second_type) continue;
      edge.from = plain.of[edge.from];
      edge.to = plain.of[edge.to];
      if (edge.from == SIZE_MAX || edge.to == SIZE_MAX) continue;
      if (options.direction == Direction::kIn) std::swap(edge.from, edge.to);
      plain.edges.push_back(edge);
      if (options.direction == Direction::kBoth && edge.from != edge.to) {
        std::swap(edge.from, edge.to);
        plain.edges.push_back(edge);
      }
    }
    return plain;
  }
  static std::vector<std::set<size_t>> Neighbours(const TestGraph& graph, ScopeOptions options) {
    options.direction = Direction::kBoth;
    const Plain plain = PlainOf(graph, options);
    std::vector<std::set<size_t>> neighbours(plain.n);
    for (const Edge& edge : plain.edges) neighbours[edge.from].insert(edge.to);
    return neighbours;
  }
  // Bellman and Ford. `weighted` false: steps.
  static std::vector<double> PlainDistances(const Plain& plain, size_t source, bool weighted) {
    std::vector<double> distance(plain.n, kFar);
    distance[source] = 0;
    for (size_t round = 0; round < plain.n; ++round) {
      for (const Edge& edge : plain.edges) {
        const double by = !weighted || edge.weight < 0 ? 1 : edge.weight;
        distance[edge.to] = std::min(distance[edge.to], distance[edge.from] + by);
      }
    }
    return distance;
  }

  void CheckTraversal(const Scope& scope, const Plain& plain, const TestGraph& graph,
                      std::mt19937_64* random);
  void CheckRanks(const Scope& scope, const Plain& plain);
  void CheckCommunities(const Scope& scope, const TestGraph& graph, const ScopeOptions& options);
  void CheckAll(const GraphView& view, const TestGraph& graph, std::mt19937_64* random);

  TestBudget budget_;
};

void AlgorithmsTest::CheckTraversal(const Scope& scope, const Plain& plain, const TestGraph& graph,
                                    std::mt19937_64* random) {
  Memory memory(&budget_);
  const auto source = static_cast<Index>((*random)() % plain.n);
  const auto steps = PlainDistances(plain, source, false);
  const auto depth = static_cast<Index>((*random)() % 2 == 0 ? kNone - 1 : (*random)() % 4);
  const auto bfs = Bfs(scope, source, depth, &memory);
  ASSERT_TRUE(bfs.ok()) << bfs.status();
  for (Index i = 0; i < scope.size(); ++i) {
    ASSERT_EQ(bfs->distance[i], steps[i] <= depth ? static_cast<Index>(steps[i]) : kNone) << i;
    Index parent = kNone;
    for (const Edge& edge : plain.edges) {
      if (bfs->distance[i] != kNone && edge.to == i && steps[edge.from] + 1 == steps[i]) {
        parent = std::min(parent, static_cast<Index>(edge.from));
      }
    }
    ASSERT_EQ(bfs->parent[i], parent) << i;
  }
  const auto sums = PlainDistances(plain, source, true);
  const auto distances = Distances(scope, source, "w", &memory);
  ASSERT_TRUE(distances.ok()) << distances.status();
  const auto unweighted = Distances(scope, source, "", &memory);
  ASSERT_TRUE(unweighted.ok()) << unweighted.status();
  for (Index i = 0; i < scope.size(); ++i) {
    ASSERT_DOUBLE_EQ(distances->distance[i], sums[i]) << i;
    ASSERT_EQ(unweighted->distance[i], steps[i]) << i;
  }
  const auto target = static_cast<Index>((*random)() % plain.n);
  const auto path = ShortestPath(scope, source, target, "w", &memory);
  ASSERT_TRUE(path.ok()) << path.status();
  ASSERT_EQ(path->found, !std::isinf(sums[target]));
  if (!path->found) return;
  EXPECT_DOUBLE_EQ(path->distance, sums[target]);
  const auto& nodes = path->path.nodes;
  ASSERT_EQ(nodes.size(), path->path.edges.size() + 1);
  EXPECT_EQ(nodes.front(), scope.node(source));
  EXPECT_EQ(nodes.back(), scope.node(target));
  double sum = 0;
  for (size_t i = 0; i < path->path.edges.size(); ++i) {
    const auto& edge = path->path.edges[i];
    EXPECT_EQ(std::minmax(edge.source, edge.target), std::minmax(nodes[i], nodes[i + 1]));
    cypher::Column column;
    ASSERT_TRUE(
        scope.view().ReadEdgeProperty(*scope.view().FindKey("w"), {&edge, 1}, &column).ok());
    sum += column.kind == cypher::Column::Kind::kInts     ? (column.valid[0] ? column.ints[0] : 1)
           : column.kind == cypher::Column::Kind::kFloats ? (column.valid[0] ? column.floats[0] : 1)
           : column.values[0].is_null()                   ? 1
                                                          : column.values[0].as_number();
  }
  EXPECT_DOUBLE_EQ(sum, path->distance);
}

void AlgorithmsTest::CheckRanks(const Scope& scope, const Plain& plain) {
  for (const bool weighted : {false, true}) {
    Memory memory(&budget_);
    PageRankOptions options;
    options.weight = weighted ? "w" : "";
    options.tolerance = 1e-12;
    options.most_iterations = 1000;
    const auto ranks = PageRank(scope, options, &memory);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    ASSERT_TRUE(ranks->converged);
    const auto n = static_cast<double>(plain.n);
    std::vector<double> out(plain.n), score(plain.n, 1 / n);
    const auto of = [weighted](const Edge& edge) {
      return !weighted || edge.weight < 0 ? 1 : edge.weight;
    };
    for (const Edge& edge : plain.edges) out[edge.from] += of(edge);
    for (int round = 0; round < 300; ++round) {
      double lost = 0;
      for (size_t i = 0; i < plain.n; ++i) lost += out[i] == 0 ? score[i] : 0;
      std::vector<double> next(plain.n, 0.15 / n + 0.85 * lost / n);
      for (const Edge& edge : plain.edges) {
        if (out[edge.from] > 0) {
          next[edge.to] += 0.85 * score[edge.from] * of(edge) / out[edge.from];
        }
      }
      score = next;
    }
    double sum = 0;
    for (size_t i = 0; i < plain.n; ++i) {
      ASSERT_NEAR(ranks->score[i], score[i], 1e-9) << i;
      sum += ranks->score[i];
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    options.most_iterations = 1;
    options.tolerance = 0;
    const auto once = PageRank(scope, options, &memory);
    ASSERT_TRUE(once.ok());
    EXPECT_FALSE(once->converged);
    EXPECT_EQ(once->iterations, 1u);
  }
}

void AlgorithmsTest::CheckCommunities(const Scope& scope, const TestGraph& graph,
                                      const ScopeOptions& options) {
  Memory memory(&budget_);
  const auto neighbours = Neighbours(graph, options);
  const size_t n = neighbours.size();
  // Components: by closure.
  std::vector<size_t> component(n);
  for (size_t i = 0; i < n; ++i) component[i] = i;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < n; ++i) {
      for (const size_t j : neighbours[i]) {
        if (component[j] < component[i]) {
          component[i] = component[j];
          changed = true;
        }
      }
    }
  }
  const auto components = Components(scope, &memory);
  ASSERT_TRUE(components.ok()) << components.status();
  for (size_t i = 0; i < n; ++i) ASSERT_EQ((*components)[i], component[i]) << i;

  const auto triangles = Triangles(scope, &memory);
  ASSERT_TRUE(triangles.ok()) << triangles.status();
  for (size_t a = 0; a < n; ++a) {
    uint64_t count = 0, pairs = 0;
    for (const size_t b : neighbours[a]) {
      for (const size_t c : neighbours[a]) {
        if (b >= c || b == a || c == a) continue;
        ++pairs;
        count += neighbours[b].contains(c) ? 1 : 0;
      }
    }
    ASSERT_EQ(triangles->triangles[a], count) << a;
    ASSERT_DOUBLE_EQ(triangles->coefficient[a],
                     pairs == 0 ? 0 : static_cast<double>(count) / static_cast<double>(pairs));
  }

  // Each has a label that most of its neighbours have, and a community is one component's.
  const auto labels = PropagateLabels(scope, 1000, &memory);
  ASSERT_TRUE(labels.ok()) << labels.status();
  ASSERT_TRUE(labels->converged);
  for (size_t i = 0; i < n; ++i) {
    std::map<Index, size_t> counts;
    size_t most = 0;
    for (const size_t j : neighbours[i]) most = std::max(most, ++counts[labels->label[j]]);
    if (most > 0) {
      ASSERT_EQ(counts[labels->label[i]], most) << i;
    } else {
      ASSERT_EQ(labels->label[i], i);
    }
    ASSERT_EQ(component[labels->label[i]], component[i]) << i;
  }
}

void AlgorithmsTest::CheckAll(const GraphView& view, const TestGraph& graph,
                              std::mt19937_64* random) {
  ScopeOptions options;
  if ((*random)() % 2 == 0) options.labels = {"L", "None"};
  if ((*random)() % 2 == 0) options.types = {"B", "None"};
  options.direction = static_cast<Direction>((*random)() % 3);
  options.threads = 1 + static_cast<int>((*random)() % 4);
  const Plain plain = PlainOf(graph, options);
  Memory memory(&budget_);
  const auto scope = Scope::Make(view, options, &budget_, &memory);
  ASSERT_TRUE(scope.ok()) << scope.status();
  ASSERT_EQ(scope->size(), plain.n);
  for (size_t i = 0; i < graph.ids.size(); ++i) {
    ASSERT_EQ(scope->IndexOf(graph.ids[i]),
              plain.of[i] == SIZE_MAX ? kNone : static_cast<Index>(plain.of[i]));
  }
  ASSERT_EQ(scope->IndexOf(graph.ids.back() + 1000), kNone);
  CheckCommunities(*scope, graph, options);
  if (plain.n == 0) return;
  CheckTraversal(*scope, plain, graph, random);
  CheckRanks(*scope, plain);
}

TEST_F(AlgorithmsTest, All_RandomGraphsInMemory_AreAsPlainOnes) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    TestGraph made = RandomGraph(&random);
    cypher::MemoryGraph graph;
    InsertNodes(&graph, &made);
    Insert(&graph, made, 0, made.edges.size());
    CheckAll(graph, made, &random);
  }
  EXPECT_EQ(budget_.used, 0);
}

TEST_F(AlgorithmsTest, All_RandomGraphsInAStore_AreAsPlainOnes) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 20 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const testing_util::ScratchPath path("algorithms");
    StoreOptions options;
    options.sync = false;
    options.background = false;
    auto store = GraphStore::Open(path.get(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    TestGraph made = RandomGraph(&random);
    const auto commit = [&](auto insert) {
      auto transaction = (*store)->Begin();
      ASSERT_TRUE(transaction.ok());
      insert(transaction->get());
      ASSERT_TRUE((*transaction)->Commit().ok());
    };
    commit([&](GraphTransaction* graph) { InsertNodes(graph, &made); });
    const size_t half = made.edges.size() / 2;
    commit([&](GraphTransaction* graph) { Insert(graph, made, 0, half); });
    ASSERT_TRUE((*store)->Flush().ok());
    commit([&](GraphTransaction* graph) { Insert(graph, made, half, made.edges.size()); });
    const auto view = (*store)->Snapshot();
    ASSERT_TRUE(view.ok());
    CheckAll(**view, made, &random);
    std::filesystem::remove_all(path.get());
  }
}

// Several blocks for each algorithm.
constexpr size_t kNodes = 6'000;

class LargeGraphTest : public AlgorithmsTest {
 protected:
  void SetUp() override {
    std::mt19937_64 random(TestSeed());
    made_.ids.resize(kNodes);
    made_.labelled.assign(made_.ids.size(), true);
    for (size_t i = 0; i < 3 * kNodes; ++i) {
      const size_t from = random() % kNodes, to = (random() % 77) * (random() % 77);
      made_.edges.push_back({from, to, static_cast<double>(random() % 100), false});
    }
    // Where searches begin, which may have none of these.
    for (size_t to = 1; to < 6; ++to) made_.edges.push_back({0, to * to, 1.0, false});
    InsertNodes(&graph_, &made_);
    Insert(&graph_, made_, 0, made_.edges.size());
  }
  absl::StatusOr<Scope> MakeScope(int threads, Memory* memory) {
    ScopeOptions options;
    options.threads = threads;
    return Scope::Make(graph_, options, &budget_, memory);
  }

  TestGraph made_;
  cypher::MemoryGraph graph_;
};

TEST_F(LargeGraphTest, Threads_OneOrSeveral_GiveTheSame) {
  Memory memory(&budget_);
  const auto one = MakeScope(1, &memory), four = MakeScope(4, &memory);
  ASSERT_TRUE(one.ok() && four.ok());
  const auto a = Bfs(*one, 0, kNone - 1, &memory), b = Bfs(*four, 0, kNone - 1, &memory);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->distance, b->distance);
  EXPECT_EQ(a->parent, b->parent);
  EXPECT_EQ(PageRank(*one, {}, &memory)->score, PageRank(*four, {}, &memory)->score);
  EXPECT_EQ(*Components(*one, &memory), *Components(*four, &memory));
  EXPECT_EQ(Triangles(*one, &memory)->triangles, Triangles(*four, &memory)->triangles);
  EXPECT_EQ(PropagateLabels(*one, 50, &memory)->label, PropagateLabels(*four, 50, &memory)->label);
  EXPECT_EQ(Distances(*one, 0, "w", &memory)->distance,
            Distances(*four, 0, "w", &memory)->distance);
}

TEST_F(LargeGraphTest, SystemGivesAThreadNoMemory_IsAnError) {
  Memory memory(&budget_);
  for (const int threads : {1, 4}) {
    const auto scope = MakeScope(threads, &memory);
    ASSERT_TRUE(scope.ok());
    const absl::Status status = scope->ForBlocks(
        100, 1, [](uint64_t, uint64_t) -> absl::Status { throw std::bad_alloc(); });
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  }
}

TEST_F(LargeGraphTest, Limits_OfMemoryAndTime_EndEachAlgorithm) {
  const std::function<absl::Status(const Scope&, Memory*)> algorithms[] = {
      [](const Scope& scope, Memory* memory) { return Bfs(scope, 0, kNone - 1, memory).status(); },
      [](const Scope& scope, Memory* memory) { return Distances(scope, 0, "w", memory).status(); },
      [](const Scope& scope, Memory* memory) {
        return ShortestPath(scope, 0, kNodes - 1, "w", memory).status();
      },
      [](const Scope& scope, Memory* memory) { return PageRank(scope, {}, memory).status(); },
      [](const Scope& scope, Memory* memory) { return Components(scope, memory).status(); },
      [](const Scope& scope, Memory* memory) { return Triangles(scope, memory).status(); },
      [](const Scope& scope, Memory* memory) {
        return PropagateLabels(scope, 50, memory).status();
      }};
  for (size_t i = 0; i < std::size(algorithms); ++i) {
    SCOPED_TRACE(i);
    for (const int threads : {1, 3}) {
      TestBudget free;
      int64_t scope_bytes = 0;
      {
        Memory memory(&free);
        const auto scope = Scope::Make(graph_, {.threads = threads}, &free, &memory);
        scope_bytes = free.peak = free.used;
        ASSERT_TRUE(algorithms[i](*scope, &memory).ok());
      }
      EXPECT_EQ(free.used, 0);
      EXPECT_GT(free.peak, scope_bytes);
      TestBudget small;
      {
        Memory memory(&small);
        const auto scope = Scope::Make(graph_, {.threads = threads}, &small, &memory);
        small.most = free.peak - 1;
        ASSERT_TRUE(scope.ok());
        EXPECT_TRUE(absl::IsResourceExhausted(algorithms[i](*scope, &memory)));
      }
      EXPECT_EQ(small.used, 0);
    }
    // At each look, by one thread; with several it depends on when these are done.
    TestBudget counted;
    Memory memory(&counted);
    const auto scope = Scope::Make(graph_, {.threads = 1}, &counted, &memory);
    const int before = counted.asked;
    ASSERT_TRUE(algorithms[i](*scope, &memory).ok());
    ASSERT_GT(counted.asked, before);
    for (const int at : {before + 1, (before + 1 + counted.asked) / 2, counted.asked}) {
      TestBudget ended;
      ended.end_at = at;
      Memory own(&ended);
      const auto other = Scope::Make(graph_, {.threads = 1}, &ended, &own);
      ASSERT_TRUE(other.ok());
      EXPECT_TRUE(absl::IsCancelled(algorithms[i](*other, &own))) << at;
    }
    TestBudget first;
    first.end_at = 1;
    Memory own(&first);
    EXPECT_TRUE(absl::IsCancelled(Scope::Make(graph_, {.threads = 3}, &first, &own).status()));
  }
}

// All nodes are one block, so that what goes over many relationships has to look within it.
TEST_F(AlgorithmsTest, ManyRelationshipsOfFewNodes_LongScan_ChecksItsBudget) {
  constexpr size_t kFew = 300;
  const testing_util::ScratchPath paths[] = {testing_util::ScratchPath("algorithms-sparse"),
                                             testing_util::ScratchPath("algorithms-dense")};
  const auto make = [](const std::string& path, size_t neighbours) {
    TestGraph made;
    made.ids.resize(kFew);
    made.labelled.assign(kFew, false);
    for (size_t from = 0; from < kFew; ++from) {
      for (size_t i = 1; i <= neighbours; ++i) {
        for (int twice = 0; twice < 2; ++twice) {
          made.edges.push_back({from, (from + i) % kFew, -1, false});
        }
      }
    }
    StoreOptions options;
    options.sync = false;
    options.background = false;
    auto store = *GraphStore::Open(path, options);
    auto transaction = *store->Begin();
    InsertNodes(transaction.get(), &made);
    Insert(transaction.get(), made, 0, made.edges.size());
    EXPECT_TRUE(transaction->Commit().ok());
    EXPECT_TRUE(store->Flush().ok());
    return store;
  };
  const auto sparse_store = make(paths[0].get(), 1), dense_store = make(paths[1].get(), kFew - 1);
  const auto sparse = *sparse_store->Snapshot(), dense = *dense_store->Snapshot();
  // 179,400 relationships, or from both ends twice as many; 89,700 neighbours.
  const struct {
    int looks;
    std::function<absl::Status(const Scope&, Memory*)> run;
  } algorithms[] = {// Lists that are put together, and weights that go out.
                    {2 + 2,
                     [](const Scope& scope, Memory* memory) {
                       PageRankOptions options;
                       options.most_iterations = 1;
                       return PageRank(scope, options, memory).status();
                     }},
                    // Lists that are put together, twice, and each pair's one end.
                    {5 + 1 + 1, [](const Scope& scope,
                                   Memory* memory) { return Triangles(scope, memory).status(); }},
                    // The same, and colours.
                    {5 + 1 + 1, [](const Scope& scope, Memory* memory) {
                       return PropagateLabels(scope, 0, memory).status();
                     }}};
  for (const auto& algorithm : algorithms) {
    SCOPED_TRACE(&algorithm - algorithms);
    const auto looks_at = [&](const GraphView& graph, int end_at, absl::Status* status) {
      TestBudget budget;
      Memory memory(&budget);
      const auto scope = Scope::Make(graph, {.threads = 1}, &budget, &memory);
      EXPECT_TRUE(scope.ok());
      const int before = budget.asked;
      budget.end_at = end_at < 0 ? -1 : before + end_at;
      *status = algorithm.run(*scope, &memory);
      return budget.asked - before;
    };
    absl::Status status;
    const int few = looks_at(*sparse, -1, &status);
    ASSERT_TRUE(status.ok()) << status;
    const int many = looks_at(*dense, -1, &status);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GE(many, few + algorithm.looks);
    for (int at = 1; at <= many; ++at) {
      EXPECT_EQ(looks_at(*dense, at, &status), at);
      EXPECT_TRUE(absl::IsCancelled(status)) << at << ": " << status;
    }
  }
  for (const auto& path : paths) std::filesystem::remove_all(path.get());
}

TEST_F(AlgorithmsTest, Weights_ThatAreNone_AreNamed) {
  for (const Value& weight : {Value::Int(-1), Value::Float(-0.5), Value::Float(std::nan("")),
                              Value::Float(kFar), Value::String("1"), Value::Bool(true)}) {
    cypher::MemoryGraph graph;
    const NodeId a = *graph.CreateNode({}, {}), b = *graph.CreateNode({}, {});
    ASSERT_TRUE(
        graph.CreateEdge(a, b, *graph.AddTypeName("A"), {{*graph.AddKeyName("w"), weight}}).ok());
    Memory memory(&budget_);
    const auto scope = Scope::Make(graph, {}, &budget_, &memory);
    PageRankOptions options;
    options.weight = "w";
    for (const absl::Status& status : {Distances(*scope, 0, "w", &memory).status(),
                                       ShortestPath(*scope, 0, 1, "w", &memory).status(),
                                       PageRank(*scope, options, &memory).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_NE(status.message().find("relationship"), absl::string_view::npos) << status;
    }
    // A property that nothing has: 1 each.
    EXPECT_EQ(Distances(*scope, 0, "none", &memory)->distance[1], 1);
  }
}

TEST_F(AlgorithmsTest, Weights_WhoseSumIsNoDouble_LeadNowhere) {
  cypher::MemoryGraph graph;
  const Token type = *graph.AddTypeName("A"), key = *graph.AddKeyName("w");
  std::vector<NodeId> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(*graph.CreateNode({}, {}));
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 1)}) {
    ASSERT_TRUE(graph
                    .CreateEdge(nodes[static_cast<size_t>(from)], nodes[static_cast<size_t>(to)],
                                type, {{key, Value::Float(1e308)}})
                    .ok());
  }
  Memory memory(&budget_);
  const auto scope = Scope::Make(graph, {}, &budget_, &memory);
  const auto near = ShortestPath(*scope, 0, 1, "w", &memory);
  ASSERT_TRUE(near.ok() && near->found);
  EXPECT_EQ(near->distance, 1e308);
  const auto far = ShortestPath(*scope, 0, 2, "w", &memory);
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_FALSE(far->found);
  EXPECT_EQ(Distances(*scope, 0, "w", &memory)->distance, (std::vector<double>{0, 1e308, kFar}));
  PageRankOptions options;
  options.weight = "w";
  EXPECT_TRUE(absl::IsInvalidArgument(PageRank(*scope, options, &memory).status()));
}

// A score by such a sum is infinite.
TEST_F(AlgorithmsTest, Weights_TooSmallToDivideBy_HaveNoRanks) {
  cypher::MemoryGraph graph;
  const NodeId a = *graph.CreateNode({}, {}), b = *graph.CreateNode({}, {});
  ASSERT_TRUE(graph
                  .CreateEdge(a, b, *graph.AddTypeName("A"),
                              {{*graph.AddKeyName("w"), Value::Float(5e-324)}})
                  .ok());
  Memory memory(&budget_);
  const auto scope = Scope::Make(graph, {}, &budget_, &memory);
  PageRankOptions options;
  options.weight = "w";
  EXPECT_TRUE(absl::IsInvalidArgument(PageRank(*scope, options, &memory).status()));
}

TEST_F(AlgorithmsTest, Scope_OfAnEmptyList_HasNone) {
  cypher::MemoryGraph graph;
  const NodeId a = *graph.CreateNode({}, {}), b = *graph.CreateNode({}, {});
  ASSERT_TRUE(graph.CreateEdge(a, b, *graph.AddTypeName("A"), {}).ok());
  Memory memory(&budget_);
  ScopeOptions options;
  options.types.emplace();
  const auto nodes = Scope::Make(graph, options, &budget_, &memory);
  EXPECT_EQ(*Components(*nodes, &memory), (std::vector<Index>{0, 1}));
  EXPECT_EQ(Distances(*nodes, 0, "", &memory)->distance[1], kFar);
  options = {};
  options.labels.emplace();
  EXPECT_EQ(Scope::Make(graph, options, &budget_, &memory)->size(), 0u);
}

TEST_F(AlgorithmsTest, EmptyGraph_HasNoRows) {
  cypher::MemoryGraph graph;
  Memory memory(&budget_);
  const auto scope = Scope::Make(graph, {}, &budget_, &memory);
  ASSERT_TRUE(scope.ok());
  EXPECT_EQ(scope->size(), 0u);
  EXPECT_TRUE(PageRank(*scope, {}, &memory)->score.empty());
  EXPECT_TRUE(Components(*scope, &memory)->empty());
  EXPECT_TRUE(Triangles(*scope, &memory)->triangles.empty());
  EXPECT_TRUE(PropagateLabels(*scope, 1, &memory)->label.empty());
}

}  // namespace
}  // namespace pulse::graph::algorithms
