#include "services/graph/cypher/engine.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/testing.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

class Texts : public ResultSink {
 public:
  explicit Texts(const GraphView* graph) : graph_(graph) {}
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      if (!text.empty()) text += "; ";
      for (size_t c = 0; c < columns.size(); ++c) {
        if (c > 0) text += ", ";
        text += ValueText(rows[i * stride + static_cast<size_t>(columns[c])], *graph_);
      }
    }
    return true;
  }
  std::string text;

 private:
  const GraphView* const graph_;
};

class Engine : public testing::Test {
 protected:
  // The rows as text, or "error DETAIL".
  std::string Run(std::string_view query, const ValueMap& parameters = {}) {
    const auto plan = MakePlan(query, graph_, nullptr);
    if (!plan.ok()) return "error " + InfoOf(plan.status()).detail;
    options_.transaction = &graph_;
    options_.parameters = &parameters;
    Texts texts(&graph_);
    status_ = Execute(**plan, options_, &texts, &summary_);
    return status_.ok() ? texts.text : "error " + InfoOf(status_).detail;
  }

  MemoryGraph graph_;
  ExecuteOptions options_;
  ExecuteSummary summary_;
  absl::Status status_;
};

TEST_F(Engine, EndlessQueries_LimitOfTime_End) {
  int64_t now = 0;
  options_.monotonic_nanos = [&now] { return now += 1'000'000; };
  options_.limits.nanos = 50'000'000;
  ASSERT_EQ(Run("UNWIND range(1, 30) AS i CREATE (:N {i: i})"), "");
  ASSERT_EQ(Run("MATCH (a:N), (b:N) CREATE (a)-[:E]->(b)"), "");
  for (const char* query :
       {"MATCH (a)-[*]->(b) RETURN count(*)",
        "MATCH (a), (b), (c), (d), (e), (f), (g) RETURN count(*)",
        "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)",
        "RETURN reduce(s = 0, x IN range(1, 10000000) | s + size([y IN range(1, 1000) WHERE y = "
        "x]))",
        "MATCH (a) WHERE EXISTS { MATCH (a)-[*8]->(b) WHERE b.i < 0 } RETURN a",
        "MATCH (n) RETURN [(n)-[*]->(m) | m]",
        "WITH range(0, 20000) AS l, range(0, 20000) AS m RETURN [x IN range(0, 3000) WHERE l = m]",
        "WITH range(0, 20000) AS l RETURN reduce(s = 0, x IN range(0, 3000) | s + "
        "size(tail(l)))"}) {
    EXPECT_EQ(Run(query), "error LimitExceeded") << query;
    EXPECT_EQ(status_.code(), absl::StatusCode::kDeadlineExceeded) << query << status_;
  }
}

// The scans of a plan lie in each other's frames.
TEST_F(Engine, ManyScans_EndByLimitsNotByTheStack) {
  ASSERT_EQ(Run("UNWIND range(1, 3000) AS i CREATE (:A {x: i})"), "");
  options_.limits.memory_bytes = 64 << 20;
  int64_t now = 0;
  options_.monotonic_nanos = [&now] { return now += 1'000'000; };
  options_.limits.nanos = 200'000'000;
  std::string query, patterns;
  for (int i = 0; i < 1900; ++i) query += Concat("MATCH (a", i, ":A) ");
  EXPECT_EQ(Run(query + "RETURN sum(a0.x + a1899.x)"), "error LimitExceeded");
  for (int i = 0; i < 5000; ++i) patterns += Concat(i == 0 ? "(" : ", (", "b", i, ":A)");
  EXPECT_EQ(Run("MATCH " + patterns + " RETURN count(*)"), "error UnexpectedSyntax");
}

TEST_F(Engine, Chains_MiddleIsEvaluatedOnce) {
  EXPECT_EQ(Run("UNWIND range(1, 1000) AS x WITH x WHERE 0.5 < rand() < 0.5 RETURN count(*)"), "0");
  EXPECT_EQ(Run("UNWIND range(1, 1000) AS x WITH x WHERE 1 < x + 1 < 11 RETURN count(*)"), "9");
}

TEST_F(Engine, MapProjection_OfWhatHasNoProperties_IsATypeError) {
  for (const char* value : {"1", "'text'", "true", "[1]", "date('2024-02-29')"}) {
    EXPECT_EQ(Run(Concat("UNWIND [", value, "] AS x RETURN x {.*}")), "error InvalidArgumentType");
    EXPECT_EQ(Run(Concat("UNWIND [", value, "] AS x RETURN x {.a}")), "error InvalidArgumentType");
  }
  const ValueMap parameters = {{"p", Value::Int(4711)}};
  EXPECT_EQ(Run("WITH $p AS x RETURN x {.*}", parameters), "error InvalidArgumentType");
  EXPECT_EQ(Run("UNWIND [null, {a: 1, b: 2}] AS x RETURN x {.*, b: 3}"), "null; {a: 1, b: 3}");
}

