#include "services/graph/bolt/connection.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/testing.h"
#include "services/graph/bolt/test_connection.h"

namespace pulse::bolt {
namespace {

using test::AnswerText;
using test::Begin;
using test::Commit;
using test::Discard;
using test::Map;
using test::Pull;
using test::Query;
using test::Reset;
using test::Rollback;
using test::Strings;
using test::Text;

class ConnectionTest : public test::ConnectionFixture {};

TEST_F(ConnectionTest, Hello_OfEachVersion_LogsOn) {
  for (int minor = 0; minor <= kNewest.minor; ++minor) {
    Connect(minor);
    if (minor == 0) {
      EXPECT_EQ(Texts({test::Hello({{"scheme", Text("none")}})}), Strings{"SUCCESS"});
    } else {
      LogOn();
    }
    EXPECT_EQ(Texts({Query("RETURN 1 AS x"), Pull()}), (Strings{"SUCCESS", "RECORD 1", "SUCCESS"}));
    EXPECT_EQ(done_.size(), next_ - 1);
    if (connection_->inbox()->Close()) connection_->Work();
  }
}

TEST_F(ConnectionTest, AnythingBeforeLogon_EndsTheConnection) {
  for (const std::string& message :
       {Query("CREATE (:A)"), Pull(), Begin(), Commit(), Reset(), Rollback(), std::string("x"),
        std::string("\xB0\x55"), test::Packed(0x6B, {})}) {
    Connect(8);
    const Strings texts = Texts({test::Hello(), message, Query("CREATE (:A)"), Pull()});
    ASSERT_GE(texts.size(), 2u);
    EXPECT_EQ(texts[1], "FAILURE Neo.ClientError.Request.Invalid");
    EXPECT_TRUE(closed_);
    EXPECT_EQ(texts.size(), 2u);
    EXPECT_EQ(done_.size(), 4u);  // what came later is answered by nothing, but done
    if (connection_->inbox()->Close()) connection_->Work();
  }
  Connect(8);
  LogOn();
  EXPECT_EQ(Count("A"), 0);
}

// What cannot be a parameter is a failure that a RESET ends: of those whom the server knows.
TEST_F(ConnectionTest, ValueThatIsNotSupported_BeforeLogon_EndsTheConnection) {
  users_ = net::Users::WithPassword("secret");
  const std::string bytes("\xA1\x81z\xB1t\xFF", 6);  // {z: a time before 0}
  const std::string hello = "\xB1\x01" + bytes, logon = "\xB1\x6A" + bytes;
  for (const std::vector<std::string>& first :
       {std::vector<std::string>{hello}, std::vector<std::string>{test::Hello(), logon}}) {
    Connect(8);
    std::vector<std::string> messages = first;
    for (const std::string& more : {Reset(), Query("CREATE (:A)"), Pull()})
      messages.push_back(more);
    const Strings texts = Texts(messages);
    EXPECT_EQ(texts.back(), "FAILURE Neo.ClientError.Request.Invalid");
    EXPECT_EQ(texts.size(), first.size());
    EXPECT_TRUE(closed_);
  }
}

TEST_F(ConnectionTest, Logon_WrongPassword_EndsTheConnection) {
  users_ = net::Users::WithPassword("secret");
  const auto auth = [](std::string_view name, std::string_view password) {
    return test::Logon(
        {{"scheme", Text("basic")}, {"principal", Text(name)}, {"credentials", Text(password)}});
  };
  for (const std::string& logon :
       {auth("neo4j", "wrong"), auth("nobody", "secret"), test::Logon({{"scheme", Text("none")}}),
        test::Logon(), test::Logon({{"scheme", Text("kerberos")}}),
        test::Packed(0x6A, {Value::Int(1)})}) {
    Connect(8);
    EXPECT_EQ(Texts({test::Hello(), logon}),
              (Strings{"SUCCESS", "FAILURE Neo.ClientError.Security.Unauthorized"}));
    EXPECT_TRUE(closed_);
    EXPECT_NE(connection_->unauthenticated_since(), 0);
  }
  // Both names are those of the user without a file.
  for (const char* name : {"neo4j", "default"}) {
    Connect(8);
    EXPECT_EQ(Texts({test::Hello(), auth(name, "secret")}), (Strings{"SUCCESS", "SUCCESS"}));
    EXPECT_EQ(connection_->unauthenticated_since(), 0);
  }
}

TEST_F(ConnectionTest, Logon_ManyWrongPasswords_AreSlowedForTheirAddressAlone) {
  users_ = net::Users::WithPassword("secret");
  int64_t now = 1;
  shared_.throttle =
      std::make_shared<net::LogonThrottle>(net::LogonThrottleOptions(), [&now] { return now; });
  const auto log_on = [this](std::string_view password, const char* client) {
    Connect(8, client);
    const std::string answer =
        Texts({test::Hello(), test::Logon({{"scheme", Text("basic")},
                                           {"principal", Text("neo4j")},
                                           {"credentials", Text(password)}})})
            .back();
    EXPECT_EQ(closed_, answer != "SUCCESS");
    return answer;
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(log_on("guess", "10.0.0.1:1000"), "FAILURE Neo.ClientError.Security.Unauthorized");
  }
  const std::string limited = "FAILURE Neo.ClientError.Security.AuthenticationRateLimit";
  EXPECT_EQ(log_on("guess", "10.0.0.1:1001"), limited);
  EXPECT_EQ(log_on("secret", "10.0.0.1:1002"), limited);
  EXPECT_EQ(log_on("secret", "10.0.0.2:1000"), "SUCCESS");
  now += 1'000'000'000;
  EXPECT_EQ(log_on("secret", "10.0.0.1:1003"), "SUCCESS");
}

TEST_F(ConnectionTest, Pull_InParts_GivesAllRowsInOrder) {
  LogOn();
  Strings rows;
  for (const Message& answer :
       Ask({Query("UNWIND range(1, 10) AS x RETURN x"), Pull(3), Pull(3), Pull(3), Pull(3)})) {
    rows.push_back(AnswerText(answer));
  }
  EXPECT_EQ(rows, (Strings{"SUCCESS", "RECORD 1", "RECORD 2", "RECORD 3", "SUCCESS", "RECORD 4",
                           "RECORD 5", "RECORD 6", "SUCCESS", "RECORD 7", "RECORD 8", "RECORD 9",
                           "SUCCESS", "RECORD 10", "SUCCESS"}));
  // The same with time between.
  EXPECT_EQ(Texts({Query("UNWIND range(1, 5) AS x RETURN x")}), Strings{"SUCCESS"});
  EXPECT_EQ(Texts({Pull(2)}), (Strings{"RECORD 1", "RECORD 2", "SUCCESS"}));
  EXPECT_EQ(Texts({Discard(2)}), Strings{"SUCCESS"});
  EXPECT_EQ(Texts({Pull(1)}), (Strings{"RECORD 5", "SUCCESS"}));
  EXPECT_EQ(Texts({Pull(1)}), Strings{"FAILURE Neo.ClientError.Request.Invalid"});
}

TEST_F(ConnectionTest, Pull_SaysWhetherThereIsMore) {
  LogOn();
  const Value more = Last({Query("UNWIND range(1, 3) AS x RETURN x"), Pull(2)});
  ASSERT_NE(more.Find("has_more"), nullptr);
  EXPECT_TRUE(more.Find("has_more")->is_true());
  EXPECT_EQ(more.Find("type"), nullptr);
  const Value end = Last({Pull(1)});
  EXPECT_EQ(end.Find("has_more"), nullptr);
  EXPECT_EQ(TextOf(end, "type"), "r");
  EXPECT_EQ(TextOf(end, "db"), "neo4j");
  EXPECT_FALSE(TextOf(end, "bookmark").empty());
}

TEST_F(ConnectionTest, Discard_OfAWritingQuery_StillWrites) {
  LogOn();
  EXPECT_EQ(Texts({Query("UNWIND range(1, 5000) AS x CREATE (:A {x: x}) RETURN x"), Discard()}),
            (Strings{"SUCCESS", "SUCCESS"}));
  EXPECT_EQ(Count("A"), 5000);
  EXPECT_EQ(
      Texts({Query("UNWIND range(1, 5000) AS x CREATE (:B {x: x}) RETURN x"), Pull(1), Discard()}),
      (Strings{"SUCCESS", "RECORD 1", "SUCCESS", "SUCCESS"}));
  EXPECT_EQ(Count("B"), 5000);
}

TEST_F(ConnectionTest, Stalled_Result_IsEndedAndToldSo) {
  shared_.limits.read_ahead_bytes = 1000;
  LogOn();
  Ask({Query("UNWIND range(1, 100000) AS x RETURN x"), Pull(10)});
  EXPECT_EQ(Texts({Pull()}), Strings{"FAILURE Neo.ClientError.Transaction.TransactionTimedOut"});
  EXPECT_EQ(Texts({Pull(), Reset(), Query("RETURN 1"), Pull()}),
            (Strings{"IGNORED", "SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS"}));
}

TEST_F(ConnectionTest, Transaction_SeveralResults_AreTold) {
  LogOn();
  EXPECT_EQ(
      Texts({Begin(), Query("UNWIND [1, 2] AS x RETURN x"), Query("UNWIND [3, 4] AS x RETURN x"),
             Pull(1, 0), Pull(1, 1), Pull(1, 0), Pull(5, 1), Commit()}),
      (Strings{"SUCCESS", "SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS", "RECORD 3", "SUCCESS",
               "RECORD 2", "SUCCESS", "RECORD 4", "SUCCESS", "SUCCESS"}));
}

TEST_F(ConnectionTest, Transaction_Isolation_IsReadFromItsMetadata) {
  LogOn();
  const auto begin = [](const char* isolation) {
    return Begin({{"tx_metadata", Value::Map({{"isolation", Text(isolation)}})}});
  };
  EXPECT_EQ(Texts({begin("snapshot"), Rollback()}), (Strings{"SUCCESS", "SUCCESS"}));
  EXPECT_EQ(Texts({begin("dirty")}), Strings{"FAILURE Neo.ClientError.Statement.ArgumentError"});
  EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  const Value refused = Last({begin("serializable")});  // by the database of these tests
  EXPECT_EQ(TextOf(refused, "message"), "this database has snapshot isolation only");
}

TEST_F(ConnectionTest, Transaction_NotPulled_WritesInItsOrder) {
  LogOn();
  EXPECT_EQ(Texts({Begin(), Query("CREATE (:A {x: 1})"), Query("MATCH (a:A) SET a.x = a.x * 10"),
                   Query("MATCH (a:A) SET a.x = a.x + 1"), Commit()}),
            Strings(5, "SUCCESS"));
  EXPECT_EQ(Texts({Query("MATCH (a:A) RETURN a.x"), Pull()}),
            (Strings{"SUCCESS", "RECORD 11", "SUCCESS"}));
}

TEST_F(ConnectionTest, Transaction_ErrorInAnEarlierResult_FailsTheCommit) {
  LogOn();
  EXPECT_EQ(Texts({Begin(), Query("CREATE (:A)"), Query("RETURN 1 / 0"), Commit(), Pull()}),
            (Strings{"SUCCESS", "SUCCESS", "SUCCESS",
                     "FAILURE Neo.ClientError.Statement.ArithmeticError", "IGNORED"}));
  EXPECT_EQ(database_.open_transactions(), 0);
  EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  EXPECT_EQ(Count("A"), 0);
}

TEST_F(ConnectionTest, Transaction_LargeResultBesideAnother_IsLimited) {
  KeepLittle();
  LogOn();
  EXPECT_EQ(Texts({Begin(), Query("UNWIND range(1, 1000) AS x RETURN x"), Pull(1),
                   Query("RETURN 2"), Pull(-1, 1), Pull(1, 0)}),
            (Strings{"SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS", "SUCCESS", "RECORD 2", "SUCCESS",
                     "RECORD 2", "SUCCESS"}));
  EXPECT_EQ(Texts({Rollback()}), Strings{"SUCCESS"});
  const Strings texts = Texts({Begin(), Query("UNWIND range(1, 100000) AS x RETURN x"), Pull(1),
                               Query("RETURN 2"), Pull(-1, 1)});
  ASSERT_EQ(texts.size(), 6u);
  EXPECT_EQ(texts[4], "FAILURE Neo.ClientError.General.TransactionOutOfMemoryError");
}

TEST_F(ConnectionTest, Rollback_WithinAResult_EndsIt) {
  shared_.limits.read_ahead_bytes = 1000;
  shared_.limits.stalled = std::chrono::minutes(1);
  LogOn();
  EXPECT_EQ(
      Texts({Begin(), Query("CREATE (:A) WITH 1 AS one UNWIND range(1, 900000) AS x RETURN x"),
             Pull(1), Rollback()}),
      (Strings{"SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS", "SUCCESS"}));
  EXPECT_EQ(Count("A"), 0);
}

TEST_F(ConnectionTest, Aborted_Commit_IsTransient) {
  LogOn();
  database_.AbortCommits(1);
  EXPECT_EQ(Texts({Begin(), Query("CREATE (:A)"), Pull(), Commit()}).back(),
            "FAILURE Neo.TransientError.Transaction.Outdated");
  EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  // What nobody has seen is run again.
  database_.AbortCommits(2);
  EXPECT_EQ(Texts({Query("UNWIND range(1, 3) AS x CREATE (:A) RETURN x"), Pull()}),
            (Strings{"SUCCESS", "RECORD 1", "RECORD 2", "RECORD 3", "SUCCESS"}));
  EXPECT_EQ(Count("A"), 3);
}

TEST_F(ConnectionTest, Failure_Then_IsIgnoredUntilReset) {
  LogOn();
  EXPECT_EQ(Texts({Query("RETRUN 1"), Pull(), Query("CREATE (:A)"), Pull(), Begin()}),
            (Strings{"FAILURE Neo.ClientError.Statement.SyntaxError", "IGNORED", "IGNORED",
                     "IGNORED", "IGNORED"}));
  EXPECT_EQ(Texts({Reset(), Query("RETURN 1"), Pull()}),
            (Strings{"SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS"}));
}

TEST_F(ConnectionTest, Reset_ThatHasArrived_SkipsWhatIsBeforeIt) {
  LogOn();
  EXPECT_EQ(Texts({Begin(), Query("CREATE (:A)"), Pull(), Commit(), Reset(), Reset(),
                   Query("RETURN 1"), Pull()}),
            (Strings{"IGNORED", "IGNORED", "IGNORED", "IGNORED", "IGNORED", "SUCCESS", "SUCCESS",
                     "RECORD 1", "SUCCESS"}));
  EXPECT_EQ(Count("A"), 0);
}

TEST_F(ConnectionTest, Reset_BehindANewLogon_LeavesTheNewUser) {
  users_ = *net::Users::Parse("user writer on >writer +@all\nuser reader on >reader +@read\n", "");
  const auto logon = [](const char* name) {
    return test::Logon(
        {{"scheme", Text("basic")}, {"principal", Text(name)}, {"credentials", Text(name)}});
  };
  const std::string logoff = test::Packed(0x6B, {});
  const Strings write = {Query("CREATE (:A)"), Pull()};
  EXPECT_EQ(Texts({test::Hello(), logon("writer"), Reset()}), Strings(3, "SUCCESS"));
  EXPECT_EQ(Texts(write), Strings(2, "SUCCESS"));
  EXPECT_EQ(Texts({Query("RETURN 1"), logoff, logon("reader"), Reset()}),
            (Strings{"IGNORED", "SUCCESS", "SUCCESS", "SUCCESS"}));
  EXPECT_EQ(Texts(write), (Strings{"SUCCESS", "FAILURE Neo.ClientError.Security.Forbidden"}));
}

TEST_F(ConnectionTest, Reset_DuringALongQuery_EndsIt) {
  LogOn();
  std::thread worker([&] {
    Ask({Query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b)"),
         Pull()});
  });
  cypher::Caller admin;
  EXPECT_TRUE(testing_util::Eventually([&] { return !service_.running()->List(admin).empty(); }));
  EXPECT_FALSE(connection_->inbox()->Push({100, Reset()}));
  worker.join();
  EXPECT_TRUE(service_.running()->List(admin).empty());
  Strings texts;
  for (const Message& answer : test::ReadAnswers(bytes_)) texts.push_back(AnswerText(answer));
  EXPECT_EQ(texts, (Strings{"SUCCESS", "IGNORED", "SUCCESS"}));
}

TEST_F(ConnectionTest, Close_DuringALongQuery_EndsItAndRollsBack) {
  LogOn();
  std::thread worker([&] {
    Ask({Begin(), Query("CREATE (:A)"), Pull(),
         Query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b)"),
         Pull()});
  });
  const auto runs_long = [&] {
    const auto list = service_.running()->List(cypher::Caller());
    return !list.empty() && list[0].query.starts_with("UNWIND");
  };
  EXPECT_TRUE(testing_util::Eventually(runs_long));
  EXPECT_FALSE(connection_->inbox()->Close());
  worker.join();
  EXPECT_EQ(database_.open_transactions(), 0);
}

