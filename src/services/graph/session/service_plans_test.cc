// Of a service: schema statements, EXPLAIN and PROFILE, procedures, and plans that are kept.
#include "services/graph/model/text.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/test_service.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

TEST_F(ServiceTest, Schema_CreateShowDrop_Agree) {
  ASSERT_TRUE(Run("CREATE INDEX i FOR (n:A) ON (n.x, n.y)").ok());
  EXPECT_EQ(outcome_.indexes_added, 1u);
  ASSERT_TRUE(Run("CREATE CONSTRAINT c FOR (n:A) REQUIRE n.id IS UNIQUE").ok());
  EXPECT_EQ(outcome_.constraints_added, 1u);
  EXPECT_EQ(Rows("SHOW INDEXES YIELD name, labelsOrTypes, properties, owningConstraint"),
            (Strings{"'i', ['A'], ['x', 'y'], null", "'c', ['A'], ['id'], 'c'"}));
  EXPECT_EQ(Rows("SHOW CONSTRAINTS YIELD name, type"), Strings{"'c', 'UNIQUENESS'"});
  EXPECT_EQ(Rows("SHOW INDEXES WHERE name = 'i'").size(), 1u);
  EXPECT_EQ(Rows("SHOW INDEX YIELD createStatement AS s WHERE s CONTAINS 'RANGE' RETURN s"),
            Strings{"'CREATE RANGE INDEX i FOR (n:A) ON (n.x, n.y)'"});
  EXPECT_EQ(Run("CREATE INDEX i FOR (n:B) ON (n.z)").code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Run("CREATE INDEX i IF NOT EXISTS FOR (n:B) ON (n.z)").ok());
  EXPECT_EQ(outcome_.indexes_added, 0u);
  EXPECT_FALSE(outcome_.notice.empty());
  EXPECT_EQ(Run("DROP INDEX c").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Run("DROP CONSTRAINT i").code(), absl::StatusCode::kNotFound);
  const auto code_of = [&](std::string_view text) {
    return FailureOf(Run(text), Doing::kSchema).code;
  };
  EXPECT_EQ(code_of("DROP INDEX c"), "Neo.ClientError.Schema.ForbiddenOnConstraintIndex");
  EXPECT_EQ(code_of("DROP CONSTRAINT i"), "Neo.ClientError.Schema.ConstraintNotFound");
  EXPECT_EQ(code_of("DROP INDEX none"), "Neo.ClientError.Schema.IndexNotFound");
  ASSERT_TRUE(Run("DROP INDEX i").ok());
  ASSERT_TRUE(Run("DROP CONSTRAINT c").ok());
  EXPECT_EQ(outcome_.constraints_removed, 1u);
  ASSERT_TRUE(Run("DROP INDEX i IF EXISTS").ok());
  EXPECT_TRUE(Rows("SHOW INDEXES").empty());
}

