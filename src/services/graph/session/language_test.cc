// What Neo4j's users write beside openCypher, and what of it comes out.
#include <gtest/gtest.h>

#include "base/testing.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/test_service.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

using testing_util::Text;

class LanguageTest : public ServiceTest {};

TEST_F(LanguageTest, PropertyByName_IsSetAndRemoved) {
  const ValueMap key = {{"k", Value::String("age")}, {"other", Value::String("town")}};
  ASSERT_TRUE(Run("CREATE (:P {name: 'Ann'})-[:T]->(:P {name: 'Bob', age: 3})").ok());
  ASSERT_TRUE(Run("MATCH (p:P) SET p[$k] = size(p.name), p[$other] = 'Rome'", key).ok());
  EXPECT_EQ(outcome_.counters.properties_set, 4u);
  EXPECT_EQ(Rows("MATCH (p:P) RETURN p ORDER BY p.name"),
            (Strings{"(:P {age: 3, name: 'Ann', town: 'Rome'})",
                     "(:P {age: 3, name: 'Bob', town: 'Rome'})"}));
  ASSERT_TRUE(Run("MATCH (p:P {name: 'Ann'})-[t]->() SET t['a' + 'b'] = 1 REMOVE p[$k]", key).ok());
  EXPECT_EQ(Rows("MATCH (p)-[t]->() RETURN p.age, t.ab"), Strings{"null, 1"});
  ASSERT_TRUE(Run("OPTIONAL MATCH (p:None) SET p[$k] = 1", key).ok());
  for (const char* wrong :
       {"MATCH (p:P) SET p[1] = 2", "MATCH (p:P) SET p[null] = 2", "MATCH (p:P) REMOVE p[[]]"}) {
    EXPECT_NE(Text(Run(wrong)).find("the name of a property is a STRING"), std::string::npos)
        << wrong;
  }
  EXPECT_FALSE(Run("MATCH (p:P) SET p[$k] += 1", key).ok());
}

TEST_F(LanguageTest, DateTimeOfTheEpoch_HasItsZone) {
  EXPECT_EQ(Rows("RETURN toString(datetime({epochSeconds: 0})), "
                 "toString(datetime({epochMillis: 86400123, nanosecond: 4})), "
                 "toString(datetime({epochMillis: -1})), "
                 "toString(datetime({epochSeconds: 1711846800, timezone: 'Europe/Berlin'}))"),
            Strings{"'1970-01-01T00:00:00Z', '1970-01-02T00:00:00.123000004Z', "
                    "'1969-12-31T23:59:59.999Z', '2024-03-31T03:00:00+02:00[Europe/Berlin]'"});
  EXPECT_EQ(Rows("WITH datetime({epochMillis: 1234567890123}) AS d RETURN d.epochMillis, "
                 "d.epochSeconds, datetime({epochMillis: d.epochMillis}) = d"),
            Strings{"1234567890123, 1234567890, true"});
  for (const char* wrong :
       {"epochSeconds: 0, year: 2000", "epochSeconds: 0, epochMillis: 0", "epochSeconds: 'x'",
        "epochMillis: 1, nanosecond: 1000000", "epochSeconds: 9223372036854775807"}) {
    EXPECT_FALSE(Run(Concat("RETURN datetime({", wrong, "})")).ok()) << wrong;
  }
}

TEST_F(LanguageTest, FunctionsOfCypher5_GiveWhatNeo4jGives) {
  EXPECT_EQ(Rows("RETURN nullIf(1, 1.0), nullIf(1, 2), nullIf(null, 1), nullIf('a', null)"),
            Strings{"null, 1, null, 'a'"});
  EXPECT_EQ(
      Rows("RETURN toIntegerList(['1', 2.7, 'x', null, true]), toFloatList([1, '2.5']), "
           "toBooleanList(['true', 0, 'no']), toStringList([1, 2.5, date('2024-01-02'), [1]]), "
           "toIntegerList(null)"),
      Strings{"[1, 2, null, null, 1], [1.0, 2.5], [true, false, null], ['1', '2.5', "
              "'2024-01-02', null], null"});
  EXPECT_EQ(Rows("RETURN btrim('xxaxbxx', 'x'), ltrim('xyz', 'yx'), rtrim('a  ', ' '), "
                 "btrim(' a '), trim('\t a b \n'), ltrim('ééa', 'é'), rtrim('aéé', 'éa'), "
                 "btrim('aaa', 'a'), btrim('a', ''), btrim(null, 'x'), btrim('x', null)"),
            Strings{"'axb', 'z', 'a', 'a', 'a b', 'a', '', '', 'a', null, null"});
}

TEST_F(LanguageTest, Use_NamesTheOneDatabase) {
  EXPECT_EQ(Rows("USE neo4j RETURN 1"), Strings{"1"});
  EXPECT_EQ(Rows("use `neo4j` MATCH (n) RETURN count(n)"), Strings{"0"});
  const absl::Status other = Run("USE movies MATCH (n) RETURN n");
  EXPECT_NE(Text(other).find("there is one database here, neo4j"), std::string::npos) << other;
}

