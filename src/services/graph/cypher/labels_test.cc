// Label expressions: random ones against their evaluation on what the test made, in every place
// where a query may have them; which scans they use; what is no expression.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/cypher/test_random_graph.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

// An expression as text, and what it says.
struct Sample {
  std::string text;
  std::function<bool(const Labels&)> holds;
};

class Samples {
 public:
  Samples(std::mt19937_64* random, std::vector<std::string> names)
      : random_(*random), names_(std::move(names)) {}

  Sample Make(int depth = 4) { return Or(depth); }

 private:
  size_t Roll(size_t n) { return random_() % n; }
  std::string Space() { return Roll(4) == 0 ? " " : ""; }

  Sample Or(int depth) {
    Sample test = And(depth);
    while (depth > 0 && Roll(3) == 0) {
      const Sample right = And(depth - 1);
      test = {test.text + Space() + "|" + Space() + right.text,
              [a = test.holds, b = right.holds](const Labels& l) { return a(l) || b(l); }};
    }
    return test;
  }
  Sample And(int depth) {
    Sample test = Not(depth);
    while (depth > 0 && Roll(3) == 0) {
      const Sample right = Not(depth - 1);
      test = {test.text + Space() + "&" + Space() + right.text,
              [a = test.holds, b = right.holds](const Labels& l) { return a(l) && b(l); }};
    }
    return test;
  }
  Sample Not(int depth) {
    if (Roll(4) == 0) {
      const Sample inner = Not(depth);
      return {"!" + Space() + inner.text, [a = inner.holds](const Labels& l) { return !a(l); }};
    }
    if (depth > 0 && Roll(3) == 0) {
      const Sample inner = Or(depth - 1);
      return {"(" + inner.text + Space() + ")", inner.holds};
    }
    if (Roll(8) == 0) return {"%", [](const Labels& l) { return !l.empty(); }};
    const std::string name = names_[Roll(names_.size())];
    return {name, [name](const Labels& l) { return l.contains(name); }};
  }

  std::mt19937_64& random_;
  const std::vector<std::string> names_;
};

class LabelTest : public RandomGraphTest {};

TEST_F(LabelTest, RandomExpressions_EveryPlace_AreWhatTheySay) {
  MakeGraph(60, 120);
  Samples labels(&random_, {"A", "B", "C", "D", "Never"});
  Samples types(&random_, {"R", "S", "T", "Never"});
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    const Sample a = labels.Make(), b = labels.Make(), t = types.Make();
    const auto has = [&](size_t node) { return a.holds(nodes_[node]); };
    const auto fits = [&](const Edge& e) { return t.holds({e.type}); };
    const std::vector<std::string> with = NodesWhere(has);
    EXPECT_EQ(Run("MATCH (n:" + a.text + ") RETURN n.n"), with) << a.text;
    EXPECT_EQ(Run("MATCH (n IS " + a.text + " WHERE n.n >= 0) RETURN n.n"), with) << a.text;
    EXPECT_EQ(Run("MATCH (n) WHERE n:" + a.text + " RETURN n.n"), with) << a.text;
    EXPECT_EQ(Run("MATCH (n) WHERE n IS " + a.text + " AND n.n >= 0 RETURN n.n"), with) << a.text;
    EXPECT_EQ(Run("MATCH (n) WITH n, n:" + a.text + " AS has WHERE has RETURN n.n"), with);
    EXPECT_EQ(Run("MATCH (n) WITH collect(n) AS ns UNWIND [x IN ns WHERE (x:" + a.text +
                  ") | x.n] AS n RETURN n"),
              with)
        << a.text;
    EXPECT_EQ(Run("MATCH (n:" + a.text + ") WHERE n:" + b.text + " RETURN n.n"),
              NodesWhere([&](size_t n) { return has(n) && b.holds(nodes_[n]); }))
        << a.text << " and " << b.text;
    EXPECT_EQ(Run("MATCH (n) WHERE n:" + a.text + " OR n:" + b.text + " RETURN n.n"),
              NodesWhere([&](size_t n) { return has(n) || b.holds(nodes_[n]); }))
        << a.text << " or " << b.text;
    EXPECT_EQ(Run("MATCH ()-[r:" + t.text + "]->() RETURN r.n"), EdgesWhere(fits)) << t.text;
    EXPECT_EQ(Run("MATCH ()-[r]->() WHERE r:" + t.text + " RETURN r.n"), EdgesWhere(fits));
    EXPECT_EQ(
        Run("MATCH (x:" + a.text + ")-[r IS " + t.text + "]->(y:" + b.text + ") RETURN r.n"),
        EdgesWhere([&](const Edge& e) { return fits(e) && has(e.from) && b.holds(nodes_[e.to]); }))
        << a.text << ", " << t.text << ", " << b.text;
    const auto reaches = [&](size_t n) {
      return std::any_of(edges_.begin(), edges_.end(), [&](const Edge& e) {
        return e.from == n && fits(e) && b.holds(nodes_[e.to]);
      });
    };
    const std::string hop = "-[:" + t.text + "]->(:" + b.text + ")";
    const auto expected = NodesWhere([&](size_t n) { return has(n) && reaches(n); });
    for (const std::string& test :
         {"EXISTS { (n:" + a.text + ")" + hop + " }", "(n:" + a.text + ")" + hop,
          "COUNT { (n:" + a.text + ")" + hop + " } > 0"}) {
      EXPECT_EQ(Run("MATCH (n) WHERE " + test + " RETURN n.n"), expected) << test;
    }
  }
}

