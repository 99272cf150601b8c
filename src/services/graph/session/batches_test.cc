// CALL { … } IN TRANSACTIONS: what is committed on the way, against what other transactions see and
// do meanwhile.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/session/chained_transaction.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"

namespace pulse::cypher {
namespace {

using testing_util::Text;
using Strings = std::vector<std::string>;

// Transactions before whose commits something happens.
class MeddledTransaction : public ChainedTransaction {
 public:
  MeddledTransaction(std::unique_ptr<DatabaseTransaction> own, const std::function<void()>& meddle)
      : ChainedTransaction(std::move(own), nullptr), meddle_(meddle) {}
  absl::Status Commit() override {
    meddle_();
    return ChainedTransaction::Commit();
  }

 private:
  const std::function<void()>& meddle_;
};

class MeddledDatabase : public Database {
 public:
  MeddledDatabase(Database* own, std::function<void()> meddle)
      : own_(*own), meddle_(std::move(meddle)) {}
  absl::StatusOr<std::shared_ptr<const GraphView>> Snapshot(
      std::optional<uint64_t> sequence) override {
    return own_.Snapshot(sequence);
  }
  uint64_t sequence() const override { return own_.sequence(); }
  absl::StatusOr<std::unique_ptr<DatabaseTransaction>> Begin() override {
    auto own = own_.Begin();
    if (!own.ok()) return own.status();
    return std::make_unique<MeddledTransaction>(*std::move(own), meddle_);
  }
  absl::Status ChangeSchema(std::span<const SchemaChange> changes) override {
    return own_.ChangeSchema(changes);
  }
  std::vector<IndexDefinition> Indexes() const override { return own_.Indexes(); }
  DatabaseNames Names() const override { return own_.Names(); }

 private:
  Database& own_;
  const std::function<void()> meddle_;
};

class BatchesTest : public testing::Test {
 protected:
  BatchesTest() {
    graph::StoreOptions options;
    options.files = &files_;
    options.background = false;
    store_ = graph::GraphStore::Open("db", options).value();
    service_ = std::make_unique<GraphService>(store_.get(), ServiceOptions());
  }
  absl::Status Run(std::string_view text, const ValueMap& parameters = {}) {
    sink_ = RowTexts();
    const auto statement = service_->Prepare(text);
    if (!statement.ok()) return statement.status();
    RunOptions options;
    options.parameters = &parameters;
    return service_->Run(**statement, Caller(), options, &sink_, &outcome_);
  }
  Strings Rows(std::string_view text) {
    const absl::Status status = Run(text);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
    return sink_.rows();
  }
  // How many commits a statement makes.
  uint64_t CommitsOf(std::string_view text) {
    const uint64_t before = store_->sequence();
    const absl::Status status = Run(text);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
    return store_->sequence() - before;
  }

