// Nodes that indexes find: plans, and random predicates against the same without an index.
#include "services/graph/cypher/test_random_graph.h"

namespace pulse::cypher {
namespace {

class SeekTest : public RandomGraphTest {
 protected:
  void SetUp() override {
    RandomGraphTest::SetUp();
    MakeGraph(300, 0);
    for (const char* name : {"u", "v", "w"}) {
      const Token key = *graph_.AddKeyName(name);
      for (const NodeId node : ids_) {
        if (random_() % 8 == 0) continue;
        ASSERT_TRUE(graph_.SetNodeProperty(node, key, RandomValue()).ok());
      }
    }
  }

  Value RandomValue() {
    const auto number = static_cast<int64_t>(random_() % 7);
    switch (random_() % 4) {
      case 0:
        return Value::Float(static_cast<double>(number));
      case 1:
        return Value::String("s" + std::to_string(number));
      default:
        return Value::Int(number);
    }
  }

  std::string First(const std::string& query) {
    const std::string text = PlanOf(query);
    return text.substr(0, text.find('\n'));
  }

  // That a query ends with.
  std::string Error(const std::string& query) {
    const auto plan = MakePlan(query, graph_, nullptr);
    return std::string((plan.ok() ? RowsOf(**plan).status() : plan.status()).message());
  }

  std::string RandomLiteral() {
    const std::string number = std::to_string(random_() % 8);
    switch (random_() % 9) {
      case 0:
        return "null";
      case 1:
        return number + ".0";
      case 2:
      case 3:
        return "'s" + number + "'";
      case 4:
        return "$p";
      case 5:
        return "[" + number + "]";
      default:
        return number;
    }
  }

  std::string RandomTerm() {
    const std::string property = std::string("n.") + "uvw"[random_() % 3];
    static constexpr const char* kComparisons[] = {" < ", " <= ", " > ", " >= ", " STARTS WITH "};
    switch (random_() % 8) {
      case 0: {
        std::string list;
        for (size_t i = random_() % 4; i > 0; --i)
          list += (list.empty() ? "" : ", ") + RandomLiteral();
        return property + " IN [" + list + "]";
      }
      case 1:
        return property + " IN $list";
      case 2:
        return "(" + property + " = " + RandomLiteral() + " OR " + RandomLiteral() + " = " +
               property + ")";
      case 3:
        return property + kComparisons[random_() % 5] + RandomLiteral();
      case 4:
        return RandomLiteral() + kComparisons[random_() % 5] + property;
      case 5:
        return RandomLiteral() + kComparisons[random_() % 4] + property +
               kComparisons[random_() % 4] + RandomLiteral();
      default:
        return property + " = " + RandomLiteral();
    }
  }
};

TEST_F(SeekTest, Plans_UseTheIndexThatAsksForMost) {
  graph_.CreateIndex("A", {"v"});
  graph_.CreateIndex("A", {"w", "u"});
  EXPECT_EQ(First("MATCH (n:A {v: 1}) RETURN n"), "Scan :A by index on v");
  EXPECT_EQ(First("MATCH (n:A {u: 1, w: $x}) RETURN n"), "Scan :A by index on w, u");
  EXPECT_EQ(First("MATCH (n:A {u: 1, v: 2, w: 3}) RETURN n"), "Scan :A by index on w, u");
  EXPECT_EQ(First("MATCH (n:A {u: 1}) RETURN n"), "Scan :A (1 predicates)");
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v IN [1, 2] RETURN n"), "Scan :A by index on v");
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v IN $list RETURN n"), "Scan :A by index on v");
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v = 1 OR 2 = n.v OR n.v = $x RETURN n"),
            "Scan :A by index on v");
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v = 1 OR n.u = 2 RETURN n"), "Scan :A (1 predicates)");
  EXPECT_EQ(First("MATCH (n:A) WHERE 1 IN n.v RETURN n").find("index"), std::string::npos);
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v IN [1, 2] AND n.v = 1 RETURN n"), "Scan :A by index on v");
  // What is found has the values: only others are tested behind.
  EXPECT_EQ(PlanOf("MATCH (n:A {u: 1, w: 2}) RETURN n").find("Filter"), std::string::npos);
  EXPECT_EQ(PlanOf("MATCH (n:A) WHERE n.v IN [1, 2] RETURN n").find("Filter"), std::string::npos);
  EXPECT_NE(PlanOf("MATCH (n:A {v: 1}) WHERE n.u > 2 RETURN n").find("Filter (1 predicates)"),
            std::string::npos);
  // A list that is longer than a scan.
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v IN range(1, 3) RETURN n"), "Scan :A by index on v");
  std::string list = "1";
  for (int i = 0; i < 400; ++i) list += ", 1";
  EXPECT_EQ(First("MATCH (n:A) WHERE n.v IN [" + list + "] RETURN n"), "Scan :A (1 predicates)");
}

TEST_F(SeekTest, RandomPredicates_FindTheSameWithoutAnIndex) {
  size_t sought = 0, within = 0;
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    std::string where = RandomTerm();
    for (size_t more = random_() % 3; more > 0; --more) where += " AND " + RandomTerm();
    const std::string query = "MATCH (n:A) WHERE " + where + " RETURN n.n";
    parameters_ = {{"list", Value::List({RandomValue(), Value(), RandomValue()})},
                   {"p", RandomValue()}};
    const auto expected = Run(query);
    graph_.CreateIndex("A", {"u"});
    graph_.CreateIndex("A", {"v", "w"});
    const std::string plan = First(query);
    sought += plan.find("index") != std::string::npos ? 1 : 0;
    within += plan.find("within") != std::string::npos ? 1 : 0;
    EXPECT_EQ(Run(query), expected) << query << ": " << plan;
    graph_.DropIndex("A", {"u"});
    graph_.DropIndex("A", {"v", "w"});
  }
  EXPECT_GT(sought, 50u);
  EXPECT_GT(within, 30u);
}