TEST_F(LanguageTest, Case_ValuesAndPredicatesOfItsSubject_AreTaken) {
  const std::pair<const char*, const char*> cases[] = {
      {"CASE 5 WHEN 1, 2 THEN 'a' WHEN 4, 5 THEN 'b' END", "'b'"},
      {"CASE 5 WHEN 1, > 4 THEN 'a' ELSE 'b' END", "'a'"},
      {"CASE 5 WHEN <> 5 THEN 'a' WHEN <= 5 THEN 'b' END", "'b'"},
      {"CASE null WHEN null THEN 'a' WHEN IS NULL THEN 'b' END", "'b'"},
      {"CASE null WHEN > 1, 7 THEN 'a' WHEN IS NOT NULL THEN 'b' ELSE 'c' END", "'c'"},
      {"CASE 'abc' WHEN STARTS WITH 'b' THEN 1 WHEN =~ '.*c' THEN 2 END", "2"},
      {"CASE 'abc' WHEN IS :: INTEGER THEN 1 WHEN CONTAINS 'b' THEN 2 END", "2"},
      {"CASE 3 WHEN IN [1, 2] THEN 1 WHEN 1 + 2 THEN 2 END", "2"},
      {"CASE 3 WHEN CASE 9 WHEN > 8 THEN 3 END THEN 'x' WHEN > 0 THEN 'y' END", "'x'"},
      {"[i IN [1, 2] | CASE i WHEN > 1 THEN CASE i + 1 WHEN >= 3 THEN 'z' END END]", "[null, 'z']"},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_EQ(Rows(Concat("RETURN ", text)), Strings{wanted}) << text;
  }
  EXPECT_EQ(Rows("UNWIND [1, 2, 2] AS x RETURN CASE count(x) WHEN > 2 THEN 'many' END"),
            Strings{"'many'"});
  EXPECT_EQ(Rows("UNWIND [1, 2, 3] AS x RETURN CASE x WHEN > 1 THEN 'b' ELSE 'a' END AS c, "
                 "count(*) AS n ORDER BY CASE x WHEN > 1 THEN 'b' ELSE 'a' END DESC"),
            (Strings{"'b', 2", "'a', 1"}));
  ASSERT_TRUE(Run("UNWIND range(1, 9) AS i CREATE (:P {i: i})").ok());
  EXPECT_EQ(Rows("MATCH (p:P) WHERE CASE p.i WHEN > 7 THEN true ELSE false END RETURN p.i"),
            (Strings{"8", "9"}));
  EXPECT_FALSE(Run("RETURN CASE 1 WHEN 1, THEN 2 END").ok());
  EXPECT_EQ(Rows("RETURN CASE 'x' WHEN :: STRING THEN 1 END"), Strings{"1"});
  EXPECT_EQ(Rows("RETURN CASE 1 WHEN IN COLLECT { UNWIND [1] AS m RETURN * } THEN 1 END"),
            Strings{"1"});
  EXPECT_EQ(Rows("UNWIND [1, 2, 3] AS x RETURN x SKIP CASE 1 WHEN > 0 THEN 2 END"), Strings{"3"});
  std::string many = "RETURN CASE 1 WHEN 2";
  for (int i = 0; i < 3000; ++i) many += ", 3";
  EXPECT_EQ(Rows(many + ", 1 THEN 'found' END"), Strings{"'found'"});
}

TEST_F(LanguageTest, OptionalCall_WithoutARow_GivesNulls) {
  EXPECT_EQ(Rows("UNWIND [1, 2] AS a OPTIONAL CALL (a) { WITH a WHERE a = 2 RETURN a + 1 AS b } "
                 "RETURN a, b ORDER BY a"),
            (Strings{"1, null", "2, 3"}));
  EXPECT_EQ(Rows("UNWIND [0, 2] AS a OPTIONAL CALL (a) { UNWIND range(1, a) AS b RETURN b, b * b "
                 "AS c UNION WITH a WHERE a > 1 RETURN 8 AS c, 7 AS b } RETURN a, b, c "
                 "ORDER BY a, b"),
            (Strings{"0, null, null", "2, 1, 1", "2, 2, 4", "2, 7, 8"}));
  EXPECT_EQ(Rows("OPTIONAL CALL db.labels() YIELD label AS l RETURN l, 1"), Strings{"null, 1"});
  // One that writes does so for each row, and one without RETURN leaves the rows as they are.
  EXPECT_EQ(Rows("UNWIND [1, 2, 3] AS a OPTIONAL CALL (a) { WITH a WHERE a > 1 CREATE (p:P {a: a}) "
                 "RETURN p } RETURN a, p.a ORDER BY a"),
            (Strings{"1, null", "2, 2", "3, 3"}));
  EXPECT_EQ(Rows("MATCH (p:P) OPTIONAL CALL (p) { SET p.b = p.a } RETURN p.b ORDER BY p.b"),
            (Strings{"2", "3"}));
  EXPECT_EQ(Rows("OPTIONAL CALL db.labels() YIELD label AS l WHERE l = 'Q' RETURN l"),
            Strings{"null"});
  EXPECT_FALSE(Run("OPTIONAL CALL { UNWIND [1] AS x RETURN x } IN TRANSACTIONS RETURN x").ok());
  // The rows stay in their order.
  EXPECT_EQ(Rows("UNWIND [3, 2, 1] AS i WITH i ORDER BY i OPTIONAL CALL (i) { WITH i WHERE i <> 2 "
                 "RETURN 1 AS one } RETURN i, one LIMIT 2"),
            (Strings{"1, 1", "2, null"}));
}

