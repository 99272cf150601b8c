// Plans with shortcuts (paths counted by degrees, predicates tested while nodes are found, orders
// by samples, rows of what is read alone), expressions by columns and several threads against plans
// that make every row, expressions row by row and one thread: the same queries on the same states
// of a graph in memory and of the store, where these lie in layer 0, in runs with and without
// tombstones, in earlier snapshots, and in what a transaction has changed and not committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/cypher/test_result_texts.h"
#include "services/graph/model/test_memory_database.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"

namespace pulse::cypher {
namespace {

// Sorted rows.
std::vector<std::string> Rows(const std::string& query, const GraphView& view,
                              GraphTransaction* transaction, bool shortcuts,
                              const ValueMap& parameters = {}) {
  const auto plan = MakePlan(query, view, nullptr, {.shortcuts = shortcuts, .statistics_from = 1});
  if (!plan.ok()) {
    ADD_FAILURE() << query << ": " << plan.status();
    return {};
  }
  ExecuteOptions options;
  options.view = &view;
  options.transaction = transaction;
  options.parameters = &parameters;
  options.columns_from = shortcuts ? 1 : ~size_t{0};
  if (shortcuts) {
    options.parallel = {.threads = 3, .from_nodes = 1, .from_nanos = 0, .morsel_nodes = 16};
  }
  ResultTexts sink(&view);
  const absl::Status status = Execute(**plan, options, &sink, nullptr);
  EXPECT_TRUE(status.ok()) << query << ": " << status;
  std::sort(sink.texts.begin(), sink.texts.end());
  return sink.texts;
}

// Queries that count ends of random patterns.
class Queries {
 public:
  explicit Queries(std::mt19937_64* random) : random_(*random) {}

  std::string Make() {
    nodes_ = edges_ = 0;
    std::string text;
    switch (Roll(8)) {
      case 0:
        text = "MATCH " + Chain(Node(), 1 + Roll(2)) + ", " + Chain(Node(), 1 + Roll(2));
        break;
      case 1:
        text = "MATCH " + Chain(Node(), 1) + " MATCH " + Chain("(n1)", 1 + Roll(2));
        break;
      case 2:
        text = "MATCH " + Chain(Node(), 1) + ", " + Chain("(n0)", 1 + Roll(2));
        break;
      case 3:
        text =
            "MATCH (n0) OPTIONAL MATCH " + OptionalChain() + " MATCH " + Chain("(n1)", 1 + Roll(2));
        break;
      case 4:
        // The same relationship again: a later clause may have it.
        text = "MATCH (n0)-[e0]->(n1) MATCH (n1)-[e0]-(n2), " + AfterRelisted();
        break;
      case 5:
        text = "MATCH " + Node() + "-[*0..2]-" + Chain(Node(), 1 + Roll(2));
        break;
      default:
        text = "MATCH " + Chain(Node(), 1 + Roll(3));
    }
    if (Roll(2) == 0) text += " WHERE " + Predicates();
    return text + " " + Result();
  }

  // All relationships, and their properties alone.
  std::string MakeOfEdges() {
    const std::string edge = Concat("-[e", Pick({"", ":E", ":F", ":E|F", ":Never", ":!E"}), "]-");
    return Concat(
        "MATCH ()", Roll(3) == 0 ? Concat("<", edge, "()") : Concat(edge, ">()"),
        Pick({"", "", " WHERE e.w > 3", " WHERE 5 <> e.w AND e.w IN [1, 2, 3, 6]",
              " WHERE e.w = $five OR e.none IS NULL", " WHERE e.w >= 2.5 AND type(e) = 'E'",
              " WHERE e.none > 1", " WHERE 2 <= e.w < 6", " WHERE e.w < 't'"}),
        Pick({" RETURN e.w, count(*), count(e)", " RETURN count(e), min(e.w), max(e.w)",
              " RETURN e.w IN [1, 2] AS k, max(e.w), count(e.none)", " RETURN DISTINCT e.w",
              " WITH e.w AS w, count(*) AS c WHERE c > 1 RETURN w, c ORDER BY w, c",
              " RETURN e.none, count(DISTINCT e.w), min(e.w)", " RETURN e.never, count(*) AS c",
              " RETURN any(x IN [1, 2, 3] WHERE x = e.w) AS k, count(DISTINCT e.w)"}));
  }

