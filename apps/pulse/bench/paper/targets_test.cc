#include "bench/paper/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/opponent.h"

namespace pulse::bench {
namespace {

using testing::HasSubstr;

nlohmann::json Result(double pulse_speed, double stock_stalls, double pulse_stalls) {
  const auto run = [](const char* opponent, double speed, double stalls) {
    return nlohmann::json{
        {"opponent", opponent}, {"pair", 1}, {"ops_per_s", speed}, {"stall_share", stalls}};
  };
  return {{"settings", {{"tiny", false}}},
          {"rows",
           {{{"label", "1024 B"},
             {"runs",
              {run(kStockDefault, 100, stock_stalls), run(kPulse, pulse_speed, pulse_stalls)}}}}}};
}

Judgement Of(const std::string& experiment, const Quantity& quantity,
             const std::function<const nlohmann::json*(const std::string&)>& result_of) {
  for (const Judgement& judged : JudgeAll(result_of)) {
    if (judged.aim->experiment == experiment && judged.aim->quantity == quantity) return judged;
  }
  ADD_FAILURE() << "no such aim";
  return {};
}

const Quantity kSpeed = {"ops_per_s", kPulse, kStockDefault, false};
const Quantity kStalls = {"stall_share", kStockDefault, kPulse, true};

TEST(TargetsTest, ReachedAndMissedComeFromTheRuns) {
  nlohmann::json result = Result(160, 0, 0);
  const auto there = [&](const std::string& name) {
    return name == "fillrandom" ? &result : nullptr;
  };
  const Judgement reached = Of("fillrandom", kSpeed, there);
  EXPECT_EQ(reached.verdict, Verdict::kReached);
  EXPECT_EQ(reached.got->median, 1.6);
  result = Result(159, 0, 0);
  EXPECT_EQ(Of("fillrandom", kSpeed, there).verdict, Verdict::kMissed);
  // The ratio that the file states is not believed.
  result["rows"][0]["ratios"] = {{{"ratio", "throughput, pulse / stock-default"}, {"median", 9}}};
  EXPECT_EQ(Of("fillrandom", kSpeed, there).verdict, Verdict::kMissed);
}

TEST(TargetsTest, WhatWasNotMeasuredIsSaid) {
  nlohmann::json result = Result(200, 0, 0);
  const auto nothing = [](const std::string&) { return nullptr; };
  EXPECT_EQ(Of("fillrandom", kSpeed, nothing).verdict, Verdict::kNotMeasured);
  EXPECT_EQ(Of("fillrandom", kSpeed, nothing).why, "");
  EXPECT_FALSE(Of("fillrandom", kSpeed, nothing).got);
  const auto there = [&](const std::string&) { return &result; };
  EXPECT_EQ(Of("ycsb", kSpeed, there).verdict, Verdict::kNotMeasured);  // has no such row
  EXPECT_THAT(Of("ycsb", kSpeed, there).why, HasSubstr("no such figure"));
  result["settings"]["tiny"] = true;
  EXPECT_EQ(Of("fillrandom", kSpeed, there).verdict, Verdict::kNotMeasured);
  EXPECT_THAT(Of("fillrandom", kSpeed, there).why, HasSubstr("tiny"));
}

TEST(TargetsTest, WithoutStallsThereIsNoneToLose) {
  nlohmann::json result = Result(100, 0.5, 0.3);
  const auto there = [&](const std::string&) { return &result; };
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kReached);
  EXPECT_NEAR(Of("tails", kStalls, there).got->median, 20, 1e-9);
  result = Result(100, 0.5, 0.4);
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kMissed);
  result = Result(100, 0.12, 0);
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kNotApplicable);
  EXPECT_THAT(Of("tails", kStalls, there).why, HasSubstr("12.0 %"));
}

TEST(TargetsTest, AimsAreFoundByWhatTheyMeasure) {
  EXPECT_EQ(AimFor("ycsb", "A", kSpeed)->value, 1.35);
  EXPECT_EQ(AimFor("tails", "1024 B", kStalls)->value, 19);
  EXPECT_FALSE(AimFor("ycsb", "A", {"ops_per_s", kPulse, kStock2Cpu, false}));
  EXPECT_FALSE(AimFor("fillrandom", "128 B", kSpeed));
  EXPECT_EQ(Describe(*AimFor("tails", "1024 B", {"p99.9_us", kPulse, kStockDefault, false})),
            "at most 0.58");
}

}  // namespace
}  // namespace pulse::bench
