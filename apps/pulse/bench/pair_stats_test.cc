#include "bench/pair_stats.h"

#include <gtest/gtest.h>

#include <utility>

#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

RunSet ThreePairs() {
  RunSet runs;
  for (const double t : {4.0, 6.0, 9.0}) runs.Add("stock", {{"wall_s", t}, {"word", "ignored"}});
  for (const double t : {2.0, 2.0, 6.0}) runs.Add("pulse", {{"wall_s", t}});
  return runs;
}

TEST(PairStatsTest, MedianAndSpread) {
  const Spread odd = Summarize({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(Summarize({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(Summarize({}).median, 0);
}

TEST(PairStatsTest, RatioIsTakenWithinPairs) {
  const Spread ratio = ThreePairs().Ratio("stock", "pulse", "wall_s");
  EXPECT_EQ(ratio.median, 2);  // of 2, 3 and 1.5
  EXPECT_EQ(ratio.min, 1.5);
  EXPECT_EQ(ratio.max, 3);
}

TEST(PairStatsTest, DifferenceIsTakenWithinPairs) {
  RunSet runs;
  for (const auto& [stock, pulse] : {std::pair(0.6, 0.4), {0.5, 0.1}, {0.7, 0.6}}) {
    runs.Add("stock", {{"stall_share", stock}});
    runs.Add("pulse", {{"stall_share", pulse}});
  }
  const Spread difference = runs.Difference("stock", "pulse", "stall_share");
  EXPECT_NEAR(difference.median, 0.2, 1e-9);
  EXPECT_NEAR(difference.min, 0.1, 1e-9);
  EXPECT_NEAR(difference.max, 0.4, 1e-9);
}

TEST(PairStatsTest, UnknownOpponentsAndMetricsAreEmpty) {
  const RunSet runs = ThreePairs();
  EXPECT_FALSE(runs.Has("nobody"));
  EXPECT_TRUE(runs.Series("stock", "word").empty());
  EXPECT_EQ(runs.Ratio("stock", "nobody", "wall_s").median, 0);
  EXPECT_EQ(runs.Lowest({"nobody"}, "wall_s"), "");
  EXPECT_EQ(runs.Lowest({"nobody", "stock", "pulse"}, "wall_s"), "pulse");
}

TEST(PairStatsTest, TargetsAndTheirRendering) {
  const Target least = {Target::Kind::kAtLeast, 1.5};
  const Target most = {Target::Kind::kAtMost, 0.6};
  EXPECT_TRUE(least.ReachedBy(1.5));
  EXPECT_FALSE(least.ReachedBy(1.4));
  EXPECT_TRUE(most.ReachedBy(0.6));
  EXPECT_FALSE(most.ReachedBy(0.7));
  const std::vector<RatioRow> rows = {{"a / b", {1.8, 1.7, 1.9}, least},
                                      {"c / d", {0.8, 0.7, 0.9}, most},
                                      {"e / f", {1.0, 1.0, 1.0}, std::nullopt}};
  const std::string text = RenderRatios(rows);
  EXPECT_NE(text.find("1.80  1.70 .. 1.90  >= 1.50  reached"), std::string::npos) << text;
  EXPECT_NE(text.find("<= 0.60   missed"), std::string::npos) << text;
  const nlohmann::json json = ToJson(rows);
  EXPECT_EQ(json[0]["reached"], true);
  EXPECT_EQ(json[1]["reached"], false);
  EXPECT_FALSE(json[2].contains("reached"));
}

}  // namespace
}  // namespace pulse::bench
