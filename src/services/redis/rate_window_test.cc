// The rate of a counter over a window, by a clock of the test's.
#include "services/redis/rate_window.h"

#include <gtest/gtest.h>

namespace pulse::redis {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(RateWindowTest, PerSecond_SteadyCounter_IsItsRate) {
  RateWindow window;
  window.Reset(0);
  uint64_t count = 0;
  for (int64_t now = 0; now <= 10 * kSecond; now += kSecond / 1000) {
    window.Sample(now, count);
    ++count;
  }
  EXPECT_NEAR(window.PerSecond(10 * kSecond, count), 1000, 2);
}

TEST(RateWindowTest, PerSecond_AfterABurst_ForgetsItWithinTheWindow) {
  RateWindow window;
  window.Reset(0);
  for (int64_t i = 1; i <= 10; ++i) window.Sample(i * kSecond / 10, static_cast<uint64_t>(i) * 500);
  EXPECT_NEAR(window.PerSecond(kSecond, 5000), 5000, 1);
  EXPECT_NEAR(window.PerSecond(10 * kSecond, 5000), 0, 1e-9) << "nothing since";
  EXPECT_NEAR(window.PerSecond(11 * kSecond, 5100), 10, 1e-9) << "100 in the ten seconds since";
}

TEST(RateWindowTest, PerSecond_WithoutSamplesOrBehindOne_IsZero) {
  RateWindow window;
  EXPECT_EQ(window.PerSecond(kSecond, 100), 0);
  window.Sample(kSecond, 100);
  EXPECT_EQ(window.PerSecond(kSecond, 200), 0) << "no time has passed";
  EXPECT_EQ(window.PerSecond(2 * kSecond, 50), 0) << "the counter went back";
  window.Reset(2 * kSecond);
  EXPECT_EQ(window.PerSecond(3 * kSecond, 70), 70);
}

}  // namespace
}  // namespace pulse::redis