TEST_F(ConnectionTest, Terminated_IdleTransaction_IsRolledBackAtOnce) {
  LogOn();
  Ask({Begin(), Query("CREATE (:A)"), Pull()});
  const auto list = service_.running()->List(cypher::Caller());
  ASSERT_EQ(list.size(), 1u);
  service_.running()->Terminate(list[0].id, cypher::Caller());
  EXPECT_TRUE(testing_util::Eventually([&] { return database_.open_transactions() == 0; }));
  EXPECT_EQ(Texts({Query("RETURN 1"), Commit()}),
            (Strings{"FAILURE Neo.ClientError.Transaction.Terminated", "IGNORED"}));
  EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  EXPECT_EQ(Count("A"), 0);
}

TEST_F(ConnectionTest, TimedOut_IdleTransaction_SaysSo) {
  LogOn();
  Ask({Begin({{"tx_timeout", Value::Int(1)}})});
  EXPECT_TRUE(testing_util::Eventually([&] {
    service_.running()->Sweep(NowNanos());
    return database_.open_transactions() == 0;
  }));
  EXPECT_EQ(Texts({Query("RETURN 1"), Commit()}),
            (Strings{"FAILURE Neo.ClientError.Transaction.TransactionTimedOut", "IGNORED"}));
}

// A query is one entry of the list from RUN to its end: who has seen it there can end it.
TEST_F(ConnectionTest, Terminated_BetweenRunAndPull_FailsThePull) {
  LogOn();
  for (int round = 0; round < 2; ++round) {  // the second finds the plan
    EXPECT_EQ(Texts({Query("CREATE (:A)")}), Strings{"SUCCESS"});
    const auto list = service_.running()->List(cypher::Caller());
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].query, "CREATE (:A)");
    EXPECT_EQ(service_.running()->Terminate(list[0].id, cypher::Caller()),
              cypher::RunningList::Ended::kDone);
    AwaitPool();
    EXPECT_TRUE(service_.running()->List(cypher::Caller()).empty()) << "though nobody has pulled";
    EXPECT_EQ(Texts({Pull(), Query("RETURN 1")}),
              (Strings{"FAILURE Neo.ClientError.Transaction.Terminated", "IGNORED"}));
    EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
    EXPECT_EQ(Count("A"), 0);
  }
  // Nothing stays listed of what is reset, or whose client goes.
  EXPECT_EQ(Texts({Query("CREATE (:A)"), Reset()}), (Strings{"IGNORED", "SUCCESS"}));
  EXPECT_TRUE(service_.running()->List(cypher::Caller()).empty());
  EXPECT_EQ(Texts({Query("CREATE (:A)")}), Strings{"SUCCESS"});
  if (connection_->inbox()->Close()) connection_->Work();
  EXPECT_TRUE(service_.running()->List(cypher::Caller()).empty());
  Connect(8);
  LogOn();
  EXPECT_EQ(Count("A"), 0);
}

