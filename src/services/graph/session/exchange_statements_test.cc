// EXPORT DATABASE and IMPORT DATABASE as statements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "base/testing.h"
#include "services/graph/model/test_memory_database.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"

namespace pulse::cypher {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ExchangeStatementsTest : public testing::Test {
 protected:
  ExchangeStatementsTest() { fs::create_directory(dir_.get()); }
  ~ExchangeStatementsTest() override { fs::remove_all(dir_.get()); }

  static ServiceOptions Options(const std::string& directory) {
    ServiceOptions options;
    options.imports.path = options.exports.path = directory;
    return options;
  }
  absl::Status Run(GraphService* service, std::string_view text, const RunOptions& options = {}) {
    sink_ = RowTexts();
    const auto statement = service->Prepare(text);
    if (!statement.ok()) return statement.status();
    return service->Run(**statement, caller_, options, &sink_, &outcome_);
  }

  testing_util::ScratchPath dir_{"exchange-statements"};
  MemoryDatabase from_, to_;
  GraphService one_{&from_, Options(dir_.get())}, two_{&to_, Options(dir_.get())};
  Caller caller_;
  RowTexts sink_;
  Outcome outcome_;
};

TEST_F(ExchangeStatementsTest, IndexesThatAKilledImportLeft_AreTakenAsTheyAre) {
  ASSERT_TRUE(Run(&one_, "CREATE (:P {n: 1})").ok());
  const char* const constraint = "CREATE CONSTRAINT c FOR (p:P) REQUIRE p.n IS UNIQUE";
  ASSERT_TRUE(Run(&one_, constraint).ok());
  ASSERT_TRUE(Run(&one_, "EXPORT DATABASE 'out'").ok());
  ASSERT_TRUE(Run(&two_, "CREATE INDEX other FOR (p:P) ON (p.m)").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(&two_, "IMPORT DATABASE 'out'")));
  ASSERT_TRUE(Run(&two_, "DROP INDEX other").ok());
  ASSERT_TRUE(Run(&two_, constraint).ok());
  const absl::Status imported = Run(&two_, "IMPORT DATABASE 'out'");
  ASSERT_TRUE(imported.ok()) << imported;
  EXPECT_FALSE(Run(&two_, "CREATE (:P {n: 1})").ok());
}

TEST_F(ExchangeStatementsTest, ExportAndImport_MakeAnEqualGraph) {
  ASSERT_TRUE(
      Run(&one_, "CREATE (:P {n: 1, d: date('2024-02-29')})-[:K {l: [1, 2]}]->(:P {n: 2})").ok());
  ASSERT_TRUE(Run(&one_, "CREATE CONSTRAINT c FOR (p:P) REQUIRE p.n IS UNIQUE").ok());
  RunOptions reading;
  reading.read_only = true;
  ASSERT_TRUE(Run(&one_, "export database 'out';", reading).ok());
  const absl::Status imported = Run(&two_, "IMPORT DATABASE \"out\"");
  ASSERT_TRUE(imported.ok()) << imported;
  EXPECT_EQ(outcome_.counters.nodes_created, 2U);
  EXPECT_EQ(outcome_.counters.edges_created, 1U);
  EXPECT_EQ(outcome_.constraints_added, 1U);
  ASSERT_TRUE(Run(&two_, "MATCH (a)-[k]->(b) RETURN a.n, a.d, k.l, b.n").ok());
  EXPECT_EQ(sink_.Lines(), "1, '2024-02-29', [1, 2], 2\n");
  EXPECT_FALSE(Run(&two_, "CREATE (:P {n: 1})").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(&two_, "IMPORT DATABASE 'out'")));
}