// Bounds of literals, parameters and of rows: an index gives the nodes that a scan gives, in its
// order. Where it has too many, or is gone, a scan does.
TEST_F(SeekTest, Comparisons_AskTheIndexForNodesWithinBounds) {
  graph_.CreateIndex("A", {"u"});
  EXPECT_EQ(First("MATCH (n:A) WHERE n.u > 1 RETURN n"),
            "Scan :A within bounds of u (1 predicates)");
  EXPECT_EQ(First("MATCH (n:A) WHERE n.u > 1 AND n.v = 2 RETURN n"),
            "Scan :A within bounds of u (2 predicates)");
  EXPECT_EQ(First("MATCH (n:A) WHERE 1 <= n.u < $p RETURN n"),
            "Scan :A within bounds of u (1 predicates)");
  for (const char* without :
       {"n.v > 1", "n.u <> 1", "NOT n.u > 1", "n.u > 1 OR n.u < 0", "'s' STARTS WITH n.u",
        "n.u ENDS WITH 's'", "n.u + 1 > 2", "n.u > rand()", "n.u > n.v"}) {
    const std::string plan = First(std::string("MATCH (n:A) WHERE ") + without + " RETURN n");
    EXPECT_EQ(plan.find("within"), std::string::npos) << without << ": " << plan;
  }
  graph_.DropIndex("A", {"u"});
  for (const char* query :
       {"MATCH (m:B) MATCH (n:A) WHERE m.u < n.u < m.u + 2 RETURN m.n, n.n",
        "MATCH (m:B) OPTIONAL MATCH (n:A) WHERE n.u >= m.v RETURN m.n, n.n",
        "MATCH (m:B) CALL { WITH m MATCH (n:A) WHERE n.u < m.v RETURN count(*) AS c } RETURN m.n, "
        "c",
        "UNWIND ['s', 's1', 2, null, [1]] AS x MATCH (n:A) WHERE n.u STARTS WITH x RETURN x, n.n",
        "UNWIND [0, 3.5, 's3', null, 0.0/0, true] AS x MATCH (n:A) WHERE n.u > x RETURN x, n.n"}) {
    parameters_ = {{"p", Value::Int(3)}};
    const auto expected = Run(query);
    EXPECT_FALSE(expected.empty()) << query;
    graph_.CreateIndex("A", {"u"});
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_NE(PlanText(**plan).find("within bounds of u"), std::string::npos) << PlanText(**plan);
    EXPECT_EQ(Run(query), expected) << query;
    graph_.DropIndex("A", {"u"});
    const auto rows = RowsOf(**plan);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(*rows, expected) << query;
  }
}