TEST_F(ConnectionTest, Termination_OfATransactionThatHasGone_CutsNoOtherResult) {
  LogOn();
  bytes_.clear();
  Inbox* const inbox = connection_->inbox();
  const bool work = inbox->Push({next_++, Query("UNWIND range(1, 3) AS x RETURN x")});
  inbox->Push({next_++, Pull(1)});
  inbox->Push({});
  inbox->Push({next_++, Pull()});
  ASSERT_TRUE(work);
  connection_->Work();
  Strings texts;
  for (const Message& answer : test::ReadAnswers(bytes_)) texts.push_back(AnswerText(answer));
  EXPECT_EQ(texts, (Strings{"SUCCESS", "RECORD 1", "SUCCESS", "RECORD 2", "RECORD 3", "SUCCESS"}));
}

TEST_F(ConnectionTest, Failure_OfNewVersions_HasAGqlStatus) {
  LogOn();
  const Value failure = Last({Query("RETRUN 1")});
  EXPECT_EQ(TextOf(failure, "gql_status"), "42001");
  EXPECT_FALSE(TextOf(failure, "description").empty());
  EXPECT_EQ(TextOf(failure, "code"), "");
  Connect(6);
  LogOn();
  const Value old = Last({Query("RETRUN 1")});
  EXPECT_EQ(TextOf(old, "code"), "Neo.ClientError.Statement.SyntaxError");
  EXPECT_EQ(TextOf(old, "gql_status"), "");
}

