#include "services/graph/session/service.h"

#include <gtest/gtest.h>

#include <new>
#include <numeric>
#include <thread>

#include "base/testing.h"
#include "services/graph/model/test_memory_database.h"
#include "services/graph/model/text.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/test_service.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

using testing_util::Text;

// Takes some hours.
constexpr char kLong[] =
    "UNWIND range(1, 1000000) AS long UNWIND range(1, 1000000) AS x RETURN count(x)";

TEST_F(ServiceTest, Run_Write_IsThereForTheNext) {
  ASSERT_TRUE(Run("CREATE (:A {x: 1})-[:R]->(:B)").ok());
  EXPECT_EQ(outcome_.counters.nodes_created, 2u);
  EXPECT_EQ(outcome_.sequence, database_.sequence());
  EXPECT_EQ(Rows("MATCH (a)-[r]->(b) RETURN a, type(r), labels(b)"),
            Strings{"(:A {x: 1}), 'R', ['B']"});
  EXPECT_EQ(Rows("RETURN $p + 1", {{"p", Value::Int(2)}}), Strings{"3"});
}

// Which the database of these tests does not have.
TEST_F(ServiceTest, Serializable_TransactionOrAll_IsAskedOfTheDatabase) {
  constexpr char kWhy[] = "this database has snapshot isolation only";
  RunOptions serializable;
  serializable.serializable = true;
  EXPECT_EQ(Run("CREATE (:A)", {}, serializable).message(), kWhy);
  EXPECT_EQ(service_.Begin(caller_, serializable).status().message(), kWhy);
  EXPECT_TRUE(Run("MATCH (a) RETURN a", {}, serializable).ok());
  ServiceOptions all;
  all.serializable = true;
  GraphService service(&database_, all);
  EXPECT_EQ(service.Begin(caller_, RunOptions()).status().message(), kWhy);
}

TEST_F(ServiceTest, Run_FailingWrite_LeavesNothing) {
  EXPECT_FALSE(Run("CREATE (:A) WITH 1 AS one RETURN one / 0").ok());
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
  EXPECT_EQ(database_.open_transactions(), 0);
}

// As the standard library does where the process may take no more.
class NoMemorySink : public RowTexts {
 public:
  bool OnRows(const GraphView&, const Value*, size_t, size_t, std::span<const Slot>) override {
    throw std::bad_alloc();
  }
};

TEST_F(ServiceTest, Run_SystemGivesNoMemory_FailsAndGoesOn) {
  const auto statement = service_.Prepare("CREATE (n:A) RETURN 1");
  ASSERT_TRUE(statement.ok()) << statement.status();
  NoMemorySink sink;
  const absl::Status own = service_.Run(**statement, caller_, RunOptions(), &sink, &outcome_);
  EXPECT_EQ(own.code(), absl::StatusCode::kResourceExhausted) << own;
  const auto transaction = Begin();
  const absl::Status within = transaction->Run(**statement, nullptr, &sink, &outcome_);
  EXPECT_EQ(within.code(), absl::StatusCode::kResourceExhausted) << within;
  uint64_t sequence = 0;
  EXPECT_FALSE(transaction->Commit(&sequence).ok());
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
}

class ReadOnlyDatabase : public MemoryDatabase {
 public:
  absl::StatusOr<std::unique_ptr<DatabaseTransaction>> Begin() override {
    return absl::FailedPreconditionError("the database is open for reading only");
  }
};

// Drivers begin as for writing unless told otherwise.
TEST_F(ServiceTest, Begin_ReadOnlyDatabase_RefusesStatementsThatWriteAlone) {
  ReadOnlyDatabase database;
  GraphService service(&database, ServiceOptions());
  auto transaction = service.Begin(caller_, RunOptions());
  ASSERT_TRUE(transaction.ok()) << transaction.status();
  const auto run = [&](std::string_view text) {
    sink_ = RowTexts();
    const auto statement = service.Prepare(text);
    EXPECT_TRUE(statement.ok()) << statement.status();
    return (*transaction)->Run(**statement, nullptr, &sink_, &outcome_);
  };
  EXPECT_TRUE(run("RETURN 1").ok());
  EXPECT_EQ(sink_.rows(), Strings{"1"});
  const absl::Status refused = run("CREATE (:A)");
  EXPECT_EQ(FailureOf(refused, Doing::kQuery).code, "Neo.ClientError.Statement.AccessMode");
  EXPECT_NE(Text(refused).find("open for reading only"), std::string::npos) << refused;
  transaction = service.Begin(caller_, RunOptions());
  ASSERT_TRUE(transaction.ok()) << transaction.status();
  EXPECT_TRUE(run("RETURN 2").ok());
  uint64_t sequence = 0;
  EXPECT_TRUE((*transaction)->Commit(&sequence).ok());
}