 private:
  size_t Roll(size_t n) { return random_() % n; }
  std::string Pick(std::initializer_list<const char*> of) {
    return *(of.begin() + Roll(of.size()));
  }
  std::string Name(const char* letter, size_t i) { return letter + std::to_string(i); }

  std::string Node() {
    return Concat(
        "(n", nodes_++,
        Pick({"", "", ":P", ":P", ":Q", ":P:Q", ":Nowhere", ":P|Q", ":!Q", ":P&!Q", ":%"}),
        Roll(8) == 0 ? " {x: 3}" : "", ")");
  }
  std::string Edge() {
    const std::string body = Concat(
        "-[e", edges_++, Pick({"", "", ":E", ":F", ":E|F", ":E|Never|E", ":Never", ":!E"}), "]-");
    switch (Roll(3)) {
      case 0:
        return "<" + body;
      case 1:
        return body;
      default:
        return body + ">";
    }
  }
  std::string Chain(std::string text, size_t hops) {
    for (; hops > 0; --hops) {
      text += Edge();
      text += Roll(12) == 0 && nodes_ > 0 ? Concat("(n", Roll(nodes_), ")") : Node();
    }
    return text;
  }
  std::string OptionalChain() {
    nodes_ = 1;
    return "(n0)" + Edge() + Node();
  }
  std::string AfterRelisted() {
    nodes_ = 3;
    edges_ = 1;
    return Chain("(n2)", 1 + Roll(2));
  }
  std::string Operator() { return Pick({" < ", " <= ", " > ", " >= ", " = ", " <> "}); }
  std::string Constant() { return Pick({"3", "5", "2.5", "'t'", "null", "$five", "true"}); }
  std::string Predicate() {
    const std::string n = Name("n", Roll(nodes_));
    const std::string m = Name("n", Roll(nodes_));
    switch (Roll(18)) {
      case 14:
      case 15:
        return Concat(n, Pick({".x", ".y"}), " = ", m, Pick({".x", ".y", ".x + 1"}));
      case 16:
        return Concat("id(", n, Pick({") = 3", ") IN [1, 2, 7]", ") IN [3, null]"}));
      case 17:
        return Concat("elementId(", n, ") = toString(", m, ".x)");
      case 0:
        return n + Pick({":P", ":Q", ":P|Q", ":!P", ":Q|Nowhere"});
      case 1:
        return Concat("2 <= ", n, Pick({".x < 7", ".y <= 3.5"}),
                      Roll(2) == 0 ? "" : Concat(" < ", m, ".x"));
      case 8:
        return Concat("((", n, ".x", Operator(), Constant(), " AND ", m, ".x < 5) OR (", n,
                      ".x = 1 AND ", m, ".y IS NOT NULL) OR (", n, ".x IN [2, 't', 4] AND ", m,
                      ".x >= 3))");
      case 9:
        return Concat(Pick({"", "NOT "}), "(", n, ".x IN [1, 2, null, 't'] XOR ", m, ".y IS NULL)");
      case 10:
        return Concat(n, ".x",
                      Pick({" =~ 't.*'", " STARTS WITH 't'", " CONTAINS ''", " =~ '[st]'"}));
      case 11:
        return Concat("CASE WHEN ", n, ".x > 3 THEN ", m, ".x < 6 WHEN ", m,
                      ".y IS NULL THEN true ELSE null END");
      case 12:
        return Concat("toString(", n, ".x) ", Operator(), " '3'");
      case 13:
        return Concat("coalesce(", n, ".x, ", m, ".y, 1)", Operator(), "coalesce(", m, ".y, 2)");
      case 2:
        return Concat(n, ".x", Operator(), "n", Roll(nodes_), ".x");
      case 3:
        return edges_ == 0 ? "true" : Concat("e", Roll(edges_), ".w", Operator(), Constant());
      case 4:
        return Concat(Constant(), Operator(), n, ".y");
      case 5:
        return Concat("(", n, ".x", Operator(), "4 OR ", n, ":Q)");
      default:
        return Concat(n, ".x", Operator(), Constant());
    }
  }
  std::string Predicates() {
    std::string text = Predicate();
    while (Roll(2) == 0) text += " AND " + Predicate();
    return text;
  }
  std::string Result() {
    const std::string n = Name("n", Roll(nodes_)), m = Name("n", Roll(nodes_));
    switch (Roll(15)) {
      case 9:
        return Concat("RETURN ", n, ", ", n, ".x AS x, ", m, ".y, count(*), sum(", m, ".y)");
      case 10:
        return Concat("RETURN DISTINCT ", n, ".x AS x, ", m, ".y AS y ORDER BY y DESC, x");
      case 11:
        return Concat("WITH ", n, ", count(DISTINCT ", m, ".x) AS c, avg(", m, ".y) AS a, collect(",
                      m, ".x) AS xs WHERE c > 0 RETURN ", n, ".x, c + 1, a, size(xs)");
      case 12:
        return Concat("WITH sum(CASE WHEN ", n, ".x > 3 THEN 1 WHEN ", m,
                      ".x IS NULL THEN 2 ELSE 0 END) AS s, min(", n, ".x) AS low, max(toString(", m,
                      ".x)) AS high RETURN s * 2 - 1, low, high");
      case 13:
        return Concat("RETURN ", n, ".x AS x, [", m, ".x, ", n, ".y] AS l, {a: ", m,
                      ".y} AS m, -coalesce(", n, ".y, 1) AS z, ", n, ".x = ", m, ".x AS e");
      case 14:
        return edges_ == 0 ? "RETURN count(*)"
                           : Concat("WITH e0, ", n, " WHERE e0.w > 1 RETURN e0.w + 1 AS w, ", n,
                                    ".x AS x, type(e0) ORDER BY x, w DESC");
      case 0:
        return Concat("RETURN count(", n, ")");
      case 1:
        return Concat("RETURN ", n, ".x, count(*)");
      case 2:
        return Concat("RETURN ", n, ", count(", m, "), count(*)");
      case 3:
        return Concat("RETURN count(DISTINCT ", n, "), min(", m, ".x), count(*)");
      case 4:
        return Concat("RETURN sum(", n, ".y), count(", m, ".y)");
      case 5:
        return Concat("WITH count(*) AS c, max(", n, ".x) AS m RETURN c + 1, m");
      case 6:
        return edges_ == 0 ? "RETURN count(*)" : Concat("RETURN count(e", Roll(edges_), ")");
      default:
        return "RETURN count(*)";
    }
  }

