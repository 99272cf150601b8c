// Aggregates over all relationships, whose numbers are added up in columns, against the same ones
// row by row: sums, averages and errors are the same, to the last bit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/cypher/test_result_texts.h"
#include "services/graph/planner/make_plan.h"

namespace pulse::cypher {
namespace {

constexpr int64_t kWithin = int64_t{1} << 50;

class ColumnSums : public testing::Test {
 protected:
  // What a query gives for relationships with these values in a run; an error is a text, too.
  void Compare(size_t count, const std::function<Value(size_t)>& value, const std::string& what) {
    graph::SimFiles files;
    graph::StoreOptions options;
    options.files = &files;
    options.background = false;
    const auto store = *graph::GraphStore::Open("db", options);
    auto tx = *store->Begin();
    const Token type = *tx->AddTypeName("E"), w = *tx->AddKeyName("w");
    const NodeId node = *tx->CreateNode({}, {});
    for (size_t i = 0; i < count; ++i) {
      Value v = value(i);
      Properties properties;
      if (!v.is_null()) properties.emplace_back(w, std::move(v));
      ASSERT_TRUE(tx->CreateEdge(node, node, type, properties).ok());
    }
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE(store->Flush().ok());
    const auto view = *store->Snapshot();
    for (const char* result : {"sum(e.w), count(e.w)", "avg(e.w)", "min(e.w), max(e.w)"}) {
      const std::string query = std::string("MATCH ()-[e]->() RETURN ") + result;
      EXPECT_EQ(Result(query, *view, true), Result(query, *view, false))
          << result << " of " << what;
    }
  }

 private:
  static std::string Result(const std::string& query, const GraphView& view, bool columns) {
    const auto plan = MakePlan(query, view, nullptr, {.shortcuts = columns});
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(PlanText(**plan).find("AggregateColumns") != std::string::npos, columns) << query;
    ExecuteOptions options;
    options.view = &view;
    options.columns_from = ~size_t{0};
    ResultTexts sink(&view);
    const absl::Status status = Execute(**plan, options, &sink, nullptr);
    return status.ok() ? sink.texts.at(0) : status.ToString();
  }
};

TEST_F(ColumnSums, RandomNumbers_AddUpAsInRows) {
  std::mt19937_64 random(testing_util::TestSeed());
  const auto within = [&](int64_t n) {
    return Value::Int(static_cast<int64_t>(random() % static_cast<uint64_t>(2 * n + 1)) - n);
  };
  // Less than a batch, a few of them, and what is left of one.
  for (const size_t count : {size_t{1}, 1 + random() % 20, 4090 + random() % 12, size_t{8200}}) {
    Compare(
        count, [&](size_t) { return within(1000); }, "small integers");
    Compare(
        count, [&](size_t) { return random() % 5 == 0 ? Value() : within(kWithin); },
        "integers and nulls");
    Compare(
        count, [&](size_t) { return Value::Float(std::ldexp(random() % 1000, -7)); }, "floats");
    Compare(
        count,
        [&](size_t) {
          return random() % 3 == 0 ? Value() : Value::Float(std::ldexp(random(), -40));
        },
        "floats and nulls");
  }
}

TEST_F(ColumnSums, IntegersAtTheBounds_OverflowAsInRows) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto all = [this](size_t count, int64_t n) {
    Compare(
        count, [n](size_t) { return Value::Int(n); }, std::to_string(n));
  };
  for (const int64_t n : {kWithin - 1, kWithin, kWithin + 1, kMost / 8192}) {
    all(8192, n);
    all(8192, -n);
    all(8193, n);
  }
  all(3, kMost);
  all(3, -kMost - 1);
  // The first two overflow, and what follows would bring the sum back.
  for (const int64_t n : {int64_t{1} << 62, kMost, -kMost - 1}) {
    Compare(
        4, [n](size_t i) { return Value::Int(i < 2 ? n : ~n); }, std::to_string(n) + " and back");
  }
}

TEST_F(ColumnSums, FloatsThatAreNoNumbersOrGrowTooLarge_AddUpAsInRows) {
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL, kMost, -kMost, -0.0}) {
    Compare(
        100, [odd](size_t i) { return Value::Float(i % 30 == 7 ? odd : 1.5); },
        std::to_string(odd));
  }
  Compare(
      1, [](size_t) { return Value::Float(-0.0); }, "a negative zero");
}

}  // namespace
}  // namespace pulse::cypher
