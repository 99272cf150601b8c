#include "services/graph/session/statement.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "base/testing.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

ParsedStatement Parsed(std::string_view text) {
  auto parsed = ParseStatement(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *std::move(parsed) : ParsedStatement();
}

TEST(StatementTest, Parse_Query_StaysAsItIs) {
  for (const char* text : {"MATCH (n) RETURN n", "CREATE (n)", "CREATE index = (a)-[:R]->(b)",
                           "// CREATE INDEX\nMATCH (n) RETURN n", "EXPLAIN CREATE (n)", ""}) {
    const ParsedStatement parsed = Parsed(text);
    EXPECT_FALSE(parsed.schema) << text;
    EXPECT_FALSE(parsed.snapshot) << text;
  }
  EXPECT_EQ(Parsed("RETURN 1").query, "RETURN 1");
}

TEST(StatementTest, Parse_CreateIndex_HasLabelAndKeys) {
  const ParsedStatement parsed =
      Parsed("create range index `my index` if not exists for (p:Person) on (p.name, p.age);");
  ASSERT_TRUE(parsed.schema);
  EXPECT_TRUE(parsed.schema->lenient);
  EXPECT_FALSE(parsed.schema->drop);
  EXPECT_EQ(parsed.schema->index.name, "my index");
  EXPECT_EQ(parsed.schema->index.label, "Person");
  EXPECT_EQ(parsed.schema->index.keys, (std::vector<std::string>{"name", "age"}));
  EXPECT_FALSE(parsed.schema->index.constraint);
}

TEST(StatementTest, Parse_IndexWithoutName_GetsOneOfItsSchema) {
  const auto name = [](std::string_view text) { return Parsed(text).schema->index.name; };
  const std::string a = name("CREATE INDEX FOR (n:A) ON (n.x)");
  EXPECT_EQ(a, name("CREATE INDEX FOR (other:A) ON (other.x)"));
  EXPECT_NE(a, name("CREATE INDEX FOR (n:A) ON (n.y)"));
  EXPECT_NE(a, name("CREATE INDEX FOR (n:A) ON (n.x, n.y)"));
  EXPECT_NE(a, name("CREATE CONSTRAINT FOR (n:A) REQUIRE n.x IS UNIQUE"));
}

TEST(StatementTest, Parse_Constraints_HaveTheirKind) {
  const auto index = [](std::string_view text) { return Parsed(text).schema->index; };
  const IndexDefinition unique = index("CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS UNIQUE");
  EXPECT_TRUE(unique.constraint && unique.unique && !unique.required);
  const IndexDefinition both =
      index("CREATE CONSTRAINT c FOR (n:A) REQUIRE (n.x, n.y) IS NODE KEY");
  EXPECT_TRUE(both.constraint && both.unique && both.required);
  EXPECT_EQ(both.keys.size(), 2u);
  const IndexDefinition required = index("CREATE CONSTRAINT FOR (n:A) REQUIRE n.x IS NOT NULL");
  EXPECT_TRUE(required.constraint && !required.unique && required.required);
}

TEST(StatementTest, Parse_ConstraintsOfRelationshipsAndTypes_HaveTheirKind) {
  const auto index = [](std::string_view text) { return Parsed(text).schema->index; };
  for (const char* pattern : {"()-[r:R]-()", "()-[r:R]->()", "()<-[r:R]-()"}) {
    const IndexDefinition one = index(
        Concat("CREATE CONSTRAINT c IF NOT EXISTS FOR ", pattern, " REQUIRE (r.x) IS NOT NULL;"));
    EXPECT_TRUE(one.constraint && one.of_edges && one.required && !one.unique) << pattern;
    EXPECT_EQ(one.label, "R");
    EXPECT_EQ(one.type, "");
  }
  const std::pair<const char*, const char*> types[] = {
      {":: INTEGER", "INTEGER"},
      {"typed zoned datetime", "ZONED DATETIME"},
      {":: TIMESTAMP WITHOUT TIME ZONE OPTIONS {}", "LOCAL DATETIME"},
      {"::LIST<STRING NOT NULL>", "LIST<STRING NOT NULL>"},
      {"TYPED array < int not null > ;", "LIST<INTEGER NOT NULL>"}};
  for (const auto& [text, type] : types) {
    const IndexDefinition one = index(Concat("CREATE CONSTRAINT FOR (n:A) REQUIRE n.x IS ", text));
    EXPECT_EQ(one.type, type);
    EXPECT_TRUE(one.constraint && !one.of_edges && !one.required && !one.unique);
    const IndexDefinition other =
        index(Concat("CREATE CONSTRAINT FOR ()-[n:A]-() REQUIRE n.x IS ", text));
    EXPECT_TRUE(other.of_edges);
    EXPECT_EQ(other.type, type);
    EXPECT_NE(other.name, one.name);
  }
}

TEST(StatementTest, Parse_Drop_HasTheName) {
  const ParsedStatement parsed = Parsed("DROP CONSTRAINT c IF EXISTS");
  ASSERT_TRUE(parsed.schema);
  EXPECT_TRUE(parsed.schema->drop && parsed.schema->constraint && parsed.schema->lenient);
  EXPECT_EQ(parsed.schema->index.name, "c");
  EXPECT_FALSE(Parsed("DROP INDEX i").schema->constraint);
}

TEST(StatementTest, Parse_BrokenSchema_SaysWhere) {
  for (const char* text : {"CREATE INDEX",
                           "CREATE INDEX i",
                           "CREATE INDEX i FOR",
                           "CREATE INDEX i FOR (n:A)",
                           "CREATE INDEX i FOR (n) ON (n.x)",
                           "CREATE INDEX i FOR (n:A) ON n.x",
                           "CREATE INDEX i FOR (n:A) ON (m.x)",
                           "CREATE INDEX i FOR (n:A) ON (n.x, n.x)",
                           "CREATE INDEX i FOR (n:A) ON (n.x) RETURN 1",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS",
                           "DROP INDEX",
                           "DROP INDEX i IF",
                           "CREATE TEXT INDEX i FOR (n:A) ON (n.x)",
                           "CREATE INDEX i FOR ()-[r:R]-() ON (r.x)",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS :: NUMBER",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS :: STRING | INTEGER",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS :: LIST<STRING>",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS : STRING",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE (n.x, n.y) IS :: STRING",
                           "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS RELATIONSHIP KEY",
                           "CREATE CONSTRAINT c FOR ()-[r:R]-() REQUIRE r.x IS UNIQUE",
                           "CREATE CONSTRAINT c FOR ()-[r:R]-() REQUIRE r.x IS RELATIONSHIP UNIQUE",
                           "CREATE CONSTRAINT c FOR ()-[r:R]-() REQUIRE r.x IS NODE KEY",
                           "CREATE CONSTRAINT c FOR ()<-[r:R]->() REQUIRE r.x IS NOT NULL",
                           "CREATE CONSTRAINT c FOR ()-[r]-() REQUIRE r.x IS NOT NULL",
                           "SHOW",
                           "SHOW EVERYTHING",
                           "TERMINATE",
                           "TERMINATE TRANSACTION",
                           "KILL 'a'",
                           "AT SNAPSHOT x RETURN 1",
                           "AT SNAPSHOT 1 DROP INDEX i",
                           "EXPLAIN DROP INDEX i",
                           "CREATE INDEX 'i"}) {
    const auto parsed = ParseStatement(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("line 1, column"), std::string::npos)
        << text << ": " << parsed.status();
  }
}

TEST(StatementTest, Parse_AtSnapshot_LeavesTheQuery) {
  const ParsedStatement parsed = Parsed("AT SNAPSHOT 17 MATCH (n) RETURN n");
  ASSERT_TRUE(parsed.snapshot);
  EXPECT_EQ(*parsed.snapshot, 17u);
  EXPECT_EQ(parsed.query, "MATCH (n) RETURN n");
}

TEST(StatementTest, Parse_Kill_IsTerminate) {
  const std::string terminate = Parsed("TERMINATE TRANSACTIONS 'a', 'b'").query;
  for (const char* text : {"KILL TRANSACTIONS 'a', 'b'", "kill transaction 'a', 'b'",
                           "USE system KILL TRANSACTION 'a', 'b'"}) {
    EXPECT_EQ(Parsed(text).query, terminate) << text;
  }
}

TEST(StatementTest, Writes_ByItsText) {
  for (const char* text : {"CREATE (n)", "MATCH (n) SET n.x = 1", "DROP INDEX i", "MERGE (n)",
                           "MATCH (n) CALL { WITH n DELETE n } RETURN 1",
                           "MATCH (n) CALL (n) { RETURN 1 AS x } IN TRANSACTIONS RETURN x",
                           "UNWIND [1] AS x FOREACH (y IN [x] | CREATE (n))"}) {
    EXPECT_TRUE(StatementWrites(text)) << text;
  }
  for (const char* text : {"MATCH (n) RETURN n", "SHOW INDEXES", "CALL db.labels()", "CREATE (", "",
                           "AT SNAPSHOT 1 MATCH (n) RETURN n"}) {
    EXPECT_FALSE(StatementWrites(text)) << text;
  }
}

TEST(StatementTest, Parse_CutOrChangedText_NeverCrashes) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::string_view texts[] = {
      "CREATE CONSTRAINT c IF NOT EXISTS FOR (n:A) REQUIRE (n.x, n.y) IS NODE KEY;",
      "CREATE CONSTRAINT FOR ()-[r:R]->() REQUIRE r.x IS :: LIST<STRING NOT NULL>;",
      "SHOW INDEXES YIELD name AS n, state ORDER BY n SKIP 1 LIMIT 2 WHERE n = 'x' RETURN n;",
      "TERMINATE TRANSACTIONS 'a', $b YIELD message", "AT SNAPSHOT 9 SHOW CONSTRAINTS WHERE true"};
  for (const std::string_view whole : texts) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      std::string text(whole.substr(0, size));
      ParseStatement(text).status().IgnoreError();  // only that it comes back
      if (text.empty()) continue;
      text[random() % text.size()] = static_cast<char>(random());
      ParseStatement(text).status().IgnoreError();  // as above
    }
  }
}

}  // namespace
}  // namespace pulse::cypher
