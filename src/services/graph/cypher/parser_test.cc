#include "services/graph/syntax/parser.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing.h"
#include "services/graph/cypher/plan.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

std::string MessageOf(std::string_view query) {
  const auto plan = MakePlan(query, MemoryGraph(), nullptr);
  return plan.ok() ? "" : std::string(plan.status().message());
}
std::string DetailOf(std::string_view query) {
  const auto plan = MakePlan(query, MemoryGraph(), nullptr);
  return plan.ok() ? "" : InfoOf(plan.status()).detail;
}

TEST(Parser, Error_SecondLine_HasLineColumnAndCaret) {
  EXPECT_EQ(MessageOf("MATCH (n)\nRETURN n.x +"),
            "expected an expression, found the end of the query (line 2, column 13)\n"
            "\"RETURN n.x +\"\n"
            "             ^");
  EXPECT_EQ(MessageOf("RETURN 'äöü' + missing"),
            "`missing` is not defined (line 1, column 16)\n"
            "\"RETURN 'äöü' + missing\"\n"
            "                ^");
}

TEST(Parser, Error_InSubquery_PointsAtIt) {
  EXPECT_EQ(MessageOf("MATCH (p) RETURN COLLECT { MATCH (p)-->(q) } AS c"),
            "COLLECT needs a query that returns one column (line 1, column 28)\n"
            "\"MATCH (p) RETURN COLLECT { MATCH (p)-->(q) } AS c\"\n"
            "                            ^");
  EXPECT_EQ(MessageOf("WITH 1 AS x CALL (y) { RETURN 1 AS z } RETURN z"),
            "`y` is not defined (line 1, column 19)\n"
            "\"WITH 1 AS x CALL (y) { RETURN 1 AS z } RETURN z\"\n"
            "                   ^");
  EXPECT_EQ(DetailOf("CALL (1) { RETURN 1 AS z } RETURN z"), "UnexpectedSyntax");
  EXPECT_EQ(DetailOf("WITH 1 AS x CALL (x) RETURN x"), "UnexpectedSyntax");
  EXPECT_EQ(DetailOf("RETURN COUNT { MATCH (n) RETURN n MATCH (m) } AS c"),
            "InvalidClauseComposition");
  EXPECT_EQ(DetailOf("RETURN COUNT { MATCH } AS c"), "UndefinedVariable");  // a map projection
  EXPECT_EQ(DetailOf("RETURN COLLECT { (n) } AS c"), "UnexpectedSyntax");
  EXPECT_EQ(DetailOf("RETURN COLLECT { RETURN * } AS c"), "NoVariablesInScope");
  std::string deep = "1";
  for (int i = 0; i < 200; ++i) deep = "COUNT { UNWIND [" + deep + "] AS x RETURN x }";
  EXPECT_EQ(DetailOf("RETURN " + deep), "UnexpectedSyntax");
}

TEST(Parser, Error_LongLine_ShowsTheSurroundings) {
  const std::string message =
      MessageOf("RETURN " + std::string(500, ' ') + "missing" + std::string(500, ' '));
  EXPECT_NE(message.find("column 508"), std::string::npos);
  EXPECT_LT(message.size(), 300u);
}

TEST(Parser, Literals_OutOfRange_NameTheMistake) {
  EXPECT_EQ(DetailOf("RETURN 9223372036854775808"), "IntegerOverflow");
  EXPECT_EQ(DetailOf("RETURN -9223372036854775808"), "");
  EXPECT_EQ(DetailOf("RETURN 0x1g"), "InvalidNumberLiteral");
  EXPECT_EQ(DetailOf("RETURN 1e999"), "FloatingPointOverflow");
  EXPECT_EQ(DetailOf("RETURN '\\u12'"), "InvalidUnicodeLiteral");
  EXPECT_EQ(DetailOf("RETURN 'open"), "UnexpectedSyntax");
  EXPECT_EQ(DetailOf("RETURN /* open"), "UnexpectedSyntax");
  EXPECT_EQ(DetailOf(std::string("RETURN '\xff\xfe'")), "InvalidUnicodeCharacter");
  EXPECT_EQ(DetailOf(std::string("RETURN 1\0", 9)), "UnexpectedSyntax");
}