// Trails of one to three relationships, each of which fits: counted by a walk of the test's own.
TEST_F(LabelTest, RandomTypes_VariableLengthAndRepetitions_WalkThem) {
  MakeGraph(12, 22);
  Samples types(&random_, {"R", "S", "T"});
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const Sample t = types.Make();
    size_t trails[4] = {nodes_.size(), 0, 0, 0};
    std::vector<size_t> trail;
    const std::function<void(size_t)> walk = [&](size_t node) {
      if (!trail.empty()) ++trails[trail.size()];
      if (trail.size() == 3) return;
      for (size_t e = 0; e < edges_.size(); ++e) {
        if (edges_[e].from != node || !t.holds({edges_[e].type}) ||
            std::find(trail.begin(), trail.end(), e) != trail.end()) {
          continue;
        }
        trail.push_back(e);
        walk(edges_[e].to);
        trail.pop_back();
      }
    };
    for (size_t n = 0; n < nodes_.size(); ++n) walk(n);
    const auto count = [&](const std::string& before, const std::string& behind) {
      const auto rows =
          Run("MATCH (a)-[r:" + t.text + before + "]->" + behind + "(b) RETURN count(*)");
      return rows.size() == 1 ? rows[0] : "no row";
    };
    EXPECT_EQ(count("*1..3", ""), std::to_string(trails[1] + trails[2] + trails[3])) << t.text;
    EXPECT_EQ(count("", "{1,3}"), std::to_string(trails[1] + trails[2] + trails[3])) << t.text;
    EXPECT_EQ(count("", "{,2}"), std::to_string(trails[0] + trails[1] + trails[2])) << t.text;
    EXPECT_EQ(count("", "{2}"), std::to_string(trails[2])) << t.text;
    EXPECT_EQ(Run("MATCH (a)-[:" + t.text + "]->+(b) RETURN count(*)"),
              Run("MATCH (a)-[:" + t.text + "*1..]->(b) RETURN count(*)"));
    EXPECT_EQ(Run("MATCH (a)-[:" + t.text + "]->*(b) RETURN count(*)"),
              Run("MATCH (a)-[:" + t.text + "*0..]->(b) RETURN count(*)"));
    EXPECT_EQ(Run("MATCH (a)<-[r:" + t.text + " WHERE r.n > 5]-{1,}(b) RETURN r"),
              Run("MATCH (a)<-[r:" + t.text + "* WHERE r.n > 5]-(b) RETURN r"));
    // A shortest path is at most as long, and there where a trail is.
    EXPECT_EQ(Run("MATCH (a {n: 0}), (b), p = shortestPath((a)-[:" + t.text +
                  "*]->(b)) WHERE b.n <> 0 RETURN b.n"),
              Run("MATCH (a {n: 0})-[:" + t.text + "]->+(b) WHERE b.n <> 0 RETURN DISTINCT b.n"))
        << t.text;
  }
}

TEST_F(LabelTest, ShortestPath_ConditionOfARelationship_IsKept) {
  MakeGraph(3, 0);
  const Token r = *graph_.AddTypeName("R"), n = *graph_.AddKeyName("n");
  ASSERT_TRUE(graph_.CreateEdge(ids_[0], ids_[2], r, {{n, Value::Int(1)}}).ok());
  ASSERT_TRUE(graph_.CreateEdge(ids_[0], ids_[1], r, {{n, Value::Int(7)}}).ok());
  ASSERT_TRUE(graph_.CreateEdge(ids_[1], ids_[2], r, {{n, Value::Int(8)}}).ok());
  EXPECT_EQ(Run("MATCH (a {n: 0}), (b {n: 2}), p = shortestPath((a)-[r:R* WHERE r.n > 5]->(b)) "
                "RETURN length(p)"),
            std::vector<std::string>{"2"});
}