TEST_F(LanguageTest, Union_ColumnsInAnotherOrder_AreTakenByTheirNames) {
  EXPECT_EQ(Rows("RETURN 1 AS a, 2 AS b UNION ALL RETURN 4 AS b, 3 AS a"),
            (Strings{"1, 2", "3, 4"}));
  EXPECT_EQ(Rows("RETURN 1 AS a, 2 AS b UNION RETURN 2 AS b, 1 AS a"), Strings{"1, 2"});
  EXPECT_FALSE(Run("RETURN 1 AS a, 2 AS b UNION RETURN 2 AS b, 1 AS c").ok());
  const absl::Status unnamed = Run("CALL { RETURN 1 } RETURN 2");
  EXPECT_NE(Text(unnamed).find("needs a name: AS name"), std::string::npos) << unnamed;
}

TEST_F(LanguageTest, DynamicLabels_AreSetMadeAndLookedFor) {
  const ValueMap names = {{"none", Value::List({})},
                          {"one", Value::String("B")},
                          {"two", Value::List({Value::String("C"), Value::String("D d")})},
                          {"type", Value::String("T")},
                          {"types", Value::List({Value::String("T"), Value::String("U")})}};
  const auto rows = [&](std::string_view query) { return Rows(query, names); };
  ASSERT_TRUE(Run("CREATE (a:A:$($one) {i: 1})-[:$($type) {w: 1}]->(b:$($two)&A {i: 2}), "
                  "(c:$($none) {i: 3})-[:U]->(a)",
                  names)
                  .ok());
  EXPECT_EQ(outcome_.counters.labels_added, 5u);
  EXPECT_EQ(rows("MATCH (n) RETURN n.i, labels(n) ORDER BY n.i"),
            (Strings{"1, ['A', 'B']", "2, ['A', 'C', 'D d']", "3, []"}));
  EXPECT_EQ(rows("MATCH (n:$($one)) RETURN n.i"), Strings{"1"});
  EXPECT_EQ(rows("MATCH (n:A:$all($two)) RETURN n.i"), Strings{"2"});
  EXPECT_EQ(rows("MATCH (n:$any(['B', 'C'])) RETURN n.i ORDER BY n.i"), (Strings{"1", "2"}));
  EXPECT_EQ(rows("MATCH (n:$($none)) RETURN count(n)"), Strings{"3"});
  EXPECT_EQ(rows("MATCH (n:$any($none)) RETURN count(n)"), Strings{"0"});
  EXPECT_EQ(rows("MATCH (n) WHERE n:A:$($one) OR NOT n:$('A') RETURN n.i ORDER BY n.i"),
            (Strings{"1", "3"}));
  EXPECT_EQ(rows("UNWIND ['A', 'B', 'X'] AS l MATCH (n:$(l)) RETURN l, count(n) ORDER BY l"),
            (Strings{"'A', 2", "'B', 1"}));
  EXPECT_EQ(rows("MATCH (m)-[r:$($type)]->() RETURN type(r), m.i"), Strings{"'T', 1"});
  EXPECT_EQ(rows("MATCH (m)-[:$any($types)]->() RETURN m.i ORDER BY m.i"), (Strings{"1", "3"}));
  EXPECT_EQ(rows("MATCH (m)-[:$($types)]->() RETURN count(*)"), Strings{"0"});
  EXPECT_EQ(rows("MATCH (m)-[:$any($types)*2]->(n) RETURN m.i, n.i"), Strings{"3, 2"});
  EXPECT_EQ(rows("MATCH (x) WHERE EXISTS { (x:$($one))-[:$($type)]->() } RETURN x.i"),
            Strings{"1"});
  // It is found the second time, and made but once.
  for (const char* count : {"1", "1"}) {
    EXPECT_EQ(rows("UNWIND ['M', 'N', 'M'] AS l MERGE (n:$(l) {k: 7})-[r:$(l + 'r')]->(:E) "
                   "RETURN count(DISTINCT n), count(DISTINCT type(r))"),
              Strings{"2, 2"})
        << count;
  }
  EXPECT_EQ(rows("MATCH (n:M)-[r:Mr]->(:E) RETURN count(*)"), Strings{"1"});
  ASSERT_TRUE(
      Run("MATCH (n {i: 3}) SET n:X:$($two), n.z = 1 REMOVE n:$('X'):$('unknown')", names).ok());
  EXPECT_EQ(rows("MATCH (n {i: 3}) RETURN labels(n), n.z"), Strings{"['C', 'D d'], 1"});
  ASSERT_TRUE(Run("MERGE (n:Q) ON CREATE SET n:$($one) ON MATCH SET n:Z", names).ok());
  EXPECT_EQ(rows("MATCH (n:Q) RETURN labels(n)"), Strings{"['Q', 'B']"});
  for (const char* wrong : {"CREATE (:$(1))",
                            "CREATE (:$(null))",
                            "CREATE (:$(''))",
                            "CREATE ()-[:$($types)]->()",
                            "CREATE ()-[:$($none)]->()",
                            "CREATE (:$any($two))",
                            "CREATE ()-[:A:$('b')]->()",
                            "MATCH (n:A|$('b')) RETURN n",
                            "MATCH (n:!$('b')) RETURN n",
                            "MATCH (n:$) RETURN n",
                            "MATCH (n:$('b') RETURN n",
                            "MATCH (n:$([1])) RETURN n",
                            "MATCH ()-[r:A|$('b')]->() RETURN r",
                            "MERGE (n:A {i: 1})-[:$(n.x)]->()",
                            "MATCH (n) SET n:$any('b')",
                            "MATCH (n) SET n:$([[]])",
                            "MATCH (n:$(m.x)) RETURN n",
                            "RETURN $()",
                            "RETURN $(1)",
                            "MATCH (a:A), (b:B) MERGE (a)-[r:$($none)]->(b)",
                            "MATCH (a:A), (b) MERGE (a)-[r:$($types)]->(b)",
                            "MATCH (n) RETURN `HAS LABELS`(n, 'A', true)"}) {
    EXPECT_FALSE(Run(wrong, names).ok()) << wrong;
  }
}