TEST_F(Engine, LimitBehindASubqueryThatWrites_AllRowsAreWritten) {
  EXPECT_EQ(Run("UNWIND range(1, 1000) AS i CALL (i) { CREATE (:T {i: i}) } RETURN i LIMIT 1"),
            "1");
  EXPECT_EQ(Run("MATCH (t:T) RETURN count(*)"), "1000");
  EXPECT_EQ(Run("MATCH (t:T) CALL (t) { SET t.seen = true RETURN 1 AS one } RETURN one LIMIT 2"),
            "1; 1");
  EXPECT_EQ(Run("MATCH (t:T) WHERE t.seen RETURN count(*)"), "1000");
}

TEST_F(Engine, AverageOfLargeIntegers_IsAFloat) {
  EXPECT_EQ(Run("UNWIND range(1, 6) AS i RETURN avg(1700000000000000000)"), "1.7E18");
  ASSERT_EQ(Run("UNWIND range(1, 6) AS i CREATE (:N {at: 1700000000000000000})"), "");
  EXPECT_EQ(Run("MATCH (n:N) RETURN avg(n.at)"), "1.7E18");
  EXPECT_EQ(Run("MATCH (n:N) RETURN sum(n.at)"), "error IntegerOverflow");
}

TEST_F(Engine, Rounding_IsThatOfTheNumberItself) {
  EXPECT_EQ(Run("RETURN round(0.49999999999999994), round(4503599627370497.0), round(-2.5), "
                "round(2.5), round(1.25, 1)"),
            "0.0, 4.503599627370497E15, -2.0, 3.0, 1.3");
  // To places behind the point: of the decimal that the number is written as, half away from zero.
  EXPECT_EQ(Run("RETURN round(1.005, 2), round(0.285, 2), round(-1.25, 1), round(9.995, 2), "
                "round(123456789012345.678, 3), round(1e22, 3), round(1e-7, 3), round(-0.04, 1)"),
            "1.01, 0.29, -1.3, 10.0, 1.2345678901234567E14, 1.0E22, 0.0, 0.0");
  EXPECT_EQ(Run("RETURN round(1.25, 1, 'HALF_EVEN'), round(1.35, 1, 'HALF_EVEN'), "
                "round(1.25, 1, 'HALF_DOWN'), round(-1.21, 1, 'UP'), round(-1.29, 1, 'DOWN'), "
                "round(-1.21, 1, 'FLOOR'), round(-1.29, 1, 'CEILING'), round(2.5, 0, 'HALF_EVEN')"),
            "1.2, 1.4, 1.2, -1.3, -1.2, -1.3, -1.2, 2.0");
  EXPECT_EQ(Run("RETURN round(1.2, 1, 'NEAREST')"), "error InvalidArgumentValue");
}

TEST_F(Engine, Coalesce_EvaluatesNothingBehindWhatItFinds) {
  EXPECT_EQ(Run("RETURN coalesce(1, 1 / 0), coalesce(null, 2, date('x')), coalesce(null)"),
            "1, 2, null");
  EXPECT_EQ(Run("UNWIND range(1, 600) AS x WITH CASE WHEN x % 3 > 0 THEN x END AS y, x "
                "RETURN sum(coalesce(y, x * 1000, 1 / (x - x))), count(coalesce(y, null))"),
            "60420000, 400");
  EXPECT_EQ(Run("UNWIND range(1, 600) AS x WITH CASE WHEN x < 600 THEN x END AS y "
                "RETURN max(coalesce(y, 1 / 0))"),
            "error DivisionByZero");
}

TEST_F(Engine, UnwoundRange_IsNoList) {
  EXPECT_EQ(Run("UNWIND range(1, 9223372036854775807) AS x WITH x LIMIT 3 RETURN sum(x)"), "6");
  EXPECT_EQ(Run("UNWIND range(9223372036854775806, 9223372036854775807) AS x RETURN count(x)"),
            "2");
  EXPECT_EQ(Run("UNWIND range(7, 1, -3) AS x RETURN collect(x)"), "[7, 4, 1]");
  EXPECT_EQ(Run("UNWIND range(1, 0) AS x RETURN count(*)"), "0");
  EXPECT_EQ(Run("UNWIND range(1, 2, 0) AS x RETURN x"), "error NumberOutOfRange");
  EXPECT_EQ(Run("UNWIND range(1, 'a') AS x RETURN x"), "error InvalidArgumentType");
}

