// Joins: nodes by tables of their values, nodes by number, and cycles, against what nested scans
// and plain hops find.
#include <limits>

#include "services/graph/cypher/test_random_graph.h"

namespace pulse::cypher {
namespace {

class JoinTest : public RandomGraphTest {
 protected:
  void SetUp() override {
    RandomGraphTest::SetUp();
    MakeGraph(300, 0);
    for (const char* name : {"u", "v"}) {
      const Token key = *graph_.AddKeyName(name);
      for (const NodeId node : ids_) {
        if (random_() % 8 == 0) continue;
        ASSERT_TRUE(graph_.SetNodeProperty(node, key, RandomValue()).ok());
      }
    }
  }

  // Values of which many are equal, though not of the same type, and some equal to nothing.
  Value RandomValue() {
    const auto number = static_cast<int64_t>(random_() % 40);
    switch (random_() % 8) {
      case 0:
        return Value::Float(static_cast<double>(number));
      case 1:
        return Value::String("s" + std::to_string(number % 7));
      case 2:
        return Value::Float(std::numeric_limits<double>::quiet_NaN());
      case 3:
        return Value::List({Value::Int(number % 3), Value::Float(1)});
      default:
        return Value::Int(number);
    }
  }

  bool ByTable(const std::string& query) {
    return PlanOf(query).find(" by table of ") != std::string::npos;
  }

