#include "services/ops/paper_sharing.h"

#include <gtest/gtest.h>

namespace pulse::ops {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(PaperSharing, ChunksThatTheHostHadBegun_AreNotMeasuredAsTheAgentsOwn) {
  PaperSharing sharing(1, 1);
  EXPECT_FALSE(sharing.HostShares());
  int64_t now = 0;
  // The host takes long for its last chunk: the agent is slow beside it.
  for (int i = 0; i < 20; ++i) sharing.Done(Side::kAgent, 100, true, 10, now += kSecond);
  EXPECT_FALSE(sharing.HostShares()) << "nothing is measured yet";
  // Alone it has 1000 bytes a second.
  for (uint64_t i = 0; i <= PaperSharing::kLeastChunks; ++i) {
    EXPECT_FALSE(sharing.HostShares());
    sharing.Done(Side::kAgent, 1000, false, 10, now += kSecond);
  }
  EXPECT_TRUE(sharing.HostShares());
  // Both have 900: the agent is better alone.
  for (int i = 0; i < 20; ++i) {
    sharing.Done(i % 2 == 0 ? Side::kAgent : Side::kHost, 450, true, 10, now += kSecond / 2);
  }
  EXPECT_FALSE(sharing.HostShares());
  sharing.C1Failed();
  EXPECT_FALSE(sharing.HostShares());
}

}  // namespace
}  // namespace pulse::ops
