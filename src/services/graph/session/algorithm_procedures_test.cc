// What CALL algo.* gives, and refuses. Whether it is right is tested in graph/algorithms.
#include <gtest/gtest.h>

#include <thread>

#include "base/testing.h"
#include "services/graph/model/test_memory_database.h"
#include "services/graph/model/text.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

class AlgorithmProceduresTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Rows("CREATE (a:N {x: 'a'}), (b:N {x: 'b'}), (c:N {x: 'c'}), (d:M {x: 'd'}), "
                   "(a)-[:R {w: 5}]->(c), (a)-[:R {w: 1}]->(b), (b)-[:R {w: 2.5}]->(c), "
                   "(c)-[:S]->(d)"),
              "");
  }
  absl::Status Run(std::string_view text) { return RunOn(&service_, text); }
  absl::Status RunOn(GraphService* service, std::string_view text) {
    sink_ = RowTexts(" ");
    const auto statement = service->Prepare(text);
    if (!statement.ok()) return statement.status();
    Outcome outcome;
    return service->Run(**statement, {}, {}, &sink_, &outcome);
  }
  std::string Rows(std::string_view text) {
    const absl::Status status = Run(text);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
    return sink_.Lines();
  }

  MemoryDatabase database_;
  GraphService service_{&database_, ServiceOptions()};
  RowTexts sink_;
};

TEST_F(AlgorithmProceduresTest, Traversal_FromANode_GivesRows) {
  EXPECT_EQ(Rows("MATCH (s {x: 'a'}) CALL algo.bfs(s) YIELD node, distance, parent "
                 "RETURN node.x, distance, parent.x ORDER BY node.x"),
            "'a' 0 null\n'b' 1 'a'\n'c' 1 'a'\n'd' 2 'c'\n");
  EXPECT_EQ(Rows("MATCH (s {x: 'c'}) CALL algo.bfs(s, {direction: 'in', depth: 1, types: 'R'}) "
                 "YIELD node, distance RETURN node.x, distance ORDER BY node.x"),
            "'a' 1\n'b' 1\n'c' 0\n");
  EXPECT_EQ(Rows("MATCH (s {x: 'a'}) CALL algo.shortestPaths(s, {weight: 'w', labels: ['N']}) "
                 "YIELD node, distance, parent RETURN node.x, distance, parent.x ORDER BY node.x"),
            "'a' 0.0 null\n'b' 1.0 'a'\n'c' 3.5 'b'\n");
  EXPECT_EQ(Rows("MATCH (s {x: 'a'}), (t {x: 'd'}) "
                 "CALL algo.shortestPath(s, t, {weight: 'w', direction: 'both'}) "
                 "YIELD distance, path RETURN distance, [n IN nodes(path) | n.x]"),
            "4.5 ['a', 'b', 'c', 'd']\n");
  EXPECT_EQ(Rows("MATCH (s {x: 'd'}), (t {x: 'a'}) CALL algo.shortestPath(s, t) YIELD path "
                 "RETURN path"),
            "");
  // A row for each of several sources; none for null.
  EXPECT_EQ(Rows("MATCH (s:N) CALL algo.bfs(s) YIELD node RETURN s.x, count(node) ORDER BY s.x"),
            "'a' 4\n'b' 3\n'c' 2\n");
  EXPECT_EQ(Rows("CALL algo.bfs(null) YIELD node RETURN node"), "");
}