TEST_F(ServiceTest, Schema_ConstraintsOfRelationshipsAndTypes_AreShownAsNeo4jDoes) {
  ASSERT_TRUE(Run("CREATE CONSTRAINT e FOR ()-[r:R]->() REQUIRE r.x IS NOT NULL").ok());
  EXPECT_EQ(outcome_.constraints_added, 1u);
  ASSERT_TRUE(Run("CREATE CONSTRAINT t FOR ()-[r:R]-() REQUIRE r.x IS TYPED INT").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT n FOR (n:R) REQUIRE n.x IS :: LIST<DATE NOT NULL>").ok());
  EXPECT_EQ(
      Rows(
          "SHOW CONSTRAINTS YIELD name, type, entityType, labelsOrTypes, ownedIndex, propertyType"),
      (Strings{"'e', 'RELATIONSHIP_PROPERTY_EXISTENCE', 'RELATIONSHIP', ['R'], null, null",
               "'t', 'RELATIONSHIP_PROPERTY_TYPE', 'RELATIONSHIP', ['R'], null, 'INTEGER'",
               "'n', 'NODE_PROPERTY_TYPE', 'NODE', ['R'], null, 'LIST<DATE NOT NULL>'"}));
  EXPECT_EQ(Rows("SHOW REL PROPERTY EXISTENCE CONSTRAINTS YIELD name"), Strings{"'e'"});
  EXPECT_EQ(Rows("SHOW NODE PROPERTY TYPE CONSTRAINTS YIELD name"), Strings{"'n'"});
  EXPECT_EQ(Rows("SHOW PROPERTY TYPE CONSTRAINTS YIELD name"), (Strings{"'t'", "'n'"}));
  EXPECT_EQ(Rows("SHOW CONSTRAINTS YIELD createStatement"),
            (Strings{"'CREATE CONSTRAINT e FOR ()-[r:R]-() REQUIRE (r.x) IS NOT NULL'",
                     "'CREATE CONSTRAINT t FOR ()-[r:R]-() REQUIRE (r.x) IS :: INTEGER'",
                     "'CREATE CONSTRAINT n FOR (n:R) REQUIRE (n.x) IS :: LIST<DATE NOT NULL>'"}));
  EXPECT_TRUE(Rows("SHOW INDEXES").empty());
  const auto code_of = [&](std::string_view text) {
    return FailureOf(Run(text), Doing::kSchema).code;
  };
  EXPECT_EQ(code_of("CREATE CONSTRAINT t2 FOR ()-[r:R]-() REQUIRE r.x IS :: INTEGER"),
            "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists");
  for (const char* lenient : {"", "IF NOT EXISTS "}) {
    EXPECT_EQ(code_of(Concat("CREATE CONSTRAINT t2 ", lenient,
                             "FOR ()-[r:R]-() REQUIRE r.x IS :: STRING")),
              "Neo.ClientError.Schema.ConstraintAlreadyExists");
  }
  ASSERT_TRUE(
      Run("CREATE CONSTRAINT IF NOT EXISTS FOR ()-[q:R]-() REQUIRE q.x IS :: INTEGER").ok());
  EXPECT_EQ(outcome_.constraints_added, 0u);
  EXPECT_NE(outcome_.notice.find("()-[:R {x}]-()"), std::string::npos) << outcome_.notice;
  ASSERT_TRUE(Run("DROP CONSTRAINT t").ok());
  EXPECT_EQ(Rows("SHOW CONSTRAINTS YIELD name"), (Strings{"'e'", "'n'"}));
}

// IF NOT EXISTS is content with what refuses as much, and with nothing less.
TEST_F(ServiceTest, Schema_RulesOfTheSameKey_StandBesideEachOtherOrAreRefused) {
  const auto code_of = [&](std::string_view text) {
    return FailureOf(Run(text), Doing::kSchema).code;
  };
  ASSERT_TRUE(Run("CREATE CONSTRAINT u FOR (n:A) REQUIRE n.x IS UNIQUE").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT e IF NOT EXISTS FOR (n:A) REQUIRE n.x IS NOT NULL").ok());
  EXPECT_EQ(outcome_.constraints_added, 1u);
  EXPECT_FALSE(Run("CREATE (:A)").ok());
  ASSERT_TRUE(Run("CREATE (:A {x: 1})").ok());
  EXPECT_FALSE(Run("CREATE (:A {x: 1})").ok());
  EXPECT_EQ(code_of("CREATE CONSTRAINT e2 FOR (n:A) REQUIRE n.x IS NOT NULL"),
            "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists");
  ASSERT_TRUE(Run("CREATE INDEX i IF NOT EXISTS FOR (n:A) ON (n.x)").ok());  // u has one
  EXPECT_EQ(outcome_.indexes_added, 0u);
  EXPECT_EQ(code_of("CREATE INDEX i FOR (n:A) ON (n.x)"),
            "Neo.ClientError.Schema.ConstraintAlreadyExists");
  EXPECT_EQ(code_of("CREATE CONSTRAINT k IF NOT EXISTS FOR (n:A) REQUIRE n.x IS NODE KEY"),
            "Neo.ClientError.Schema.ConstraintAlreadyExists");
  EXPECT_EQ(code_of("CREATE INDEX u FOR (n:B) ON (n.y)"),
            "Neo.ClientError.Schema.ConstraintWithNameAlreadyExists");
  ASSERT_TRUE(Run("CREATE INDEX j FOR (n:C) ON (n.x)").ok());
  EXPECT_EQ(code_of("CREATE CONSTRAINT c IF NOT EXISTS FOR (n:C) REQUIRE n.x IS UNIQUE"),
            "Neo.ClientError.Schema.IndexAlreadyExists");
  ASSERT_TRUE(Run("CREATE CONSTRAINT c FOR (n:C) REQUIRE n.x IS NOT NULL").ok());
  ASSERT_TRUE(Run("DROP CONSTRAINT c").ok());
  EXPECT_EQ(Rows("SHOW INDEXES YIELD name"), (Strings{"'u'", "'j'"}));
  ASSERT_TRUE(Run("EXPLAIN MATCH (n:C {x: 1}) RETURN n").ok());
  EXPECT_NE(outcome_.plan.find("by index"), std::string::npos) << outcome_.plan;
}

TEST_F(ServiceTest, Schema_NewIndex_IsUsedByPlansThatWereKept) {
  const char* query = "EXPLAIN MATCH (n:A {x: 1}) RETURN n";
  ASSERT_TRUE(Run("CREATE (:A {x: 1})").ok());
  ASSERT_TRUE(Run(query).ok());
  EXPECT_EQ(outcome_.plan.find("by index"), std::string::npos);
  ASSERT_TRUE(Run("CREATE INDEX FOR (n:A) ON (n.x)").ok());
  ASSERT_TRUE(Run(query).ok());
  EXPECT_NE(outcome_.plan.find("by index"), std::string::npos) << outcome_.plan;
}

TEST_F(ServiceTest, Schema_BrokenByData_IsRefused) {
  ASSERT_TRUE(Run("CREATE (:A {x: 1}), (:A {x: 1})").ok());
  EXPECT_EQ(Run("CREATE CONSTRAINT FOR (n:A) REQUIRE n.x IS UNIQUE").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Rows("SHOW CONSTRAINTS").empty());
}

TEST_F(ServiceTest, Schema_InATransaction_TakesEffectAtItsEnd) {
  auto transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), "CREATE INDEX i FOR (n:A) ON (n.x)").ok());
  EXPECT_EQ(RunIn(transaction.get(), "CREATE INDEX i IF NOT EXISTS FOR (n:A) ON (n.x)"),
            absl::OkStatus());
  EXPECT_FALSE(outcome_.notice.empty());
  EXPECT_TRUE(Rows("SHOW INDEXES").empty());
  uint64_t sequence = 0;
  ASSERT_TRUE(transaction->Commit(&sequence).ok());
  EXPECT_EQ(Rows("SHOW INDEXES").size(), 1u);
  transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), "DROP INDEX i").ok());
  transaction.reset();
  EXPECT_EQ(Rows("SHOW INDEXES").size(), 1u);
  transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), "CREATE (:A)").ok());
  EXPECT_EQ(InfoOf(RunIn(transaction.get(), "DROP INDEX i")).detail, "SchemaAndData");
}

