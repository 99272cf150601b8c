// What clauses give to each other: conditions with subqueries where a MATCH meets what is bound,
// LIMIT before who sorts or counts, nodes that are null.
#include "services/graph/cypher/test_random_graph.h"

namespace pulse::cypher {
namespace {

class ClausesTest : public RandomGraphTest {
 protected:
  void SetUp() override {
    RandomGraphTest::SetUp();
    MakeGraph(12, 30);
  }
  std::string One(const std::string& query) {
    const std::vector<std::string> rows = Run(query);
    return rows.size() == 1 ? rows[0] : std::to_string(rows.size()) + " rows";
  }
  // Why there is no plan; empty if there is one.
  std::string Fails(const std::string& query) {
    return std::string(MakePlan(query, graph_, nullptr).status().message());
  }
};

// WITH * between a pattern and its condition: that has everything then.
TEST_F(ClausesTest, Subquery_PatternMeetsWhatIsBound_SeesAllOfIt) {
  const std::vector<std::string> patterns = {
      "MATCH (a), (b) MATCH (a)-[r]->(b)",
      "MATCH (a)-[q]->(b) MATCH (a)-[r]->(b)",
      "MATCH (a)-[r]->(b) WITH a, r MATCH (a)-[r]->(b)",
      "MATCH (a)-[r]->(b) WITH r MATCH (a)-[r]->(b)",
      "MATCH (a)-[r]->(b) WITH a, b, r MATCH (a)-[r]->(b)",
      "MATCH (a), (b) MATCH (a)-[r*1..2]->(b)",
      "MATCH (a), (b) MATCH (a) ((x)-[r]->(y)){1,2} (b)",
      "MATCH (a), (c) MATCH (a)-[r]->(b)-[s]->(c)",
      "MATCH (a), (c) MATCH (a)-[r]->(c)-[s]->(b)",
      "MATCH (a), (d), (b) WHERE a.n < 4 AND d.n < 6 MATCH (a)-[r]->(d)-[s]->(b)",
      "MATCH (a) MATCH (a), (b) MATCH (b)-[r]->(a)",
      "MATCH (a), (b) MATCH p = (a)-[r]->(b)",
      "MATCH (a)-[r]->(b), (a)-[s]->(b)",
      "MATCH (a)-[r]->(a), (a)-[s]->(b)",
  };
  const std::vector<std::string> conditions = {
      "EXISTS { (b)-[:R]->() }",
      "NOT EXISTS { (b)-[:R]->() }",
      "COUNT { (b)-[:R|S]->() } > 1",
      "COUNT { (b)-->() } = COUNT { (a)-->() }",
      "(b)-[:T]->(:A)",
      "NOT (b)-[:T]->() AND a.n < 8",
      "size([(b)-[:R]->(z) | z.n]) = 1",
      "size(COLLECT { MATCH (b)-[:S]->(z) RETURN z.n }) > 0 OR a.n = 3",
      "CASE WHEN EXISTS { (b)<-[:R]-() } THEN a.n < b.n ELSE false END",
  };
  for (const std::string& pattern : patterns) {
    for (const std::string& condition : conditions) {
      const std::string end = " RETURN toString(a.n) + ' ' + toString(b.n)";
      EXPECT_EQ(Run(pattern + " WHERE " + condition + end),
                Run(pattern + " WITH * WHERE " + condition + end))
          << pattern << " WHERE " << condition;
    }
  }
}

TEST_F(ClausesTest, Subquery_OptionalPatternMeetsWhatIsBound_IsNotLost) {
  const std::string optional =
      "MATCH (a), (b) WITH a, b ORDER BY a.n, b.n OPTIONAL MATCH (a)-[r:R]->(b) WHERE ";
  EXPECT_EQ(One(optional + "NOT EXISTS { (b)--() } RETURN count(r)"), One("RETURN 0"));
  EXPECT_EQ(One(optional + "EXISTS { (a)-->(b) } RETURN count(r)"),
            One("MATCH (a)-[r:R]->(b) RETURN count(r)"));
}

TEST_F(ClausesTest, Subquery_OneRepetition_SeesAllOfIt) {
  for (const char* condition : {"EXISTS { (y)-[:R]->() }", "NOT EXISTS { (x)<-[:S]-() }"}) {
    const std::string repeated =
        std::string("MATCH (a) ((x)-[q]->(y) WHERE ") + condition + "){1} (b) RETURN count(*)";
    const std::string once =
        std::string("MATCH (x)-[q]->(y) WITH * WHERE ") + condition + " RETURN count(*)";
    EXPECT_EQ(One(repeated), One(once)) << repeated;
  }
}

TEST_F(ClausesTest, Limit_BeforeWhoSortsOrCounts_GivesItsRows) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"UNWIND [3,1,2] AS x WITH x ORDER BY x LIMIT 2 RETURN count(*)", "2"},
      {"UNWIND [3,1,2] AS x WITH x ORDER BY x LIMIT 2 RETURN sum(x)", "3"},
      {"UNWIND [3,1,2] AS x WITH x ORDER BY x LIMIT 1 WITH x ORDER BY x DESC RETURN x", "1"},
      {"UNWIND [3,1,2] AS x WITH x ORDER BY x SKIP 1 LIMIT 1 RETURN collect(x)", "[2]"},
      {"UNWIND [3,1,2,3] AS x WITH x, count(*) AS c LIMIT 2 RETURN count(*)", "2"},
      {"UNWIND [3,1,2,3] AS x WITH count(x) AS c LIMIT 1 RETURN sum(c)", "4"},
      {"UNWIND [3,1,2,3] AS x WITH DISTINCT x LIMIT 2 RETURN count(x)", "2"},
      {"MATCH (n) WITH count(*) AS c LIMIT 1 RETURN sum(c)", "12"},
      {"MATCH (n) WITH sum(n.n) AS s LIMIT 1 RETURN max(s)", "66"},
      {"MATCH ()-->() WITH count(*) AS c LIMIT 1 RETURN max(c)", "30"},
      {"MATCH ()-->()-->() WITH count(*) AS c LIMIT 1 RETURN count(c)", "1"},
      {"UNWIND [3,1,2] AS x WITH x ORDER BY x LIMIT 0 RETURN count(*)", "0"},
      {"UNWIND [3,1] AS y CALL { WITH y UNWIND [1,2] AS x WITH x ORDER BY x LIMIT 1 RETURN "
       "count(*) AS c } RETURN sum(c)",
       "2"},
      {"RETURN size(COLLECT { UNWIND [2,1] AS x WITH x ORDER BY x LIMIT 1 WITH x ORDER BY x RETURN "
       "x })",
       "1"},
      {"RETURN COUNT { UNWIND [2,1] AS x WITH x ORDER BY x LIMIT 1 WITH x ORDER BY x RETURN x }",
       "1"},
  };
  for (const auto& [query, expected] : cases) EXPECT_EQ(One(query), expected) << query;
}