TEST_F(Engine, TypesOfValues_AreToldAndTested) {
  EXPECT_EQ(Run("RETURN valueType(1), valueType(null), valueType([1, 2.0]), valueType([]), "
                "valueType(['a', null, [1]]), valueType(time('10:00Z'))"),
            "'INTEGER NOT NULL', 'NULL', 'LIST<INTEGER NOT NULL | FLOAT NOT NULL> NOT NULL', "
            "'LIST<NOTHING> NOT NULL', 'LIST<STRING | LIST<INTEGER NOT NULL>> NOT NULL', "
            "'ZONED TIME NOT NULL'");
  for (const char* holds :
       {"1 IS :: INTEGER", "1 IS NOT :: STRING", "null IS :: INTEGER", "1 IS TYPED INT NOT NULL",
        "[1, 'a'] IS :: LIST<INTEGER | STRING>", "[1, null] IS :: LIST<INTEGER>", "[] :: LIST<MAP>",
        "date() IS :: PROPERTY VALUE", "['a'] IS :: ANY PROPERTY VALUE", "{a: 1} IS :: ANY",
        "[[1]] IS :: LIST<LIST<INT NOT NULL>>", "[1] IS :: INTEGER LIST", "null IS :: NULL",
        "datetime() IS :: TIMESTAMP WITH TIME ZONE", "1 IS :: INTEGER | STRING",
        "1.5 :: ANY<FLOAT | INT>"}) {
    EXPECT_EQ(Run(std::string("RETURN ") + holds), "true") << holds;
  }
  for (const char* does_not :
       {"1 IS :: FLOAT", "null IS :: INTEGER NOT NULL", "null IS :: INT!", "1 IS :: NOTHING",
        "[1, null] IS :: LIST<INTEGER NOT NULL>", "{a: 1} IS :: PROPERTY VALUE", "1 :: NULL"}) {
    EXPECT_EQ(Run(std::string("RETURN ") + does_not), "false") << does_not;
  }
  EXPECT_EQ(Run("RETURN 1 IS :: NONSENSE"), "error UnexpectedSyntax");
  // The bar of a comprehension is none of types, unless another one is.
  EXPECT_EQ(Run("RETURN [x IN [1, 'a', 2] WHERE x IS :: INTEGER | x * 2]"), "[2, 4]");
  EXPECT_EQ(Run("RETURN [x IN [1, 'a', 2.5] WHERE x IS :: INTEGER | STRING | x]"), "[1, 'a']");
  EXPECT_EQ(Run("RETURN [x IN [[1], ['a'], [2.5]] WHERE x IS :: LIST<INTEGER | STRING> | x[0]]"),
            "[1, 'a']");
  std::string deep = "RETURN 1 IS :: INTEGER";
  for (int i = 0; i < 100'000; ++i) deep += " LIST";
  EXPECT_EQ(Run(deep), "error NestingTooDeep");
  EXPECT_EQ(Run("RETURN `IS TYPED`(1, 2)"), "error UnknownFunction");
}

TEST_F(Engine, WordsOfNeo4j_ThatChangeNothing_AreTaken) {
  ASSERT_EQ(Run("INSERT (:N {k: 1_000})"), "");
  EXPECT_EQ(Run("MATCH (n:N) USING INDEX n:N(k) USING SCAN n:N USING RANGE INDEX SEEK n:N(k, l) "
                "WHERE n.k = 1000 RETURN n.k"),
            "1000");
  EXPECT_EQ(Run("MATCH (n:N), (m:N) USING JOIN ON n, m RETURN count(*)"), "1");
  EXPECT_EQ(Run("MATCH (n:N) FINISH"), "");
  ASSERT_EQ(Run("MATCH (n:N) NODETACH DELETE n FINISH"), "");
  EXPECT_EQ(Run("MATCH (n:N) RETURN count(*)"), "0");
  EXPECT_EQ(Run("RETURN 1 FINISH"), "error InvalidClauseComposition");
  EXPECT_EQ(Run("FINISH"), "error UnexpectedSyntax");
  EXPECT_EQ(Run("RETURN trim(BOTH 'x' FROM 'xaxx'), trim(LEADING FROM ' a '), "
                "trim(TRAILING 'y' FROM 'ayy'), trim(' b ')"),
            "'a', 'a ', 'a', 'b'");
  EXPECT_EQ(Run("WITH ' c ' AS both RETURN trim(both)"), "'c'");
  EXPECT_EQ(Run("WITH ' c' AS leading, [' d'] AS both RETURN trim(leading + 'x '), trim(both[0])"),
            "'cx', 'd'");
}

TEST_F(Engine, TextsOfNumbersThatAreNoDecimals_AreReadAgain) {
  EXPECT_EQ(Run("UNWIND [0.0 / 0, 1.0 / 0, -1.0 / 0] AS x RETURN toFloat(toString(x))").size(),
            Run("RETURN 0.0 / 0, 1.0 / 0, -1.0 / 0").size());
  EXPECT_EQ(Run("RETURN toFloat('1e400'), toFloat('-Infinity'), toFloat('inf'), toFloat('nan')"),
            "Infinity, -Infinity, null, null");
}

TEST_F(Engine, OffsetBesideAZone_TellsWhichInstant) {
  EXPECT_EQ(Run("RETURN datetime('2024-10-27T02:30+01:00[Europe/Berlin]').epochSeconds - "
                "datetime('2024-10-27T02:30+02:00[Europe/Berlin]').epochSeconds"),
            "3600");
  EXPECT_EQ(Run("WITH datetime('2024-10-27T02:30+02:00[Europe/Berlin]') + duration('PT1H') AS d "
                "RETURN datetime(toString(d)) = d, d.offset"),
            "true, '+01:00'");
  EXPECT_EQ(Run("RETURN time('10:00+05:00[Europe/Berlin]')"), "'10:00+05:00'");
  EXPECT_EQ(Run("RETURN datetime('2024-07-01T00:00+05:00[Europe/Berlin]')"),
            Run("RETURN datetime('x')"));
}

TEST_F(Engine, CasesOfLatinLetters_AlsoWhereUpperIsOdd) {
  EXPECT_EQ(Run("RETURN toUpper('łódź żaba ĺ ň ı'), toLower('ŁÓDŹ ŽABA Ĺ Ň')"),
            "'ŁÓDŹ ŻABA Ĺ Ň I', 'łódź žaba ĺ ň'");
  EXPECT_EQ(Run("RETURN toUpper('straße ŉ ệ ςάίώϋ'), toLower('İ Ệ ΆΊΏΫ ẞ')"),
            "'STRASSE ʼN Ệ ΣΆΊΏΫ', 'i̇ ệ άίώϋ ß'");
}

TEST_F(Engine, InstantsOfTheHourThatComesTwice_KeepTheirOffset) {
  // 00:30 and 01:30 UTC are both 02:30 in Berlin.
  EXPECT_EQ(Run("WITH datetime('2023-10-29T02:30:00[Europe/Berlin]') AS d, duration('PT1H') AS h "
                "RETURN d + h = d, toString(d + h), (d + h).epochSeconds - d.epochSeconds, "
                "(d + h + h).epochSeconds - d.epochSeconds, (d + h - h) = d"),
            "false, '2023-10-29T02:30:00+01:00[Europe/Berlin]', 3600, 7200, true");
  EXPECT_EQ(Run("WITH datetime({datetime: datetime.fromepoch(1698543000, 0), "
                "timezone: 'Europe/Berlin'}) AS d "
                "RETURN d.epochSeconds, datetime.truncate('minute', d).epochSeconds, "
                "duration.inSeconds(datetime.fromepoch(1698543000, 0), d)"),
            "1698543000, 1698543000, 'PT0S'");
}

TEST_F(Engine, GreedyAggregates_LimitOfMemory_End) {
  options_.limits.memory_bytes = 4 << 20;
  for (const char* query : {"UNWIND range(1, 20000) AS g WITH g, max(reduce(s = toString(g), i IN "
                            "range(1, 6) | s + s)) "
                            "AS m RETURN count(*)",
                            "UNWIND range(1, 100000) AS g WITH g, stDev(g) AS m RETURN count(*)"}) {
    EXPECT_EQ(Run(query), "error LimitExceeded") << query;
    EXPECT_EQ(status_.code(), absl::StatusCode::kResourceExhausted) << query << status_;
  }
}

TEST_F(Engine, GreedyQueries_LimitOfMemory_End) {
  options_.limits.memory_bytes = 4 << 20;
  for (const char* query :
       {"UNWIND range(1, 100000) AS a UNWIND range(1, 1000) AS b RETURN collect(b)",
        "UNWIND range(1, 100000) AS a UNWIND range(1, 1000) AS b RETURN DISTINCT a * 1000 + b",
        "UNWIND range(1, 100000) AS a UNWIND range(1, 1000) AS b WITH a, b ORDER BY a + b RETURN a",
        "UNWIND range(1, 100000) AS a UNWIND range(1, 1000) AS b RETURN a, b, count(*)",
        "UNWIND range(1, 10000) AS a UNWIND range(1, 1000) AS b MERGE (n {i: a}) RETURN n",
        "RETURN reduce(s = 'x', i IN range(1, 60) | s + s)", "RETURN size(range(1, 100000000))",
        "RETURN reduce(s = [1], i IN range(1, 60) | s + s)",
        "RETURN size([x IN range(1, 100000) | range(1, 10000)])",
        "RETURN size([x IN range(1, 100000) | {all: range(1, 10000)}])",
        "RETURN size(reduce(s = [], x IN range(1, 100000) | s + [range(1, 10000)]))",
        "UNWIND range(1, 100000) AS x RETURN size(collect([range(1, 10000)]))",
        "RETURN size(split(reduce(s = 'x ', i IN range(1, 19) | s + s), ' '))"}) {
    const std::string result = Run(query);
    EXPECT_TRUE(result == "error LimitExceeded" || result == "error NumberOutOfRange")
        << query << ": " << result.substr(0, 80);
  }
  // What was charged is given back: the same again, and one that fits.
  EXPECT_EQ(Run("UNWIND range(1, 10) AS x CALL { WITH x UNWIND range(1, 9000) AS y RETURN "
                "count(DISTINCT y) AS n } RETURN sum(n)"),
            "90000");
}

TEST_F(Engine, RowsOfMerge_LimitOfMemory_End) {
  ASSERT_EQ(Run("UNWIND range(1, 2000) AS i CREATE (:N {i: i})"), "");
  options_.limits.memory_bytes = 4 << 20;
  for (const char* query : {
           // A row for each node that is found, of few rows that MERGE takes.
           "UNWIND range(1, 200) AS x MERGE (n:N) RETURN count(*)",
           // Texts that rows hold until all are written.
           "UNWIND range(1, 2000) AS x WITH reduce(s = toString(x), i IN range(1, 10) | s + s) AS "
           "t MERGE (n:N {i: 1}) SET n.t = size(t) RETURN count(*)",
       }) {
    EXPECT_EQ(Run(query), "error LimitExceeded") << query;
    EXPECT_EQ(status_.code(), absl::StatusCode::kResourceExhausted) << query << status_;
  }
  // What was charged is given back for each row of the outer query.
  EXPECT_EQ(Run("UNWIND range(1, 20) AS x CALL (x) { MERGE (n:N) RETURN count(*) AS c } "
                "RETURN sum(c)"),
            "40000");
}

TEST_F(Engine, ValuesThatNestDeeply_AreRefused) {
  EXPECT_EQ(Run("RETURN reduce(l = [], i IN range(1, 100000) | [l])"), "error NumberOutOfRange");
  EXPECT_EQ(Run("RETURN reduce(l = {}, i IN range(1, 100000) | {a: l})"), "error NumberOutOfRange");
  EXPECT_EQ(Run("RETURN reduce(l = [], i IN range(1, 100) | [l]) IS NULL"), "false");
}

TEST_F(Engine, ResultRows_MoreThanTheLimit_AreAnError) {
  options_.limits.result_rows = 10;
  EXPECT_EQ(Run("UNWIND range(1, 10) AS x RETURN count(x)"), "10");
  EXPECT_EQ(Run("UNWIND range(1, 11) AS x RETURN x"), "error LimitExceeded");
}

TEST_F(Engine, Cancelled_WhileRunning_Ends) {
  std::atomic<bool> cancelled{false};
  options_.cancelled = &cancelled;
  std::thread killer([&] { cancelled = true; });
  EXPECT_EQ(Run("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(*)"),
            "error LimitExceeded");
  EXPECT_EQ(status_.code(), absl::StatusCode::kCancelled);
  killer.join();
}

TEST_F(Engine, Writes_WithoutTransaction_AreRefused) {
  const auto plan = MakePlan("CREATE (n)", graph_, nullptr);
  ASSERT_TRUE(plan.ok());
  options_.view = &graph_;
  Texts texts(&graph_);
  EXPECT_EQ(InfoOf(Execute(**plan, options_, &texts, nullptr)).detail, "ReadOnly");
  EXPECT_TRUE(graph_.nodes().empty());
}

TEST_F(Engine, OnePlan_ManyThreads_GivesEachItsRows) {
  ASSERT_EQ(Run("UNWIND range(1, 50) AS i CREATE (:N {i: i})-[:E]->(:M {i: i})"), "");
  const auto plan = MakePlan(
      "MATCH (n:N)-->(m) WHERE n.i > $from AND EXISTS { (n)-->(m) } RETURN count(DISTINCT m.i) AS "
      "c",
      graph_, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const ValueMap parameters = {{"from", Value::Int(t * 10)}};
        ExecuteOptions options;
        options.view = &graph_;
        options.parameters = &parameters;
        Texts texts(&graph_);
        EXPECT_TRUE(Execute(**plan, options, &texts, nullptr).ok());
        EXPECT_EQ(texts.text, std::to_string(50 - t * 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Engine, Explain_Index_IsUsedAndNothingRuns) {
  ASSERT_EQ(Run("UNWIND range(1, 50) AS i CREATE (:N {i: i})"), "");
  EXPECT_NE(
      Run("EXPLAIN MATCH (a)-->(n:N) WHERE n.i = 3 RETURN a").find("Scan :N (1 predicates)\\n"),
      std::string::npos);
  graph_.CreateIndex("N", {"i"});
  const std::string text = Run("EXPLAIN MATCH (a)-->(n:N) WHERE n.i = 3 RETURN a");
  EXPECT_NE(text.find("Scan :N by index on i\\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Expand in"), std::string::npos) << text;
  EXPECT_EQ(Run("MATCH (n:N {i: 3}) RETURN n.i"), "3");
  EXPECT_EQ(Run("MATCH (m:N {i: 3}) MATCH (n:N) WHERE n.i = m.i + 1 RETURN n.i"), "4");
  Run("EXPLAIN CREATE (:X)");
  EXPECT_EQ(Run("MATCH (x:X) RETURN count(*)"), "0");
}

TEST_F(Engine, ShortestPath_Grid_FindsOneAndAll) {
  ASSERT_EQ(Run("UNWIND range(0, 15) AS i CREATE (:P {i: i})"), "");
  ASSERT_EQ(Run("MATCH (a:P), (b:P) WHERE b.i = a.i + 4 OR (b.i = a.i + 1 AND b.i % 4 <> 0) CREATE "
                "(a)-[:E]->(b)"),
            "");
  EXPECT_EQ(
      Run("MATCH (a:P {i: 0}), (b:P {i: 15}), p = shortestPath((a)-[:E*]->(b)) RETURN length(p)"),
      "6");
  EXPECT_EQ(Run("MATCH (a:P {i: 0}), (b:P {i: 15}), p = allShortestPaths((a)-[:E*]->(b)) RETURN "
                "count(p), length(collect(p)[0])"),
            "20, 6");
  EXPECT_EQ(
      Run("MATCH (a:P {i: 0}), (b:P {i: 15}), p = shortestPath((a)-[:E*..5]->(b)) RETURN count(p)"),
      "0");
  EXPECT_EQ(
      Run("MATCH (a:P {i: 15}), (b:P {i: 0}), p = shortestPath((a)-[:E*]->(b)) RETURN count(p)"),
      "0");
  EXPECT_EQ(Run("MATCH (a:P {i: 15}), (b:P {i: 0}) RETURN length(shortestPath((a)-[*]-(b))), "
                "shortestPath((a)-[*]->(b))"),
            "6, null");
}

TEST_F(Engine, Foreach_NestedAndWithNulls_Updates) {
  EXPECT_EQ(Run("FOREACH (i IN [1, 2] | CREATE (a:A {i: i}) FOREACH (j IN range(1, i) | CREATE "
                "(a)-[:T]->(:B {j: j})))"),
            "");
  EXPECT_EQ(Run("MATCH (a:A)-->(b) RETURN a.i, count(b) ORDER BY a.i"), "1, 1; 2, 2");
  EXPECT_EQ(Run("FOREACH (i IN null | CREATE (:C)) WITH 1 AS x MATCH (c:C) RETURN count(c)"), "0");
  EXPECT_EQ(summary_.counters.nodes_created, 0u);
  EXPECT_EQ(Run("FOREACH (i IN [1] | MATCH (n) SET n.x = 1)"), "error InvalidClauseComposition");
}

TEST_F(Engine, Subqueries_CorrelatedAndUnion_MultiplyRows) {
  EXPECT_EQ(Run("UNWIND [1, 2] AS x CALL { WITH x RETURN x * 10 AS y UNION ALL WITH x RETURN -x AS "
                "y } RETURN x, y ORDER BY x, y"),
            "1, -1; 1, 10; 2, -2; 2, 20");
  EXPECT_EQ(Run("UNWIND [3, 4] AS x CALL { CREATE (:Made) } RETURN x"), "3; 4");
  EXPECT_EQ(Run("MATCH (m:Made) RETURN count(m)"), "2");
  EXPECT_EQ(Run("UNWIND [1] AS x CALL { RETURN 1 AS x } RETURN x"), "error VariableAlreadyBound");
}

TEST_F(Engine, Counters_MixedQuery_SayWhatChanged) {
  ASSERT_EQ(Run("CREATE (a:A:B {x: 1, y: null})-[:T {z: 2}]->(b) SET b.q = 1, b:C REMOVE a:B, a.x"),
            "");
  EXPECT_EQ(summary_.counters.nodes_created, 2u);
  EXPECT_EQ(summary_.counters.edges_created, 1u);
  EXPECT_EQ(summary_.counters.properties_set, 4u);
  EXPECT_EQ(summary_.counters.labels_added, 3u);
  EXPECT_EQ(summary_.counters.labels_removed, 1u);
  ASSERT_EQ(Run("MATCH (n) DETACH DELETE n"), "");
  EXPECT_EQ(summary_.counters.nodes_deleted, 2u);
  EXPECT_EQ(summary_.counters.edges_deleted, 1u);
  // What is not there is not removed.
  ASSERT_EQ(Run("CREATE (n {x: 1}) SET n.y = null, n += {z: null} REMOVE n.x, n.x, n.q"), "");
  EXPECT_EQ(summary_.counters.properties_set, 2u);
}

TEST_F(Engine, Parameters_Missing_IsFoundBeforeAnythingRuns) {
  EXPECT_EQ(Run("CREATE (n) RETURN $x"), "error MissingParameter");
  EXPECT_TRUE(graph_.nodes().empty());
  EXPECT_EQ(Run("RETURN $x + $`y z`", {{"x", Value::Int(1)}, {"y z", Value::Int(2)}}), "3");
}

TEST_F(Engine, WritesOfAClause_AreNotSeenByIt) {
  ASSERT_EQ(Run("UNWIND range(1, 3000) AS i CREATE (:A {i: i})"), "");
  EXPECT_EQ(Run("MATCH (a:A) CREATE (:A) WITH count(*) AS c MATCH (b:A) RETURN c, count(b)"),
            "3000, 6000");
  EXPECT_EQ(Run("MATCH (a:A) SET a.i = 1 WITH a RETURN sum(a.i)"), "6000");
}

// The same aggregates from columns and from rows.
TEST_F(Engine, Aggregates_WithoutKeys_ByColumnsAndByRowsAgree) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 30; ++round) {
    graph_ = MemoryGraph();
    const Token types[2] = {*graph_.AddTypeName("T"), *graph_.AddTypeName("U")};
    const Token label = *graph_.AddLabelName("L"), key = *graph_.AddKeyName("w");
    const auto properties = [&]() -> Properties {
      switch (random() % 4) {
        case 0:
          return {};
        case 1:
          return {{key, Value::Float(static_cast<double>(random() % 100) / 4 + 0.125)}};
        default:
          return {{key, Value::Int(static_cast<int64_t>(random() % 100) - 50)}};
      }
    };
    const size_t nodes = 1 + random() % 5;
    for (size_t i = 0; i < nodes; ++i) {
      ASSERT_TRUE(graph_.CreateNode({&label, random() % 2}, properties()).ok());
    }
    for (size_t n = random() % 12; n > 0; --n) {
      ASSERT_TRUE(
          graph_.CreateEdge(random() % nodes, random() % nodes, types[random() % 2], properties())
              .ok());
    }
    // A condition that always holds keeps the plan from columns.
    for (const char* pattern : {"()-[e]->()", "()<-[e:T]-()", "()-[e:T|U|Nothing]->()",
                                "()-[e:Nothing]->()", "(e)", "(e:L)", "(e:Nothing)"}) {
      for (const char* result : {"count(*), count(e), count(e.w), sum(e.w), min(e.w), max(e.w)",
                                 "avg(e.w) + 1", "sum(e.none), min(e.none), count(e.w)"}) {
        const std::string match = std::string("MATCH ") + pattern;
        const std::string end = std::string(" RETURN ") + result;
        EXPECT_NE(Run("EXPLAIN " + match + end).find("AggregateColumns"), std::string::npos);
        EXPECT_EQ(Run("EXPLAIN " + match + " WHERE id(e) >= 0" + end).find("AggregateColumns"),
                  std::string::npos);
        EXPECT_EQ(Run(match + end), Run(match + " WHERE id(e) >= 0" + end)) << match << end;
      }
    }
  }
  ASSERT_EQ(Run("CREATE ({w: 'text'})"), "");
  EXPECT_EQ(Run("MATCH (n) RETURN sum(n.w)"), "error InvalidArgumentType");
}

// Random graphs: hops counted by the engine against counting by hand.
TEST_F(Engine, TwoHopsAndTrails_RandomGraphs_MatchAnEnumeration) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 20; ++round) {
    graph_ = MemoryGraph();
    const Token type = *graph_.AddTypeName("T");
    const size_t nodes = 2 + random() % 5, edges = random() % 9;
    std::vector<EdgeRef> refs;
    for (size_t i = 0; i < nodes; ++i) ASSERT_TRUE(graph_.CreateNode({}, {}).ok());
    for (size_t i = 0; i < edges; ++i)
      refs.push_back(*graph_.CreateEdge(random() % nodes, random() % nodes, type, {}));
    size_t two = 0, both = 0;
    for (const EdgeRef& a : refs) {
      for (const EdgeRef& b : refs) {
        if (a == b) continue;
        two += a.target == b.source;
        // (x)--(y)--(z): each relationship in either direction, a loop in one.
        for (const auto& [from, to] :
             {std::pair(a.source, a.target), std::pair(a.target, a.source)}) {
          both += to == b.source ? 1 : 0;
          both += to == b.target && b.source != b.target ? 1 : 0;
          if (a.source == a.target) break;
          (void)from;
        }
      }
    }
    EXPECT_EQ(Run("MATCH ()-[]->()-[]->() RETURN count(*)"), std::to_string(two));
    EXPECT_EQ(Run("MATCH (a)-[*2]->(b) RETURN count(*)"), std::to_string(two));
    EXPECT_EQ(Run("MATCH ()--()--() RETURN count(*)"), std::to_string(both));
    EXPECT_EQ(Run("MATCH (a)-[r*2..2]-(b) RETURN count(r)"), std::to_string(both));
    // All trails, by recursion.
    std::vector<bool> used(refs.size(), false);
    size_t trails = 0;
    const auto walk = [&](const auto& self, NodeId at) -> void {
      for (size_t i = 0; i < refs.size(); ++i) {
        if (used[i] || refs[i].source != at) continue;
        used[i] = true;
        ++trails;
        self(self, refs[i].target);
        used[i] = false;
      }
    };
    for (size_t n = 0; n < nodes; ++n) walk(walk, n);
    EXPECT_EQ(Run("MATCH (a)-[*]->(b) RETURN count(*)"), std::to_string(trails));
    EXPECT_EQ(Run("MATCH p = (a)-[*0..]->(b) RETURN count(p)"), std::to_string(trails + nodes));
  }
}