TEST_F(LabelTest, BoundList_ConditionsOfItsRelationships_AreLookedAt) {
  MakeGraph(3, 0);
  const Token r = *graph_.AddTypeName("R"), n = *graph_.AddKeyName("n");
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        graph_.CreateEdge(ids_[i], ids_[i + 1], r, {{n, Value::Int(static_cast<int64_t>(i))}})
            .ok());
  }
  const auto count = [this](const std::string& pattern) {
    return Run("MATCH (a)-[r:R]->+(b) MATCH (c)" + pattern + "(d) RETURN count(*)");
  };
  using Counts = std::vector<std::string>;
  EXPECT_EQ(count("-[r:R]->+"), Counts{"3"});
  EXPECT_EQ(count("-[r:R|Never]->+"), Counts{"3"});
  EXPECT_EQ(count("-[r WHERE r.n = 1]->+"), Counts{"1"});
  EXPECT_EQ(count("-[r* {n: 0}]->"), Counts{"1"});
  for (const char* none : {"-[r:!R]->+", "-[r:R&S]->+", "-[r:Never|Ever]->{1,9}", "-[r:Never*]->",
                           "-[r WHERE r.n > 7]->+"}) {
    EXPECT_EQ(count(none), Counts{"0"}) << none;
  }
  EXPECT_NE(PlanOf("MATCH ()-[r:R*]->() MATCH p = shortestPath((c)-[r:R*]->(d)) RETURN p")
                .find("are found, not given"),
            std::string::npos);
}

TEST_F(LabelTest, Plans_NamesOnEverySide_ScanTheseAlone) {
  MakeGraph(60, 0);
  const auto first = [this](const std::string& query) {
    const std::string text = PlanOf(query);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(first("MATCH (n:A|B) RETURN n"), "Scan :A|B");
  EXPECT_EQ(first("MATCH (n) WHERE n:A|B RETURN n"), "Scan :A|B");
  EXPECT_EQ(first("MATCH (n:(A&!C)|(B&D)) RETURN n"), "Scan :A|B (1 predicates)");
  EXPECT_EQ(first("MATCH (n:A&!B) RETURN n"), "Scan :A (1 predicates)");
  EXPECT_EQ(first("MATCH (n:(A&B)|(A&C)) RETURN n"), "Scan :A (1 predicates)");
  EXPECT_EQ(first("MATCH (n) WHERE n:A RETURN n"), "Scan :A");
  EXPECT_EQ(first("MATCH (n) WHERE n:A OR (n:B AND n.n > 3) RETURN n"), "Scan :A|B (1 predicates)");
  EXPECT_EQ(first("MATCH (n) WHERE n:A OR n.n > 3 RETURN n"), "Scan all nodes (1 predicates)");
  EXPECT_EQ(first("MATCH (n:!A) RETURN n"), "Scan all nodes (1 predicates)");
  EXPECT_EQ(first("MATCH (n:A|!B) RETURN n"), "Scan all nodes (1 predicates)");
  EXPECT_NE(PlanOf("MATCH (n)-[r:(R&!S)|T]->() RETURN r").find(":R|T out"), std::string::npos);
}

TEST_F(LabelTest, IndexesOfEveryLabel_AreSought) {
  MakeGraph(60, 0);
  const Token v = *graph_.AddKeyName("v");
  std::vector<int64_t> values;
  for (const NodeId node : ids_) {
    values.push_back(static_cast<int64_t>(random_() % 9));
    ASSERT_TRUE(graph_.SetNodeProperty(node, v, Value::Int(values.back())).ok());
  }
  const auto first = [this](const std::string& query) {
    const std::string text = PlanOf(query);
    return text.substr(0, text.find('\n'));
  };
  graph_.CreateIndex("A", {"v"});
  EXPECT_EQ(first("MATCH (n:A|B {v: 5}) RETURN n"), "Scan :A|B (1 predicates)");
  graph_.CreateIndex("B", {"v"});
  graph_.CreateIndex("C", {"n"});
  EXPECT_EQ(first("MATCH (n:A|B {v: 5}) RETURN n"), "Scan :A|B by index on v");
  EXPECT_EQ(first("MATCH (n) WHERE (n:A OR n:B) AND 5 = n.v RETURN n"), "Scan :A|B by index on v");
  EXPECT_EQ(first("MATCH (n:(A&!C)|(B&D)) WHERE n.v = 5 RETURN n"), "Scan :A|B by index on v");
  EXPECT_EQ(first("MATCH (n:A|B {v: 5}) WHERE n:C RETURN n"), "Scan :A|B by index on v");
  EXPECT_EQ(first("MATCH (n:(A|C)&B {v: 5}) RETURN n"), "Scan :B by index on v");
  EXPECT_EQ(first("MATCH (n:A|C {v: 5}) RETURN n"), "Scan :A|C (1 predicates)");
  EXPECT_EQ(first("MATCH (n:A|B {n: 5}) RETURN n"), "Scan :A|B (1 predicates)");
  EXPECT_EQ(first("MATCH (n:A|!B {v: 5}) RETURN n"), "Scan all nodes (2 predicates)");
  EXPECT_EQ(first("UNWIND [1, 2] AS x MATCH (n:A|B {v: x}) RETURN n"), "Unwind");
  EXPECT_NE(PlanOf("UNWIND [1, 2] AS x MATCH (n:A|B {v: x}) RETURN n").find(":A|B by index on v"),
            std::string::npos);
  Samples labels(&random_, {"A", "B", "A", "B", "C", "Never"});
  size_t sought = 0;
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const Sample test = labels.Make();
    const auto value = static_cast<int64_t>(random_() % 9);
    const std::string query =
        "MATCH (n:" + test.text + " {v: " + std::to_string(value) + "}) RETURN n.n";
    const std::string plan = first(query);
    sought += plan.find("|") != std::string::npos && plan.find("index") != std::string::npos;
    EXPECT_EQ(Run(query),
              NodesWhere([&](size_t n) { return values[n] == value && test.holds(nodes_[n]); }))
        << query << ": " << plan;
  }
  EXPECT_GT(sought, 3u);
  // A plan outlives an index: it scans.
  const auto plan = MakePlan("MATCH (n:A|B {v: 5}) RETURN n.n", graph_, nullptr);
  ASSERT_TRUE(plan.ok());
  graph_.DropIndex("B", {"v"});
  const auto rows = RowsOf(**plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows, NodesWhere([&](size_t n) {
    return values[n] == 5 && (nodes_[n].contains("A") || nodes_[n].contains("B"));
  }));
}

