#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace pulse {
namespace {

TEST(HistogramTest, Histogram_Empty_AnswersZero) {
  const Histogram h;
  EXPECT_EQ(h.Count(), 0u);
  EXPECT_EQ(h.Min(), 0u);
  EXPECT_EQ(h.Max(), 0u);
  EXPECT_EQ(h.Mean(), 0);
  EXPECT_EQ(h.ValueAtPercentile(50), 0u);
  EXPECT_EQ(h.ValueAtPercentile(100), 0u);
}

TEST(HistogramTest, Histogram_SmallValues_IsExact) {
  Histogram h;
  for (uint64_t v = 1; v <= 1000; ++v) h.Record(v);
  EXPECT_EQ(h.Count(), 1000u);
  EXPECT_EQ(h.Min(), 1u);
  EXPECT_EQ(h.Max(), 1000u);
  EXPECT_DOUBLE_EQ(h.Mean(), 500.5);
  EXPECT_EQ(h.ValueAtPercentile(0), 1u);
  EXPECT_EQ(h.ValueAtPercentile(50), 500u);
  EXPECT_EQ(h.ValueAtPercentile(99), 990u);
  EXPECT_EQ(h.ValueAtPercentile(99.9), 999u);
  EXPECT_EQ(h.ValueAtPercentile(100), 1000u);
}

TEST(HistogramTest, Percentile_ValuesOfEveryMagnitude_KeepsThreeDigits) {
  for (int bit = 0; bit <= 40; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t v : {power - 1, power, power + 1, power + power / 3}) {
      if (v > Histogram::kMaxValue) continue;
      Histogram h;
      h.Record(v);
      h.Record(Histogram::kMaxValue);  // so that Max() does not hide the error
      const auto got = static_cast<double>(h.ValueAtPercentile(50));
      EXPECT_GE(got, static_cast<double>(v));
      EXPECT_LE(got, static_cast<double>(v) * 1.001) << v;
    }
  }
}

TEST(HistogramTest, Percentiles_RandomLatencies_AgreeWithSortedValues) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latency(10, 2);
  Histogram h;
  std::vector<uint64_t> all;
  for (int i = 0; i < 200000; ++i) {
    const auto v = static_cast<uint64_t>(latency(random));
    h.Record(v);
    all.push_back(v);
  }
  std::sort(all.begin(), all.end());
  for (const double p : {1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99}) {
    const auto rank = static_cast<size_t>(std::ceil(p / 100.0 * static_cast<double>(all.size())));
    const auto exact = static_cast<double>(all[rank - 1]);
    EXPECT_NEAR(static_cast<double>(h.ValueAtPercentile(p)), exact, 1 + exact * 0.001) << p;
  }
  EXPECT_EQ(h.ValueAtPercentile(100), all.back());
}

TEST(HistogramTest, Record_ValueBeyondRange_KeepsItAsMaximum) {
  Histogram h;
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  h.Record(5);
  h.Record(huge);
  EXPECT_EQ(h.Max(), huge);
  EXPECT_EQ(h.ValueAtPercentile(50), 5u);
  EXPECT_EQ(h.ValueAtPercentile(99), huge);
}

TEST(HistogramTest, Percentile_OutOfRangeOrNan_IsMinimumOrMaximum) {
  Histogram h;
  h.Record(0);
  h.Record(10);
  EXPECT_EQ(h.ValueAtPercentile(50), 0u);
  EXPECT_EQ(h.ValueAtPercentile(-3), 0u);
  EXPECT_EQ(h.ValueAtPercentile(std::numeric_limits<double>::quiet_NaN()), 0u);
  EXPECT_EQ(h.ValueAtPercentile(1000), 10u);
}

TEST(HistogramTest, Merge_TwoHistograms_EqualsRecordingTogether) {
  Histogram a, b, both;
  for (uint64_t v = 1; v < 100000; v += 7) {
    (v % 2 == 0 ? a : b).Record(v * v);
    both.Record(v * v);
  }
  a.Merge(b);
  EXPECT_EQ(a.Count(), both.Count());
  EXPECT_EQ(a.Min(), both.Min());
  EXPECT_EQ(a.Max(), both.Max());
  EXPECT_NEAR(a.Mean(), both.Mean(), both.Mean() * 1e-9);
  for (const double p : {10.0, 50.0, 99.0, 99.9}) {
    EXPECT_EQ(a.ValueAtPercentile(p), both.ValueAtPercentile(p));
  }
  a.Merge(Histogram());
  EXPECT_EQ(a.Min(), both.Min());
}

}  // namespace
}  // namespace pulse