TEST_F(Engine, SubqueryOfAnExpression_BehindWith_SeesWhatIsOutside) {
  ASSERT_EQ(Run("CREATE (:P {n: 'a'})-[:H]->(:D {n: 'x'}), (:P {n: 'b'}), (:P {n: 'c'})"), "");
  EXPECT_EQ(Run("MATCH (p:P) WHERE EXISTS { WITH 'x' AS d MATCH (p)-[:H]->(q) WHERE q.n = d } "
                "RETURN p.n"),
            "'a'");
  EXPECT_EQ(Run("MATCH (p:P) RETURN p.n, COUNT { WITH count(*) AS one MATCH (p)-[:H]->() } AS c "
                "ORDER BY c DESC, p.n"),
            "'a', 1; 'b', 0; 'c', 0");
}

TEST_F(Engine, NamesOfElements_HideWhatRowsAreGroupedBy) {
  EXPECT_EQ(Run("UNWIND [1, 2] AS k RETURN k, [k IN collect(5) | k * 10] AS l ORDER BY k"),
            "1, [50]; 2, [50]");
  EXPECT_EQ(Run("UNWIND [1, 2] AS k RETURN [k IN collect(k) | k * 10]"), "[10, 20]");
  EXPECT_EQ(Run("UNWIND [{a: 1}] AS k RETURN k.a, any(k IN collect({a: 5}) WHERE k.a = 5)"),
            "1, true");
  EXPECT_EQ(Run("WITH 5 AS x RETURN x, size([x IN [1, 2, 3] WHERE x > 1]) + count(*)"), "5, 3");
  EXPECT_EQ(Run("UNWIND [1, 2] AS x WITH DISTINCT x AS y, x + 1 AS z RETURN y, z ORDER BY "
                "reduce(s = 0, y IN [z] | s - y)"),
            "2, 3; 1, 2");
  EXPECT_EQ(Run("UNWIND [1, 2] AS k RETURN k + count(*), k, [i IN collect(k) | k] ORDER BY k"),
            "2, 1, [1]; 3, 2, [2]");
}

