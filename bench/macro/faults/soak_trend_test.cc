#include "bench/macro/faults/soak_trend.h"

#include <gtest/gtest.h>

#include <functional>

namespace pulse::bench {
namespace {

Trend Judge(const std::function<double(int)>& value, int samples = 400) {
  std::vector<double> series;
  for (int i = 0; i < samples; ++i) series.push_back(value(i));
  return JudgeTrend(series, 0.1, 16);
}

TEST(SoakTrendTest, JudgeTrend_LevelWithNoise_IsFlat) {
  EXPECT_FALSE(Judge([](int i) { return 1000.0 + (i * 37 % 100 - 50) * 4; }).grows);
  EXPECT_EQ(Judge([](int) { return 100; }).Word(), "flat");
}

TEST(SoakTrendTest, JudgeTrend_SteadyGrowth_IsSeenAboveTheTolerance) {
  // Between the medians of the outer quarters lie three quarters of the run.
  EXPECT_TRUE(Judge([](int i) { return 1000 + i * 0.40; }).grows);
  EXPECT_FALSE(Judge([](int i) { return 1000 + i * 0.25; }).grows);
  EXPECT_TRUE(Judge([](int i) { return 20 + i * 0.1; }).grows);
  EXPECT_FALSE(Judge([](int i) { return 20 + i * 0.03; }).grows) << "below the floor";
}

TEST(SoakTrendTest, JudgeTrend_GrowthInSteps_IsSeen) {
  EXPECT_TRUE(Judge([](int i) { return 1000 + i / 50 * 25.0; }).grows);
}

TEST(SoakTrendTest, JudgeTrend_FillsUpOnceOrShrinks_IsNotGrowth) {
  EXPECT_FALSE(Judge([](int i) { return i < 130 ? 500 + i * 4 : 1020; }).grows);
  EXPECT_FALSE(Judge([](int i) { return 2000.0 - i; }).grows);
}

TEST(SoakTrendTest, JudgeTrend_FewSamples_AreNotJudged) {
  const Trend few = Judge([](int i) { return i * 1000; }, kTrendSamples - 1);
  EXPECT_FALSE(few.judged);
  EXPECT_FALSE(few.grows);
  EXPECT_TRUE(Judge([](int i) { return i * 1000; }, kTrendSamples).grows);
  EXPECT_FALSE(JudgeTrend({}, 0.1, 16).judged);
}

}  // namespace
}  // namespace pulse::bench