TEST_F(AlgorithmProceduresTest, Whole_WithAndWithoutOptions_GivesRows) {
  EXPECT_EQ(Rows("CALL algo.components() YIELD node, component "
                 "RETURN collect(node.x), count(DISTINCT component)"),
            "['a', 'b', 'c', 'd'] 1\n");
  EXPECT_EQ(Rows("CALL algo.components({types: ['R']}) YIELD node, component "
                 "RETURN component, count(*) AS n ORDER BY n"),
            "3 1\n0 3\n");
  EXPECT_EQ(Rows("CALL algo.triangles() YIELD node, triangles, coefficient "
                 "RETURN node.x, triangles, coefficient ORDER BY node.x"),
            "'a' 1 1.0\n'b' 1 1.0\n'c' 1 0.3333333333333333\n'd' 0 0.0\n");
  EXPECT_EQ(Rows("CALL algo.pageRank({iterations: 1000, tolerance: 1e-12, threads: 2}) "
                 "YIELD node, score, converged RETURN toInteger(round(sum(score) * 1e9)), all(c IN "
                 "collect(converged) WHERE c)"),
            "1000000000 true\n");
  EXPECT_EQ(Rows("CALL algo.labelPropagation() YIELD community RETURN count(DISTINCT community)"),
            "1\n");
  // Alone, and with the names of its columns.
  ASSERT_TRUE(Run("CALL algo.components").ok());
  EXPECT_EQ(sink_.rows().size(), 4u);
  // A type or label that is not there.
  EXPECT_EQ(Rows("CALL algo.components({types: 'None'}) YIELD component "
                 "RETURN count(DISTINCT component)"),
            "4\n");
  EXPECT_EQ(Rows("CALL algo.pageRank({labels: 'None'}) YIELD node RETURN node"), "");
  // None is not all; null is as what is not given.
  EXPECT_EQ(Rows("CALL algo.components({types: []}) YIELD component "
                 "RETURN count(DISTINCT component)"),
            "4\n");
  EXPECT_EQ(Rows("CALL algo.components({labels: []}) YIELD node RETURN node"), "");
  EXPECT_EQ(Rows("CALL algo.components({labels: null, types: null}) YIELD component "
                 "RETURN count(*), count(DISTINCT component)"),
            "4 1\n");
}

TEST_F(AlgorithmProceduresTest, Transaction_ThatHasWritten_SeesItsOwn) {
  EXPECT_EQ(Rows("MATCH (d {x: 'd'}) CREATE (d)-[:R]->(e {x: 'e'}) WITH d "
                 "CALL algo.bfs(d) YIELD node RETURN node.x ORDER BY node.x"),
            "'d'\n'e'\n");
}

TEST_F(AlgorithmProceduresTest, Options_ThatMakeNoSense_AreNamed) {
  const struct {
    std::string_view call, message;
  } cases[] = {
      {"CALL algo.pageRank({dampng: 0.5}) YIELD node RETURN node", "dampng"},
      {"CALL algo.pageRank({damping: 2}) YIELD node RETURN node", "damping is a number from 0"},
      {"CALL algo.pageRank({damping: 'x'}) YIELD node RETURN node", "damping is a number"},
      {"CALL algo.pageRank({iterations: 0}) YIELD node RETURN node", "iterations is an integer"},
      {"CALL algo.pageRank({labels: [1]}) YIELD node RETURN node", "labels is a string"},
      {"CALL algo.pageRank({weight: 1}) YIELD node RETURN node", "weight is a string"},
      {"CALL algo.pageRank({direction: 'up'}) YIELD node RETURN node", "direction is 'out'"},
      {"CALL algo.components({direction: 'in'}) YIELD node RETURN node", "direction"},
      {"CALL algo.pageRank({threads: 1000}) YIELD node RETURN node", "threads"},
      {"MATCH (d {x: 'd'}) CALL algo.bfs(d, {labels: 'N'}) YIELD node RETURN node", "source"},
      {"MATCH (a {x: 'a'}), (d {x: 'd'}) SET d.inf = 1.0 / 0 CREATE (a)-[:R {inf: d.inf}]->(d) "
       "WITH a, d CALL algo.shortestPath(a, d, {weight: 'inf'}) YIELD path RETURN path",
       "finite"},
      {"CALL algo.bfs(1) YIELD node RETURN node", "source"},
      {"CALL algo.bfs() YIELD node RETURN node", "takes 1 to 2 arguments"},
      {"CALL algo.pageRank({}, {}) YIELD node RETURN node", "takes 0 to 1 arguments"},
      {"CALL algo.pageRank(7) YIELD node RETURN node", "options"}};
  for (const auto& row : cases) {
    const absl::Status status = Run(row.call);
    EXPECT_FALSE(status.ok()) << row.call;
    EXPECT_NE(status.message().find(absl::string_view(row.message.data(), row.message.size())),
              absl::string_view::npos)
        << status;
  }
}

