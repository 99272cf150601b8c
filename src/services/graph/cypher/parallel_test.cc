// Plans run by several threads against the same plans run by one: rows and their order, errors,
// what ends them, and what PROFILE counts; on a graph in memory and on the store, also beside a
// writer.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/cypher/test_parallel.h"
#include "services/graph/cypher/test_random_graph.h"

namespace pulse::cypher {
namespace {

const char* const kQueries[] = {
    "MATCH (a) RETURN a.n",
    "MATCH (a:A) RETURN a.n, a",
    "MATCH (a:A) WHERE a.n % 3 = 1 RETURN a.n AS n ORDER BY n DESC LIMIT 7",
    "MATCH (a:A) RETURN a.n SKIP 5 LIMIT 3",
    "MATCH (a) RETURN count(*), sum(a.n), avg(a.n), min(a.n), max(a.n), sum(a.n * 0.1)",
    "MATCH (a:A)-[r:R]->(b) RETURN a.n % 7 AS k, sum(b.n * 0.37), avg(1.0 / (1 + r.n)), count(*)",
    "MATCH (a)-[:R]->(b)-[:S]->(c) RETURN c.n % 5, collect(a.n), count(DISTINCT b), max(c.n)",
    "MATCH (a:A)-->(b:B) RETURN DISTINCT b.n % 11",
    "MATCH (a)-[:R]->(b) WITH b, count(a) AS k WHERE k > 2 MATCH (b)-[:S]->(c)-[:T]->(d) "
    "RETURN b.n, k, sum(d.n * 0.7), collect(c.n)",
    "MATCH (a:A) WITH avg(a.n) AS mean MATCH (b:B) WHERE b.n < mean RETURN count(*), sum(b.n)",
    "MATCH (a:A) UNWIND [1, 2] AS x RETURN x, sum(a.n * x), percentileCont(a.n, 0.3), stdev(a.n)",
    "MATCH (a:A) WHERE EXISTS { MATCH (a)-[:R]->(b:B) WHERE b.n > a.n } RETURN a.n",
    "MATCH (a:A) RETURN [(a)-[:R]->(b) | b.n] AS list, size([x IN range(0, a.n % 5) | x])",
    "MATCH (a:A)-[*1..2]->(b:C) RETURN a.n % 10, count(b)",
    "MATCH p = (a:A)-[:R]->(b:B) RETURN p, length(p)",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:R]->(b:B) RETURN a.n, b.n",
    "MATCH (a:A)-[:R]->(b) OPTIONAL MATCH (b)-[:S]->(c:C) WITH a, c MATCH (a)-[:T]->(d) "
    "RETURN a.n, c.n, d.n",
    "MATCH (a:A {n: 9})-->(b)-->(c)-->(d) RETURN d.n, sum(c.n * 0.1)",
    "MATCH (a:A) CALL (a) { MATCH (a)-[:S]->(b) RETURN count(b) AS k } RETURN a.n, k",
    "MATCH (a:A), (b:B) WHERE a.n = b.n RETURN a.n",
    "MATCH (a:Never) RETURN a",
    "MATCH (a:A) RETURN toString(a.n) + 'x' AS t, count(*) ORDER BY t LIMIT 20",
    "MATCH (a:A) RETURN a.n AS n UNION MATCH (b:B) RETURN b.n AS n",
    "MATCH (a)-[:R]->(b)-[:R]->(c) RETURN count(*)",
    "MATCH (a)-[r]->(b) WITH a, b ORDER BY b.n, a.n SKIP 3 MATCH (b)-[s:T]->(c) RETURN a.n, c.n",
    "MATCH (a:A) RETURN a, a.n, count(*), min(a.n + 0.5)",
    "UNWIND [3, 1, 2] AS x MATCH (a:A) WHERE a.n % 4 = x RETURN x, a.n",
    // LIMIT before who sorts, counts or goes on.
    "MATCH (a:A) WITH a LIMIT 20 RETURN count(*), sum(a.n)",
    "MATCH (a:A)-[:R]->(b) WITH a, b LIMIT 7 RETURN sum(b.n), collect(a.n)",
    "MATCH (a:A) WITH a.n AS n ORDER BY n DESC LIMIT 5 RETURN collect(n)",
    "MATCH (a:A)-[:R]->(b) WITH a, b LIMIT 300 RETURN a.n, b.n ORDER BY b.n, a.n",
    "MATCH (a:A) WITH a LIMIT 30 MATCH (a)-[:R]->(b) RETURN a.n, b.n ORDER BY b.n DESC",
    "MATCH (a) WITH count(*) AS c LIMIT 1 MATCH (b:B) RETURN c, sum(b.n * 0.1)",
    "MATCH (a:A) WITH DISTINCT a.n % 50 AS n LIMIT 9 RETURN count(n), max(n)",
    "MATCH (a:A) WITH a LIMIT 0 RETURN count(*)",
    "MATCH (a:A) WHERE a.n < 0 WITH a LIMIT 1 RETURN count(*)",
    // Nodes with one of several labels, and paths.
    "MATCH (a:A|B) RETURN a.n",
    "MATCH (a:A|B)-[:R]->(c:C|D) RETURN c.n % 9, count(*), sum(a.n * 0.3)",
    "MATCH (a:A|B|Never)-[r:R]->(b)-[:S]->(c) WHERE c.n % 2 = 0 RETURN a.n, r.n, c.n",
    "MATCH (a:A) MATCH (b:B|C) WHERE b.n = a.n RETURN a.n, labels(b)",
    "MATCH (a:A) ((x)-[:R]->(y)){1,2} (b:B) RETURN a.n, b.n, [n IN x | n.n], size(y)",
    "MATCH (a:A)-[rs:R*1..2]->(b) RETURN a.n, [r IN rs | r.n], b.n",
};

class ParallelTest : public RandomGraphTest {
 protected:
  void SetUp() override {
    RandomGraphTest::SetUp();
    MakeGraph(1500, 5000);
  }
};

TEST_F(ParallelTest, Queries_ManyThreads_GiveTheRowsOfOneInTheirOrder) {
  for (const std::string query : kQueries) {
    const std::string expected = TextOf(query, graph_, {});
    EXPECT_EQ(expected.find("no plan"), std::string::npos) << expected;
    for (const size_t morsel : {1, 7, 64, 5000}) {
      for (const size_t columns_from : {size_t{1}, ExecuteOptions().columns_from}) {
        ExecuteOptions options;
        options.columns_from = columns_from;
        options.parallel = Threads(3, morsel);
        EXPECT_EQ(TextOf(query, graph_, options), expected) << query << " by " << morsel;
      }
    }
  }
}

TEST_F(ParallelTest, BoundsOfAnIndex_ManyThreads_GiveTheRowsOfAScan) {
  for (const std::string query :
       {"MATCH (a:A) WHERE a.n > 1200 RETURN a.n, id(a)",
        "MATCH (a:A) WHERE 300 < a.n <= 420 AND a.n % 2 = 0 RETURN sum(a.n * 0.1), collect(a.n)",
        "MATCH (a:A)-[:R]->(b) WHERE a.n < 90 RETURN a.n, b.n",
        "MATCH (a:A) WHERE a.n > 5 RETURN count(*)",
        "UNWIND [3, 700, null, 'x'] AS x MATCH (a:A) WHERE x < a.n < x + 40 RETURN x, a.n",
        "MATCH (a:A) WHERE a.n > 1 / 0 RETURN a.n"}) {
    const std::string expected = TextOf(query, graph_, {});
    graph_.CreateIndex("A", {"n"});
    EXPECT_NE(PlanOf(query).find("within bounds of n"), std::string::npos) << PlanOf(query);
    for (const size_t morsel : {1, 64, 5000}) {
      ExecuteOptions options;
      options.parallel = Threads(3, morsel);
      EXPECT_EQ(TextOf(query, graph_, options), expected) << query << " by " << morsel;
    }
    graph_.DropIndex("A", {"n"});
  }
}

TEST_F(ParallelTest, Errors_ManyThreads_AreThoseOfTheFirstRow) {
  for (const std::string query : {
           "MATCH (a) WHERE a.n > 500 RETURN 1 / (a.n - 777)",
           "MATCH (a) RETURN a.n + CASE WHEN a.n = 900 THEN 9223372036854775807 ELSE 0 END",
           "MATCH (a) RETURN sum(CASE WHEN a.n = 950 THEN 'text' ELSE a.n END)",
           "MATCH (a) RETURN sum(9223372036854775807 - a.n)",
           "MATCH (a) WITH a.n AS n WHERE n > 100 RETURN n, 1 / (n - 1300) LIMIT 5",
           "MATCH (a)-[:R]->(b) WITH b, count(*) AS k MATCH (b)-[:S]->(c) "
           "RETURN sum(k / (b.n - b.n))",
       }) {
    const std::string expected = TextOf(query, graph_, {});
    for (const size_t morsel : {3, 50}) {
      ExecuteOptions options;
      options.parallel = Threads(4, morsel);
      // Rows of the same batch as the error are not the same; the error is.
      const std::string found = TextOf(query, graph_, options);
      const auto error = [](const std::string& all) { return all.substr(all.rfind('\n') + 1); };
      EXPECT_EQ(error(found), error(expected)) << query;
    }
  }
}

TEST_F(ParallelTest, Cancelled_WhileThreadsRun_Ends) {
  std::atomic<bool> cancelled{false};
  ExecuteOptions options;
  options.parallel = Threads(3, 2);
  options.cancelled = &cancelled;
  // It would take for ever.
  const std::string query = "MATCH (a), (b), (c), (d) WHERE a.n + b.n <> c.n + d.n RETURN a.n";
  const std::string found = TextOf(query, graph_, options, [&] { cancelled = true; });
  EXPECT_NE(found.find("the query was cancelled"), std::string::npos) << found.size();

  // And where no row is given: by what the calling thread is asked.
  cancelled = false;
  std::atomic<int> asked{0};
  const std::thread::id caller = std::this_thread::get_id();
  const std::function<bool()> interrupted = [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    return ++asked > 3;
  };
  options.interrupted = &interrupted;
  EXPECT_NE(TextOf("MATCH (a), (b), (c), (d) WHERE a.n + b.n < 0 RETURN d.n", graph_, options)
                .find("the query was cancelled"),
            std::string::npos);
}

TEST_F(ParallelTest, LimitOfTime_EndsAllThreads) {
  ExecuteOptions options;
  options.parallel = Threads(3, 2);
  std::atomic<int64_t> now{0};
  options.monotonic_nanos = [&now] { return now += 1'000'000; };
  options.limits.nanos = 100'000'000;
  EXPECT_NE(TextOf("MATCH (a), (b), (c), (d) WHERE a.n + b.n < 0 RETURN d.n", graph_, options)
                .find("longer than its limit"),
            std::string::npos);
}

TEST_F(ParallelTest, Spare_ThreadsOfAllExecutions_AreGivenBack) {
  std::atomic<int> spare{2};
  ExecuteOptions options;
  options.parallel = Threads(8, 4);
  options.parallel.spare = &spare;
  int least = 2;
  TextOf("MATCH (a:A)-[:R]->(b) RETURN a.n, b.n", graph_, options,
         [&] { least = std::min(least, spare.load()); });
  EXPECT_EQ(least, 0);
  EXPECT_EQ(spare, 2);
  spare = 0;
  const std::string query = "MATCH (a:A)-[:R]->(b) RETURN a.n, b.n";
  EXPECT_EQ(TextOf(query, graph_, options), TextOf(query, graph_, {}));
  EXPECT_EQ(spare, 0);
}

TEST_F(ParallelTest, Profile_CountsTheRowsOfAllThreads) {
  for (const std::string query : kQueries) {
    const auto plan = MakePlan(query, graph_, nullptr);
    std::string texts[2];
    for (const bool parallel : {false, true}) {
      Profile profile;
      ExecuteOptions options;
      options.view = &graph_;
      options.profile = &profile;
      if (parallel) options.parallel = Threads(3, 9);
      AllRows sink(&graph_);
      ASSERT_TRUE(Execute(**plan, options, &sink, nullptr).ok()) << query;
      texts[parallel ? 1 : 0] = PlanText(**plan, &profile);
    }
    // Each thread may have scanned for a row before it asks for a table.
    if (texts[0].find(" by table ") != std::string::npos) continue;
    // Where LIMIT ends it, threads have read ahead.
    const size_t limit = query.find(" LIMIT ");
    if (limit == std::string::npos || query.rfind("ORDER BY", limit) != std::string::npos) {
      EXPECT_EQ(texts[0], texts[1]) << query;
    }
  }
}

// A plan with rand() gives its numbers in the order of rows: one thread.
TEST_F(ParallelTest, Rand_WithASeed_GivesTheNumbersOfOneThread) {
  ExecuteOptions options;
  options.random_seed = 7;
  const std::string query = "MATCH (a:A) RETURN a.n, rand()";
  const std::string expected = TextOf(query, graph_, options);
  options.parallel = Threads(3, 5);
  EXPECT_EQ(TextOf(query, graph_, options), expected);
}

TEST(ParallelStoreTest, SnapshotBesideAWriter_GivesTheRowsOfOneThread) {
  graph::SimFiles files;
  graph::StoreOptions store_options;
  store_options.files = &files;
  store_options.background = false;
  auto store = *graph::GraphStore::Open("db", store_options);
  const auto write = [&](const std::string& query) {
    auto tx = *store->Begin();
    const auto plan = MakePlan(query, *tx, nullptr);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExecuteOptions options;
    options.transaction = tx.get();
    AllRows sink(tx.get());
    ASSERT_TRUE(Execute(**plan, options, &sink, nullptr).ok());
    ASSERT_TRUE(tx->Commit().ok());
  };
  write("UNWIND range(0, 1999) AS i CREATE (:A {n: i, f: i * 0.3})");
  write(
      "MATCH (a:A) WITH collect(a) AS all UNWIND range(0, 4999) AS i "
      "WITH all[i % 1999] AS a, all[i * 7 % 2000] AS b, i CREATE (a)-[:R {w: i}]->(b)");
  ASSERT_TRUE(store->Flush().ok());
  const auto view = *store->Snapshot();
  const char* const queries[] = {
      "MATCH (a:A) WHERE a.n % 2 = 0 RETURN a.n % 13, sum(a.f), avg(a.f), count(*)",
      "MATCH (a:A)-[r:R]->(b) RETURN b.n % 17 AS k, sum(r.w * a.f), count(DISTINCT a)",
      "MATCH (a:A)-[:R]->(b) WITH b, sum(a.f) AS f MATCH (b)-[:R]->(c) RETURN c.n, f",
  };
  // The estimates that plans are made by are those of now.
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<std::string> expected;
  for (const char* query : queries) {
    plans.push_back(*MakePlan(query, *view, nullptr));
    expected.push_back(TextOf(*plans.back(), *view, {}));
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      write(Concat("MATCH (a:A) WHERE a.n % 50 = ", i % 50,
                   " SET a.f = a.f + 1 CREATE (a)-[:R]->"
                   "(:A {n: 7})"));
    }
  });
  for (int round = 0; round < 5; ++round) {
    for (size_t q = 0; q < expected.size(); ++q) {
      ExecuteOptions options;
      options.parallel = Threads(3, 64);
      EXPECT_EQ(TextOf(*plans[q], *view, options), expected[q]) << queries[q];
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace pulse::cypher
