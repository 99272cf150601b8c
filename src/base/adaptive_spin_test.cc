#include "base/adaptive_spin.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

constexpr int64_t kLongest = 20'000;

TEST(AdaptiveSpinTest, Spin_LongSleeps_HalvesDownToZero) {
  AdaptiveSpin spin(kLongest);
  EXPECT_EQ(spin.now(), kLongest);
  for (int64_t before = spin.now(); before > 0; before = spin.now()) {
    spin.Slept(1'000'000'000);
    EXPECT_EQ(spin.now(), before / 2);
  }
  spin.Slept(kLongest);
  EXPECT_EQ(spin.now(), 0);
}

TEST(AdaptiveSpinTest, Spin_ShortSleeps_GrowsBackToLongest) {
  AdaptiveSpin spin(kLongest);
  while (spin.now() > 0) spin.Slept(kLongest);
  for (int i = 0; i < 100; ++i) {
    const int64_t before = spin.now();
    spin.Slept(kLongest - 1);
    EXPECT_TRUE(spin.now() > before || spin.now() == kLongest) << i;
  }
  EXPECT_EQ(spin.now(), kLongest);
}

TEST(AdaptiveSpinTest, Spin_LimitBelowLongest_IsZeroAndNotLearnedFrom) {
  AdaptiveSpin spin(kLongest);
  for (const int64_t limit : {int64_t{-1}, kLongest, 2 * kLongest}) {
    EXPECT_EQ(spin.Before(limit), kLongest) << limit;
    EXPECT_TRUE(spin.Learns(limit)) << limit;
  }
  EXPECT_EQ(spin.Before(kLongest - 1), 0);
  EXPECT_FALSE(spin.Learns(kLongest - 1));
}

TEST(AdaptiveSpinTest, Spin_LongestIsZero_StaysZeroAndLearnsNothing) {
  AdaptiveSpin spin(0);
  EXPECT_EQ(spin.Before(-1), 0);
  EXPECT_FALSE(spin.Learns(-1));
  spin.Slept(0);
  EXPECT_EQ(spin.now(), 0);
}

}  // namespace
}  // namespace pulse
