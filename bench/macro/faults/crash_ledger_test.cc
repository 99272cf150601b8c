#include "bench/macro/faults/crash_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace pulse::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CrashLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { ledger_ = CrashLedger::Create(path_, 10).value(); }
  void TearDown() override { unlink(path_.c_str()); }

  std::string Check(uint64_t key, uint64_t version) {
    const std::string value(values_.Make(key, version));
    const std::string_view view = value;
    return ledger_->Check(key, &view, values_);
  }
  std::string CheckAbsent(uint64_t key) { return ledger_->Check(key, nullptr, values_); }
  void Settle(uint64_t key, uint64_t version) {
    const std::string value(values_.Make(key, version));
    const std::string_view view = value;
    ledger_->Settle(key, &view);
  }

  const std::string path_ = "crash_ledger_test." + std::to_string(getpid());
  std::unique_ptr<CrashLedger> ledger_;
  ValueMaker values_{64, 1};
};

TEST_F(CrashLedgerTest, Check_AcknowledgedWrite_MustBeThere) {
  EXPECT_THAT(CheckAbsent(3), IsEmpty());
  EXPECT_EQ(ledger_->Begin(3, true), 1u);
  ledger_->Acknowledge(3);
  EXPECT_THAT(Check(3, 1), IsEmpty());
  EXPECT_THAT(CheckAbsent(3), HasSubstr("key 3 is missing"));
  EXPECT_THAT(Check(3, 7), HasSubstr("version 7"));
}

TEST_F(CrashLedgerTest, Check_OnlyBegunOperation_AllowsBothStates) {
  ledger_->Begin(3, true);
  EXPECT_THAT(CheckAbsent(3), IsEmpty());
  EXPECT_THAT(Check(3, 1), IsEmpty());
  ledger_->Acknowledge(3);
  ledger_->Begin(3, false);
  EXPECT_THAT(CheckAbsent(3), IsEmpty());
  EXPECT_THAT(Check(3, 1), IsEmpty());
  ledger_->Acknowledge(3);
  EXPECT_THAT(Check(3, 1), HasSubstr("a deletion"));
  EXPECT_THAT(CheckAbsent(3), IsEmpty());
}

TEST_F(CrashLedgerTest, Check_AfterSettle_AllowsOnlyThatState) {
  ledger_->Begin(3, true);
  ledger_->Acknowledge(3);
  ledger_->Begin(3, true);
  Settle(3, 1);  // the second was lost, which was allowed
  EXPECT_THAT(Check(3, 1), IsEmpty());
  EXPECT_THAT(Check(3, 2), HasSubstr("version 2"));  // and must not come back
  EXPECT_EQ(ledger_->Begin(3, true), 3u);
  ledger_->Settle(3, nullptr);
  EXPECT_THAT(CheckAbsent(3), IsEmpty());
  EXPECT_THAT(Check(3, 3), Not(IsEmpty()));
}

TEST_F(CrashLedgerTest, Check_ForeignOrCutValue_IsWrong) {
  ledger_->Begin(3, true);
  ledger_->Acknowledge(3);
  const std::string other(values_.Make(4, 1));
  const std::string_view foreign = other, cut = foreign.substr(0, 5);
  EXPECT_THAT(ledger_->Check(3, &foreign, values_), HasSubstr("never its value"));
  EXPECT_THAT(ledger_->Check(3, &cut, values_), HasSubstr("never its value"));
}

TEST_F(CrashLedgerTest, Ledger_ProcessKilled_KeepsItsEntries) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto mine = CrashLedger::Open(path_);
    if (!mine.ok()) _exit(1);
    (*mine)->Begin(5, true);
    (*mine)->Acknowledge(5);
    (*mine)->Report("put failed");
    (*mine)->Report("another");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(Check(5, 1), IsEmpty());
  EXPECT_THAT(CheckAbsent(5), HasSubstr("missing"));
  EXPECT_EQ(ledger_->operations(), 1u);
  EXPECT_EQ(ledger_->problem(), "2 problems, the first: put failed");
}

TEST_F(CrashLedgerTest, Open_NotALedger_IsRefused) {
  ASSERT_EQ(truncate(path_.c_str(), 700), 0);
  EXPECT_THAT(CrashLedger::Open(path_).status().ToString(), HasSubstr("no ledger"));
  ASSERT_EQ(truncate(path_.c_str(), 7), 0);
  EXPECT_THAT(CrashLedger::Open(path_).status().ToString(), HasSubstr("cut short"));
  EXPECT_FALSE(CrashLedger::Open(path_ + ".none").ok());
}

}  // namespace
}  // namespace pulse::bench