TEST_F(LabelTest, NullAndOtherValues_HaveNoLabels) {
  MakeGraph(1, 0);
  EXPECT_EQ(Run("OPTIONAL MATCH (n:Never) RETURN n:A|!B"), std::vector<std::string>{"null"});
  EXPECT_EQ(PlanOf("WITH 1 AS x RETURN x:A|B").substr(0, 37),
            "a label predicate needs NODE or RELAT");
}

TEST_F(LabelTest, BarOfAComprehension_IsNoPartOfAnExpression) {
  MakeGraph(60, 0);
  const auto with_a = NodesWhere([&](size_t n) { return nodes_[n].contains("A"); });
  EXPECT_EQ(Run("MATCH (n) WITH collect(n) AS ns UNWIND [x IN ns WHERE x:A | x.n] AS n RETURN n"),
            with_a);
  EXPECT_EQ(Run("MATCH (n) WITH collect(n) AS ns UNWIND [x IN ns WHERE x IS A|x.n] AS n RETURN n"),
            with_a);
  // Behind the bar, and in brackets, it is one.
  EXPECT_EQ(Run("MATCH (n) UNWIND [x IN [n] | x:A|B] AS has RETURN has"),
            Run("MATCH (n) RETURN n:A OR n:B"));
  EXPECT_EQ(
      Run("MATCH (n) UNWIND [x IN [y IN [n] WHERE (y:A|B) | y] WHERE x:C | x.n] AS m RETURN m"),
      NodesWhere([&](size_t n) {
        const Labels& l = nodes_[n];
        return l.contains("C") && (l.contains("A") || l.contains("B"));
      }));
  EXPECT_EQ(Run("MATCH (n) RETURN reduce(s = 0, x IN [n:A] | s + 1)").size(), nodes_.size());
  // The last of several parts the comprehension.
  const auto with_both = NodesWhere([&](size_t n) {
    const Labels& l = nodes_[n];
    return l.contains("A") || (l.contains("B") && !l.contains("C")) || l.contains("D");
  });
  for (const char* test : {"x:A|B&!C|D", "x:A|(B&!C)|D", "x IS A|B&(!(C))|D", "x:D|!(C|!B)|A"}) {
    EXPECT_EQ(
        Run(std::string("MATCH (n) UNWIND [x IN [n] WHERE ") + test + " | x.n] AS m RETURN m"),
        with_both)
        << test;
  }
  EXPECT_EQ(Run("MATCH (n) UNWIND [x IN [n] WHERE x:A | x:B|C] AS has RETURN has"),
            Run("MATCH (n:A) RETURN n:B OR n:C"));
  // One alone is the comprehension's, as in Neo4j.
  EXPECT_NE(PlanOf("MATCH (n) RETURN [x IN [n] WHERE x:A|B]").find("`B`"), std::string::npos);
}

