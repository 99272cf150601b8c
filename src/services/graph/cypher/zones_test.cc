// Queries of all relationships by their properties, which skip segments by what is known of their
// values, against plans that look at every relationship: on runs, beside updates and deletions in
// layer 0, in earlier snapshots and in transactions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/cypher/test_result_texts.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"

namespace pulse::cypher {
namespace {

constexpr int64_t kLeastInt = std::numeric_limits<int64_t>::min();
constexpr int64_t kGreatestInt = std::numeric_limits<int64_t>::max();

// Values of one kind for relationships beside each other, so that segments differ.
class ZoneGraph {
 public:
  explicit ZoneGraph(std::mt19937_64* random) : random_(*random) {
    options_.files = &files_;
    options_.background = false;
    options_.retain_commits = 100;
    store_ = *graph::GraphStore::Open("db", options_);
    auto tx = *store_->Begin();
    type_ = *tx->AddTypeName("E");
    w_ = *tx->AddKeyName("w");
    v_ = *tx->AddKeyName("v");
    for (int i = 0; i < kSources; ++i) nodes_.push_back(*tx->CreateNode({}, {}));
    EXPECT_TRUE(tx->Commit().ok());
    for (size_t source = 0; source < nodes_.size(); ++source) Grow(source, 5000);
  }

  // Relationships of one source, with values of one kind or of several.
  void Grow(size_t source, size_t count) {
    auto tx = *store_->Begin();
    const size_t kind = Roll(9);
    const auto base = static_cast<int64_t>(Roll(40));
    for (size_t i = 0; i < count; ++i) {
      Properties properties = {{v_, Value::Int(next_++)}};
      const Value value = Some(kind, base);
      if (!value.is_null()) properties.emplace_back(w_, value);
      edges_.push_back(
          *tx->CreateEdge(nodes_[source], nodes_[Roll(nodes_.size())], type_, properties));
    }
    EXPECT_TRUE(tx->Commit().ok());
  }
  void Change(GraphTransaction* tx, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const size_t at = Roll(edges_.size());
      if (Roll(2) == 0) {
        EXPECT_TRUE(tx->SetEdgeProperty(edges_[at], w_, Some(Roll(9), 3)).ok());
      } else {
        EXPECT_TRUE(tx->DeleteEdge(edges_[at]).ok());
        std::swap(edges_[at], edges_.back());
        edges_.pop_back();
      }
    }
  }
  // One to compare with, at the ends of zones among others.
  Value Constant() {
    const Value some[] = {Value::Int(static_cast<int64_t>(Roll(50))),
                          Value::Float(static_cast<double>(Roll(100)) / 2),
                          Value::Int(kLeastInt),
                          Value::Int(kGreatestInt),
                          Value::Float(9223372036854775808.0),
                          Value::Float(-9223372036854775808.0),
                          Value::Float(std::nan("")),
                          Value::Float(0.0),
                          Value::Float(-0.0),
                          Value::Float(HUGE_VAL),
                          Value::Float(-HUGE_VAL),
                          Value::String("s5"),
                          Value::Bool(true),
                          Value::List({Value::Int(1)}),
                          Value()};
    return some[Roll(3) == 0 ? Roll(std::size(some)) : Roll(2)];
  }
  size_t Roll(size_t n) { return random_() % n; }
  graph::GraphStore* store() { return store_.get(); }

 private:
  static constexpr int kSources = 8;

  Value Some(size_t kind, int64_t base) {
    const auto few = static_cast<int64_t>(Roll(6));
    const double floats[] = {std::nan(""), -0.0, 0.0, 2.5, static_cast<double>(base + few)};
    switch (kind) {
      case 0:
        return Value::Int(kLeastInt + few);
      case 1:
        return Value::Int(kGreatestInt - few);
      case 2:
        return Roll(3) == 0 ? Value() : Value::Int(base + few);
      case 3:
        return Value::Float(floats[Roll(5)]);
      case 4:
        return Roll(2) == 0 ? Value::Float(std::nan("")) : Value();
      case 5:
        return Roll(2) == 0 ? Value::Float(floats[4]) : Value::Int(base + few);
      case 6:
        return Value::String("s" + std::to_string(few));
      case 7:
        return Value();
      default:
        return Value::Int(base + few);
    }
  }

