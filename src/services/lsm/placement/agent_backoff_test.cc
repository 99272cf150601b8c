#include "services/lsm/placement/agent_backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace pulse::lsm {
namespace {

const CpuShare::Share kContended{0.25, true};
const CpuShare::Share kFree{0.9, false};

TEST(AgentBackoffTest, Update_TwoContendedInARow_IsContended) {
  AgentBackoff backoff;
  EXPECT_EQ(backoff.Update(std::nullopt), std::nullopt);
  EXPECT_EQ(backoff.Update(kContended), std::nullopt);
  EXPECT_EQ(backoff.Update(kFree), std::nullopt);
  EXPECT_EQ(backoff.Update(kContended), std::nullopt);
  // A measurement that was too soon changes nothing.
  EXPECT_EQ(backoff.Update(std::nullopt), std::nullopt);
  EXPECT_EQ(backoff.Update(kContended), 0.25);
  EXPECT_EQ(backoff.Update(std::nullopt), 0.25);
  EXPECT_TRUE(backoff.IsContended());
  EXPECT_EQ(backoff.Update(kFree), std::nullopt);
  EXPECT_FALSE(backoff.IsContended());
}

TEST(AgentBackoffTest, Restart_AfterOneContended_NeedsTwoMore) {
  AgentBackoff backoff;
  EXPECT_EQ(backoff.Update(kContended), std::nullopt);
  backoff.Restart();
  EXPECT_EQ(backoff.Update(kContended), std::nullopt);
  EXPECT_EQ(backoff.Update(kContended), 0.25);
}

TEST(AgentBackoffTest, BeginPause_Repeated_DoublesUpToTheLongest) {
  AgentBackoff backoff;
  EXPECT_FALSE(backoff.IsPausing(0));
  double now = 100;
  double expected = AgentBackoff::kFirstPause;
  for (int i = 0; i < 10; ++i) {
    const double pause = backoff.BeginPause(now);
    EXPECT_EQ(pause, expected);
    EXPECT_TRUE(backoff.IsPausing(now + 0.99 * pause));
    EXPECT_FALSE(backoff.IsPausing(now + pause));
    now += 1.5 * pause;
    expected = std::min(2 * expected, AgentBackoff::kLongestPause);
  }
}

TEST(AgentBackoffTest, BeginPause_DuringAPause_BeginsNone) {
  AgentBackoff backoff;
  EXPECT_EQ(backoff.BeginPause(10), 1);
  EXPECT_EQ(backoff.BeginPause(10.5), 0);
  EXPECT_FALSE(backoff.IsPausing(11));
  EXPECT_EQ(backoff.BeginPause(11), 2);
}

TEST(AgentBackoffTest, OnDone_LongAfterThePause_ResetsIt) {
  AgentBackoff backoff;
  EXPECT_EQ(backoff.BeginPause(0), 1);
  EXPECT_EQ(backoff.BeginPause(1), 2);  // until 3
  backoff.OnDone(4.9);                  // not as long after it as it was
  EXPECT_EQ(backoff.BeginPause(5), 4);  // until 9
  backoff.OnDone(13.1);
  EXPECT_EQ(backoff.BeginPause(14), 1);
}

// The compaction was slow, but succeeded: contention goes on.
TEST(AgentBackoffTest, OnDone_WhileContended_KeepsThePause) {
  AgentBackoff backoff;
  EXPECT_EQ(backoff.BeginPause(0), 1);
  backoff.Update(kContended);
  backoff.OnDone(10);
  EXPECT_EQ(backoff.BeginPause(11), 2);
}

}  // namespace
}  // namespace pulse::lsm