TEST_F(ServiceTest, CreateIndex_ReadOnlyDatabase_IsRefusedAsWhatWritesIs) {
  ReadOnlyDatabase database;
  GraphService service(&database, ServiceOptions());
  const auto statement = service.Prepare("CREATE INDEX FOR (n:A) ON (n.x)");
  ASSERT_TRUE(statement.ok()) << statement.status();
  const absl::Status refused = service.Run(**statement, caller_, RunOptions(), &sink_, &outcome_);
  EXPECT_EQ(cypher::InfoOf(refused).kind, "ReadOnlyDatabase") << refused;
}

TEST_F(ServiceTest, Run_Aborted_IsRunAgain) {
  database_.AbortCommits(3);
  EXPECT_EQ(Rows("CREATE (n:A) RETURN 1"), Strings{"1"});
  EXPECT_EQ(sink_.restarts, 3);
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"1"});
}

TEST_F(ServiceTest, Run_AbortedAfterRowsWereSeen_Fails) {
  database_.AbortCommits(1);
  may_restart_ = false;
  EXPECT_EQ(Run("CREATE (n:A) RETURN 1").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
}

TEST_F(ServiceTest, Run_AbortedForever_GivesUp) {
  database_.AbortCommits(1000);
  EXPECT_EQ(Run("CREATE (n:A)").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(sink_.restarts, ServiceOptions().retries);
}

TEST_F(ServiceTest, Run_ReadOnly_RefusesWrites) {
  RunOptions options;
  options.read_only = true;
  EXPECT_EQ(InfoOf(Run("CREATE (n)", {}, options)).detail, "ReadOnly");
  EXPECT_EQ(InfoOf(Run("CREATE INDEX FOR (n:A) ON (n.x)", {}, options)).detail, "ReadOnly");
}

TEST_F(ServiceTest, Run_CallerWithoutLeave_IsRefused) {
  caller_.may_write = false;
  EXPECT_EQ(Run("CREATE (n)").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Run("CREATE INDEX FOR (n:A) ON (n.x)").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Run("MATCH (n) RETURN n").ok());
  caller_.may_write = true;
  caller_.may_read = false;
  EXPECT_EQ(Run("MATCH (n) RETURN n").code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ServiceTest, Run_AtSnapshot_SeesTheEarlierState) {
  ASSERT_TRUE(Run("CREATE (:A)").ok());
  const uint64_t then = outcome_.sequence;
  ASSERT_TRUE(Run("CREATE (:A)").ok());
  EXPECT_EQ(Rows(Concat("AT SNAPSHOT ", then, " MATCH (n) RETURN count(n)")), Strings{"1"});
  EXPECT_EQ(Run("AT SNAPSHOT 999 MATCH (n) RETURN n").code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Run(Concat("AT SNAPSHOT ", then, " CREATE (n)")).ok());
}

TEST_F(ServiceTest, Run_BeyondMemory_EndsTheQuery) {
  ServiceOptions options;
  options.query_memory_bytes = 1 << 20;
  GraphService service(&database_, options);
  const auto statement = service.Prepare("UNWIND range(1, 10000000) AS x RETURN collect(x)");
  ASSERT_TRUE(statement.ok());
  EXPECT_EQ(service.Run(**statement, caller_, {}, &sink_, &outcome_).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ServiceTest, Run_BeyondHalfOfMemory_SpillsAndIsCounted) {
  ServiceOptions options;
  options.query_memory_bytes = 4 << 20;
  options.spill.directory = testing::TempDir();
  for (const uint64_t limit : {uint64_t{1} << 30, uint64_t{0}, uint64_t{4096}}) {
    options.spill.limit_bytes = limit;
    GraphService service(&database_, options);
    const auto statement = service.Prepare(
        "PROFILE UNWIND range(1, 50000) AS x WITH x, toString(x) AS t ORDER BY t RETURN sum(x)");
    ASSERT_TRUE(statement.ok());
    const absl::Status status = service.Run(**statement, caller_, {}, &sink_, &outcome_);
    if (limit > 4096) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(service.numbers().spills, 1u);
      EXPECT_GT(service.numbers().spilled_bytes, 100'000u);
      EXPECT_NE(outcome_.plan.find(Concat("SpilledBytes=", service.numbers().spilled_bytes)),
                std::string::npos)
          << outcome_.plan;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(service.numbers().spills, 0u);
    }
  }
}

TEST_F(ServiceTest, Run_BeyondTime_EndsTheQuery) {
  RunOptions options;
  options.timeout_nanos = 1;
  EXPECT_EQ(Run(kLong, {}, options).code(), absl::StatusCode::kDeadlineExceeded);
}

uint64_t Failed(const StatementNumbers& numbers, FailureReason reason) {
  return numbers.failed[static_cast<size_t>(reason)];
}

// As one whose client does not ask for the rest.
class GivingUpSink : public RowTexts {
 public:
  bool OnRows(const GraphView&, const Value*, size_t, size_t, std::span<const Slot>) override {
    return false;
  }
  absl::Status status() const override {
    return LimitError(absl::StatusCode::kDeadlineExceeded, "nobody asks for the rest");
  }
};

TEST_F(ServiceTest, SinkThatGivesUpWithAReason_IsAFailureOfTheStatement) {
  const auto statement = service_.Prepare("UNWIND range(1, 1000) AS x RETURN x");
  ASSERT_TRUE(statement.ok()) << statement.status();
  GivingUpSink sink;
  EXPECT_EQ(service_.Run(**statement, caller_, RunOptions(), &sink, &outcome_).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Begin()->Run(**statement, nullptr, &sink, &outcome_).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Failed(service_.numbers(), FailureReason::kTime), 2u);
}

// Planning it looks at each part, for each part that is next.
std::string PlansForLong() {
  std::string text = "MATCH (n0:Long)";
  for (int i = 1; i < 1000; ++i) text += Concat(", (n", i, ":Long)");
  return text + " RETURN 1";
}

TEST_F(ServiceTest, Prepare_BeyondTime_EndsWhilePlanning) {
  int64_t now = 1'000'000'000;
  int looks = 0;
  ServiceOptions options;
  options.query_nanos = 100'000'000;
  options.clock = [&] { return ++looks, now += 1'000'000; };
  GraphService service(&database_, options);
  const std::string text = PlansForLong();
  EXPECT_EQ(service.Prepare(text).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(looks, 110);
  EXPECT_EQ(Failed(service.numbers(), FailureReason::kTime), 1u);
  EXPECT_EQ(Failed(service.numbers(), FailureReason::kCompile), 0u);
  EXPECT_EQ(service.running()->open().count, 0u);
  // Tokens alone.
  std::string list = "RETURN [1";
  for (int i = 0; i < 100'000; ++i) list += ",1";
  EXPECT_EQ(service.Prepare(list + "]").status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(service.Prepare("RETURN 1").ok());
}

TEST_F(ServiceTest, Run_TimeOfPlanning_Counts) {
  int64_t now = 1'000'000'000;
  ServiceOptions options;
  options.query_nanos = 1'000'000;
  options.clock = [&] { return now; };
  GraphService service(&database_, options);
  RunOptions run;
  run.began_nanos = now;
  const auto statement = service.Prepare("UNWIND range(1, 100000) AS x RETURN x", caller_, run);
  ASSERT_TRUE(statement.ok()) << statement.status();
  now += 999'999;
  EXPECT_TRUE(service.Run(**statement, caller_, run, &sink_, &outcome_).ok());
  now += 1;
  EXPECT_EQ(service.Run(**statement, caller_, run, &sink_, &outcome_).code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ServiceTest, Terminate_WhilePlanning_EndsIt) {
  ServiceOptions options;
  options.query_nanos = int64_t{1} << 60;
  int looks = 0;
  GraphService* running = nullptr;
  options.clock = [&] {
    if (++looks == 20) {
      const auto list = running->running()->List(Caller());
      EXPECT_EQ(list.size(), 1u);
      for (const RunningFacts& facts : list) {
        EXPECT_EQ(facts.query.substr(0, 15), "MATCH (n0:Long)");
        EXPECT_EQ(running->running()->Terminate(facts.id, Caller()), RunningList::Ended::kDone);
      }
    }
    return int64_t{1'000'000'000} + looks;
  };
  GraphService service(&database_, options);
  running = &service;
  EXPECT_EQ(service.Prepare(PlansForLong()).status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(looks, 30);
  EXPECT_EQ(Failed(service.numbers(), FailureReason::kTerminated), 1u);
  // Within a transaction, which is ended by it.
  looks = -100;
  auto transaction = service.Begin(Caller(), {});
  ASSERT_TRUE(transaction.ok());
  looks = 0;
  EXPECT_EQ((*transaction)->Prepare(PlansForLong()).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ((*transaction)->Prepare("RETURN 1").status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ServiceTest, ClockOfTheTransaction_StatementsOfOne_SeeTheSameMoment) {
  constexpr char kAsk[] =
      "RETURN datetime.transaction(), localtime.transaction('Europe/Berlin'), date.transaction()";
  const auto transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), kAsk).ok());
  const std::vector<std::string> first = sink_.rows();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(RunIn(transaction.get(), "CREATE ({at: datetime.realtime()})").ok());
    ASSERT_TRUE(RunIn(transaction.get(), kAsk).ok());
    EXPECT_EQ(sink_.rows(), first);
  }
}

TEST_F(ServiceTest, Enter_PrepareAndRun_AreOneEntry) {
  const auto shown = [&] { return service_.running()->List(Caller()); };
  RunOptions options;
  {
    const auto entry = service_.Enter(caller_, options);
    options.entry = entry.get();
    EXPECT_FALSE(service_.Prepare("RETRUN 1", caller_, options).ok());
    ASSERT_EQ(shown().size(), 1u);
    EXPECT_EQ(shown()[0].query, "");
    for (int round = 0; round < 2; ++round) {  // made, and found
      const auto statement = service_.Prepare("CREATE (n:A)", caller_, options);
      ASSERT_TRUE(statement.ok()) << statement.status();
      ASSERT_EQ(shown().size(), 1u);
      EXPECT_EQ(shown()[0].id, entry->id());
      EXPECT_EQ(shown()[0].query, "CREATE (n:A)");
      EXPECT_TRUE(service_.Run(**statement, caller_, options, &sink_, &outcome_).ok());
      EXPECT_EQ(shown()[0].query, "") << "the statement may go";
    }
    const auto data = service_.Prepare("CREATE (n:A)", caller_, options);
    RunOptions reading = options;
    reading.read_only = true;
    EXPECT_FALSE(service_.Run(**data, caller_, reading, &sink_, &outcome_).ok());
    EXPECT_EQ(shown()[0].query, "") << "refused before it ran";
    const auto schema = service_.Prepare("CREATE INDEX i FOR (n:A) ON (n.x)", caller_, options);
    EXPECT_EQ(service_.running()->Terminate(entry->id(), Caller()), RunningList::Ended::kDone);
    for (const auto* late : {&*data, &*schema}) {
      EXPECT_EQ(service_.Run(**late, caller_, options, &sink_, &outcome_).code(),
                absl::StatusCode::kCancelled);
    }
  }
  EXPECT_TRUE(shown().empty());
  EXPECT_TRUE(database_.Indexes().empty());
  EXPECT_EQ(Rows("MATCH (n:A) RETURN count(n)"), Strings{"2"});
}

TEST_F(ServiceTest, Terminate_RunningQuery_EndsIt) {
  absl::Status status;
  // Planned before: it is another entry of the list then.
  const auto statement = service_.Prepare(kLong);
  std::thread other([&] {
    RowTexts sink;
    Outcome outcome;
    status = service_.Run(**statement, caller_, {}, &sink, &outcome);
  });
  const std::string find =
      "SHOW TRANSACTIONS YIELD transactionId AS id, currentQuery AS q WHERE q CONTAINS 'long' AND "
      "NOT q CONTAINS 'SHOW' RETURN id";
  ASSERT_TRUE(testing_util::Eventually([&] { return !Rows(find).empty(); }));
  const Strings ids = Rows(find);
  ASSERT_EQ(ids.size(), 1u);
  const Strings said = Rows("TERMINATE TRANSACTIONS " + ids[0] + ", 'transaction-0'");
  other.join();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0], ids[0] + ", null, 'Transaction terminated.'");
  EXPECT_EQ(said[1], "'transaction-0', null, 'Transaction not found.'");
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_TRUE(Rows(find).empty());
}

TEST_F(ServiceTest, Terminate_ByProcedureWithWhatIsNoList_IsATypeError) {
  for (const char* ids : {"1", "null", "true", "'x'", "{a: 1}", "[1]"}) {
    const absl::Status status = Run(Concat("CALL pulse.terminate.transactions(", ids, ")"));
    EXPECT_EQ(InfoOf(status).detail, "InvalidArgumentType") << ids << ": " << status;
  }
}

TEST_F(ServiceTest, Numbers_AfterStatements_CountThem) {
  ASSERT_TRUE(Run("CREATE (:A {x: 1})").ok());
  Rows("UNWIND [1, 2, 3] AS x RETURN x");
  Rows("UNWIND [1, 2, 3] AS x RETURN x");
  ASSERT_TRUE(Run("CREATE INDEX xs FOR (a:A) ON (a.x)").ok());
  EXPECT_FALSE(Run("RETURN 1 / 0").ok());
  EXPECT_FALSE(Run("RETRUN 1").ok());
  EXPECT_FALSE(Run(std::string(ServiceOptions().max_text_bytes + 1, ' ')).ok());
  RunOptions late;
  late.timeout_nanos = 1;
  EXPECT_FALSE(Run(kLong, {}, late).ok());
  caller_.may_write = false;
  EXPECT_FALSE(Run("CREATE (:A)").ok());
  const StatementNumbers numbers = service_.numbers();
  EXPECT_EQ(numbers.ended, (std::array<uint64_t, 3>{4, 2, 1}));
  EXPECT_EQ(numbers.rows, 6u);
  EXPECT_EQ(Failed(numbers, FailureReason::kOther), 1u);
  EXPECT_EQ(Failed(numbers, FailureReason::kCompile), 2u);
  EXPECT_EQ(Failed(numbers, FailureReason::kTime), 1u);
  EXPECT_EQ(Failed(numbers, FailureReason::kRefused), 1u);
  EXPECT_EQ(std::accumulate(numbers.buckets.begin(), numbers.buckets.end(), uint64_t{0}), 7u);
  EXPECT_GT(numbers.nanos, 0u);
  EXPECT_EQ(numbers.plans_found, 1u);
}

TEST_F(ServiceTest, Numbers_OfConflicts_AreThoseOfStatementsAndTransactions) {
  database_.AbortCommits(2);
  ASSERT_TRUE(Run("CREATE (:A)").ok());
  StatementNumbers numbers = service_.numbers();
  EXPECT_EQ(numbers.conflicts, 2u);
  EXPECT_EQ(numbers.retries, 2u);
  EXPECT_EQ(Failed(numbers, FailureReason::kConflict), 0u);
  database_.AbortCommits(1);
  may_restart_ = false;
  EXPECT_FALSE(Run("CREATE (:A)").ok());
  {
    const auto transaction = Begin();
    EXPECT_EQ(service_.running()->open().count, 1u);
    ASSERT_TRUE(RunIn(transaction.get(), "CREATE (:A)").ok());
    database_.AbortCommits(1);
    uint64_t sequence = 0;
    EXPECT_FALSE(transaction->Commit(&sequence).ok());
  }
  EXPECT_EQ(service_.running()->open().count, 0u);
  EXPECT_EQ(service_.running()->open().oldest_nanos, 0);
  numbers = service_.numbers();
  EXPECT_EQ(numbers.conflicts, 4u);
  EXPECT_EQ(numbers.retries, 2u);
  EXPECT_EQ(Failed(numbers, FailureReason::kConflict), 1u);
  EXPECT_EQ(numbers.ended, (std::array<uint64_t, 3>{0, 3, 0}));
}

TEST(StatementCounts, CountStatement_Duration_IsInItsBucket) {
  StatementCounts counts;
  constexpr int64_t kFirst = StatementNumbers::kFirstNanos;
  for (const int64_t nanos : {int64_t{0}, kFirst, kFirst + 1, 4 * kFirst, int64_t{1} << 60}) {
    counts.CountStatement(StatementKind::kRead, absl::OkStatus(), 0, nanos);
  }
  const StatementNumbers numbers = counts.Take();
  EXPECT_EQ(numbers.buckets[0], 2u);
  EXPECT_EQ(numbers.buckets[1], 2u);
  EXPECT_EQ(numbers.buckets[StatementNumbers::kBuckets - 1], 1u);
}

TEST_F(ServiceTest, Terminate_OfAnotherUser_NeedsAnAdministrator) {
  caller_.user = "a";
  const auto transaction = Begin();
  Caller other;
  other.user = "b";
  other.may_admin = false;
  EXPECT_TRUE(service_.running()->List(other).empty());
  EXPECT_EQ(service_.running()->Terminate(transaction->id(), other),
            RunningList::Ended::kForbidden);
  EXPECT_EQ(service_.running()->Terminate(transaction->id(), Caller()), RunningList::Ended::kDone);
  EXPECT_EQ(RunIn(transaction.get(), "RETURN 1").code(), absl::StatusCode::kCancelled);
}

TEST_F(ServiceTest, Transaction_Committed_IsThereAndBeforeIsNot) {
  auto transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), "CREATE (:A)").ok());
  ASSERT_TRUE(RunIn(transaction.get(), "MATCH (n) RETURN count(n)").ok());
  EXPECT_EQ(sink_.rows(), Strings{"1"});
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
  uint64_t sequence = 0;
  ASSERT_TRUE(transaction->Commit(&sequence).ok());
  EXPECT_EQ(sequence, database_.sequence());
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"1"});
  EXPECT_FALSE(transaction->Commit(&sequence).ok());
}

TEST_F(ServiceTest, Transaction_AfterAnError_CanOnlyBeRolledBack) {
  auto transaction = Begin();
  ASSERT_TRUE(RunIn(transaction.get(), "CREATE (:A)").ok());
  EXPECT_FALSE(RunIn(transaction.get(), "RETURN 1 / 0").ok());
  EXPECT_FALSE(RunIn(transaction.get(), "RETURN 1").ok());
  uint64_t sequence = 0;
  EXPECT_FALSE(transaction->Commit(&sequence).ok());
  transaction.reset();
  EXPECT_EQ(Rows("MATCH (n) RETURN count(n)"), Strings{"0"});
}

TEST_F(ServiceTest, Transaction_Expired_IsSwept) {
  RunOptions options;
  options.timeout_nanos = int64_t{3600} * 1'000'000'000;
  auto transaction = service_.Begin(caller_, options);
  ASSERT_TRUE(transaction.ok());
  bool told = false;
  service_.running()->OnTerminate((*transaction)->entry(), [&] { told = true; });
  const int64_t deadline = (*transaction)->entry()->deadline();
  service_.running()->Sweep(deadline - 1);
  EXPECT_FALSE(told);
  service_.running()->Sweep(deadline);
  EXPECT_TRUE(told);
  EXPECT_FALSE(RunIn(transaction->get(), "RETURN 1").ok());
}

TEST_F(ServiceTest, Transaction_ReadOnly_HasOneSnapshot) {
  const auto transaction = Begin(true);
  ASSERT_TRUE(Run("CREATE (:A)").ok());
  ASSERT_TRUE(RunIn(transaction.get(), "MATCH (n) RETURN count(n)").ok());
  EXPECT_EQ(sink_.rows(), Strings{"0"});
  EXPECT_EQ(InfoOf(RunIn(transaction.get(), "CREATE (:A)")).detail, "ReadOnly");
}

}  // namespace
}  // namespace pulse::cypher
