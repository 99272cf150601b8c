#include "bench/macro/paper/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/macro/opponent.h"

namespace pulse::bench {
namespace {

using testing::HasSubstr;

// Two pairs: in the second one PulseDB is `drift` times as fast as in the first.
nlohmann::json Result(double pulse_speed, double stock_stalls, double pulse_stalls,
                      double drift = 1) {
  nlohmann::json runs = nlohmann::json::array();
  const auto run = [&runs](const char* opponent, int pair, double speed, double stalls) {
    runs.push_back(
        {{"opponent", opponent}, {"pair", pair}, {"ops_per_s", speed}, {"stall_share", stalls}});
  };
  for (const int pair : {1, 2}) {
    run(kStockDefault, pair, 100, stock_stalls);
    run(kPulse, pair, pulse_speed * (pair == 1 ? 1 : drift), pulse_stalls);
  }
  return {{"settings", {{"tiny", false}}},
          {"rows", {{{"label", "1024 B"}, {"runs", std::move(runs)}}}}};
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

TEST(TargetsTest, HeldAndMissedComeFromTheRuns) {
  nlohmann::json result = Result(160, 0, 0);
  const auto there = [&](const std::string& name) {
    return name == "fillrandom" ? &result : nullptr;
  };
  const Judgement held = Of("fillrandom", kSpeed, there);
  EXPECT_EQ(held.verdict, Verdict::kHeld);
  EXPECT_EQ(held.got->median, 1.6);
  result = Result(159, 0, 0);
  EXPECT_EQ(Of("fillrandom", kSpeed, there).verdict, Verdict::kMissed);
  // The ratio that the file states is not believed.
  result["rows"][0]["ratios"] = {{{"ratio", "throughput, pulse / stock-default"}, {"median", 9}}};
  EXPECT_EQ(Of("fillrandom", kSpeed, there).verdict, Verdict::kMissed);
}

TEST(TargetsTest, WhatOnlySomePairsShowIsNotClear) {
  nlohmann::json result = Result(159, 0, 0, 1.2);  // the median is above 1.6
  const auto there = [&](const std::string&) { return &result; };
  const Judgement judged = Of("fillrandom", kSpeed, there);
  EXPECT_EQ(judged.verdict, Verdict::kNotClear);
  EXPECT_GT(judged.got->median, 1.6);
  result["rows"][0]["runs"].erase(2);
  result["rows"][0]["runs"].erase(2);
  EXPECT_EQ(Of("fillrandom", kSpeed, there).why, "one pair has no spread");
}

TEST(TargetsTest, TheBestFixedChoiceIsTheOneToBeat) {
  const Quantity best = {
      "ops_per_s", kAdaptive,
      std::string(kStockDefault) + "|" + kDcomp + "|" + kAggressive + "|" + kPulse, false};
  nlohmann::json runs = nlohmann::json::array();
  const auto add = [&runs](const char* opponent, double speed, int whole) {
    for (const int pair : {1, 2}) {
      runs.push_back({{"opponent", opponent},
                      {"pair", pair},
                      {"ops_per_s", speed + pair},
                      {"whole_compactions", whole}});
    }
  };
  add(kStockDefault, 100, 0);
  add(kDcomp, 120, 3);
  add(kPulse, 150, 0);
  add(kAdaptive, 149, 2);
  nlohmann::json result = {{"settings", {{"tiny", false}}},
                           {"rows", {{{"label", "1024 B"}, {"runs", runs}}}}};
  const auto there = [&](const std::string& name) {
    return name == "dcomp-bf2" ? &result : nullptr;
  };
  std::vector<Judgement> judged;
  for (const Judgement& one : JudgeAll(there)) {
    if (one.aim->experiment == "dcomp-bf2" && one.aim->quantity == best) judged.push_back(one);
  }
  ASSERT_EQ(judged.size(), 2U);
  EXPECT_EQ(judged[0].verdict, Verdict::kMissed);  // at or above all
  EXPECT_EQ(judged[1].verdict, Verdict::kHeld);    // within 3 %
  EXPECT_EQ(judged[1].against, kPulse);
  // Without a whole compaction DComp was not there, and so the best choice is not known, but that
  // it is no worse than those that were.
  for (nlohmann::json& run : result["rows"][0]["runs"]) {
    if (run["opponent"] == kDcomp) run["whole_compactions"] = 0;
  }
  std::vector<Judgement> lacking;
  for (const Judgement& one : JudgeAll(there)) {
    if (one.aim->experiment == "dcomp-bf2" && one.aim->quantity == best) lacking.push_back(one);
  }
  ASSERT_EQ(lacking.size(), 2U);
  EXPECT_EQ(lacking[0].verdict, Verdict::kMissed);
  EXPECT_EQ(lacking[1].verdict, Verdict::kNotMeasured);
  EXPECT_THAT(lacking[1].why, HasSubstr("dcomp: no compaction ran whole in 2 of 2 runs"));
}

// Another than the best by its median may be ahead in a pair.
TEST(TargetsTest, HeldIsWhatHoldsAgainstEach) {
  const Quantity best = {
      "ops_per_s", kAdaptive,
      std::string(kStockDefault) + "|" + kDcomp + "|" + kAggressive + "|" + kPulse, false};
  nlohmann::json runs = nlohmann::json::array();
  const auto add = [&runs](const char* opponent, std::vector<double> speeds) {
    for (size_t pair = 0; pair < speeds.size(); ++pair) {
      runs.push_back({{"opponent", opponent}, {"pair", pair + 1}, {"ops_per_s", speeds[pair]}});
    }
  };
  add(kStockDefault, {100, 100, 160});
  add(kPulse, {150, 150, 150});
  add(kAdaptive, {155, 155, 155});
  const nlohmann::json result = {{"settings", {{"tiny", false}}},
                                 {"rows", {{{"label", "1024 B"}, {"runs", runs}}}}};
  const auto there = [&](const std::string& name) {
    return name == "dcomp-bf2" ? &result : nullptr;
  };
  const Judgement judged = Of("dcomp-bf2", best, there);
  EXPECT_EQ(judged.against, kStockDefault);
  EXPECT_EQ(judged.verdict, Verdict::kNotClear);
  EXPECT_EQ(judged.why, "the pairs differ");
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
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kHeld);
  EXPECT_NEAR(Of("tails", kStalls, there).got->median, 20, 1e-9);
  result = Result(100, 0.5, 0.4);
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kMissed);
  result = Result(100, 0.12, 0);
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kNotApplicable);
  EXPECT_THAT(Of("tails", kStalls, there).why, HasSubstr("12.0 %"));
  // That PulseDB stalls where stock does not is not hidden by that.
  result = Result(100, 0.001, 0.2);
  EXPECT_EQ(Of("tails", kStalls, there).verdict, Verdict::kNotApplicable);
  EXPECT_EQ(Of("tails", kStalls, there).why, "stock did not stall; pulse stalled 20.0 %");
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