// A plan outlives an index: it scans, whatever the predicate needs.
TEST_F(SeekTest, IndexDroppedAfterPlanning_RowsAreThoseOfAScan) {
  for (const char* query :
       {"MATCH (n:A {u: 1, v: 2}) RETURN n.n", "MATCH (n:A) WHERE n.u IN [1, 2, 's1'] RETURN n.n",
        "MATCH (n:A) WHERE n.u = 1 OR n.u = 3 RETURN n.n",
        "UNWIND [1, 's2', 3] AS x MATCH (n:A {u: x}) RETURN n.n",
        "MATCH (m:B) WITH m MATCH (n:A) WHERE n.u IN [m.u, m.v] RETURN n.n",
        "MATCH (m:B) WITH m MATCH (n:A) WHERE n.v > 2 AND n.u = m.w RETURN n.n"}) {
    const auto expected = Run(query);
    graph_.CreateIndex("A", {"u"});
    graph_.CreateIndex("A", {"u", "v"});
    EXPECT_EQ(Run(query), expected) << query;
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_TRUE(plan.ok());
    EXPECT_NE(PlanText(**plan).find("index on u"), std::string::npos) << PlanText(**plan);
    graph_.DropIndex("A", {"u"});
    graph_.DropIndex("A", {"u", "v"});
    const auto rows = RowsOf(**plan);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(*rows, expected) << query;
  }
}

// Each value is sought once, and each node found once.
TEST_F(SeekTest, ValuesThatComeTwice_FindEachNodeOnce) {
  for (const char* query :
       {"MATCH (n:A) WHERE n.u IN [1, 1.0, 2, 1, null, 0.0/0, 0.0/0] RETURN n.n",
        "MATCH (n:A|B) WHERE n.u IN [1, 1.0, 2, 1] RETURN n.n",
        "MATCH (n:A) WHERE n.u = 1 OR n.u = 1.0 OR 1 = n.u RETURN n.n",
        "WITH [x IN range(1, 500) | x % 3] AS l MATCH (n:A) WHERE n.u IN l "
        "RETURN n.n"}) {
    const auto expected = Run(query);
    EXPECT_FALSE(expected.empty());
    graph_.CreateIndex("A", {"u"});
    graph_.CreateIndex("B", {"u"});
    EXPECT_NE(PlanOf(query).find("index on u"), std::string::npos) << PlanOf(query);
    EXPECT_EQ(Run(query), expected) << query;
    graph_.DropIndex("A", {"u"});
    graph_.DropIndex("B", {"u"});
  }
}

TEST_F(SeekTest, Merge_FindsByTheIndex) {
  graph_.CreateIndex("A", {"u"});
  graph_.CreateIndex("A", {"v", "w"});
  EXPECT_NE(PlanOf("MERGE (n:A {u: 1})").find("by index on u"), std::string::npos);
  EXPECT_NE(PlanOf("UNWIND [1] AS x MERGE (n:A {w: x, v: 2})").find("by index on v, w"),
            std::string::npos);
  EXPECT_EQ(PlanOf("MERGE (n:A {n: 1})").find("index"), std::string::npos);
}

// A slot that is used again has the node of another variable when the properties are evaluated.
TEST_F(SeekTest, MergeWithPropertiesOfItsOwnPattern_IsRefused) {
  for (const char* query : {"MERGE (a:A {u: 1})-[:R]->(b:B {v: a.u})",
                            "MATCH (x:A) WITH x.u AS k MERGE (a:A {v: k})-[:R {w: a.v}]->(b:B)"}) {
    EXPECT_NE(Error(query).find("the same MERGE"), std::string::npos) << Error(query);
  }
}

TEST_F(SeekTest, ListThatIsNone_IsTheErrorOfAScan) {
  parameters_ = {{"list", Value::Int(5)}};
  const std::string query = "MATCH (n:A) WHERE n.v IN $list RETURN n.n";
  const std::string scan = Error(query);
  EXPECT_FALSE(scan.empty());
  graph_.CreateIndex("A", {"v"});
  EXPECT_EQ(Error(query), scan);
}

}  // namespace
}  // namespace pulse::cypher