TEST_F(LanguageTest, WordsOfClauses_AreVariables) {
  EXPECT_EQ(Rows("CREATE (start:A {i: 1})-[on:R]->(end:B {i: 2}) RETURN start.i, end.i, type(on)"),
            Strings{"1, 2, 'R'"});
  EXPECT_EQ(Rows("MATCH (start)-->(end) WITH end AS order, CASE WHEN end.i > 1 THEN 'x' END AS by "
                 "RETURN order.i AS desc, by AS asc ORDER BY desc DESC, asc ASC"),
            Strings{"2, 'x'"});
  EXPECT_EQ(Rows("UNWIND [1] AS end RETURN CASE WHEN end = 1 THEN end END"), Strings{"1"});
  EXPECT_FALSE(Run("RETURN CASE WHEN true THEN END").ok());
  EXPECT_EQ(Rows("UNWIND [3, 1] AS call RETURN call ORDER BY call"), (Strings{"1", "3"}));
}

TEST_F(LanguageTest, ManyConditions_InARow_AreNoDeepQuery) {
  ASSERT_TRUE(Run("UNWIND range(1, 20) AS i CREATE (:P {i: i})").ok());
  for (const auto& [word, count] : {std::pair("OR", "20"), std::pair("AND", "0")}) {
    std::string text = "MATCH (p:P) WHERE p.i = 1";
    for (int i = 2; i <= 3000; ++i) text += Concat(" ", word, " p.i = ", i);
    EXPECT_EQ(Rows(text + " RETURN count(*)"), Strings{count}) << word;
  }
  EXPECT_EQ(Rows("RETURN true XOR true XOR true XOR false XOR true, false OR null OR false OR true "
                 "OR 1 / 0 = 1"),
            Strings{"false, true"});
}

TEST_F(LanguageTest, RegularExpressions_AsJavaWritesThem_AreTaken) {
  for (const char* holds :
       {"'INGO' =~ '(?iu).*n.*'", "'Ingo' =~ '(?<a>I)(?u)n(?ui:GO)'", "'a(?<b>c' =~ 'a[(][?]<b>c'",
        "'a&&b' =~ 'a&&b'", "'Ab' =~ '(?u)A(?:b)'", "'[&&' =~ '\\\\Q[\\\\E&&'",
        "'(?<n>' =~ '\\\\Q(?<n>\\\\E'", "'[&&' =~ '[\\\\[]&&'", "']b' =~ '[]a]b'",
        "'\\r' =~ '\\\\v'"}) {
    EXPECT_EQ(Rows(Concat("RETURN ", holds)), Strings{"true"}) << holds;
  }
  // Other patterns to RE2.
  const std::pair<const char*, const char*> refused[] = {{"[a-z&&[^b]]", "&&"},
                                                         {"[[abc]d]", "classes within classes"},
                                                         {"[a[bc]]", "classes within classes"},
                                                         {"[[:alpha:]]", "classes within classes"},
                                                         {"(a)\\\\1", "references to groups"},
                                                         {"(?U)a+", "flag U"},
                                                         {"(?iU:a+)b", "flag U"}};
  for (const auto& [pattern, why] : refused) {
    const absl::Status status = Run(Concat("RETURN 'c' =~ '", pattern, "'"));
    EXPECT_NE(Text(status).find(why), std::string::npos) << pattern << ": " << status;
  }
}