// Each would be taken alone; the nodes there break the last one.
TEST_F(ServiceTest, SchemaOfATransaction_ThatFailsAtItsCommit_ChangesNothing) {
  ASSERT_TRUE(Run("CREATE (:A {k: 1}), (:A {k: 1}) ").ok());
  ASSERT_TRUE(Run("CREATE INDEX i FOR (n:A) ON (n.k)").ok());
  auto transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), "DROP INDEX i").ok());
  ASSERT_TRUE(RunIn(transaction.get(), "CREATE INDEX j FOR (n:B) ON (n.k)").ok());
  ASSERT_TRUE(RunIn(transaction.get(), "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.k IS UNIQUE").ok());
  uint64_t sequence = 0;
  EXPECT_FALSE(transaction->Commit(&sequence).ok());
  EXPECT_EQ(Rows("SHOW INDEXES YIELD name"), Strings{"'i'"});
}

TEST_F(ServiceTest, Explain_Query_RunsNothing) {
  ASSERT_TRUE(Run("EXPLAIN CREATE (:A) RETURN 1 AS one").ok());
  EXPECT_NE(outcome_.plan.find("Create"), std::string::npos);
  EXPECT_TRUE(sink_.rows().empty());
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
  ASSERT_TRUE(outcome_.plan_tree.is_null());
  ASSERT_TRUE(Run("EXPLAIN MATCH (n) WHERE EXISTS { (n)-->() } RETURN n").ok());
  ASSERT_TRUE(outcome_.plan_tree.is_map());
  EXPECT_EQ(outcome_.plan_tree.Find("operatorType")->as_string(), "Project");
  EXPECT_EQ(outcome_.plan_tree.Find("children")->as_list().size(), 1u);
}

// Whatever is said of it besides: its code may have to be read from the disk.
bool HasStep(const std::string& plan, const std::string& step) {
  return plan.find(step + "\n") != std::string::npos || plan.find(step + " ") != std::string::npos;
}