TEST_F(ConnectionTest, Summary_SchemaThatIsThere_HasANotice) {
  LogOn();
  const Strings create = {Query("CREATE INDEX i IF NOT EXISTS FOR (n:A) ON (n.x)"), Pull()};
  EXPECT_EQ(TextOf(Last(create), "type"), "s");
  const Value again = Last(create);
  ASSERT_NE(again.Find("statuses"), nullptr);
  EXPECT_EQ(again.Find("statuses")->as_list().size(), 2u);
  Connect(4);
  LogOn();
  const Value old = Last(create);
  ASSERT_NE(old.Find("notifications"), nullptr);
  EXPECT_EQ(old.Find("statuses"), nullptr);
}

TEST_F(ConnectionTest, Summary_OfProfile_HasRowsAndHitsOfEachStep) {
  LogOn();
  const Value summary = Last({Query("PROFILE UNWIND [1, 2] AS i RETURN i"), Pull()});
  const Value* profile = summary.Find("profile");
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->Find("rows")->as_int(), 2);
  EXPECT_EQ(profile->Find("dbHits")->as_int(), 0);
  ASSERT_NE(profile->Find("args")->Find("Total"), nullptr);
  EXPECT_EQ(profile->Find("children")->as_list()[0].Find("dbHits")->as_int(), 0);
}