TEST_F(ExchangeStatementsTest, WhoMayNot_IsRefused) {
  caller_.may_admin = false;
  EXPECT_TRUE(absl::IsPermissionDenied(Run(&one_, "EXPORT DATABASE 'out'")));
  EXPECT_TRUE(absl::IsPermissionDenied(Run(&one_, "IMPORT DATABASE 'out'")));
  caller_.may_admin = true;
  caller_.may_read = false;
  EXPECT_TRUE(absl::IsPermissionDenied(Run(&one_, "EXPORT DATABASE 'out'")));
  caller_.may_read = true;
  caller_.may_write = false;
  EXPECT_TRUE(absl::IsPermissionDenied(Run(&one_, "IMPORT DATABASE 'out'")));
  EXPECT_TRUE(Run(&one_, "EXPORT DATABASE 'out'").ok());
  RunOptions reading;
  reading.read_only = true;
  caller_.may_write = true;
  EXPECT_FALSE(Run(&two_, "IMPORT DATABASE 'out'", reading).ok());
}

TEST_F(ExchangeStatementsTest, ServerWithoutDirectories_Refuses) {
  GraphService closed(&from_, ServiceOptions());
  const absl::Status written = Run(&closed, "EXPORT DATABASE 'out'");
  EXPECT_TRUE(absl::IsPermissionDenied(written));
  EXPECT_THAT(std::string(written.message()), HasSubstr("without --export DIR"));
  EXPECT_TRUE(absl::IsPermissionDenied(Run(&closed, "IMPORT DATABASE 'out'")));
  EXPECT_TRUE(absl::IsPermissionDenied(Run(&one_, "EXPORT DATABASE '../out'")));
}

TEST_F(ExchangeStatementsTest, DirectoryInTheWayOrMissing_IsNoErrorOfTheSchema) {
  ASSERT_TRUE(Run(&one_, "EXPORT DATABASE 'out'").ok());
  for (const char* text : {"EXPORT DATABASE 'out'", "EXPORT DATABASE 'no/such/out'",
                           "IMPORT DATABASE 'none'", "LOAD CSV FROM 'none.csv' AS r RETURN r"}) {
    const absl::Status status = Run(&one_, text);
    for (const Doing doing : {Doing::kSchema, Doing::kQuery}) {
      EXPECT_EQ(FailureOf(status, doing).code, "Neo.ClientError.Statement.ExternalResourceFailed")
          << text << ": " << status;
    }
  }
}

TEST_F(ExchangeStatementsTest, Interrupted_LeavesNothing) {
  ASSERT_TRUE(Run(&one_, "UNWIND range(1, 10) AS n CREATE (:P {n: n})").ok());
  const std::function<bool()> interrupted = [] { return true; };
  RunOptions options;
  options.interrupted = &interrupted;
  EXPECT_TRUE(absl::IsCancelled(Run(&one_, "EXPORT DATABASE 'out'", options)));
  EXPECT_TRUE(fs::is_empty(dir_.get()));
  ASSERT_TRUE(Run(&one_, "EXPORT DATABASE 'out'").ok());
  EXPECT_TRUE(absl::IsCancelled(Run(&two_, "IMPORT DATABASE 'out'", options)));
  ASSERT_TRUE(Run(&two_, "MATCH (n) RETURN count(n)").ok());
  EXPECT_EQ(sink_.Lines(), "0\n");
}

TEST_F(ExchangeStatementsTest, InAnExplicitTransaction_IsRefused) {
  const auto transaction = one_.Begin(caller_, {}).value();
  const auto statement = one_.Prepare("EXPORT DATABASE 'out'").value();
  EXPECT_TRUE(absl::IsInvalidArgument(transaction->Run(*statement, nullptr, &sink_, &outcome_)));
}

TEST_F(ExchangeStatementsTest, WrongForms_AreSyntaxErrorsWithTheirPlace) {
  for (const char* text : {"EXPORT DATABASE", "EXPORT DATABASE out", "IMPORT DATABASE 'a' 'b'",
                           "EXPORT 'a'", "AT SNAPSHOT 1 EXPORT DATABASE 'a'"}) {
    const auto statement = one_.Prepare(text);
    ASSERT_FALSE(statement.ok()) << text;
    EXPECT_THAT(std::string(statement.status().message()), HasSubstr("line 1, column")) << text;
  }
  EXPECT_FALSE(StatementWrites("EXPORT DATABASE 'a'"));
  EXPECT_TRUE(StatementWrites("IMPORT DATABASE 'a'"));
}

}  // namespace
}  // namespace pulse::cypher
