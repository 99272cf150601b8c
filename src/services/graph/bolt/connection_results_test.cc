// Results of a connection that are given up, kept, or counted; and what is told with them.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>

#include "base/errors.h"
#include "services/graph/bolt/connection.h"
#include "services/graph/bolt/test_connection.h"
#include "services/graph/session/chained_transaction.h"

namespace pulse::bolt {
namespace {

using test::Begin;
using test::Commit;
using test::Discard;
using test::Pull;
using test::Query;
using test::Reset;
using test::Rollback;
using test::Strings;
using test::Text;

class ConnectionResultsTest : public test::ConnectionFixture {};

constexpr char kWriteWithManyRows[] =
    "CREATE (:A) WITH 1 AS one UNWIND range(1, 900000) AS x RETURN x";

TEST_F(ConnectionResultsTest, Stalled_ResultOfAWrite_IsRolledBack) {
  shared_.limits.read_ahead_bytes = 1000;
  LogOn();
  EXPECT_EQ(Texts({Query(kWriteWithManyRows), Pull(1)}),
            (Strings{"SUCCESS", "RECORD 1", "SUCCESS"}));
  EXPECT_EQ(Texts({Pull()}), Strings{"FAILURE Neo.ClientError.Transaction.TransactionTimedOut"});
  EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  EXPECT_EQ(Count("A"), 0);
  EXPECT_EQ(database_.open_transactions(), 0);
}

TEST_F(ConnectionResultsTest, Result_OfAWriteThatAnotherMessageEnds_IsRolledBack) {
  shared_.limits.read_ahead_bytes = 1000;
  shared_.limits.stalled = std::chrono::minutes(1);
  LogOn();
  EXPECT_EQ(Texts({Query(kWriteWithManyRows), Pull(1), Query("RETURN 1")}),
            (Strings{"SUCCESS", "RECORD 1", "SUCCESS", "FAILURE Neo.ClientError.Request.Invalid"}));
  EXPECT_TRUE(closed_);
  Connect(8);
  LogOn();
  EXPECT_EQ(Count("A"), 0);
}

TEST_F(ConnectionResultsTest, Transaction_SeveralLargeResults_AreLimitedTogether) {
  KeepLittle();
  LogOn();
  const std::string rows = Query("UNWIND range(1, 1000) AS x RETURN x");  // of some 40 bytes
  EXPECT_EQ(Texts({Begin(), rows, rows, rows, Pull(1, 2), rows}),
            (Strings{"SUCCESS", "SUCCESS", "SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS",
                     "FAILURE Neo.ClientError.General.TransactionOutOfMemoryError"}));
  // What is taken, or rolled back, counts no more.
  EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(
        Texts({Begin(), rows, rows, Pull(1, 0), Pull(-1, 1), Discard(-1, 0), Commit()}).back(),
        "SUCCESS");
    EXPECT_EQ(Texts({Begin(), rows, rows, Rollback()}), Strings(4, "SUCCESS"));
  }
}

TEST_F(ConnectionResultsTest, Transaction_ManyResults_AreLimited) {
  shared_.limits.results = 3;
  LogOn();
  const std::string query = Query("RETURN 1");
  EXPECT_EQ(Texts({Begin(), query, query, query, Pull(-1, 1), query, query}),
            (Strings{"SUCCESS", "SUCCESS", "SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS", "SUCCESS",
                     "FAILURE Neo.ClientError.General.TransactionOutOfMemoryError"}));
  EXPECT_EQ(Texts({Reset(), query, Pull()}).back(), "SUCCESS");
}

class FullDiskTransaction : public cypher::ChainedTransaction {
 public:
  using ChainedTransaction::ChainedTransaction;
  absl::Status Commit() override { return ErrnoError(ENOSPC, "writing", "db/00000001.wal"); }
};
class FullDiskDatabase : public cypher::MemoryDatabase {
 public:
  absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> Begin() override {
    auto own = MemoryDatabase::Begin();
    if (!own.ok()) return own.status();
    return std::make_unique<FullDiskTransaction>(*std::move(own), nullptr);
  }
};

// A driver would run a TransientError again, and look for the fault of a ClientError in its query.
TEST_F(ConnectionResultsTest, FullDisk_AtACommit_IsADatabaseError) {
  const std::string full = "FAILURE Neo.DatabaseError.General.OutOfDiskSpace";
  FullDiskDatabase database;
  cypher::GraphService service(&database, cypher::ServiceOptions());
  shared_.service = &service;
  for (const int minor : {6, 8}) {
    Connect(minor);
    LogOn();
    EXPECT_EQ(Texts({Query("CREATE (:A)"), Pull()}), (Strings{"SUCCESS", full}));
    EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
    EXPECT_EQ(Texts({Begin(), Query("CREATE (:A)"), Pull(), Commit()}),
              (Strings{"SUCCESS", "SUCCESS", "SUCCESS", full}));
    EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
    const std::string message = TextOf(Last({Query("CREATE (:A)"), Pull()}), "message");
    EXPECT_NE(message.find("free space"), std::string::npos) << message;
    EXPECT_EQ(database.open_transactions(), 0);
    if (connection_->inbox()->Close()) connection_->Work();
  }
}

TEST_F(ConnectionResultsTest, Notices_ThatTheClientDoesNotWant_AreNotTold) {
  const auto list = [](std::initializer_list<const char*> names) {
    ValueList values;
    for (const char* name : names) values.push_back(Text(name));
    return Value::List(std::move(values));
  };
  const auto severity = [](const char* least) {
    return ValueMap{{"notifications_minimum_severity", Text(least)}};
  };
  const auto disabled = [&](const char* what, std::initializer_list<const char*> names) {
    return ValueMap{{cypher::Concat("notifications_disabled_", what), list(names)}};
  };
  const char* const text = "CREATE INDEX i IF NOT EXISTS FOR (n:N) ON (n.x)";
  // Whether there is a notice: of a statement alone, and of one in a transaction.
  const auto told = [&](const ValueMap& hello, const ValueMap& extra) {
    Strings both;
    for (const bool own : {true, false}) {
      Connect(4);
      Ask({test::Hello(hello), test::Logon()});
      const Value summary =
          own ? Last({Query(text, {}, extra), Pull()}) : Last({Begin(extra), Query(text), Pull()});
      both.push_back(summary.Find("notifications") != nullptr ? "told" : "not");
      if (connection_->inbox()->Close()) connection_->Work();
    }
    EXPECT_EQ(both[0], both[1]);
    return both[0] == "told";
  };
  LogOn();
  Ask({Query("CREATE INDEX i FOR (n:N) ON (n.x)"), Pull()});
  EXPECT_TRUE(told({}, {}));
  EXPECT_TRUE(told(severity("INFORMATION"), disabled("categories", {"HINT"})));
  for (const char* least : {"OFF", "WARNING"}) {
    EXPECT_FALSE(told(severity(least), {}));
    EXPECT_FALSE(told({}, severity(least)));
    EXPECT_TRUE(told(severity(least), severity("INFORMATION")));
  }
  for (const char* what : {"categories", "classifications"}) {
    EXPECT_FALSE(told(disabled(what, {"HINT", "SCHEMA"}), {}));
    EXPECT_FALSE(told({}, disabled(what, {"SCHEMA"})));
    EXPECT_TRUE(told(disabled(what, {"SCHEMA"}), disabled(what, {})));
  }
}

}  // namespace
}  // namespace pulse::bolt