  std::mt19937_64& random_;
  size_t nodes_ = 0, edges_ = 0;
};

// Random changes of a small graph, in which loops and parallel relationships are frequent.
class Changes {
 public:
  Changes(std::mt19937_64* random, bool all_labelled)
      : random_(*random), all_labelled_(all_labelled) {}

  void Apply(GraphTransaction* tx, size_t count) {
    const Token p = *tx->AddLabelName("P"), q = *tx->AddLabelName("Q");
    const Token x = *tx->AddKeyName("x"), y = *tx->AddKeyName("y"), w = *tx->AddKeyName("w");
    const Token types[] = {*tx->AddTypeName("E"), *tx->AddTypeName("F")};
    for (size_t i = 0; i < count; ++i) {
      const size_t roll = random_() % 20;
      if (nodes_.size() < 3 || roll < 2) {
        std::vector<Token> labels;
        if (all_labelled_ || random_() % 2 == 0) labels.push_back(p);
        if (random_() % 3 == 0) labels.push_back(q);
        Properties properties;
        if (random_() % 4 != 0) properties.emplace_back(x, Some());
        if (random_() % 2 == 0) properties.emplace_back(y, Value::Float(2.5));
        nodes_.push_back(*tx->CreateNode(labels, properties));
      } else if (roll < 12 || edges_.empty()) {
        edges_.push_back(*tx->CreateEdge(Any(), Any(), types[random_() % 2],
                                         {{w, Value::Int(static_cast<int64_t>(random_() % 8))}}));
      } else if (roll < 15) {
        const size_t at = random_() % edges_.size();
        EXPECT_TRUE(tx->DeleteEdge(edges_[at]).ok());
        edges_.erase(edges_.begin() + static_cast<long>(at));
      } else if (roll < 17) {
        EXPECT_TRUE(tx->SetEdgeProperty(edges_[random_() % edges_.size()], w, Some()).ok());
      } else if (roll < 18) {
        EXPECT_TRUE(tx->SetNodeProperty(Any(), x, Some()).ok());
      } else if (!all_labelled_) {
        const NodeId node = Any();
        EXPECT_TRUE((roll == 18 ? tx->AddLabel(node, q) : tx->RemoveLabel(node, q)).ok());
      }
    }
  }
  // Takes back what a transaction did that is not committed.
  struct Saved {
    std::vector<NodeId> nodes;
    std::vector<EdgeRef> edges;
  };
  Saved Save() const { return {nodes_, edges_}; }
  void Restore(Saved saved) {
    nodes_ = std::move(saved.nodes);
    edges_ = std::move(saved.edges);
  }

