#include "link/heartbeat.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

constexpr int64_t kDeadlineMs = 4000;
constexpr int64_t kLook = kDeadlineMs * 1'000'000 / AgentHeartbeat::kMissedLooks;

TEST(AgentHeartbeat, BusyAndSilent_HangsAfterMissedLooks) {
  AgentHeartbeat beat(kDeadlineMs);
  int64_t now = kLook;
  EXPECT_TRUE(beat.Look(now, 7, true)) << "the first look knows no earlier sign";
  for (int i = 0; i < AgentHeartbeat::kMissedLooks; ++i) {
    now += kLook;
    EXPECT_TRUE(beat.Look(now, 7, true)) << i;
  }
  EXPECT_FALSE(beat.Look(now + kLook, 7, true));
}

TEST(AgentHeartbeat, SignOfLife_ResetsTheCount) {
  AgentHeartbeat beat(kDeadlineMs);
  int64_t now = 0;
  for (uint64_t progress = 1; progress < 100; ++progress) {
    for (int i = 0; i < AgentHeartbeat::kMissedLooks; ++i) {
      EXPECT_TRUE(beat.Look(now += kLook, progress, true));
    }
  }
}

TEST(AgentHeartbeat, Idle_MaySleepForGood) {
  AgentHeartbeat beat(kDeadlineMs);
  for (int i = 1; i < 100; ++i) EXPECT_TRUE(beat.Look(i * kLook, 7, false));
}

TEST(AgentHeartbeat, Due_OnceAnInterval) {
  AgentHeartbeat beat(kDeadlineMs);
  EXPECT_TRUE(beat.Due(kLook));
  beat.Look(kLook, 1, true);
  EXPECT_FALSE(beat.Due(2 * kLook - 1));
  EXPECT_TRUE(beat.Due(2 * kLook));
}

TEST(AgentHeartbeat, AfterSuspension_OneLookCountsOnce) {
  AgentHeartbeat beat(kDeadlineMs);
  beat.Look(kLook, 7, true);
  // The machine slept for an hour: that is one look without a sign, not many.
  EXPECT_TRUE(beat.Look(3'600'000'000'000, 7, true));
}

}  // namespace
}  // namespace pulse