TEST_F(ClausesTest, LimitOfManyRows_BeforeWhoSorts_GivesItsRows) {
  for (const int rows : {1, 255, 256, 257, 1000}) {
    for (const int limit : {1, 2, 255, 256, 257, 900}) {
      const std::string query = "UNWIND range(1, " + std::to_string(rows) +
                                ") AS x WITH x ORDER BY x DESC LIMIT " + std::to_string(limit) +
                                " RETURN count(*)";
      EXPECT_EQ(One(query), std::to_string(std::min(rows, limit))) << query;
    }
  }
}

// Rows behind those that are kept go at once: of equal ones the first stay, and null is last.
TEST_F(ClausesTest, LimitOfSortedRows_IsTheBeginningOfAll) {
  const std::string rows =
      "UNWIND range(0, 5999) AS x WITH x, CASE WHEN x % 11 = 0 THEN null WHEN x % 5 = 0 THEN "
      "toString(x % 17) ELSE x * 7919 % 31 END AS k, x * 7919 % 6007 AS m WITH x ORDER BY ";
  for (const char* order : {"k", "k DESC", "k, m", "m", "m DESC", "k DESC, m DESC"}) {
    for (const int limit : {1, 7, 900, 3000}) {
      const std::string n = std::to_string(limit);
      const std::string sorted = rows + order;
      EXPECT_EQ(One(sorted + " LIMIT " + n + " RETURN collect(x)"),
                One(sorted + " WITH collect(x) AS l RETURN l[.." + n + "]"))
          << order << " " << limit;
    }
  }
}