 private:
  NodeId Any() { return nodes_[random_() % nodes_.size()]; }
  Value Some() {
    const auto n = static_cast<int64_t>(random_() % 8);
    return random_() % 12 == 0 ? Value::String("t") : Value::Int(n);
  }

  std::mt19937_64& random_;
  const bool all_labelled_;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
};

// Returns how many of the queries had a plan that counts paths.
size_t Compare(Database* database, const std::function<void(size_t)>& settle, bool all_labelled,
               std::mt19937_64* random) {
  Queries queries(random);
  Changes changes(random, all_labelled);
  const ValueMap parameters = {{"five", Value::Int(5)}};
  std::vector<uint64_t> sequences;
  size_t counted = 0;
  const auto compare = [&](const GraphView& view, GraphTransaction* tx, const char* where) {
    for (int i = 0; i < 12 && !testing::Test::HasFailure(); ++i) {
      const std::string query = i % 4 == 3 ? queries.MakeOfEdges() : queries.Make();
      EXPECT_EQ(Rows(query, view, tx, true, parameters), Rows(query, view, tx, false, parameters))
          << query << " on " << where;
      const auto plan = MakePlan(query, view, nullptr);
      counted += plan.ok() && PlanText(**plan).find("CountPaths") != std::string::npos ? 1 : 0;
    }
  };
  for (size_t step = 0; step < 8 && !testing::Test::HasFailure(); ++step) {
    const auto saved = changes.Save();
    auto tx = *database->Begin();
    changes.Apply(tx.get(), 25);
    compare(*tx, tx.get(), "a transaction");
    if ((*random)() % 4 == 0) {
      tx.reset();
      changes.Restore(saved);
    } else {
      EXPECT_TRUE(tx->Commit().ok());
      tx.reset();
    }
    settle(step);
    compare(**database->Snapshot(std::nullopt), nullptr, "the latest snapshot");
    sequences.push_back(database->sequence());
    const uint64_t earlier = sequences[(*random)() % sequences.size()];
    compare(**database->Snapshot(earlier), nullptr, "an earlier snapshot");
    tx = *database->Begin();
    compare(*tx, tx.get(), "a transaction without changes");
  }
  return counted;
}

TEST(ShortcutsTest, RandomQueries_GraphInMemory_GiveTheRowsOfPlansWithout) {
  std::mt19937_64 random(testing_util::TestSeed());
  size_t counted = 0;
  for (int round = 0; round < testing_util::Rounds(12) && !HasFailure(); ++round) {
    MemoryDatabase database;
    counted += Compare(
        &database, [](size_t) {}, round % 2 == 0, &random);
  }
  EXPECT_GT(counted, static_cast<size_t>(testing_util::Rounds(100)));
}

TEST(ShortcutsTest, RandomQueries_Store_GiveTheRowsOfPlansWithout) {
  std::mt19937_64 random(testing_util::TestSeed());
  size_t counted = 0;
  for (int round = 0; round < testing_util::Rounds(12) && !HasFailure(); ++round) {
    graph::SimFiles files;
    graph::StoreOptions options;
    options.files = &files;
    options.background = false;
    options.retain_commits = 100;
    auto store = *graph::GraphStore::Open("db", options);
    counted += Compare(
        store.get(),
        [&](size_t step) {
          absl::Status status;
          if (step % 3 == 1) status = store->Flush();
          if (step % 5 == 4) status = store->Compact();
          EXPECT_TRUE(status.ok()) << status;
        },
        round % 2 == 0, &random);
  }
  EXPECT_GT(counted, static_cast<size_t>(testing_util::Rounds(100)));
}

// Six thousand items in groups of four: what a query asks for begins where few nodes have it.
class OrderTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.files = &files_;
    store_ = *graph::GraphStore::Open("db", options_);
    auto tx = *store_->Begin();
    const Token item = *tx->AddLabelName("Item"), group = *tx->AddLabelName("Group");
    const Token in = *tx->AddTypeName("IN"), x = *tx->AddKeyName("x"), s = *tx->AddKeyName("s");
    std::vector<NodeId> groups;
    for (int64_t g = 0; g < 1500; ++g) {
      groups.push_back(*tx->CreateNode(std::vector<Token>{group}, {{x, Value::Int(g)}}));
    }
    for (int64_t i = 0; i < 6000; ++i) {
      const NodeId node = *tx->CreateNode(
          std::vector<Token>{item},
          {{x, Value::Int(i)}, {s, Value::String(i % 500 == 7 ? "rare" : "common")}});
      ASSERT_TRUE(tx->CreateEdge(node, groups[static_cast<size_t>(i) % 1500], in, {}).ok());
    }
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE(store_->Flush().ok());
    view_ = *store_->Snapshot();
  }

