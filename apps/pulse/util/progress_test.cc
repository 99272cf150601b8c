#include "apps/pulse/util/progress.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(ProgressTest, SecondsLeft_AfterSomeSteps_FollowsFromTheirTime) {
  EXPECT_LT(SecondsLeft(10, 0, 0, 30), 0);  // unknown
  EXPECT_DOUBLE_EQ(SecondsLeft(10, 2, 20, 0), 80);
  EXPECT_DOUBLE_EQ(SecondsLeft(10, 2, 20, 4), 76);
  // One that takes long leaves the others what they take.
  EXPECT_DOUBLE_EQ(SecondsLeft(10, 2, 20, 500), 70);
  EXPECT_DOUBLE_EQ(SecondsLeft(10, 9, 90, 15), 0);
  EXPECT_DOUBLE_EQ(SecondsLeft(10, 10, 100, 3), 0);
  // Of different sizes: 30 of 100 took 60 s, and one of 20 runs for 10 s.
  EXPECT_DOUBLE_EQ(SecondsLeft(100, 30, 60, 10, 20), 130);
}

TEST(ProgressTest, FormatDuration_SecondsToHours_ChoosesTheUnit) {
  EXPECT_EQ(FormatDuration(48), "48 s");
  EXPECT_EQ(FormatDuration(720), "12 min");
  EXPECT_EQ(FormatDuration(4800), "1 h 20 min");
}

}  // namespace
}  // namespace pulse
