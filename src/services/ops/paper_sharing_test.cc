#include "services/ops/paper_sharing.h"

#include <gtest/gtest.h>

namespace pulse::ops {
namespace {

constexpr int64_t kOneSecond = 1'000'000'000;
constexpr uint64_t kMany = 1'000'000;  // chunks that are left

TEST(PaperSharing, ChunksThatTheHostHadBegun_AreNotMeasuredAsTheAgentsOwn) {
  PaperSharing sharing(1, 1);
  EXPECT_TRUE(sharing.HostShares()) << "nothing is known";
  int64_t now = 0;
  // The host takes long for its last chunk: the agent is slow beside it.
  for (int i = 0; i < 20; ++i) sharing.Done(Side::kAgent, 100, true, 10, kMany, now += kOneSecond);
  EXPECT_FALSE(sharing.HostShares()) << "nothing is measured yet";
  // Alone it has 1000 bytes a second.
  for (uint64_t i = 0; i <= PaperSharing::kLeastChunks; ++i) {
    EXPECT_FALSE(sharing.HostShares());
    sharing.Done(Side::kAgent, 1000, false, 10, kMany, now += kOneSecond);
  }
  EXPECT_TRUE(sharing.HostShares());
  // Both have 900: the agent is better alone.
  for (int i = 0; i < 20; ++i) {
    sharing.Done(i % 2 == 0 ? Side::kAgent : Side::kHost, 450, true, 10, kMany,
                 now += kOneSecond / 2);
  }
  EXPECT_FALSE(sharing.HostShares());
  ASSERT_TRUE(sharing.verdict().has_value());
  EXPECT_GT(sharing.verdict()->until, now);
  // The next stream begins with it.
  EXPECT_FALSE(PaperSharing(1, 1, sharing.verdict()).HostShares());
  sharing.C1Failed();
  EXPECT_TRUE(sharing.HostShares());
}

// Measures the agent alone at 1000 bytes a second, and both at `both`.
bool SharesAfter(int64_t both) {
  PaperSharing sharing(1, 1);
  int64_t now = 0;
  while (sharing.HostShares())
    sharing.Done(Side::kAgent, 1000, false, 10, kMany, now += kOneSecond);
  while (!sharing.HostShares())
    sharing.Done(Side::kAgent, 1000, false, 10, kMany, now += kOneSecond);
  for (int i = 0; i < 20 && !sharing.verdict().has_value(); ++i) {
    sharing.Done(i % 2 == 0 ? Side::kAgent : Side::kHost, 1000, true, 10, kMany,
                 now += kOneSecond * 1000 / both);
  }
  EXPECT_TRUE(sharing.verdict().has_value());
  return sharing.HostShares();
}

TEST(PaperSharing, RatesThatDifferByLessThanNoise_BothWork) {
  EXPECT_TRUE(SharesAfter(1200));
  EXPECT_TRUE(SharesAfter(980));
  EXPECT_FALSE(SharesAfter(900));
}

// An agent that is late again and again, so that the host helps it, is not tried for ever.
TEST(PaperSharing, HostHelpsAllTheTime_BothWork) {
  PaperSharing sharing(1, 1);
  int64_t now = 0;
  uint64_t tried = 0;
  for (int i = 0; i < 200; ++i) {
    sharing.Done(i % 5 == 0 ? Side::kHost : Side::kAgent, 1000, false, 10, kMany,
                 now += kOneSecond / 100);
    tried += sharing.HostShares() ? 0 : 1;
  }
  EXPECT_LE(tried, PaperSharing::kTries * PaperSharing::kLeastChunks + 1);
  ASSERT_TRUE(sharing.verdict().has_value());
  EXPECT_TRUE(sharing.verdict()->both);
}

TEST(PaperSharing, VerdictIsOverAndLittleIsLeft_BothWork) {
  PaperSharing sharing(1, 1, PaperVerdict{false, 5 * kOneSecond});
  sharing.Done(Side::kAgent, 1000, false, 10, 20, 4 * kOneSecond);
  EXPECT_FALSE(sharing.HostShares());
  sharing.Done(Side::kAgent, 1000, false, 10, 19, 6 * kOneSecond);
  EXPECT_TRUE(sharing.HostShares());
}

TEST(PaperSharing, LittleIsLeft_BothWorkAndNothingIsMeasured) {
  PaperSharing sharing(1, 1);
  for (uint64_t left = 60; left > 0; --left) {
    sharing.Done(Side::kAgent, 1000, true, 10, left, static_cast<int64_t>(60 - left) * kOneSecond);
    EXPECT_TRUE(sharing.HostShares()) << left;
  }
  EXPECT_FALSE(sharing.verdict().has_value());
}

}  // namespace
}  // namespace pulse::ops
