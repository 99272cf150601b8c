// What rates remember of an engine, and for how long.
#include "services/ops/rates.h"

#include <gtest/gtest.h>

namespace pulse::ops {
namespace {

constexpr uint64_t kChunkBytes = 512 << 10;

TEST(Rate, BytesPerSecond_NewerSamples_PushOutOldOnes) {
  Rate rate;
  EXPECT_EQ(rate.BytesPerSecond(0), 0);
  for (int i = 0; i < 20; ++i) rate.Add(1000, 1000, i);
  EXPECT_NEAR(rate.BytesPerSecond(20), 1e9, 1);
  for (int i = 20; i < 40; ++i) rate.Add(1000, 4000, i);
  EXPECT_NEAR(rate.BytesPerSecond(40), 0.25e9, 0.01e9);
}

TEST(Rate, OldEstimate_IsForgotten) {
  Rate rate;
  rate.Add(1000, 1000, 0);
  EXPECT_TRUE(rate.Known(Rate::kHalfLife));
  EXPECT_FALSE(rate.Known(10 * Rate::kHalfLife));
  EXPECT_EQ(rate.BytesPerSecond(10 * Rate::kHalfLife), 0);
}

TEST(SizedRates, UnknownSize_TakesTheNearestClass) {
  SizedRates rates;
  EXPECT_EQ(rates.BytesPerSecond(1 << 20, 0), 0);
  rates.Add(64 << 10, 1'000'000, 0);
  const double small = rates.BytesPerSecond(64 << 10, 0);
  EXPECT_GT(small, 0);
  EXPECT_EQ(rates.BytesPerSecond(1 << 20, 0), small);
  rates.Add(1 << 20, 1'000'000, 0);
  EXPECT_GT(rates.BytesPerSecond(1 << 20, 0), small);
  EXPECT_EQ(rates.BytesPerSecond(64 << 10, 0), small);
}

TEST(RateTable, Get_OtherOperationLevelOrEngine_HasNoRate) {
  RateTable table;
  SizedRates rates;
  rates.Add(kChunkBytes, 1'000'000, 0);
  table.Put({"compress", 1, "isal"}, rates);
  EXPECT_GT(table.Get({"compress", 1, "isal"}).BytesPerSecond(kChunkBytes, 0), 0);
  EXPECT_EQ(table.Get({"compress", 2, "isal"}).BytesPerSecond(kChunkBytes, 0), 0);
  EXPECT_EQ(table.Get({"decompress", 1, "isal"}).BytesPerSecond(kChunkBytes, 0), 0);
  EXPECT_EQ(table.Get({"compress", 1, "zlib"}).BytesPerSecond(kChunkBytes, 0), 0);
}

TEST(RateTable, Verdict_IsOfItsOperationAndLevel) {
  RateTable table;
  EXPECT_FALSE(table.GetVerdict({"compress", 1, ""}).has_value());
  table.PutVerdict({"compress", 1, ""}, {false, 7});
  EXPECT_FALSE(table.GetVerdict({"compress", 1, ""})->both);
  EXPECT_EQ(table.GetVerdict({"compress", 1, ""})->until, 7);
  EXPECT_FALSE(table.GetVerdict({"compress", 2, ""}).has_value());
}

}  // namespace
}  // namespace pulse::ops