  // The first line of the plan; the rows are those of the plan without shortcuts.
  std::string FirstStep(const std::string& query) {
    EXPECT_EQ(Rows(query, *view_, nullptr, true), Rows(query, *view_, nullptr, false)) << query;
    const auto plan = MakePlan(query, *view_, nullptr);
    return plan.ok() ? PlanText(**plan).substr(0, PlanText(**plan).find('\n')) : "no plan";
  }

  graph::SimFiles files_;
  graph::StoreOptions options_;
  std::unique_ptr<graph::GraphStore> store_;
  std::shared_ptr<const GraphView> view_;
};

TEST_F(OrderTest, SelectivePredicate_OnTheLargerLabel_BeginsThere) {
  EXPECT_EQ(FirstStep("MATCH (g:Group)<-[:IN]-(i:Item) WHERE i.s = 'rare' RETURN g.x, i.x"),
            "Scan :Item (1 predicates)");
  EXPECT_EQ(FirstStep("MATCH (g:Group)<-[:IN]-(i:Item) WHERE g.x < 3 RETURN g.x, i.x"),
            "Scan :Group (1 predicates)");
}

TEST_F(OrderTest, PredicateOfALaterMatch_BeginsTheEarlierOne) {
  EXPECT_EQ(FirstStep("MATCH (g:Group)<-[:IN]-(i:Item) MATCH (g)<-[:IN]-(j:Item) "
                      "WHERE i.s = 'rare' AND j.x > 10 RETURN i.x, j.x"),
            "Scan :Item (1 predicates)");
}

TEST_F(OrderTest, AlternativesOfTwoVariables_ImplyOneOfEach) {
  EXPECT_EQ(FirstStep("MATCH (g:Group)<-[:IN]-(i:Item) WHERE (g.x = 7 AND i.x > 5) OR "
                      "(g.x = 8 AND i.x < 3000) RETURN g.x, i.x"),
            "Scan :Group (1 predicates)");
}