TEST_F(ClausesTest, PatternWithinExistsOrLogic_IsTheValueOfTheSubquery) {
  EXPECT_EQ(Run("MATCH (p) RETURN [p.n, exists((p)-[:R]->()), NOT (p)-[:R]->(), "
                "(p)-[:S]->() OR (p)<-[:T]-(:A), (p)-->(:B) XOR p.n > 5, NOT exists((p)-[:T]-())]"),
            Run("MATCH (p) RETURN [p.n, EXISTS { (p)-[:R]->() }, NOT EXISTS { (p)-[:R]->() }, "
                "EXISTS { (p)-[:S]->() } OR EXISTS { (p)<-[:T]-(:A) }, "
                "EXISTS { (p)-->(:B) } XOR p.n > 5, NOT EXISTS { (p)-[:T]-() }]"));
  EXPECT_EQ(Run("MATCH (p) WITH p, exists((p)-[:R]->()) AS e WHERE e RETURN p.n"),
            Run("MATCH (p) WHERE (p)-[:R]->() RETURN p.n"));
  EXPECT_EQ(One("MATCH (a {n: 0}), (b {n: 1}) "
                "RETURN exists(shortestPath((a)-[:Never*]->(b)))"),
            "false");
  EXPECT_EQ(One("MATCH (p {n: 3}) RETURN [exists(p.n), exists(p.never)]"), "[true, false]");
  EXPECT_NE(Fails("MATCH (p) RETURN exists(NOT (p)-->())").find("EXISTS { }"), std::string::npos);
  EXPECT_NE(Fails("MATCH (p) RETURN exists((p)-->() AND p.n > 1)").find("EXISTS { }"),
            std::string::npos);
}

TEST_F(ClausesTest, OptionalMatch_KeepsTheOrderOfItsRows) {
  for (const int rows : {1, 30, 255, 256, 257, 1000}) {
    for (const char* pattern :
         {"(a {n: x % 24})", "(a {n: x % 24})-[r]->(b)", "(a {n: x % 24})-[*1..2]->(b:A)",
          "(a) WHERE a.n = x % 24 AND a.n % 5 > 0", "(a {n: x % 12})-[r:R]->(b)-[s]->(c)",
          "(a {n: 300 - x})", "(a:Never)"}) {
      const std::string all = "range(1, " + std::to_string(rows) + ")";
      const std::string query =
          "UNWIND " + all + " AS x WITH x ORDER BY x OPTIONAL MATCH " + pattern;
      EXPECT_EQ(One(query + " RETURN collect(DISTINCT x) = " + all), "true") << query;
      EXPECT_EQ(One(query + " OPTIONAL MATCH (a)-->(d) RETURN collect(DISTINCT x) = " + all),
                "true")
          << query;
    }
  }
  EXPECT_EQ(One("MATCH (y) WITH y ORDER BY y.n OPTIONAL MATCH (y)-[:R]->(z) "
                "RETURN collect(DISTINCT y.n) = range(0, 11)"),
            "true");
}

TEST_F(ClausesTest, OrderByAnAggregateBesideAKeyWithAnAlias_IsTheColumn) {
  const std::string rows =
      "UNWIND [{base: 1, f: 1}, {base: 3, f: 1}, {base: 1, f: 2}] AS p "
      "WITH p.base AS base, p.base + count(p.f) AS total ";
  EXPECT_EQ(One(rows + "ORDER BY p.base + count(p.f) DESC RETURN collect(total)"), "[4, 3]");
  EXPECT_EQ(One(rows + "ORDER BY 0 - (p.base + count(p.f)) RETURN collect(total)"), "[4, 3]");
  EXPECT_EQ(One(rows + "WHERE p.base + count(p.f) > 3 RETURN collect(total)"), "[4]");
  // What an aggregate is of has the names of before, not those of columns.
  for (const char* query :
       {"UNWIND [1, 2] AS a WITH a AS b, 3 - a AS a WITH b AS a, sum(a) AS s ORDER BY sum(b) "
        "RETURN a",
        "UNWIND [1, 2] AS a WITH a AS x, sum(x) AS s WHERE sum(a) > 1 RETURN x"}) {
    EXPECT_FALSE(Fails(query).empty()) << query;
  }
}