TEST_F(LanguageTest, Show_WhatNeo4jShows_IsThere) {
  ASSERT_TRUE(Run("CREATE INDEX i FOR (n:P) ON (n.a) OPTIONS {indexProvider: 'range-1.0', "
                  "indexConfig: {}}")
                  .ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT c FOR (n:Q) REQUIRE n.a IS UNIQUE OPTIONS {}").ok());
  EXPECT_EQ(Rows("SHOW INDEXES YIELD name, options, lastRead, readCount, failureMessage "
                 "WHERE name = 'i' RETURN name, options.indexProvider, lastRead"),
            Strings{"'i', 'pulse-1.0', null"});
  EXPECT_EQ(Rows("SHOW CONSTRAINTS YIELD name, propertyType, options RETURN name, propertyType"),
            Strings{"'c', null"});
  EXPECT_EQ(Rows("SHOW FUNCTIONS YIELD name, aggregating WHERE name IN ['count', 'left'] "
                 "RETURN name, aggregating ORDER BY name"),
            (Strings{"'count', true", "'left', false"}));
  EXPECT_EQ(Rows("SHOW SETTINGS"), Strings{});
  ASSERT_TRUE(Run("CREATE CONSTRAINT k FOR (n:R) REQUIRE n.a IS NODE KEY").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT e FOR (n:R) REQUIRE n.b IS NOT NULL").ok());
  const std::pair<const char*, Strings> kinds[] = {{"UNIQUE CONSTRAINTS", {"'c'"}},
                                                   {"NODE UNIQUENESS CONSTRAINT", {"'c'"}},
                                                   {"NODE KEY CONSTRAINTS", {"'k'"}},
                                                   {"KEY CONSTRAINTS", {"'k'"}},
                                                   {"EXIST CONSTRAINTS", {"'e'"}},
                                                   {"PROPERTY EXISTENCE CONSTRAINTS", {"'e'"}},
                                                   {"REL PROPERTY EXISTENCE CONSTRAINTS", {}},
                                                   {"PROPERTY TYPE CONSTRAINTS", {}},
                                                   {"ALL CONSTRAINTS", {"'c'", "'k'", "'e'"}},
                                                   {"RANGE INDEXES", {"'i'", "'c'", "'k'"}},
                                                   {"TEXT INDEXES", {}},
                                                   {"USER DEFINED FUNCTIONS", {}}};
  for (const auto& [kind, names] : kinds) {
    EXPECT_EQ(Rows(Concat("SHOW ", kind, " YIELD name")), names) << kind;
  }
  EXPECT_EQ(Rows("SHOW UNIQUE CONSTRAINTS WHERE name <> 'c'"), Strings{});
  EXPECT_EQ(Rows("SHOW BUILT IN FUNCTIONS").size(), Rows("SHOW FUNCTIONS").size());
  for (const char* none : {"SHOW UNIQUE INDEXES", "SHOW NODE CONSTRAINTS", "SHOW TEXT FUNCTIONS",
                           "SHOW PROPERTY KEY CONSTRAINTS"}) {
    EXPECT_FALSE(Run(none).ok()) << none;
  }
  for (const char* one :
       {"SHOW DATABASE neo4j", "SHOW DATABASE Neo4j YIELD name RETURN name", "SHOW HOME DATABASE",
        "SHOW DEFAULT DATABASE", "USE system SHOW DATABASES"}) {
    EXPECT_EQ(Rows(one).size(), 1u) << one;
  }
  EXPECT_EQ(Rows("SHOW DATABASE movies"), Strings{});
  EXPECT_EQ(Rows("SHOW DATABASE system YIELD name RETURN name"), Strings{});
  EXPECT_FALSE(Run("USE system MATCH (n) RETURN n").ok());
  EXPECT_FALSE(Run("USE system CREATE (n)").ok());
  const absl::Status column = Run("SHOW INDEXES YIELD name, foo");
  EXPECT_NE(Text(column).find("there is no column `foo`"), std::string::npos) << column;
  EXPECT_NE(Text(column).find("column 26"), std::string::npos) << column;
  for (const char* waits : {"CALL db.awaitIndexes()", "CALL db.awaitIndexes(10)",
                            "CALL db.awaitIndex('i')", "CALL db.awaitIndex('i', 10)"}) {
    EXPECT_TRUE(Run(waits).ok()) << waits;
  }
}

TEST_F(LanguageTest, InfinityAndNaN_AreNumbersWhereNoVariableIsCalledSo) {
  EXPECT_EQ(Rows("RETURN Infinity, -Inf, NaN, nan = nan, 1 < INFINITY"),
            Strings{"Infinity, -Infinity, NaN, false, true"});
  EXPECT_EQ(Rows("WITH 1 AS inf, 2 AS NaN RETURN inf, NaN"), Strings{"1, 2"});
  EXPECT_EQ(Rows("UNWIND [1, 2] AS x RETURN NaN, count(x)"), Strings{"NaN, 2"});
}

TEST_F(LanguageTest, BytesAndPoints_AreStoredIndexedAndNamed) {
  const ValueMap given = {{"b", Value::MakeBytes(std::string_view("\0\xff", 2))}};
  ASSERT_TRUE(Run("CREATE INDEX FOR (n:P) ON (n.b)").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT FOR (n:P) REQUIRE n.p IS UNIQUE").ok());
  ASSERT_TRUE(Run("CREATE (:P {b: $b, p: point({x: 1, y: 0.0})}), (:P {b: 'AP8='})", given).ok());
  EXPECT_FALSE(Run("CREATE (:P {p: point({x: 1, y: -0.0})})").ok());
  EXPECT_EQ(Rows("MATCH (n:P {p: point({x: 1, y: -0.0})}) RETURN n.b"), Strings{"bytes('AP8=')"});
  ASSERT_TRUE(Run("MATCH (n:P {b: $b}) SET n.found = 1", given).ok());
  EXPECT_EQ(Rows("MATCH (n:P {found: 1}) RETURN n.p"),
            Strings{"point({x: 1.0, y: 0.0, crs: 'cartesian'})"});
  EXPECT_EQ(Rows("CALL db.schema.nodeTypeProperties() YIELD propertyName, propertyTypes "
                 "WHERE propertyName IN ['b', 'p'] RETURN propertyName, propertyTypes "
                 "ORDER BY propertyName"),
            (Strings{"'b', ['ByteArray', 'String']", "'p', ['Point']"}));
}

TEST_F(LanguageTest, NormalForms_AreNamedAsNotSupported) {
  const auto refused = [&](std::string_view text, std::string_view why) {
    const absl::Status status = Run(text);
    EXPECT_NE(Text(status).find(Concat(why, " are not supported")), std::string::npos) << status;
    EXPECT_EQ(FailureOf(status, Doing::kQuery).code,
              "Neo.ClientError.Statement.UnsupportedOperationError");
  };
  refused("RETURN 'e' IS NORMALIZED", "normal forms of texts");
  refused("RETURN 'e' IS NOT NFKD NORMALIZED", "normal forms of texts");
  refused("RETURN normalize('e')", "normal forms of texts");
  EXPECT_EQ(Rows("MATCH (n) WHERE n IS `NORMALIZED` RETURN n"), Strings{});
}

TEST_F(LanguageTest, Failures_OfNumbersAndProcedures_HaveTheirGqlStatus) {
  const auto status_of = [&](std::string_view text) {
    return FailureOf(Run(text), Doing::kQuery).gql_status;
  };
  EXPECT_EQ(status_of("RETURN 1 / 0"), "22012");
  EXPECT_EQ(status_of("UNWIND [0] AS x RETURN 1 % x"), "22012");
  EXPECT_EQ(status_of("UNWIND [9223372036854775807] AS x RETURN x + 1"), "22003");
  EXPECT_EQ(status_of("CALL no.such()"), "42N08");
}

TEST_F(LanguageTest, ShowCurrentUserAndExecutable_AreThere) {
  EXPECT_EQ(Rows("SHOW CURRENT USER"), Strings{"'', null, false, null, null"});
  EXPECT_EQ(Rows("SHOW CURRENT USER YIELD home"), Strings{"null"});
  EXPECT_FALSE(Run("SHOW USERS").ok());
  const std::string all = "SHOW PROCEDURES YIELD name";
  EXPECT_EQ(Rows("SHOW PROCEDURES EXECUTABLE YIELD name"), Rows(all));
  EXPECT_EQ(Rows("SHOW PROCEDURE EXECUTABLE BY CURRENT USER YIELD name"), Rows(all));
}

TEST_F(LanguageTest, SchemaProcedures_NameThePropertiesOfLabelsAndTypes) {
  ASSERT_TRUE(Run("CREATE (:A:B {x: 1, y: 'a'})-[:T {w: [1.5]}]->(:A:B {x: 'b'})-[:U]->(:C), "
                  "({d: date('2024-01-02')})")
                  .ok());
  EXPECT_EQ(
      Rows("CALL db.schema.nodeTypeProperties() YIELD nodeType AS n, nodeLabels AS l, "
           "propertyName AS p, propertyTypes AS t, mandatory AS m "
           "RETURN n, l, p, t, m ORDER BY n, p"),
      (Strings{
          "'', [], 'd', ['Date'], true", "':`A`:`B`', ['A', 'B'], 'x', ['Long', 'String'], true",
          "':`A`:`B`', ['A', 'B'], 'y', ['String'], false", "':`C`', ['C'], null, null, false"}));
  EXPECT_EQ(Rows("CALL db.schema.relTypeProperties()"),
            (Strings{"':`T`', 'w', ['DoubleArray'], true", "':`U`', null, null, false"}));
}

TEST_F(LanguageTest, SetLabel_OfADeletedNode_SaysSo) {
  const absl::Status status = Run("CREATE (n:P) WITH n DELETE n SET n:Q");
  EXPECT_EQ(InfoOf(status).kind, "EntityNotFound") << status;
}

TEST_F(LanguageTest, ImportCarriedAndDroppedByWith_LeavesItsColumnsAlone) {
  ASSERT_TRUE(Run("CREATE (:A {x: 1})-[:R]->(:A {x: 2})").ok());
  for (const char* call : {"CALL (n) { WITH n, 1 AS x WITH count(*) AS g RETURN g }",
                           "CALL (*) { WITH n, 1 AS x WITH sum(x) AS g RETURN g }",
                           "CALL (n) { WITH n WITH DISTINCT 1 AS g RETURN g }",
                           "CALL (n) { WITH n WITH DISTINCT 1 AS g WITH g, n AS m RETURN g }",
                           "CALL (n) { WITH n, 'k' AS c WITH c, count(*) AS g RETURN g }",
                           "CALL (n) { WITH n, 1 AS x WITH count(*) AS s CALL (s) { WITH s, 1 AS y "
                           "WITH count(y) AS g RETURN g } RETURN g }"}) {
    EXPECT_EQ(Rows(Concat("UNWIND [10, 20] AS n ", call, " RETURN n, g")),
              (Strings{"10, 1", "20, 1"}))
        << call;
  }
  EXPECT_EQ(Rows("UNWIND [10, 20] AS n CALL (n) { WITH n, 1 AS x WITH count(*) AS g RETURN g + n "
                 "AS h UNION WITH n, 2 AS x WITH x AS g RETURN g AS h } RETURN n, h"),
            (Strings{"10, 11", "10, 2", "20, 21", "20, 2"}));
  EXPECT_EQ(Rows("MATCH (p:A) CALL (p) { MATCH (p)-[:R]-(q) WITH p, q ORDER BY q.x WITH "
                 "collect(q.x) AS xs RETURN xs } RETURN p.x, xs ORDER BY p.x"),
            (Strings{"1, [2]", "2, [1]"}));
}

TEST_F(LanguageTest, MonthsBetweenDates_AreByTheDayOfTheMonth) {
  const std::pair<const char*, const char*> cases[] = {
      {"duration.between(date('2020-01-31'), date('2020-02-29'))", "'P29D'"},
      {"duration.between(date('2020-02-29'), date('2020-01-31'))", "'P-29D'"},
      {"duration.inMonths(date('2019-12-30'), date('2020-02-29'))", "'P1M'"},
      {"duration.between(date('2019-12-30'), date('2020-02-29'))", "'P1M30D'"},
      {"duration.between(date('2020-02-29'), date('2021-02-28'))", "'P11M30D'"},
      {"duration.between(date('2020-01-15'), date('2020-03-15'))", "'P2M'"},
      {"duration.between(date('2020-03-15'), date('2020-01-15'))", "'P-2M'"},
      {"duration.between(localdatetime('2020-01-31T00:00'), localdatetime('2020-02-29T12:00'))",
       "'P29DT12H'"},
      {"duration.between(localdatetime('2020-01-31T12:00'), localdatetime('2020-03-01T00:00'))",
       "'P29DT12H'"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Rows(Concat("RETURN toString(", text, ")")), Strings{expected}) << text;
  }
  EXPECT_EQ(Rows("RETURN toInteger(-9223372036854775808.0), toInteger(9223372036854775808.0)"),
            Strings{"-9223372036854775808, 9223372036854775807"});
  EXPECT_EQ(Rows("RETURN 1 AS a UNION DISTINCT RETURN 1 AS a"), Strings{"1"});
}

TEST_F(LanguageTest, LabelsByIs_AreSetAndRemoved) {
  ASSERT_TRUE(Run("CREATE (n:N) SET n IS A, n IS $('B') REMOVE n IS N").ok());
  EXPECT_EQ(Rows("MATCH (n) RETURN labels(n)"), Strings{"['A', 'B']"});
  EXPECT_FALSE(Run("MATCH (n) SET n IS NULL").ok());
}

TEST_F(LanguageTest, TemporalMaps_OfComponentsThatDoNotFit_AreRefused) {
  for (const char* text :
       {"date({year: 2020, quarter: 2, day: 5})", "date({year: 2020, week: 3, day: 3})",
        "date({year: 2020, dayOfWeek: 3})", "date({year: 2020, month: 3, week: 2})",
        "date({year: 2020, month: 3, quarter: 4})", "date({year: 2020, week: 3, ordinalDay: 200})",
        "datetime({year: 2020, week: 2, day: 9, hour: 3})", "date({year: 2020, day: 3})",
        "date({year: 2020, dayOfQuarter: 3})", "localtime({hour: 12, second: 5})",
        "localtime({minute: 5})", "localdatetime({year: 2020, month: 2, minute: 5})",
        "date({date: date('2020-01-01'), week: 3, day: 3})"}) {
    EXPECT_FALSE(Run(Concat("RETURN ", text)).ok()) << text;
  }
  EXPECT_EQ(Rows("RETURN toString(date({date: date('2020-05-06'), day: 7})), "
                 "toString(localtime({time: localtime('10:11:12'), second: 5})), "
                 "toString(date({year: 2020, week: 2})), toString(date({year: 2020, quarter: 2}))"),
            Strings{"'2020-05-07', '10:11:05', '2020-01-06', '2020-04-01'"});
}

TEST_F(LanguageTest, DynamicLabel_SeesLabelsBeforeTheItemChangesThem) {
  ASSERT_TRUE(Run("CREATE (:A:B:C), (:N)").ok());
  EXPECT_EQ(Rows("MATCH (n:A) REMOVE n:A:$(head(labels(n))) RETURN labels(n)"),
            Strings{"['B', 'C']"});
  EXPECT_EQ(Rows("MATCH (n:N) SET n:D:$(CASE WHEN n:D THEN 'WasD' ELSE 'NotD' END) RETURN n:NotD, "
                 "n:WasD"),
            Strings{"true, false"});
}

TEST_F(LanguageTest, ImportsOfASubquery_AreSeenByAllOfIt) {
  EXPECT_EQ(Rows("UNWIND [1, 2] AS x CALL (x) { WITH 5 AS z RETURN x + z AS y } RETURN x, y"),
            (Strings{"1, 6", "2, 7"}));
  ASSERT_TRUE(Run("UNWIND range(1, 6) AS i CREATE (:P {i: i, g: i % 2})").ok());
  EXPECT_EQ(Rows("UNWIND [1, 2] AS x CALL (x) { MATCH (p:None) WITH count(p) AS c RETURN x + c AS "
                 "y } RETURN x, y"),
            (Strings{"1, 1", "2, 2"}));
  EXPECT_EQ(
      Rows("UNWIND [3, 5] AS x CALL (x) { MATCH (p:P) WHERE p.i <= x WITH p.g AS g, sum(p.i) AS "
           "s WHERE s > x WITH DISTINCT g, s ORDER BY g LIMIT 1 MATCH (q:P {g: g}) WHERE q.i > x "
           "RETURN g, s, count(q) AS n } RETURN x, g, s, n"),
      (Strings{"3, 1, 4, 1", "5, 0, 6, 1"}));
  EXPECT_EQ(
      Rows("UNWIND [1, 2] AS x CALL (*) { WITH DISTINCT 7 AS z CALL (x, z) { WITH z * 2 AS w "
           "RETURN x + w + z AS y } WITH max(y) AS m RETURN m + x AS r UNION RETURN -x AS r } "
           "RETURN x, r ORDER BY x, r"),
      (Strings{"1, -1", "1, 23", "2, -2", "2, 25"}));
  EXPECT_EQ(Rows("UNWIND [1, 2] AS x CALL (x) { WITH x * 2 AS z RETURN * } RETURN x, z"),
            (Strings{"1, 2", "2, 4"}));
  EXPECT_FALSE(Run("UNWIND [1] AS x CALL { WITH x WITH 5 AS z RETURN x + z AS y } RETURN y").ok());
}

TEST_F(LanguageTest, PathSelectors_OfGql_GiveShortestPaths) {
  ASSERT_TRUE(Run("CREATE (a:N {i: 1})-[:R {w: 9}]->(b:N {i: 2})-[:R {w: 1}]->(c:N {i: 3}), "
                  "(a)-[:R {w: 1}]->(d:N {i: 4})-[:R {w: 1}]->(c), (c)-[:S {w: 1}]->(e:N {i: 5})")
                  .ok());
  const std::string pattern = "(a:N {i: 1})-[:R]->+(c:N {i: 3}) ";
  for (const char* one :
       {"SHORTEST 1", "ANY SHORTEST", "ANY", "SHORTEST 1 PATH", "ANY SHORTEST PATHS"}) {
    EXPECT_EQ(Rows(Concat("MATCH p = ", one, " ", pattern, "RETURN length(p)")), Strings{"2"})
        << one;
  }
  for (const char* all : {"ALL SHORTEST", "SHORTEST 1 GROUP", "SHORTEST GROUPS"}) {
    EXPECT_EQ(
        Rows(Concat("MATCH p = ", all, " ", pattern, "RETURN nodes(p)[1].i ORDER BY 1")).size(), 2u)
        << all;
  }
  // What is inline is asked while the path is looked for, WHERE of what was found.
  EXPECT_EQ(Rows("MATCH p = SHORTEST 1 (a:N {i: 1})-[r:R WHERE r.w = 1]->{1,4}(c:N {i: 3}) "
                 "RETURN [n IN nodes(p) | n.i]"),
            Strings{"[1, 4, 3]"});
  EXPECT_EQ(
      Rows(Concat("MATCH p = ALL SHORTEST ", pattern, "WHERE nodes(p)[1].i = 4 RETURN length(p)")),
      Strings{"2"});
  EXPECT_EQ(Rows(Concat("MATCH p = SHORTEST 1 ", pattern, "WHERE length(p) > 2 RETURN length(p)")),
            Strings{});
  EXPECT_EQ(Rows("MATCH SHORTEST 1 (a:N {i: 1})-->*(e) WHERE e.i > 4 RETURN e.i"), Strings{"5"});
  for (const char* wrong : {"MATCH SHORTEST 2 (a)-->+(b) RETURN a", "MATCH ALL (a)-->+(b) RETURN a",
                            "MATCH ANY (a)-->(b)-->(c) RETURN a",
                            "OPTIONAL MATCH p = ANY (a)-->+(b) WHERE length(p) > 1 RETURN p"}) {
    EXPECT_FALSE(Run(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace pulse::cypher