TEST(Parser, Nesting_TooDeep_IsAnErrorAndNoOverflow) {
  const auto repeat = [](std::string_view text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  };
  EXPECT_EQ(DetailOf("RETURN " + repeat("(", 50) + "1" + repeat(")", 50)), "");
  for (const int n : {200, 100000}) {
    EXPECT_EQ(DetailOf("RETURN " + repeat("(", n) + "1" + repeat(")", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN " + repeat("[", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN " + repeat("{a:", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN " + repeat("NOT ", n * 3) + "true"), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN " + repeat("-", n * 3) + "1"), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN 1" + repeat("+1", n * 3)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN x" + repeat(".x", n * 3)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN " + repeat("CASE WHEN ", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("RETURN " + repeat("[({a:", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf(repeat("CALL {", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf(repeat("FOREACH (x IN [] | ", n)), "UnexpectedSyntax");
    EXPECT_EQ(DetailOf("MATCH (n) WHERE " + repeat("EXISTS { MATCH (m) WHERE ", n)),
              "UnexpectedSyntax");
  }
  EXPECT_EQ(DetailOf("RETURN 1 " + repeat("UNION RETURN 1 ", 3000)), "");
  EXPECT_EQ(DetailOf(repeat("CREATE () ", 100000)), "UnexpectedSyntax");
}

TEST(Parser, WordsOfClausesAndOperators_AreNamesWhereOneMustStand) {
  for (const char* query :
       {"MATCH (p) RETURN count(p) > 0 AS exists", "WITH {limit: 1} AS n RETURN n.limit AS limit",
        "RETURN 1 AS skip, 2 AS set, 3 AS contains, 4 AS null, 5 AS case",
        "MATCH (match:Match) RETURN match",
        "MATCH match = (set:A {x: 1})-[in:R*2]->(where)-[with {y: 1}]->(is:B WHERE is.z) "
        "RETURN match, set, in, where, with, is",
        "WITH 1 AS limit, 2 AS skip RETURN limit + skip AS as ORDER BY limit SKIP 0 LIMIT 3",
        "WITH 1 AS limit WITH limit LIMIT 1 RETURN limit",
        "UNWIND [1] AS unwind UNWIND [unwind] AS in RETURN [in IN [in] WHERE in > 0 | in + unwind]",
        "CALL { RETURN 1 AS return } RETURN return", "LOAD CSV FROM 'x' AS create RETURN create[0]",
        "MATCH (set) SET set.x = 1", "MATCH (a) WITH a AS delete DELETE delete",
        "MERGE (set:A) ON CREATE SET set.x = 1",
        "WITH true AS exists RETURN exists, NOT exists, exists AND true OR exists IS NULL",
        "MATCH (exists:A) WHERE exists(exists.x) RETURN exists", "RETURN 1 AS x LIMIT 3",
        "WITH 1 AS a WITH a SKIP 1 LIMIT 2 RETURN a", "MATCH (n) SET n.x = 1",
        "MATCH (WHERE 1 = 1)-[WHERE 1 = 1]->(IS A)-[IS R]->() RETURN 1 AS x"}) {
    EXPECT_EQ(DetailOf(query), "") << query << ": " << MessageOf(query);
  }
  EXPECT_EQ(DetailOf("RETURN limit"), "UndefinedVariable");
  for (const char* query : {"RETURN LIMIT 3", "WITH 1 AS a WITH a WHERE RETURN a",
                            "MATCH (null) RETURN 1 AS x", "RETURN [null IN [1] | 2]",
                            "UNWIND [1] AS", "RETURN 1 AS ``", "WITH 1 AS not RETURN not"}) {
    EXPECT_EQ(DetailOf(query), "UnexpectedSyntax") << query;
  }
}

TEST(Parser, Pattern_IsAValueWithinExistsAndLogicAlone) {
  EXPECT_EQ(DetailOf("MATCH (p) SET p.busy = exists((p)-->())"), "");
  EXPECT_EQ(DetailOf("MATCH (p) SET p.free = NOT (p)-->()"), "");
  EXPECT_EQ(DetailOf("MATCH (p) RETURN DISTINCT exists((p)-->()) ORDER BY exists((p)-->())"), "");
  for (const char* query :
       {"MATCH (p) RETURN (p)-->()", "MATCH (p) SET p.busy = (p)-->()",
        "MATCH (p) RETURN [(p)-->()]", "MATCH (p) RETURN (p)-->() = true AS same"}) {
    EXPECT_EQ(DetailOf(query), "UnexpectedSyntax") << query;
  }
}

TEST(Parser, Repetition_BehindDashesAlone_IsOfAPattern) {
  for (const char* query :
       {"MATCH (a) RETURN [(a)<--{1,2}(b) | b.i]", "MATCH (a) WHERE (a)--{2}(:Q) RETURN a",
        "MATCH (a) WHERE (a)<--*(:Q) RETURN a", "MATCH (a) WHERE (a)<-[]-+(:Q) RETURN a",
        "WITH 1 AS a, 2 AS b RETURN (a)--+(b)"}) {
    EXPECT_EQ(DetailOf(query), "") << query;
  }
}

// Looking ahead must not read the same brackets again and again.
TEST(Parser, PatternsInsidePatterns_ManyLevels_TakeLinearTime) {
  std::string query = "MATCH (a) RETURN ";
  for (int i = 0; i < 40; ++i) query += "[(a {x: ";
  query += "1";
  for (int i = 0; i < 40; ++i) query += "})-->() | 1]";
  EXPECT_EQ(DetailOf(query), "");
}

// Every beginning of queries, and queries with a byte changed: an error has a place, nothing
// crashes.
TEST(Parser, DamagedQueries_EveryCutAndRandomBytes_EndInAnError) {
  static constexpr std::string_view kQueries[] = {
      "MATCH (a:A|(!B&%) {x: 1})-[r:!T|U]->{1,3}(b IS C)-->+() WHERE a:A|B&!C OR [x IN [a] WHERE "
      "(x:%) | x:A|B] = [true] RETURN a",
      "MATCH p = (a:A {x: 1})-[r:T|:U*1..3 {y: $z}]->(b)<--(c) WHERE a.x > 1 AND NOT (a)-->(:B) "
      "RETURN DISTINCT a, "
      "count(*) AS n ORDER BY n DESC SKIP 1 LIMIT 2",
      "MERGE (a:A {x: 1}) ON CREATE SET a.y = 2, a += {z: 3} ON MATCH SET a:B:C REMOVE a.x, a:B "
      "DETACH DELETE a",
      "UNWIND [x IN range(1, 10) WHERE x % 2 = 0 | x ^ 2] AS y WITH y, [(n)-[r]->(m) WHERE r.x | "
      "m.y][..2] AS l RETURN "
      "CASE y WHEN 1 THEN 'a\\u0041' ELSE l[0] END, all(z IN l WHERE z.q =~ '.*'), reduce(s = 0, z "
      "IN l | s + z)",
      "OPTIONAL MATCH (n) WHERE EXISTS { (n)-->(m) WHERE m.`a b` IS NOT NULL } CALL { RETURN 1 AS "
      "one UNION ALL RETURN 2 "
      "AS one } FOREACH (i IN [1] | CREATE (:X {i: i})) RETURN n{.*, one, q: 0x1F}, "
      "shortestPath((n)-[*]-(n))"};
  std::mt19937_64 random(testing_util::TestSeed());
  for (const std::string_view query : kQueries) {
    for (size_t cut = 0; cut < query.size(); ++cut) {
      const auto parsed = Parse(query.substr(0, cut));
      if (!parsed.ok()) {
        EXPECT_NE(parsed.status().message().find("(line 1, column "), std::string::npos);
      }
      MessageOf(query.substr(0, cut));
    }
    for (int i = 0; i < 2000; ++i) {
      std::string damaged(query);
      damaged[random() % damaged.size()] =
          static_cast<char>(random() % 3 == 0 ? random() : "()[]{}-<>|.:,'$&!%+"[random() % 19]);
      MessageOf(damaged);
    }
  }
}

}  // namespace
}  // namespace pulse::cypher
