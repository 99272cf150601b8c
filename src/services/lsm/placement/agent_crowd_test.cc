#include "services/lsm/placement/agent_crowd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace pulse::lsm {
namespace {

const CpuShare::Share kCrowded{0.25, true};
const CpuShare::Share kFree{0.9, false};

TEST(AgentCrowdTest, OneLookIsNoCrowdAndTwoOnEndAre) {
  AgentCrowd crowd;
  EXPECT_EQ(crowd.Look(std::nullopt), std::nullopt);
  EXPECT_EQ(crowd.Look(kCrowded), std::nullopt);
  EXPECT_EQ(crowd.Look(kFree), std::nullopt);
  EXPECT_EQ(crowd.Look(kCrowded), std::nullopt);
  // What it was too soon for changes nothing.
  EXPECT_EQ(crowd.Look(std::nullopt), std::nullopt);
  EXPECT_EQ(crowd.Look(kCrowded), 0.25);
  EXPECT_EQ(crowd.Look(std::nullopt), 0.25);
  EXPECT_TRUE(crowd.IsThere());
  EXPECT_EQ(crowd.Look(kFree), std::nullopt);
  EXPECT_FALSE(crowd.IsThere());
}

TEST(AgentCrowdTest, OthersBeginToLookAnew) {
  AgentCrowd crowd;
  EXPECT_EQ(crowd.Look(kCrowded), std::nullopt);
  crowd.BeginLooking();
  EXPECT_EQ(crowd.Look(kCrowded), std::nullopt);
  EXPECT_EQ(crowd.Look(kCrowded), 0.25);
}

TEST(AgentCrowdTest, PausesGrowUpToTheLongest) {
  AgentCrowd crowd;
  EXPECT_FALSE(crowd.KeepsAway(0));
  double now = 100;
  double expected = AgentCrowd::kFirstPause;
  for (int i = 0; i < 10; ++i) {
    const double pause = crowd.CameBack(now);
    EXPECT_EQ(pause, expected);
    EXPECT_TRUE(crowd.KeepsAway(now + 0.99 * pause));
    EXPECT_FALSE(crowd.KeepsAway(now + pause));
    now += 1.5 * pause;
    expected = std::min(2 * expected, AgentCrowd::kMostPause);
  }
}

TEST(AgentCrowdTest, ThoseOfTheSameCrowdPauseOnce) {
  AgentCrowd crowd;
  EXPECT_EQ(crowd.CameBack(10), 1);
  EXPECT_EQ(crowd.CameBack(10.5), 0);
  EXPECT_FALSE(crowd.KeepsAway(11));
  EXPECT_EQ(crowd.CameBack(11), 2);
}

TEST(AgentCrowdTest, WhatIsDoneLongAfterwardsEndsIt) {
  AgentCrowd crowd;
  EXPECT_EQ(crowd.CameBack(0), 1);
  EXPECT_EQ(crowd.CameBack(1), 2);  // until 3
  crowd.WasDone(4.9);               // not as long after it as it was
  EXPECT_EQ(crowd.CameBack(5), 4);  // until 9
  crowd.WasDone(13.1);
  EXPECT_EQ(crowd.CameBack(14), 1);
}

// It is done well, if late: the crowd is there all the same.
TEST(AgentCrowdTest, WhatIsDoneInACrowdDoesNotEndIt) {
  AgentCrowd crowd;
  EXPECT_EQ(crowd.CameBack(0), 1);
  crowd.Look(kCrowded);
  crowd.WasDone(10);
  EXPECT_EQ(crowd.CameBack(11), 2);
}

}  // namespace
}  // namespace pulse::lsm