TEST_F(ConnectionTest, Options_ThatDoNotFit_AreRefused) {
  LogOn();
  const std::pair<ValueMap, std::string> cases[] = {
      {{{"db", Text("other")}}, "Neo.ClientError.Database.DatabaseNotFound"},
      {{{"imp_user", Text("other")}}, "Neo.ClientError.Security.Forbidden"},
      {{{"bookmarks", Value::List({Text("x")})}}, "Neo.ClientError.Transaction.InvalidBookmark"},
      {{{"bookmarks", Value::List({Text("pulse:999999")})}},
       "Neo.ClientError.Transaction.InvalidBookmark"},
      {{{"bookmarks", Value::List({Text("pulse:99999999999999999999999")})}},
       "Neo.ClientError.Transaction.InvalidBookmark"},
      {{{"tx_timeout", Text("5s")}}, "Neo.ClientError.Statement.ArgumentError"},
      {{{"tx_timeout", Value::Float(1.5)}}, "Neo.ClientError.Statement.ArgumentError"},
      {{{"tx_timeout", Value::List({})}}, "Neo.ClientError.Statement.ArgumentError"},
      {{{"tx_timeout", Value::Int(-1)}}, "Neo.ClientError.Statement.ArgumentError"}};
  for (const auto& [extra, code] : cases) {
    EXPECT_EQ(Texts({Query("RETURN 1", {}, extra), Reset()}),
              (Strings{"IGNORED", "SUCCESS"}));  // as the RESET has arrived
    EXPECT_EQ(Texts({Query("RETURN 1", {}, extra)}), Strings{"FAILURE " + code});
    EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
    EXPECT_EQ(Texts({Begin(extra)}), Strings{"FAILURE " + code});
    EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
  }
}