  std::mt19937_64& random_;
  graph::SimFiles files_;
  graph::StoreOptions options_;
  std::unique_ptr<graph::GraphStore> store_;
  Token type_, w_, v_;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
  int64_t next_ = 0;
};

std::vector<std::string> ZoneRows(const std::string& query, const GraphView& view,
                                  GraphTransaction* transaction, const ValueMap& parameters,
                                  bool shortcuts, uint64_t* skipped) {
  const auto plan = MakePlan(query, view, nullptr, {.shortcuts = shortcuts});
  EXPECT_TRUE(plan.ok()) << query << ": " << plan.status();
  if (!plan.ok()) return {};
  EXPECT_EQ(PlanText(**plan).find("ScanProperties") != std::string::npos, shortcuts) << query;
  ExecuteOptions options;
  options.view = &view;
  options.transaction = transaction;
  options.parameters = &parameters;
  Profile profile;
  options.profile = &profile;
  ResultTexts sink(&view);
  const absl::Status status = Execute(**plan, options, &sink, nullptr);
  EXPECT_TRUE(status.ok()) << query << ": " << status;
  *skipped += profile.Total().skipped_segments;
  return sink.texts;
}

TEST(ZonesTest, RandomComparisons_OnAnyState_FindWhatAFullScanFinds) {
  std::mt19937_64 random(testing_util::TestSeed() + testing_util::TestSample());
  uint64_t skipped = 0;
  for (int round = 0; round < (testing_util::LongTests() ? 3 : 1) && !HasFailure(); ++round) {
    ZoneGraph graph(&random);
    const auto compare = [&](const GraphView& view, GraphTransaction* tx, const char* where) {
      constexpr const char* kOperators[] = {" < ", " <= ", " > ", " >= ", " = ", " <> "};
      const auto test = [&](const char* constant) {
        const char* const op = kOperators[graph.Roll(6)];
        const char* const key = graph.Roll(4) == 0 ? "e.v" : "e.w";
        return graph.Roll(2) == 0 ? Concat(key, op, constant) : Concat(constant, op, key);
      };
      for (int i = 0; i < 10 && !testing::Test::HasFailure(); ++i) {
        std::string query = "MATCH ()-[e:E]->() WHERE " + test("$a");
        if (graph.Roll(2) == 0) query += " AND " + test("$b");
        query += " RETURN count(*), count(e.w), sum(e.v)";
        const ValueMap parameters = {{"a", graph.Constant()}, {"b", graph.Constant()}};
        uint64_t none = 0;
        EXPECT_EQ(ZoneRows(query, view, tx, parameters, true, &skipped),
                  ZoneRows(query, view, tx, parameters, false, &none))
            << query << " on " << where << ", $a: " << ValueText(parameters[0].second, view)
            << ", $b: " << ValueText(parameters[1].second, view);
        EXPECT_EQ(none, 0u);
      }
    };
    const auto compare_latest = [&](const char* where) {
      compare(**graph.store()->Snapshot(), nullptr, where);
      auto tx = *graph.store()->Begin();
      compare(*tx, tx.get(), "a transaction without changes");
    };
    compare_latest("layer 0");
    ASSERT_TRUE(graph.store()->Flush().ok());
    compare_latest("one run");
    const uint64_t earlier = graph.store()->sequence();
    graph.Grow(graph.Roll(8), 3000);
    compare_latest("layer 0 and a run");
    ASSERT_TRUE(graph.store()->Flush().ok());
    compare_latest("two runs");
    auto tx = *graph.store()->Begin();
    graph.Change(tx.get(), 200);
    compare(*tx, tx.get(), "a transaction");
    ASSERT_TRUE(tx->Commit().ok());
    tx.reset();
    compare_latest("changes in layer 0");
    compare(**graph.store()->Snapshot(earlier), nullptr, "an earlier snapshot");
    ASSERT_TRUE(graph.store()->Flush().ok());
    compare_latest("changes in a run");
    ASSERT_TRUE(graph.store()->Compact().ok());
    compare_latest("one run again");
  }
  EXPECT_GT(skipped, 0u);
}

}  // namespace
}  // namespace pulse::cypher
