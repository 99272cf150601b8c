#include "bench/macro/faults/scan_check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace pulse::bench {
namespace {

constexpr size_t kValueBytes = 100;
constexpr uint64_t kSeed = 7;

// A ledger of 10 keys and the values that a database would hold by it.
struct ScanCheckTest : testing::Test {
  const std::string path = testing::TempDir() + "scan_check_" + std::to_string(getpid());
  std::unique_ptr<CrashLedger> ledger = *CrashLedger::Create(path, 10);
  ValueMaker values{kValueBytes, kSeed};
  std::vector<std::string> held = std::vector<std::string>(10);  // empty: absent
  ~ScanCheckTest() override { std::filesystem::remove(path); }

  void Put(uint64_t key) {
    held[key] = values.Make(key, ledger->Begin(key, true));
    ledger->Acknowledge(key);
  }
  void Delete(uint64_t key) {
    ledger->Begin(key, false);
    held[key].clear();
    ledger->Acknowledge(key);
  }
  std::string Check(uint64_t key) {
    const std::string_view value = held[key];
    return ledger->Check(key, value.empty() ? nullptr : &value, values);
  }
  ScanCheck Scan(uint64_t modulus = 1, uint64_t residue = 0) {
    ScanCheck check(ledger.get(), &values, 0, modulus, residue);
    for (uint64_t key = 0; key < 10; ++key) {
      if (held[key].empty()) continue;
      const Key name = EncodeKey(key);
      check.See({name.data(), name.size()}, held[key]);
    }
    check.End(10);
    return check;
  }
};

TEST_F(ScanCheckTest, Scan_WhatWasWritten_IsRight) {
  for (uint64_t key = 0; key < 8; ++key) Put(key);
  Put(3);
  Delete(4);
  Delete(5);
  Put(5);
  for (uint64_t key = 0; key < 10; ++key) EXPECT_EQ(Check(key), "");
  const ScanCheck check = Scan();
  EXPECT_EQ(check.wrong(), 0u);
  EXPECT_EQ(check.checked(), 10u);
}

TEST_F(ScanCheckTest, Scan_DamageOfEachKind_IsFound) {
  for (uint64_t key = 0; key < 8; ++key) Put(key);
  const std::string old = held[3];
  Put(3);
  held[3] = old;  // a lost update
  EXPECT_NE(Check(3), "");
  const std::string gone = held[4];
  Delete(4);
  held[4] = gone;  // a lost deletion
  EXPECT_NE(Check(4), "");
  held[5].clear();  // a lost key
  EXPECT_NE(Check(5), "");
  held[6].back() ^= 1;  // a wrong byte
  EXPECT_NE(Check(6), "");
  held[7] = held[0];  // another's value
  EXPECT_NE(Check(7), "");
  held[9] = gone;  // a key from nowhere
  EXPECT_NE(Check(9), "");
  const ScanCheck check = Scan();
  EXPECT_EQ(check.wrong(), 6u);
  EXPECT_EQ(check.problems().size(), 6u);
}

TEST_F(ScanCheckTest, Scan_KeysOfOthers_AreOnlyCheckedForBelonging) {
  for (uint64_t key = 0; key < 10; ++key) Put(key);
  held[4].clear();
  held[6] = values.Make(6, 99);
  EXPECT_EQ(Scan(2, 1).wrong(), 0u);
  EXPECT_EQ(Scan(2, 1).checked(), 5u);
  EXPECT_EQ(Scan(2, 0).wrong(), 2u);
  held[6] = held[8];
  EXPECT_EQ(Scan(2, 1).wrong(), 1u);
}

TEST_F(ScanCheckTest, Scan_LastKeyLostOrKeyOutOfOrder_IsWrong) {
  Put(9);
  held[9].clear();
  EXPECT_EQ(Scan().wrong(), 1u);
  ScanCheck check(ledger.get(), &values, 5);
  const Key name = EncodeKey(2);
  check.See({name.data(), name.size()}, values.Make(2, 1));
  check.See("foreign", "");
  EXPECT_EQ(check.wrong(), 2u);
}

// A write that failed may have happened; the next one that is acknowledged makes the key certain.
TEST_F(ScanCheckTest, Check_WriteThatFailed_AllowsBothStates) {
  Put(1);
  const std::string before = held[1];
  held[1] = values.Make(1, ledger->Begin(1, true));
  EXPECT_EQ(Check(1), "");
  held[1] = before;
  EXPECT_EQ(Check(1), "");
  EXPECT_EQ(Scan().wrong(), 0u);
  held[1].clear();
  EXPECT_NE(Check(1), "");
  Put(1);
  EXPECT_EQ(Check(1), "");
  held[1] = before;
  EXPECT_NE(Check(1), "");
}

}  // namespace
}  // namespace pulse::bench