TEST_F(AlgorithmProceduresTest, Limits_OfTheQuery_AreKept) {
  ServiceOptions options;
  options.query_memory_bytes = 200'000;
  GraphService small(&database_, options);
  ASSERT_TRUE(RunOn(&small, "UNWIND range(1, 1000) AS i CREATE (:N)").ok());
  ASSERT_TRUE(RunOn(&small, "CALL algo.components() YIELD component RETURN count(*)").ok());
  ASSERT_TRUE(RunOn(&small, "UNWIND range(1, 1000) AS i CREATE (:N)-[:R]->(:N)").ok());
  ASSERT_TRUE(RunOn(&small, "UNWIND range(1, 1000) AS i CREATE (:N)-[:R]->(:N)").ok());
  EXPECT_EQ(RunOn(&small, "CALL algo.pageRank() YIELD score RETURN count(*)").code(),
            absl::StatusCode::kResourceExhausted);
}

// What one call gave is in memory while its rows are passed on, here to another call.
TEST_F(AlgorithmProceduresTest, Rows_WhileTheyArePassedOn_CountAsMemory) {
  constexpr uint64_t kNodes = 8000;
  ASSERT_TRUE(Run(Concat("UNWIND range(1, ", kNodes, ") AS i CREATE (:P)")).ok());
  const auto within = [&](uint64_t bytes, std::string_view text) {
    ServiceOptions options;
    options.query_memory_bytes = bytes;
    GraphService limited(&database_, options);
    const absl::Status status = RunOn(&limited, text);
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    return status.ok();
  };
  constexpr char kOne[] = "CALL algo.components({threads: 1}) YIELD node RETURN count(*)";
  constexpr char kTwo[] =
      "CALL algo.components({threads: 1}) YIELD node WITH node WHERE node.x = 'a' "
      "CALL algo.components({threads: 1}) YIELD component RETURN count(*)";
  uint64_t no = 1, yes = uint64_t{1} << 30;
  ASSERT_TRUE(within(yes, kOne));
  while (yes - no > 1000) (within((no + yes) / 2, kOne) ? yes : no) = (no + yes) / 2;
  const uint64_t rows = kNodes * 2 * sizeof(Value);
  EXPECT_FALSE(within(yes + rows / 2, kTwo));
  EXPECT_TRUE(within(yes + rows + 64 * 1024, kTwo));
}

TEST_F(AlgorithmProceduresTest, Terminate_WhileItRuns_EndsIt) {
  // Takes hours.
  constexpr char kCall[] =
      "UNWIND range(1, 1000000) AS i CALL algo.pageRank({tolerance: 0, iterations: 1000000}) "
      "YIELD score RETURN count(*)";
  // Planning has an id of its own: before the thread, so that the one that is found runs.
  const auto statement = service_.Prepare(kCall);
  ASSERT_TRUE(statement.ok()) << statement.status();
  absl::Status ended;
  std::thread thread([&] {
    RowTexts sink;
    Outcome outcome;
    ended = service_.Run(**statement, {}, {}, &sink, &outcome);
  });
  std::string id;
  ASSERT_TRUE(testing_util::Eventually([&] {
    for (const RunningFacts& facts : service_.running()->List({})) {
      if (facts.query == kCall) id = facts.id;
    }
    return !id.empty();
  }));
  EXPECT_EQ(service_.running()->Terminate(id, {}), RunningList::Ended::kDone);
  thread.join();
  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
}

TEST_F(AlgorithmProceduresTest, ShowProcedures_ListsThem) {
  const std::string rows = Rows(
      "SHOW PROCEDURES YIELD name, signature WHERE name STARTS WITH 'algo.' RETURN name, "
      "signature");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 7) << rows;
  EXPECT_NE(rows.find("algo.bfs(source, options = null) :: (node, distance, parent)"),
            std::string::npos)
      << rows;
}

}  // namespace
}  // namespace pulse::cypher
