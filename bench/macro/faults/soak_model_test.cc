#include "bench/macro/faults/soak_model.h"

#include <gtest/gtest.h>

namespace pulse::bench {
namespace {

constexpr size_t kValueBytes = 100;
constexpr uint64_t kSeed = 7;

// A model of 10 keys and the values that a database would hold by it.
struct SoakModelTest : testing::Test {
  SoakModel model{10, kValueBytes, kSeed};
  ValueMaker values{kValueBytes, kSeed};
  std::vector<std::string> held = std::vector<std::string>(10);  // empty: absent

  void Put(uint64_t key) {
    held[key] = values.Make(key, model.NextVersion(key));
    model.Put(key);
  }
  void Delete(uint64_t key) {
    held[key].clear();
    model.Delete(key);
  }
  std::string Check(uint64_t key) {
    const std::string_view value = held[key];
    return model.Check(key, value.empty() ? nullptr : &value);
  }
  ScanCheck Scan(uint64_t modulus = 1, uint64_t residue = 0) {
    ScanCheck check(&model, 0, modulus, residue);
    for (uint64_t key = 0; key < 10; ++key) {
      if (held[key].empty()) continue;
      const Key name = EncodeKey(key);
      check.See({name.data(), name.size()}, held[key]);
    }
    check.End(10);
    return check;
  }
};

TEST_F(SoakModelTest, WhatWasWrittenIsRight) {
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

TEST_F(SoakModelTest, EveryKindOfDamageIsSeen) {
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

TEST_F(SoakModelTest, OthersKeysAreOnlyCheckedForBelonging) {
  for (uint64_t key = 0; key < 10; ++key) Put(key);
  held[4].clear();
  held[6] = values.Make(6, 99);
  EXPECT_EQ(Scan(2, 1).wrong(), 0u);
  EXPECT_EQ(Scan(2, 1).checked(), 5u);
  EXPECT_EQ(Scan(2, 0).wrong(), 2u);
  held[6] = held[8];
  EXPECT_EQ(Scan(2, 1).wrong(), 1u);
}

TEST_F(SoakModelTest, KeysAtTheEndAndOutOfOrderAreMissed) {
  Put(9);
  held[9].clear();
  EXPECT_EQ(Scan().wrong(), 1u);
  ScanCheck check(&model, 5);
  const Key name = EncodeKey(2);
  check.See({name.data(), name.size()}, values.Make(2, 1));
  check.See("foreign", "");
  EXPECT_EQ(check.wrong(), 2u);
}

TEST_F(SoakModelTest, AKeyOfUnknownStateIsNotChecked) {
  Put(1);
  model.LoseTrack(1);
  held[1].clear();
  EXPECT_EQ(Check(1), "");
  model.Put(1);
  EXPECT_EQ(Check(1), "");
}

}  // namespace
}  // namespace pulse::bench