TEST_F(LabelTest, Mistakes_HaveAPlaceAndSayWhat) {
  const std::string mixed =
      "a colon between labels does not mix with &, |, ! and %: write A&B for A:B, A|B for A|:B ";
  EXPECT_EQ(PlanOf("MATCH (n:A:B|C) RETURN n"), mixed +
                                                    "(line 1, column 13)\n"
                                                    "\"MATCH (n:A:B|C) RETURN n\"\n"
                                                    "             ^");
  EXPECT_EQ(PlanOf("MATCH (n)\nWHERE n:A&B:C RETURN n"), mixed +
                                                             "(line 2, column 12)\n"
                                                             "\"WHERE n:A&B:C RETURN n\"\n"
                                                             "            ^");
  for (const char* query :
       {"MATCH (n:!A:B) RETURN n", "MATCH (n:A:!B) RETURN n", "MATCH (n:A:(B|C)) RETURN n",
        "MATCH (n:(A:B)) RETURN n", "MATCH ()-[r:A|:B&C]->() RETURN r",
        "MATCH ()-[r:A&B|:C]->() RETURN r", "MATCH ()-[r:A|:!B]->() RETURN r",
        "MATCH (n IS A:B) RETURN n", "MATCH (n:%:A) RETURN n", "CREATE (n:A|B)", "MERGE (n:!A)",
        "MATCH (n) SET n:A|B", "MATCH (n) REMOVE n:!A"}) {
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_FALSE(plan.ok()) << query;
    EXPECT_EQ(InfoOf(plan.status()).detail, "InvalidLabelExpression") << query;
  }
  for (const char* query :
       {"MATCH (n:) RETURN n", "MATCH (n:A|) RETURN n", "MATCH (n:A&) RETURN n",
        "MATCH (n:!) RETURN n", "MATCH (n:(A) RETURN n", "MATCH (n:()) RETURN n",
        "MATCH (n:A B) RETURN n", "MATCH (n) RETURN n:A|", "MATCH (a)-->{}(b) RETURN a",
        "MATCH (a)-->{1,2(b) RETURN a", "MATCH (a)-->{x}(b) RETURN a"}) {
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_FALSE(plan.ok()) << query;
    EXPECT_EQ(InfoOf(plan.status()).detail, "UnexpectedSyntax") << query;
  }
  for (const char* query : {"MATCH (a)-[*]->+(b) RETURN a", "MATCH (a)-->{3,2}(b) RETURN a",
                            "MATCH (a)-->{0}(b) RETURN a", "MATCH ()-[:A:B]->() RETURN 1"}) {
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_FALSE(plan.ok()) << query;
    EXPECT_EQ(InfoOf(plan.status()).detail, "InvalidRelationshipPattern") << query;
  }
  EXPECT_NE(PlanOf("CREATE (a)-[:R]->+(b)").find("variable length cannot be created"),
            std::string::npos);
  for (const int depth : {200, 100'000}) {
    const std::string open(static_cast<size_t>(depth), '('), shut(static_cast<size_t>(depth), ')');
    EXPECT_NE(PlanOf("MATCH (n:" + open + "A" + shut + ") RETURN n").find("nests too deeply"),
              std::string::npos);
  }
  EXPECT_EQ(PlanOf("MATCH (n:" + std::string(100'001, '!') + "A) RETURN 1").substr(0, 4), "Scan");
}

// What begins as a pattern does, and is none.
TEST_F(LabelTest, BracketsAroundTests_AreExpressions) {
  MakeGraph(8, 0);
  EXPECT_EQ(Run("MATCH (n) WHERE (n:A|B) AND (n:!C) RETURN n.n"),
            Run("MATCH (n:(A|B)&!C) RETURN n.n"));
  EXPECT_EQ(Run("MATCH (n) WHERE (n IS NULL) OR (n IS A) RETURN n.n"),
            Run("MATCH (n:A) RETURN n.n"));
  EXPECT_EQ(Run("WITH 7 AS a RETURN (a)-+(3)"), std::vector<std::string>{"4"});
  EXPECT_EQ(Run("MATCH (n) RETURN (n:A) = (n:A&%)"),
            std::vector<std::string>(nodes_.size(), "true"));
}

}  // namespace
}  // namespace pulse::cypher
