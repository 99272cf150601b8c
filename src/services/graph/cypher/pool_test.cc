// The memory of all queries together: who finds little of it left spills, and who finds none ends.
#include <atomic>
#include <thread>

#include "services/graph/cypher/test_random_graph.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr char kSort[] =
    "UNWIND range(1, 100000) AS x WITH x, toString(x) AS t ORDER BY t RETURN x";

class PoolTest : public RandomGraphTest {
 protected:
  struct Result {
    absl::Status status;
    std::vector<std::string> rows;
    ExecuteSummary summary;
  };
  Result Execute(const std::string& query, MemoryPool* pool, bool spills, int threads = 1,
                 size_t memory = 128 * kMiB) {
    const auto plan = MakePlan(query, graph_, nullptr);
    EXPECT_TRUE(plan.ok()) << plan.status();
    ExecuteOptions options;
    options.view = &graph_;
    options.limits.memory_bytes = memory;
    options.pool = pool;
    if (spills) options.spill.directory = testing::TempDir();
    options.parallel = {.threads = threads, .from_nodes = 1, .from_nanos = 0};
    FirstColumn sink(&graph_);
    Result result;
    result.status = cypher::Execute(**plan, options, &sink, &result.summary);
    result.rows = std::move(sink.texts);
    return result;
  }
};

TEST_F(PoolTest, LittleIsLeft_QuerySpillsAndGivesTheSameRows) {
  const Result alone = Execute(kSort, nullptr, true);
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  EXPECT_EQ(alone.summary.spilled_bytes, 0u);
  MemoryPool pool(64 * kMiB);
  ASSERT_TRUE(pool.Take(50 * kMiB));  // by others
  const Result beside = Execute(kSort, &pool, true);
  ASSERT_TRUE(beside.status.ok()) << beside.status;
  EXPECT_GT(beside.summary.spilled_bytes, 0u);
  EXPECT_EQ(beside.rows, alone.rows);
  EXPECT_EQ(pool.taken(), 50 * kMiB);
}

TEST_F(PoolTest, NothingIsLeft_QueryEndsAndGivesBack) {
  MemoryPool pool(64 * kMiB);
  ASSERT_TRUE(pool.Take(62 * kMiB));
  const Result beside = Execute(kSort, &pool, false);
  EXPECT_TRUE(absl::IsResourceExhausted(beside.status)) << beside.status;
  EXPECT_EQ(InfoOf(beside.status).detail, "PoolExceeded");
  EXPECT_EQ(pool.taken(), 62 * kMiB);
  // What is too large alone is within no limit, and not worth another try.
  MemoryPool small(2 * kMiB);
  const Result alone = Execute(kSort, &small, false);
  EXPECT_TRUE(absl::IsResourceExhausted(alone.status)) << alone.status;
  EXPECT_EQ(InfoOf(alone.status).detail, "LimitExceeded");
  EXPECT_EQ(small.taken(), 0);
}

// Of groups that hold most of the memory nothing may be left to spill.
TEST_F(PoolTest, LargeGroups_WithoutOtherRows_AreGiven) {
  for (const int groups : {1, 2}) {
    // From half of the limit on they spill; not all of these fit.
    for (const int items : {400'000, 550'000, 560'000, 700'000}) {
      const Result result = Execute(Concat("UNWIND range(1, ", items, ") AS i WITH i % ", groups,
                                           " AS k, collect(i) AS c RETURN sum(size(c))"),
                                    nullptr, true, 1, 16 * kMiB);
      if (result.status.ok()) {
        EXPECT_EQ(result.rows, std::vector<std::string>{std::to_string(items)});
      } else {
        EXPECT_TRUE(absl::IsResourceExhausted(result.status)) << result.status;
      }
    }
  }
}

TEST_F(PoolTest, WhatIsNotNeededAnyMore_IsGivenBackBeforeTheEnd) {
  MemoryPool pool(64 * kMiB);
  {
    EvalContext context;
    context.pool = &pool;
    EXPECT_TRUE(context.Charge(32 << 10));
    EXPECT_EQ(pool.taken(), 0) << "small queries do not ask";
    EXPECT_TRUE(context.Charge(10 * kMiB));
    EXPECT_GE(pool.taken(), 9 * kMiB);
    EXPECT_TRUE(context.Charge(-8 * kMiB));
    EXPECT_GE(pool.taken(), 2 * kMiB);
    EXPECT_LE(pool.taken(), 4 * kMiB);
    EvalContext child;
    context.Fork(2, &child);
    EXPECT_TRUE(child.Charge(20 * kMiB));
    EXPECT_GE(pool.taken(), 21 * kMiB);
    EXPECT_LE(pool.taken(), 24 * kMiB);
    EXPECT_FALSE(child.Charge(50 * kMiB));
  }
  EXPECT_EQ(pool.taken(), 0);
}

TEST_F(PoolTest, ThreadsOfManyQueries_TakeNoMoreThanThereIs) {
  MakeGraph(3000, 9000);
  const std::string query =
      "MATCH (a)-->(b)-->(c) RETURN a.n * 1000000 + c.n ORDER BY a.n, c.n, b.n";
  const Result alone = Execute(query, nullptr, false);
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  MemoryPool pool(24 * kMiB);
  std::atomic<bool> done = false;
  std::thread watch([&] {
    while (!done) EXPECT_LE(pool.taken(), pool.limit());
  });
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      for (int k = 0; k < 3; ++k) {
        const Result result = Execute(query, &pool, true, 2);
        if (result.status.ok()) {
          EXPECT_EQ(result.rows, alone.rows);
        } else {
          EXPECT_EQ(InfoOf(result.status).detail, "PoolExceeded") << result.status;
        }
      }
    });
  }
  for (std::thread& other : others) other.join();
  done = true;
  watch.join();
  EXPECT_EQ(pool.taken(), 0);
}

}  // namespace
}  // namespace pulse::cypher