TEST_F(ConnectionTest, Timeout_ThatMakesNoSense_IsNamedAndNotOneWithoutEnd) {
  LogOn();
  const std::pair<Value, std::string> bad[] = {{Value::Int(-5), "-5"},
                                               {Value::Int(INT64_MIN), "-9223372036854775808"},
                                               {Text("5s"), "STRING"},
                                               {Value::Float(0.5), "FLOAT"},
                                               {Value::Bool(true), "BOOLEAN"}};
  for (const auto& [value, shown] : bad) {
    for (const bool own : {true, false}) {
      const ValueMap extra = {{"tx_timeout", value}};
      const std::string message =
          TextOf(Last({own ? Query("RETURN 1", {}, extra) : Begin(extra)}), "message");
      for (const std::string& part :
           {std::string("tx_timeout"), shown, std::string("milliseconds")})
        EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_EQ(Texts({Reset()}), Strings{"SUCCESS"});
    }
  }
  EXPECT_EQ(database_.open_transactions(), 0);
  for (const Value& good : {Value(), Value::Int(0), Value::Int(60'000), Value::Int(INT64_MAX)}) {
    EXPECT_EQ(Texts({Begin({{"tx_timeout", good}}), Query("RETURN 1"), Pull(), Rollback()}),
              (Strings{"SUCCESS", "SUCCESS", "RECORD 1", "SUCCESS", "SUCCESS"}));
  }
}

TEST_F(ConnectionTest, Route_TellsTheAddressThatTheClientCameBy) {
  LogOn();
  const Value answer = Last(
      {test::Packed(0x66, {Map({{"address", Text("db.example:1234")}}), Value::List({}), Map()})});
  ASSERT_NE(answer.Find("rt"), nullptr);
  const ValueList& servers = answer.Find("rt")->Find("servers")->as_list();
  ASSERT_EQ(servers.size(), 3u);
  for (const Value& server : servers) {
    EXPECT_EQ(server.Find("addresses")->as_list()[0].as_string(), "db.example:1234");
  }
}

TEST_F(ConnectionTest, BadMessages_EndTheConnection) {
  for (const std::string& message :
       {Pull(0), Pull(-2), Pull(1, 7), std::string("\xB1\x3F\x01", 3), Begin({}) + "x",
        test::Packed(0x10, {Value::Int(1), Map(), Map()}), test::Packed(0x10, {Text("RETURN 1")}),
        test::Packed(0x99, {}), std::string()}) {
    Connect(8);
    LogOn();
    Ask({Query("RETURN 1")});
    EXPECT_EQ(Texts({message}), Strings{"FAILURE Neo.ClientError.Request.Invalid"});
    EXPECT_TRUE(closed_);
    if (connection_->inbox()->Close()) connection_->Work();
  }
}

}  // namespace
}  // namespace pulse::bolt