  graph::SimFiles files_;
  std::unique_ptr<graph::GraphStore> store_;
  std::unique_ptr<GraphService> service_;
  RowTexts sink_;
  Outcome outcome_;
};

TEST_F(BatchesTest, SegmentsWithoutAMatch_AreSkippedAsInATransaction) {
  ASSERT_TRUE(Run("CREATE (n) WITH n UNWIND range(0, 9999) AS i CREATE (n)-[:R {w: i}]->()").ok());
  ASSERT_TRUE(store_->Flush().ok());
  const ChainedTransaction chained(*store_->Begin(), nullptr);
  const auto key = chained.FindKey("w");
  ASSERT_TRUE(key.has_value());
  const PropertyBound bounds[] = {{*key, {Bound::Kind::kAtLeast, Value::Int(9000)}}};
  uint64_t position = 0, seen = 0, count;
  do {
    chained.SkipEdges({}, bounds, &position);
    Column column;
    count = chained.ScanEdgeProperty({}, *key, &position, 1000, &column).value_or(0);
    seen += count;
  } while (count > 0);
  EXPECT_GE(seen, 1000u);
  EXPECT_LT(seen, 4096u);  // a segment
}

TEST_F(BatchesTest, RowsInBatches_CommitAfterEach) {
  EXPECT_EQ(
      CommitsOf("UNWIND range(1, 10) AS i CALL (i) { CREATE (:N {i: i}) } IN TRANSACTIONS OF 3 "
                "ROWS"),
      4u);
  EXPECT_EQ(outcome_.counters.nodes_created, 10u);
  EXPECT_EQ(Rows("MATCH (n:N) RETURN count(n), sum(n.i)"), Strings{"10, 55"});
  // A thousand without a number; the older form of imports; a parameter.
  EXPECT_EQ(
      CommitsOf("UNWIND range(1, 2001) AS i CALL { WITH i CREATE (:M {i: i}) } IN TRANSACTIONS"),
      3u);
  EXPECT_EQ(CommitsOf("UNWIND range(1, 5) AS i CALL (i) { CREATE (:K {i: i}) } IN 4 CONCURRENT "
                      "TRANSACTIONS OF 2 ROWS"),
            3u);
  EXPECT_EQ(CommitsOf("UNWIND [1] AS i CALL (i) { CREATE (:K) } IN CONCURRENT TRANSACTIONS"), 1u);
  ASSERT_TRUE(Run("MATCH (m:M) CALL (m) { DETACH DELETE m } IN TRANSACTIONS OF $n ROWS RETURN "
                  "count(*)",
                  {{"n", Value::Int(500)}})
                  .ok());
  EXPECT_EQ(sink_.rows(), Strings{"2001"});
  EXPECT_EQ(outcome_.counters.nodes_deleted, 2001u);
  EXPECT_EQ(Rows("MATCH (m:M) RETURN count(m)"), Strings{"0"});
}

TEST_F(BatchesTest, RowsOfTheSubquery_GoOnAfterTheirCommit) {
  EXPECT_EQ(
      Rows("UNWIND range(1, 5) AS i CALL (i) { CREATE (n:N {i: i}) RETURN n, n.i * 2 AS d } IN "
           "TRANSACTIONS OF 2 ROWS RETURN i, n.i, d, labels(n)"),
      (Strings{"1, 1, 2, ['N']", "2, 2, 4, ['N']", "3, 3, 6, ['N']", "4, 4, 8, ['N']",
               "5, 5, 10, ['N']"}));
  // Each batch sees what those before it have committed, and all rows are written.
  EXPECT_EQ(
      Rows("UNWIND range(1, 6) AS i CALL (i) { MERGE (c:C) ON CREATE SET c.n = 1 ON MATCH SET "
           "c.n = c.n + 1 RETURN c } IN TRANSACTIONS OF 2 ROWS RETURN c.n LIMIT 1"),
      Strings{"6"});
  EXPECT_EQ(
      Rows("MATCH (n:N) CALL (n) { SET n.i = n.i + 10 } IN TRANSACTIONS OF 2 ROWS WITH n MATCH "
           "(n) RETURN min(n.i), max(n.i)"),
      Strings{"11, 15"});
}

// A node that several rows have is deleted once.
TEST_F(BatchesTest, NodesOfEarlierBatches_StayDeleted) {
  ASSERT_TRUE(Run("CREATE (a:A) WITH a UNWIND range(1, 5) AS i CREATE (:B)-[:T]->(a)").ok());
  ASSERT_TRUE(
      Run("MATCH (b:B)-[t:T]->(a) CALL (a, t) { DELETE t DETACH DELETE a } IN TRANSACTIONS OF "
          "2 ROWS")
          .ok());
  EXPECT_EQ(outcome_.counters.nodes_deleted, 1u);
  EXPECT_EQ(outcome_.counters.edges_deleted, 5u);
  EXPECT_EQ(Rows("MATCH (n) RETURN labels(n), count(*)"), Strings{"['B'], 5"});
}

TEST_F(BatchesTest, EntitiesWithinValues_DeletedByEarlierBatches_AreGone) {
  for (const char* const what :
       {"(p) { DETACH DELETE p }", "(l) { FOREACH (n IN l | DETACH DELETE n) }",
        "(m) { WITH m.h AS h DETACH DELETE h }"}) {
    ASSERT_TRUE(Run("CREATE (h:Hub)<-[:R]-(m:M) WITH m UNWIND range(1, 6) AS i "
                    "CREATE (:X {i: i})-[:R]->(m)")
                    .ok());
    const absl::Status status =
        Run("MATCH p = (x:X)-[:R*2]->(h:Hub) WITH p, nodes(p) AS l, {h: h} AS m CALL " +
            std::string(what) + " IN TRANSACTIONS OF 2 ROWS");
    EXPECT_TRUE(status.ok()) << what << ": " << status;
    EXPECT_EQ(Rows("MATCH (h:Hub) RETURN count(h)"), Strings{"0"}) << what;
    ASSERT_TRUE(Run("MATCH (n) DETACH DELETE n").ok());
  }
}

TEST_F(BatchesTest, LargeResults_CountAgainstTheLimitOfMemory) {
  ServiceOptions options;
  options.query_memory_bytes = 16 << 20;
  service_ = std::make_unique<GraphService>(store_.get(), options);
  const absl::Status status =
      Run("UNWIND range(1, 1000) AS i CALL (i) { RETURN range(1, 60000) AS s } IN TRANSACTIONS "
          "RETURN count(s)");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(Run("UNWIND range(1, 1000) AS i CALL (i) { RETURN range(1, 600) AS s } IN "
                  "TRANSACTIONS OF 10 ROWS RETURN count(s)")
                  .ok());
}

TEST_F(BatchesTest, Error_LeavesTheBatchesBeforeIt) {
  const absl::Status status = Run(
      "UNWIND [1, 2, 3, 4, 0, 5] AS i CALL (i) { CREATE (:N {i: 12 / i}) } IN TRANSACTIONS OF 2 "
      "ROWS");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(Rows("MATCH (n:N) RETURN count(n)"), Strings{"4"});
}

// The rows of the batch that failed have null, and it has changed nothing, also where it had
// deleted or made something before.
TEST_F(BatchesTest, OnErrorContinue_GivesUpItsBatchAlone) {
  ASSERT_TRUE(Run("UNWIND range(1, 6) AS i CREATE (:D {i: i})").ok());
  EXPECT_EQ(
      Rows("UNWIND [1, 2, 3, 0, 4, 5] AS i MATCH (d:D {i: i + 1}) CALL (i, d) { DELETE d CREATE "
           "(n:N {i: 12 / i}) RETURN n.i AS x } IN TRANSACTIONS OF 2 ROWS ON ERROR CONTINUE REPORT "
           "STATUS AS s RETURN i, x, s.started, s.committed, s.transactionId, s.errorMessage"),
      (Strings{"1, 12, true, true, 'batch-1', null", "2, 6, true, true, 'batch-1', null",
               "3, null, true, false, 'batch-2', 'an integer is divided by 0'",
               "0, null, true, false, 'batch-2', 'an integer is divided by 0'",
               "4, 3, true, true, 'batch-3', null", "5, 2, true, true, 'batch-3', null"}));
  EXPECT_EQ(outcome_.counters.nodes_created, 4u);
  EXPECT_EQ(outcome_.counters.nodes_deleted, 4u);
  EXPECT_EQ(Rows("MATCH (d:D) RETURN d.i ORDER BY d.i"), (Strings{"1", "4"}));
  EXPECT_EQ(Rows("MATCH (n:N) RETURN n.i ORDER BY n.i"), (Strings{"2", "3", "6", "12"}));
  // What a batch that was given up had deleted can be read.
  EXPECT_EQ(
      Rows("MATCH (d:D) WITH d ORDER BY d.i CALL (d) { WITH d, d.i AS i DELETE d WITH i WHERE "
           "1 / (4 - i) > -1 RETURN i AS was } IN TRANSACTIONS OF 1 ROW ON ERROR CONTINUE "
           "RETURN was, CASE WHEN was IS NULL THEN d.i END"),
      (Strings{"1, null", "null, 4"}));
}

// Nothing that a batch had collected when it failed is done by a later one.
TEST_F(BatchesTest, OnErrorContinue_ForgetsWhatABatchWasToDelete) {
  ASSERT_TRUE(Run("CREATE (:N {i: 1})-[:R]->(:X), (:N {i: 2}), (:N {i: 3})").ok());
  EXPECT_EQ(
      Rows("MATCH (n:N) WITH n, n.i AS i ORDER BY i CALL (n) { DELETE n } IN TRANSACTIONS OF 1 "
           "ROW ON ERROR CONTINUE REPORT STATUS AS s RETURN i, s.committed"),
      (Strings{"1, false", "2, true", "3, true"}));
  ASSERT_TRUE(Run("CREATE (:N {i: 4})").ok());
  for (const char* remove : {"DELETE x", "FOREACH (y IN [x] | DELETE y)"}) {
    EXPECT_EQ(
        Rows("MATCH (n:N) WITH n, n.i AS i ORDER BY i CALL (n, i) { UNWIND CASE i WHEN 1 THEN "
             "[n, 1] ELSE [n] END AS x " +
             std::string(remove) +
             " } IN TRANSACTIONS OF 1 ROW ON ERROR CONTINUE REPORT STATUS AS s RETURN i, "
             "s.committed"),
        (Strings{"1, false", "4, true"}));
    EXPECT_EQ(outcome_.counters.nodes_deleted, 1u);
    EXPECT_EQ(Rows("MATCH (n:N) RETURN n.i"), Strings{"1"});
    ASSERT_TRUE(Run("CREATE (:N {i: 4})").ok());
  }
}

// A seek of too many values fails before it gives back what it asked for.
TEST_F(BatchesTest, OnErrorContinue_FreesWhatASeekAskedFor) {
  ASSERT_TRUE(Run("CREATE INDEX FOR (n:N) ON (n.k)").ok());
  ASSERT_TRUE(Run("UNWIND range(1, 50) AS i CREATE (:N {k: i})").ok());
  ServiceOptions options;
  options.query_memory_bytes = 4 << 20;
  service_ = std::make_unique<GraphService>(store_.get(), options);
  ValueMap parameters;
  parameters.emplace_back("l", Value::List(ValueList(300'000, Value::Int(7))));
  const absl::Status status = Run(
      "UNWIND range(1, 50) AS i CALL (i) { MATCH (n:N) WHERE n.k IN CASE i % 2 WHEN 0 THEN $l ELSE "
      "[i] END RETURN count(n) AS c } IN TRANSACTIONS OF 1 ROW ON ERROR CONTINUE RETURN sum(c)",
      parameters);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(BatchesTest, OnErrorBreak_BeginsNoMore) {
  EXPECT_EQ(
      Rows("UNWIND [1, 0, 2, 3] AS i CALL (i) { CREATE (:N {i: 12 / i}) } IN TRANSACTIONS REPORT "
           "STATUS AS s OF 1 ROWS ON ERROR BREAK RETURN i, s.started, s.committed, "
           "s.transactionId, s.errorMessage"),
      (Strings{"1, true, true, 'batch-1', null",
               "0, true, false, 'batch-2', 'an integer is divided by 0'",
               "2, false, false, null, null", "3, false, false, null, null"}));
  EXPECT_EQ(Rows("MATCH (n:N) RETURN n.i"), (Strings{"12"}));
}

TEST_F(BatchesTest, OnErrorContinue_GoesOnAfterWhatACommitRefuses) {
  ASSERT_TRUE(Run("CREATE CONSTRAINT FOR (n:N) REQUIRE n.i IS UNIQUE").ok());
  ASSERT_TRUE(Run("CREATE (:N {i: 3})").ok());
  EXPECT_EQ(
      Rows("UNWIND range(1, 5) AS i CALL (i) { CREATE (:N {i: i}) } IN TRANSACTIONS OF 1 ROW ON "
           "ERROR CONTINUE REPORT STATUS AS s WITH i, s WHERE NOT s.committed RETURN i, "
           "s.errorMessage CONTAINS 'already'"),
      (Strings{"3, true"}));
  EXPECT_EQ(Rows("MATCH (n:N) RETURN count(n)"), Strings{"5"});
}

// The memory limit is the statement's, but what a batch that was given up took is free again.
TEST_F(BatchesTest, OnErrorContinue_FreesWhatItsBatchTook) {
  ServiceOptions options;
  options.query_memory_bytes = 4 << 20;
  service_ = std::make_unique<GraphService>(store_.get(), options);
  EXPECT_EQ(
      Rows("UNWIND range(1, 50) AS i CALL (i) { WITH i, range(1, CASE i % 2 WHEN 0 THEN 1000000 "
           "ELSE 10 END) AS s RETURN size(collect(s)) AS n } IN TRANSACTIONS OF 1 ROW ON ERROR "
           "CONTINUE REPORT STATUS AS s RETURN s.committed, count(n), count(*)"),
      (Strings{"true, 25, 25", "false, 0, 25"}));
}

// Relationships that DETACH finds count while they are deleted, and their numbers after that.
TEST_F(BatchesTest, DetachDelete_CountsAgainstTheLimitOfMemory) {
  ASSERT_TRUE(Run("UNWIND range(1, 40) AS h CREATE (n:Hub) WITH n UNWIND range(1, 400) AS i "
                  "CREATE (n)-[:R]->(:Leaf)")
                  .ok());
  ServiceOptions options;
  options.query_memory_bytes = 900 << 10;
  service_ = std::make_unique<GraphService>(store_.get(), options);
  const absl::Status status = Run("MATCH (h:Hub) DETACH DELETE h");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  const absl::Status batches =
      Run("MATCH (h:Hub) CALL (h) { DETACH DELETE h } IN TRANSACTIONS OF 1 ROW");
  EXPECT_TRUE(batches.ok()) << batches;
  EXPECT_EQ(outcome_.counters.edges_deleted, 16000u);
  EXPECT_EQ(Rows("MATCH (n) RETURN labels(n)[0], count(*)"), Strings{"'Leaf', 16000"});
}

TEST_F(BatchesTest, OnErrorContinue_EndsWithAStatementThatIsKilled) {
  const std::function<bool()> interrupted = [this] { return store_->sequence() > 3; };
  const auto statement = service_->Prepare(
      "UNWIND range(1, 100000) AS i CALL (i) { CREATE (:N) } IN TRANSACTIONS OF 1000 ROWS ON ERROR "
      "CONTINUE");
  ASSERT_TRUE(statement.ok()) << statement.status();
  RunOptions options;
  options.interrupted = &interrupted;
  const absl::Status status = service_->Run(**statement, Caller(), options, &sink_, &outcome_);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LT(store_->sequence(), 100u);
}

// Another transaction is first: the batch runs again, and nothing of it is there twice.
TEST_F(BatchesTest, Conflict_RunsTheBatchAgain) {
  ASSERT_TRUE(Run("CREATE (:Sum {n: 0, m: 0})").ok());
  int commits = 0;
  MeddledDatabase database(store_.get(), [&] {
    // Before the second of the batches.
    if (++commits != 2) return;
    auto other = *store_->Begin();
    const Token n = *other->AddKeyName("n");
    ASSERT_TRUE(other->SetNodeProperty(0, n, Value::Int(100)).ok());
    ASSERT_TRUE(other->Commit().ok());
  });
  service_ = std::make_unique<GraphService>(&database, ServiceOptions());
  EXPECT_EQ(
      Rows("UNWIND range(1, 6) AS i CALL (i) { MATCH (s:Sum) SET s.n = s.n + i, s.m = s.m + 1 "
           "CREATE (x:X) WITH x, s, i WHERE i < 4 DELETE x } IN TRANSACTIONS OF 2 ROWS WITH "
           "count(*) AS c MATCH (s:Sum) RETURN s.n, s.m, c, COUNT { (:X) }"),
      Strings{"118, 6, 6, 3"});
  EXPECT_EQ(commits, 5);
  EXPECT_EQ(outcome_.counters.nodes_created, 6u);
  EXPECT_EQ(outcome_.counters.nodes_deleted, 3u);
  service_.reset();
}

TEST_F(BatchesTest, WhereItMayNotBe_IsRefusedByName) {
  const std::pair<const char*, const char*> refused[] = {
      {"CREATE (a:A) WITH a CALL (a) { SET a.x = 1 } IN TRANSACTIONS",
       "after a clause that writes"},
      {"CALL { UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS }",
       "within another subquery"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS OF 0 ROWS", "one row at least"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS OF -1 ROWS", "negative"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS OF i ROWS", "variables"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS ON ERROR GO", "CONTINUE, BREAK"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS REPORT STATUS AS s",
       "needs ON ERROR"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS ON ERROR FAIL REPORT STATUS AS s",
       "needs ON ERROR"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS ON ERROR BREAK REPORT STATUS AS i",
       "already defined"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS OF 1 ROW OF 2 ROWS", "OF"},
      {"UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTION", "TRANSACTIONS"}};
  for (const auto& [text, why] : refused) {
    const absl::Status status = Run(text);
    EXPECT_NE(Text(status).find(why), std::string::npos) << text << ": " << status;
  }
  auto transaction = *service_->Begin(Caller(), {});
  const auto statement =
      service_->Prepare("UNWIND [1] AS i CALL (i) { CREATE () } IN TRANSACTIONS");
  ASSERT_TRUE(statement.ok()) << statement.status();
  const absl::Status status = transaction->Run(**statement, nullptr, &sink_, &outcome_);
  EXPECT_NE(Text(status).find("transaction of its own"), std::string::npos) << status;
  EXPECT_EQ(FailureOf(status, Doing::kQuery).code,
            "Neo.DatabaseError.Transaction.TransactionStartFailed");
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
}

}  // namespace
}  // namespace pulse::cypher