TEST_F(OrderTest, PredicateWithErrors_IsNotEvaluatedBeforeItsRows) {
  // No item has both; 1 / 0 is asked for of none.
  const std::string query =
      "MATCH (g:Group)<-[:IN]-(i:Item) WHERE g.x < 0 AND i.x / 0 > 1 RETURN count(*)";
  EXPECT_EQ(FirstStep(query), "Scan :Group (1 predicates)");
}

TEST_F(OrderTest, ManyMatchesWhosePredicatesMove_AreNoDeepTree) {
  std::string query = "MATCH (g:Group {x: 3})";
  for (int i = 0; i < 1500; ++i) query += " MATCH (g) WHERE g.x = 3";
  EXPECT_EQ(Rows(query + " RETURN g.x", *view_, nullptr, true), std::vector<std::string>{"3, "});
}

// More nodes between two hops than are kept together, hubs with more relationships than a batch
// has, and every label that makes a difference to how they are counted.
TEST(ShortcutsTest, CountOfTwoHops_ManyNodesBetween_IsExact) {
  constexpr size_t kNodes = 60'000;
  graph::SimFiles files;
  graph::StoreOptions options;
  options.files = &files;
  auto store = *graph::GraphStore::Open("db", options);
  auto tx = *store->Begin();
  const Token p = *tx->AddLabelName("P"), q = *tx->AddLabelName("Q"), e = *tx->AddTypeName("E");
  const Token few = *tx->AddLabelName("Few"), one = *tx->AddLabelName("One");
  const NodeId hub = *tx->CreateNode(std::vector<Token>{p, one}, {});
  size_t two = 0, to_q = 0, via_q = 0;
  for (size_t i = 0; i < kNodes; ++i) {
    const bool with_q = i % 3 == 0;
    std::vector<Token> labels{p};
    if (with_q) labels.push_back(q);
    if (i < 6) labels.push_back(few);
    const NodeId node = *tx->CreateNode(labels, {});
    ASSERT_TRUE(tx->CreateEdge(hub, node, e, {}).ok());
    for (size_t k = 0; k < i % 4; ++k) {
      ASSERT_TRUE(tx->CreateEdge(node, k == 0 ? hub : node, e, {}).ok());
    }
    // From the hub by each of the node's relationships, of which the first leads back to it.
    two += i % 4;
    via_q += with_q ? i % 4 : 0;
    to_q += with_q && i % 4 > 0 ? i % 4 - 1 : 0;
  }
  ASSERT_TRUE(tx->Commit().ok());
  for (const bool flushed : {false, true}) {
    ASSERT_TRUE(!flushed || store->Flush().ok());
    const auto view = *store->Snapshot();
    const auto count = [&](const std::string& pattern) {
      const std::string query = "MATCH " + pattern + " RETURN count(*)";
      EXPECT_EQ(Rows(query, *view, nullptr, true), Rows(query, *view, nullptr, false)) << query;
      return Rows(query, *view, nullptr, true).at(0);
    };
    // Who begins at the one or the few makes no more rows than there are paths.
    EXPECT_EQ(count("(a:One)-[:E]->(b)-[:E]->(c)"), Concat(two, ", "));
    EXPECT_EQ(count("(a:One)-[:E]->(b:P)-[:E]->(c:P)"), Concat(two, ", "));
    EXPECT_EQ(count("(a:One)-[:E]->(b:Q)-[:E]->(c)"), Concat(via_q, ", "));
    EXPECT_EQ(count("(a:One)-[:E]->(b)-[:E]->(c:Q)"), Concat(to_q, ", "));
    count("(a:Few)-[:E]-(b)-[:E]-(c:Q)");
    count("(a:Few)<-[:E]-(b)-[:E]->(c:P)");
  }
}

}  // namespace
}  // namespace pulse::cypher
