#include "link/retry_policy.h"

#include "gtest/gtest.h"

namespace pulse {
namespace {

constexpr int64_t kYoung = RetryPolicy::kYoungNanos - 1;
constexpr int64_t kOld = RetryPolicy::kYoungNanos;

TEST(RetryPolicyTest, Delay_AfterFirstLoss_IsAtMostTheFirst) {
  RetryPolicy retry;
  retry.OnLost(kYoung);
  EXPECT_LE(retry.delay_ms(), RetryPolicy::kFirstMs);
  EXPECT_GT(retry.delay_ms(), 0);
}

TEST(RetryPolicyTest, Delay_FailedAttempts_GrowsToTheLongest) {
  RetryPolicy retry;
  retry.OnLost(kOld);
  for (int last = 0; retry.delay_ms() < RetryPolicy::kLastMs; retry.OnFailedAttempt()) {
    EXPECT_GT(retry.delay_ms(), last);
    last = retry.delay_ms();
  }
  retry.OnFailedAttempt();
  EXPECT_EQ(retry.delay_ms(), RetryPolicy::kLastMs);
}

TEST(RetryPolicyTest, Delay_AgentKeepsDyingYoung_GrowsToTheLongest) {
  RetryPolicy retry;
  retry.OnLost(kYoung);
  for (int last = 0; retry.delay_ms() < RetryPolicy::kLastMs; retry.OnLost(kYoung)) {
    EXPECT_GT(retry.delay_ms(), last);
    last = retry.delay_ms();
  }
  retry.OnLost(kYoung);
  EXPECT_EQ(retry.delay_ms(), RetryPolicy::kLastMs);
}

TEST(RetryPolicyTest, Delay_AgentLivedLong_IsTheFirstAgain) {
  RetryPolicy retry;
  for (int i = 0; i < 10; ++i) retry.OnLost(kYoung);
  retry.OnLost(kOld);
  EXPECT_EQ(retry.delay_ms(), RetryPolicy::kFirstMs);
}

}  // namespace
}  // namespace pulse