TEST_F(ClausesTest, NullNode_MatchedAlone_IsNone) {
  EXPECT_EQ(One("OPTIONAL MATCH (n:Never) MATCH (n) RETURN count(*)"), "0");
  EXPECT_EQ(One("OPTIONAL MATCH (n:Never) MATCH (n), (m) RETURN count(*)"), "0");
  EXPECT_EQ(One("OPTIONAL MATCH (n:Never) MATCH p = (n) RETURN count(*)"), "0");
  EXPECT_EQ(One("OPTIONAL MATCH (n:Never) RETURN EXISTS { (n) }"), "false");
  EXPECT_EQ(One("OPTIONAL MATCH (n:Never) RETURN COUNT { MATCH (n) }"), "0");
  EXPECT_EQ(One("OPTIONAL MATCH (n:Never) OPTIONAL MATCH (n) RETURN n IS NULL"), "true");
  EXPECT_EQ(One("MATCH (n {n: 1}) MATCH (n) RETURN n.n"), "1");
}

TEST_F(ClausesTest, OrderSkipAndLimit_AsClauses_AreThoseOfWith) {
  const std::string end = " RETURN toString(a.n) + ' ' + toString(b.n)";
  for (const std::string tail : {"ORDER BY a.n, b.n LIMIT 5", "ORDER BY a.n DESC, b.n SKIP 2",
                                 "ORDER BY b.n, a.n OFFSET 1 LIMIT 3"}) {
    EXPECT_EQ(Run("MATCH (a)-[r]->(b) " + tail + end),
              Run("MATCH (a)-[r]->(b) WITH * " + tail + end))
        << tail;
  }
  EXPECT_EQ(One("MATCH (a) LIMIT 3 RETURN count(*)"), "3");
  EXPECT_EQ(One("UNWIND [3, 1, 2] AS x WITH x WHERE x > 1 ORDER BY x RETURN collect(x)"), "[2, 3]");
  EXPECT_NE(Fails("MATCH (a) ORDER BY a.n"), "");
  EXPECT_NE(Fails("MATCH (a) RETURN a LIMIT 1 SKIP 1"), "");
}

TEST_F(ClausesTest, FilterAndLet_AreThoseOfWith) {
  EXPECT_EQ(One("UNWIND range(1, 9) AS x FILTER x % 2 = 0 FILTER WHERE x > 2 RETURN collect(x)"),
            "[4, 6, 8]");
  EXPECT_EQ(One("UNWIND [1, 2] AS x LET y = x * 2, z = -x RETURN collect([x, y, z])"),
            "[[1, 2, -1], [2, 4, -2]]");
  EXPECT_NE(Fails("UNWIND [1] AS x LET x = 2 RETURN x"), "");
  // Only a WITH that begins a CALL { … } brings in what is outside.
  EXPECT_NE(Fails("UNWIND [1] AS x CALL { LET y = x RETURN y } RETURN y"), "");
  EXPECT_EQ(One("UNWIND [1] AS x CALL (x) { LET y = x + 1 RETURN y } RETURN y"), "2");
  EXPECT_EQ(One("UNWIND [1] AS x RETURN COUNT { LET y = x FILTER y > 0 RETURN y }"), "1");
}

TEST_F(ClausesTest, Backslash_OfNoEscape_IsPartOfTheText) {
  EXPECT_EQ(One("RETURN [size('\\d'), '123' =~ '\\d+', 'a@x.com' =~ '.*@x\\.com']"),
            "[2, true, true]");
  EXPECT_EQ(One("RETURN size('\\\xc3\xa9')"), "2");
  EXPECT_NE(Fails("RETURN 'a\\"), "");
  EXPECT_NE(Fails("RETURN 'a\\'"), "");
}

TEST_F(ClausesTest, Trim_WithoutASide_IsOfBoth) {
  EXPECT_EQ(One("RETURN trim('x' FROM 'xxaxbx') + '|' + trim(FROM ' a ')"), "'axb|a'");
  EXPECT_EQ(One("WITH ' b ' AS from RETURN trim(from)"), "'b'");
  EXPECT_EQ(One("WITH {x: ' b '} AS from RETURN trim(from.x) + trim(from['x'])"), "'bb'");
  EXPECT_EQ(One("WITH {from: ' b'} AS a, 'c ' AS from RETURN trim(a.from + from + ' ')"), "'bc'");
  EXPECT_EQ(One("WITH 'b ' AS from RETURN trim(CASE WHEN from IS NULL THEN 'x' ELSE from END)"),
            "'b'");
}

}  // namespace
}  // namespace pulse::cypher
