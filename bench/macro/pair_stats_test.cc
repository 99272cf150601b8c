#include "bench/macro/pair_stats.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

RunSet ThreePairs() {
  RunSet runs;
  int round = 0;
  for (const double t : {4.0, 6.0, 9.0}) {
    runs.Add("stock", ++round, {{"wall_s", t}, {"word", "ignored"}});
  }
  round = 0;
  for (const double t : {2.0, 2.0, 6.0}) runs.Add("pulse", ++round, {{"wall_s", t}});
  return runs;
}

TEST(PairStatsTest, Summarize_AnyCount_GivesMedianAndSpread) {
  const Spread odd = Summarize({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(Summarize({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(Summarize({}).median, 0);
}

TEST(PairStatsTest, Ratio_ThreePairs_IsTakenWithinPairs) {
  const Spread ratio = ThreePairs().Ratio("stock", "pulse", "wall_s");
  EXPECT_EQ(ratio.median, 2);  // of 2, 3 and 1.5
  EXPECT_EQ(ratio.min, 1.5);
  EXPECT_EQ(ratio.max, 3);
}

TEST(PairStatsTest, Difference_ThreePairs_IsTakenWithinPairs) {
  RunSet runs;
  int round = 0;
  for (const auto& [stock, pulse] : {std::pair(0.6, 0.4), {0.5, 0.1}, {0.7, 0.6}}) {
    runs.Add("stock", ++round, {{"stall_share", stock}});
    runs.Add("pulse", round, {{"stall_share", pulse}});
  }
  const Spread difference = runs.Difference("stock", "pulse", "stall_share");
  EXPECT_NEAR(difference.median, 0.2, 1e-9);
  EXPECT_NEAR(difference.min, 0.1, 1e-9);
  EXPECT_NEAR(difference.max, 0.4, 1e-9);
}

TEST(PairStatsTest, InTurn_EachRound_BeginsWithAnother) {
  std::set<size_t> firsts;
  for (int round = 0; round < 3; ++round) {
    firsts.insert(InTurn(round, 0, 3));
    std::set<size_t> all;
    for (size_t turn = 0; turn < 3; ++turn) all.insert(InTurn(round, turn, 3));
    EXPECT_EQ(all.size(), 3U);
  }
  EXPECT_EQ(firsts.size(), 3U);
  EXPECT_EQ(InTurn(7, 0, 1), 0U);
}

// A figure that is missing in one round must not shift those of the others.
TEST(PairStatsTest, Pairs_FigureMissingInOneRound_AreOfTheSameRound) {
  RunSet runs;
  runs.Add("stock", 1, {{"p99_us", 10}});
  runs.Add("stock", 2, {{"p99_us", 20}});
  runs.Add("stock", 3, {{"p99_us", 30}});
  runs.Add("pulse", 3, {{"p99_us", 60}});
  runs.Add("pulse", 1, {{"p99_us", 20}});
  runs.Add("pulse", 2, {{"p99_us", nullptr}, {"ops_per_s", 1}});
  const Spread ratio = runs.Ratio("pulse", "stock", "p99_us");
  EXPECT_EQ(ratio.count, 2U);
  EXPECT_EQ(ratio.min, 2);
  EXPECT_EQ(ratio.max, 2);
  EXPECT_EQ(runs.Difference("pulse", "stock", "p99_us").max, 30);
}

TEST(PairStatsTest, RunSet_UnknownVariantOrMetric_IsEmpty) {
  const RunSet runs = ThreePairs();
  EXPECT_FALSE(runs.Has("nobody"));
  EXPECT_TRUE(runs.Series("stock", "word").empty());
  EXPECT_EQ(runs.Ratio("stock", "nobody", "wall_s").median, 0);
  EXPECT_EQ(runs.Lowest({"nobody"}, "wall_s"), "");
  EXPECT_EQ(runs.Lowest({"nobody", "stock", "pulse"}, "wall_s"), "pulse");
}

TEST(PairStatsTest, Judge_EachKindOfTarget_TheSpreadDecides) {
  const Target least = {Target::Kind::kAtLeast, 1.5};
  EXPECT_EQ(least.Judge({1.7, 1.5, 1.9, 3}), Outcome::kHeld);
  EXPECT_EQ(least.Judge({1.7, 1.4, 1.9, 3}), Outcome::kNotClear);
  EXPECT_EQ(least.Judge({1.4, 1.3, 1.6, 3}), Outcome::kNotClear);
  EXPECT_EQ(least.Judge({1.4, 1.3, 1.49, 3}), Outcome::kMissed);
  EXPECT_EQ(least.Judge({1.9, 1.9, 1.9, 1}), Outcome::kNotClear);  // one pair has no spread
  const Target most = {Target::Kind::kAtMost, 0.6};
  EXPECT_EQ(most.Judge({0.5, 0.4, 0.6, 2}), Outcome::kHeld);
  EXPECT_EQ(most.Judge({0.5, 0.4, 0.7, 2}), Outcome::kNotClear);
  EXPECT_EQ(most.Judge({0.8, 0.7, 0.9, 2}), Outcome::kMissed);
  const Target above = {Target::Kind::kAbove, 1};
  EXPECT_EQ(above.Judge({1.1, 1.01, 1.2, 2}), Outcome::kHeld);
  EXPECT_EQ(above.Judge({1, 1, 1, 2}), Outcome::kMissed);
  const Target within = {Target::Kind::kWithin, 0.4, 0.5};
  EXPECT_EQ(within.Judge({0.45, 0.41, 0.5, 2}), Outcome::kHeld);
  EXPECT_EQ(within.Judge({0.45, 0.39, 0.51, 2}), Outcome::kNotClear);
  EXPECT_EQ(within.Judge({0.38, 0.3, 0.45, 2}), Outcome::kNotClear);
  EXPECT_EQ(within.Judge({0.6, 0.55, 0.7, 2}), Outcome::kMissed);
}

TEST(PairStatsTest, Ratios_WithTargets_TextAndJsonHaveTheVerdict) {
  const Target least = {Target::Kind::kAtLeast, 1.5};
  const Target most = {Target::Kind::kAtMost, 0.6};
  const std::vector<RatioRow> rows = {{"a / b", {1.8, 1.7, 1.9, 3}, least},
                                      {"c / d", {0.8, 0.7, 0.9, 3}, most},
                                      {"e / f", {1.6, 1.2, 1.9, 3}, least},
                                      {"g / h", {1.0, 1.0, 1.0, 3}, std::nullopt}};
  const std::string text = RenderRatios(rows);
  EXPECT_NE(text.find("1.80  1.70 .. 1.90  at least 1.5       held"), std::string::npos) << text;
  EXPECT_NE(text.find("at most 0.6     missed"), std::string::npos) << text;
  EXPECT_NE(text.find("at least 1.5  not clear"), std::string::npos) << text;
  const nlohmann::json json = ToJson(rows);
  EXPECT_EQ(json[0]["verdict"], "held");
  EXPECT_EQ(json[1]["verdict"], "missed");
  EXPECT_EQ(json[2]["verdict"], "not clear");
  EXPECT_FALSE(json[3].contains("verdict"));
}

}  // namespace
}  // namespace pulse::bench