TEST_F(ServiceTest, Profile_Query_CountsTheRowsOfEachStep) {
  ASSERT_TRUE(Run("UNWIND range(1, 10) AS x CREATE (:A {x: x})").ok());
  EXPECT_EQ(Rows("PROFILE MATCH (a:A) WHERE a.x + 1 > 8 RETURN a.x").size(), 3u);
  EXPECT_TRUE(HasStep(outcome_.plan, "Scan :A rows=10")) << outcome_.plan;
  EXPECT_EQ(outcome_.plan_tree.Find("rows")->as_int(), 3);
  EXPECT_EQ(
      Rows("PROFILE UNWIND [1, 2] AS x CALL { WITH x UNWIND range(1, x) AS y RETURN y } RETURN y")
          .size(),
      3u);
  EXPECT_TRUE(HasStep(outcome_.plan, "Unwind rows=3")) << outcome_.plan;
}

TEST_F(ServiceTest, Profile_NamesThatLookLikeCounts_AreNames) {
  for (const char* name : {"rows=x", "rows=99999999999999999999", "a rows=1\\nb", "rows="}) {
    const std::string query = Concat("MATCH (:P)-[:`", name, "`]->() RETURN count(*) AS n");
    EXPECT_EQ(Rows("PROFILE " + query), Strings{"0"}) << name;
    EXPECT_TRUE(outcome_.plan_tree.is_map());
    ASSERT_TRUE(Run("EXPLAIN " + query).ok()) << name;
    EXPECT_TRUE(outcome_.plan_tree.is_map());
  }
}

TEST_F(ServiceTest, Procedures_WhatDriversAsk_IsAnswered) {
  ASSERT_TRUE(Run("CREATE (:A {x: 1})-[:R]->(:B)").ok());
  EXPECT_EQ(Rows("CALL db.labels()"), (Strings{"'A'", "'B'"}));
  EXPECT_EQ(Rows("CALL db.relationshipTypes() YIELD relationshipType RETURN relationshipType"),
            Strings{"'R'"});
  EXPECT_EQ(Rows("CALL db.propertyKeys"), Strings{"'x'"});
  EXPECT_EQ(Rows("CALL db.ping()"), Strings{"true"});
  EXPECT_EQ(Rows("CALL dbms.components() YIELD name, edition").size(), 2u);
  EXPECT_EQ(Rows("SHOW DATABASES YIELD name, currentStatus"), Strings{"'neo4j', 'online'"});
  EXPECT_EQ(Rows("SHOW PROCEDURES YIELD name WHERE name = 'db.ping'").size(), 1u);
  EXPECT_EQ(InfoOf(Run("CALL no.such()")).kind, "ProcedureError");
}

TEST_F(ServiceTest, Plans_OfOneText_AreMadeOnce) {
  const auto first = service_.Prepare("RETURN 1");
  EXPECT_EQ(first->get(), service_.Prepare("RETURN 1")->get());
  ASSERT_TRUE(Run("CALL db.clearQueryCaches()").ok());
  EXPECT_NE(first->get(), service_.Prepare("RETURN 1")->get());
}

TEST_F(ServiceTest, Plans_ManyTexts_StayBounded) {
  ServiceOptions options;
  options.cached_plans = 8;
  options.cached_text_bytes = 1 << 10;
  options.max_text_bytes = 1 << 12;
  GraphService service(&database_, options);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(service.Prepare(Concat("RETURN ", i)).ok());
    EXPECT_LE(service.plans()->size(), 8u);
  }
  const std::string long_text = "RETURN '" + std::string(500, 'x') + "'";
  EXPECT_TRUE(service.Prepare(long_text).ok());
  EXPECT_NE(service.Prepare(long_text)->get(), service.Prepare(long_text)->get());
  EXPECT_FALSE(service.Prepare("RETURN '" + std::string(5000, 'x') + "'").ok());
}

TEST_F(ServiceTest, Plans_OfAGraphThatGrew_AreMadeAnew) {
  PlanCache cache(10, 1000);
  auto statement = std::make_shared<Statement>();
  statement->text = "x";
  cache.Put(statement, 100);
  EXPECT_NE(cache.Find("x", 700), nullptr);
  EXPECT_EQ(cache.Find("x", 7000), nullptr);
}

}  // namespace
}  // namespace pulse::cypher