TEST_F(Engine, NameOfAColumn_ComesBeforeWhatAnotherWasMadeOf) {
  EXPECT_EQ(Run("UNWIND [1, 1, 2] AS x WITH x AS v, count(*) AS x WHERE x = 2 RETURN v, x"),
            "1, 2");
  EXPECT_EQ(Run("UNWIND [1, 1, 1, 2, 3, 3] AS x RETURN x AS v, count(*) AS x ORDER BY x LIMIT 1"),
            "2, 1");
}

TEST_F(Engine, UpdatesWhoseExpressionsRead_SeeWholeClauses) {
  ASSERT_EQ(Run("UNWIND range(1, 300) AS x CREATE (n:A {v: x}) SET n.c = COUNT { (:A) }"), "");
  EXPECT_EQ(Run("MATCH (n:A) RETURN n.c, count(*)"), "300, 300");
  ASSERT_EQ(Run("UNWIND range(1, 300) AS x CREATE (:B {x: x}) "
                "FOREACH (i IN [1] | MERGE (:B {x: 300}))"),
            "");
  EXPECT_EQ(Run("MATCH (n:B) RETURN count(*)"), "300");
  ASSERT_EQ(Run("CREATE (:C), (:C)"), "");
  ASSERT_EQ(Run("UNWIND range(1, 300) AS x UNWIND COLLECT { MATCH (c:C) RETURN c } AS c "
                "CREATE (:C)"),
            "");
  EXPECT_EQ(Run("MATCH (n:C) RETURN count(*)"), "602");
}

TEST_F(Engine, PartOfAUnionInCall_WithoutWith_SeesNothingOutside) {
  ASSERT_EQ(Run("CREATE (:P {n: 1}), (:Q {n: 2})"), "");
  EXPECT_EQ(Run("MATCH (p:P) CALL { WITH p RETURN p.n AS n UNION MATCH (p:Q) RETURN p.n AS n } "
                "RETURN n ORDER BY n"),
            "1; 2");
}

TEST_F(Engine, ListOfRelationshipsGiven_DiffersFromOthersOfThePattern) {
  ASSERT_EQ(Run("CREATE (:N)-[:R]->(:N)"), "");
  EXPECT_EQ(Run("MATCH ()-[r]->() WITH r, [r] AS rs MATCH ()-[r]->(), ()-[rs*]->() "
                "RETURN count(*)"),
            "0");
  EXPECT_EQ(Run("MATCH ()-[r]->() WITH [r, r] AS rs MATCH ()-[rs*]-() RETURN count(*)"), "0");
}

}  // namespace
}  // namespace pulse::cypher