  // Rows of a query in a transaction.
  std::vector<std::string> Write(const std::string& query, size_t memory = size_t{1} << 30) {
    const auto plan = MakePlan(query, graph_, nullptr);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return {};
    ExecuteOptions options;
    options.transaction = &graph_;
    options.limits.memory_bytes = memory;
    FirstColumn sink(&graph_);
    const absl::Status status = Execute(**plan, options, &sink, nullptr);
    EXPECT_TRUE(status.ok()) << query << ": " << status;
    return std::move(sink.texts);
  }
};

TEST_F(JoinTest, EqualValues_OfTwoPatterns_AreFoundByATable) {
  const char* const kPairs = " RETURN toString(a.n) + ' ' + toString(b.n)";
  for (const std::string match : {
           "MATCH (a:A), (b:B) WHERE a.u = b.u",
           "MATCH (a:A), (b:B) WHERE a.u = b.v AND b.n > 20",
           "MATCH (a:A), (b:B) WHERE a.u = b.u AND b.v = a.v",
           "MATCH (a:A) MATCH (b:B|C {u: a.u}) WHERE a.n <> b.n",
           "MATCH (a:A) MATCH (b {v: a.u})",
           "MATCH (a:A) MATCH (b:B {never: a.u})",
           "MATCH (a:A) OPTIONAL MATCH (b:B {u: a.v}) WITH a, coalesce(b, a) AS b",
           "UNWIND [1, 2.0, 's3', null, [1, 1], [2, 1.0]] AS x WITH x MATCH (b:B {u: x}) "
           "WITH b, b AS a",
           "MATCH (a:A) WHERE a.n < 100 CALL (a) { MATCH (b:B) WHERE b.u = a.u RETURN b }",
       }) {
    EXPECT_TRUE(ByTable(match + kPairs)) << match << "\n" << PlanOf(match + kPairs);
    const auto rows = Run(match + kPairs);
    EXPECT_EQ(rows.empty(), match.find("never") != std::string::npos) << match;
  }
  Run("MATCH (a:A) WHERE EXISTS { MATCH (b:B) WHERE b.u = a.u } RETURN a.n");
  Run("MATCH (a:A) RETURN COUNT { MATCH (b:B {v: a.v}) } + 100 * a.n");
  // The same for all rows, not ready, or another one each time: a scan.
  for (const char* query : {"MATCH (a:A), (b:B) WHERE b.u = 3 RETURN a.n",
                            "MATCH (a:A), (b:B) WHERE b.u = b.v RETURN a.n",
                            "MATCH (a:A), (b:B) WHERE b.u = a.n * rand() RETURN a.n",
                            "MATCH (a:A {u: 3}) RETURN a.n"}) {
    EXPECT_FALSE(ByTable(query)) << query;
  }
  graph_.CreateIndex("B", {"u"});
  EXPECT_FALSE(ByTable("MATCH (a:A) MATCH (b:B) WHERE a.u = b.u RETURN a.n"));
}

TEST_F(JoinTest, TableBeyondMemory_IsNotMade) {
  Write("UNWIND range(1, 5000) AS i CREATE (:Many {u: i % 50})");
  const std::string query =
      "MATCH (a:A) WITH a LIMIT 20 MATCH (b:Many {u: a.u}) RETURN a.n * 10000 + id(b)";
  EXPECT_TRUE(ByTable(query));
  const auto expected = Write(query);
  EXPECT_GT(expected.size(), 100u);
  // A batch of rows fits, the table does not.
  EXPECT_EQ(Write(query, 200'000), expected);
}

TEST_F(JoinTest, Table_WhereOneRowOrAnotherValueEachTime_IsNotPlanned) {
  // MERGE asks for each row by itself.
  EXPECT_EQ(PlanOf("UNWIND [1, 2] AS x MERGE (a:A {u: x})-[:R]->(b:B {v: x})").find("by table"),
            std::string::npos);
  EXPECT_FALSE(ByTable("MATCH (b:B) WHERE b.u = head([i IN [3] | i]) RETURN b.n"));
  EXPECT_EQ(PlanOf("MATCH (n) WHERE id(n) = toInteger(rand() * 9) RETURN n").find("by id"),
            std::string::npos);
  // One row, which several threads scan for.
  Run("WITH 3 AS k MATCH (a:A) WHERE a.u = k RETURN a.n");
  // What comes behind transactions sees what they, and others, have committed.
  const std::string plan = PlanOf(
      "MATCH (a:A) CALL (a) { RETURN 1 AS one } IN TRANSACTIONS MATCH (b:B {u: a.u}) RETURN b.n");
  EXPECT_LT(plan.find("Eager", plan.find("Subquery")), plan.find("by table")) << plan;
}

TEST_F(JoinTest, WhatAStatementChanges_IsInLaterTables) {
  Write("MATCH (n) DETACH DELETE n");
  Write("UNWIND range(0, 9) AS i CREATE (:A {k: i}), (:B {k: i})");
  // Each call sees what the calls before it changed.
  const std::string calls =
      "UNWIND [0, 1, 2] AS i CALL (i) { UNWIND [i, i] AS k MATCH (b:B {k: k}) SET b.k = k + 1 "
      "RETURN count(b) AS c } RETURN c";
  EXPECT_TRUE(ByTable(calls));
  // One node with 0, set to 1; two with 1, set to 2; three with 2, each of them found twice.
  EXPECT_EQ(Write(calls), (std::vector<std::string>{"2", "4", "6"}));
  EXPECT_EQ(Write("MATCH (a:A) MATCH (b:B {k: a.k}) CREATE (c:B {k: a.k}) RETURN count(c)"),
            std::vector<std::string>{"10"});
  EXPECT_EQ(Write("MATCH (a:A) MATCH (b:B {k: a.k}) DETACH DELETE b WITH DISTINCT a "
                  "OPTIONAL MATCH (c:B {k: a.k}) RETURN count(c)"),
            std::vector<std::string>{"0"});
}

TEST_F(JoinTest, NodesByNumber_AnyValue_AreThoseOfAScan) {
  EXPECT_EQ(PlanOf("MATCH (n:A) WHERE id(n) = $x RETURN n").substr(0, 10), "Scan by id");
  EXPECT_EQ(PlanOf("MATCH (n) WHERE $x = elementId(n) RETURN n").substr(0, 10), "Scan by id");
  EXPECT_EQ(PlanOf("MATCH (n) WHERE id(n) IN $x RETURN n").substr(0, 10), "Scan by id");
  EXPECT_EQ(PlanOf("MATCH (n) WHERE 3 IN id(n) RETURN n").substr(0, 10).find("by id"),
            std::string::npos);
  const std::string some = std::to_string(ids_[7]), other = std::to_string(ids_[9]);
  for (const std::string& value :
       {some, some + ".0", some + ".5", "'" + some + "'", "'0" + some + "'", std::string("-1"),
        std::string("9223372036854775807"), std::string("1e300"), std::string("-0.0"),
        std::string("'18446744073709551616'"), std::string("''"), std::string("null"),
        std::string("[1]"), std::string("true")}) {
    for (const std::string function : {"id(n)", "elementId(n)"}) {
      Run("MATCH (n) WHERE " + function + " = " + value + " RETURN n.n");
      Run("MATCH (n:A) WHERE " + value + " = " + function + " RETURN n.n");
      Run("MATCH (n) WHERE " + function + " IN [" + value + ", " + other + ", " + value + ", '" +
          other + "'] RETURN n.n");
    }
  }
  EXPECT_EQ(Run("MATCH (n) WHERE id(n) IN [" + some + ", " + other + ", " + some + "] RETURN n.n"),
            (std::vector<std::string>{"7", "9"}));
  EXPECT_EQ(Run("MATCH (n) WHERE elementId(n) = '" + some + "' RETURN n.n"),
            std::vector<std::string>{"7"});
  EXPECT_EQ(Run("MATCH (a), (b) WHERE id(a) = " + some + " AND id(b) = id(a) RETURN b.n"),
            std::vector<std::string>{"7"});
  EXPECT_TRUE(Run("MATCH (n) WHERE id(n) IN null RETURN n.n").empty());
}

class CycleTest : public RandomGraphTest {
 protected:
  // Few nodes, so that there are loops and parallel relationships, and one that has many.
  void Make(size_t nodes, size_t edges) {
    MakeGraph(nodes, edges);
    const Token r = *graph_.AddTypeName("R"), n = *graph_.AddKeyName("n");
    for (size_t i = 0; i < edges; ++i) {
      const NodeId other = ids_[random_() % nodes];
      const bool in = random_() % 2 == 0;
      const Value number = Value::Int(static_cast<int64_t>(edges + i));
      ASSERT_TRUE(
          graph_.CreateEdge(in ? other : ids_[0], in ? ids_[0] : other, r, {{n, number}}).ok());
    }
  }
};

// The last node of a cycle as a variable of its own, which is equal to the first.
TEST_F(CycleTest, Cycles_EqualPathsThatEndWhereTheyBegin) {
  Make(40, 60);
  const char* const kEdges[] = {"-[%:R]->", "<-[%]-", "-[%:S|T]-", "-[%]->", "-[%]-"};
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    std::string path = "(a" + std::string(random_() % 2 == 0 ? ":A" : "") + ")", numbers = "''";
    const size_t hops = 1 + random_() % 3;
    for (size_t h = 0; h < hops; ++h) {
      const std::string name = "r" + std::to_string(h);
      std::string edge = kEdges[random_() % 5];
      edge.replace(edge.find('%'), 1, name);
      path += edge + (h + 1 < hops ? "(m" + std::to_string(h) + ")" : "");
      numbers += " + ' ' + toString(" + name + ".n)";
    }
    const std::string where = random_() % 3 == 0 ? "r0.n % 2 = 0" : "true";
    const auto cycles = Run("MATCH " + path + "(a) WHERE " + where + " RETURN " + numbers);
    const auto paths = Run("MATCH " + path + "(z) WHERE z = a AND " + where + " RETURN " + numbers);
    EXPECT_EQ(cycles, paths) << path;
    EXPECT_EQ(Run("MATCH " + path + "(a) WHERE " + where + " RETURN count(*)"),
              std::vector<std::string>{std::to_string(paths.size())})
        << path;
  }
}

// More rows than a batch has, with one end in common, and none.
TEST_F(CycleTest, Cycles_OfManyRows_AreCountedByEitherEnd) {
  Make(400, 500);
  for (const std::string pattern :
       {"(a)-->(b)-->(%)", "(a)-->(b)<--(%)", "(a)-[:R]->(b)-[:R]->(c)-->(%)"}) {
    std::string cycle = pattern, path = pattern;
    cycle.replace(cycle.find('%'), 1, "a");
    path.replace(path.find('%'), 1, "z");
    EXPECT_EQ(Run("MATCH " + cycle + " RETURN count(*)"),
              Run("MATCH " + path + " WHERE z = a RETURN count(*)"))
        << pattern;
  }
  Run("MATCH (a)-[:R]->(b) MATCH (b)-[r]->(a) RETURN r.n");
  Run("MATCH (a:A)-[:R]->(b) WITH b, a ORDER BY b.n OPTIONAL MATCH (b)<-[r]-(a) RETURN r.n");
}

TEST_F(CycleTest, ParallelRelationships_StayWithinTheLimits) {
  const Token r = *graph_.AddTypeName("R"), s = *graph_.AddTypeName("S");
  const Token label = *graph_.AddLabelName("L"), x = *graph_.AddKeyName("x");
  std::vector<NodeId> nodes;
  for (int i = 0; i < 3; ++i) {
    nodes.push_back(*graph_.CreateNode({&label, 1}, {{x, Value::Int(i)}}));
  }
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(graph_.CreateEdge(nodes[0], nodes[1], r, {}).ok());
    ASSERT_TRUE(graph_.CreateEdge(nodes[1], nodes[2], s, {}).ok());
  }
  int64_t now = 0;
  const auto run = [&](const std::string& query, const Limits& limits) {
    const auto plan = MakePlan(query, graph_, nullptr);
    EXPECT_TRUE(plan.ok()) << plan.status();
    ExecuteOptions options;
    options.view = &graph_;
    options.limits = limits;
    options.monotonic_nanos = [&now] { return now += 1000; };
    FirstColumn sink(&graph_);
    const absl::Status status = Execute(**plan, options, &sink, nullptr);
    return status.ok() ? sink.texts.at(0) : std::string(absl::StatusCodeToString(status.code()));
  };
  // Rows of which each finds 400: no more than some of them are kept at a time.
  const std::string hop =
      "UNWIND range(1, 256) AS i MATCH (a:L {x: 0}), (b:L {x: 1}) MATCH (a)-[t:R]->(b) ";
  EXPECT_EQ(run(hop + "RETURN count(t.x) + count(*)", {.memory_bytes = 1 << 20}), "102400");
  // 160,000 pairs, of which none goes on.
  const std::string two = "MATCH (a:L {x: 0}), (b:L {x: 2}) MATCH (a)-[:R]->(m)-[:S]->(b) ";
  EXPECT_NE(PlanOf(two + "RETURN m").find("Intersect"), std::string::npos);
  EXPECT_EQ(run(two + "RETURN count(m.x)", {}), "160000");
  EXPECT_EQ(run(two + "WHERE m.x = 7 RETURN count(m.x)", {.nanos = 20'000}), "0");
  EXPECT_EQ(run(two + "RETURN count(m.x)", {.nanos = 20'000}), "DEADLINE_EXCEEDED");
}

// Variables of comprehensions have slots, too, and those of earlier clauses are free by then.
TEST_F(CycleTest, PropertiesOfAllRelationships_BesideComprehensions_AreTheirOwn) {
  Make(40, 60);
  for (const char* name : {"b", "c", "d", "f"}) {
    const Token key = *graph_.AddKeyName(name);
    std::vector<EdgeRef> edges(500);
    uint64_t position = 0;
    edges.resize(*graph_.ScanEdges({}, &position, edges));
    for (const EdgeRef& edge : edges) {
      ASSERT_TRUE(graph_.SetEdgeProperty(edge, key, Value::Int(name[0] * 1000)).ok());
    }
  }
  const std::string many = ", sum(e.b) + 3 * sum(e.c) + 5 * sum(e.d) + 7 * sum(e.f) AS s";
  for (const std::string aggregate :
       {"sum(size([x IN [7, 100] WHERE x > e.n])) AS k",
        "sum(reduce(t = 0, x IN [1000] | t + x + e.c)) AS k",
        "max(reduce(m = 0, x IN [50] | m + x + e.n)) AS k", "count(*) AS k"}) {
    const std::string query =
        "MATCH ()-[e]->() WHERE e.n >= 2 RETURN e.n AS n, " + aggregate + many;
    EXPECT_EQ(PlanOf(query).find("ScanProperties"), 0u) << PlanOf(query);
    const std::string text = "WITH e.n AS n, " + aggregate + many +
                             " RETURN toString(n) + ' ' + toString(k) + ' ' + toString(s)";
    Run("MATCH ()-[e]->() WHERE e.n >= 2 " + text);
    Run("MATCH (z) WITH count(z) AS z MATCH ()-[e]->() " + text);
    Run("MATCH ()-[e]->() " + text + " AS r UNION MATCH ()-[e]->() " + text + " AS r");
  }
}

TEST_F(CycleTest, PropertiesOfAllRelationships_AreReadByColumns) {
  Make(40, 60);
  const auto first = [this](const std::string& query) {
    return PlanOf(query).substr(0, PlanOf(query).find('\n'));
  };
  EXPECT_EQ(first("MATCH ()-[e:R|S]->() WHERE e.n > 3 AND e.n IN [4, 8] RETURN sum(e.n)"),
            "ScanProperties n :R|S (1 predicates)");
  EXPECT_EQ(first("MATCH (a)<-[e]-() RETURN e.n % 5 AS k, count(e) ORDER BY k"),
            "ScanProperties n");
  for (const char* query :
       {"MATCH (a)-[e]->() RETURN e.n, count(a)", "MATCH ()-[e]-() RETURN e.n, count(*)",
        "MATCH ()-[e]->() RETURN e, count(e.n)", "MATCH ()-[e]->(b:A) RETURN e.n, count(*)",
        "MATCH ()-[e]->() RETURN e.n, collect(e)", "MATCH ()-[e]->() RETURN type(e), sum(e.n)",
        "MATCH (a)-[e]->() WHERE e.n = a.n RETURN e.n, count(*)",
        "MATCH (a)-[e]->() WHERE EXISTS { (a)-->() } RETURN e.n, count(*)",
        "MATCH ()-[e]->() RETURN e.n, count(DISTINCT e)",
        "MATCH ()-[e]->() WHERE e.n % 2 = 0 RETURN sum(e.n)",
        "MATCH ()-[e]->() WHERE e.t =~ '.*x' RETURN sum(e.n)", "MATCH ()-[e]->() RETURN e.n"}) {
    EXPECT_EQ(PlanOf(query).find("ScanProperties"), std::string::npos) << query;
  }
}

}  // namespace
}  // namespace pulse::cypher
