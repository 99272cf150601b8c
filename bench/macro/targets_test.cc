#include "bench/macro/targets.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "bench/macro/bench_data.h"
#include "bench/macro/variant.h"

namespace pulse::bench {
namespace {

const Quantity kSpeed = {"ops_per_s", kPulse, kStockDefault, false};
const Quantity kStalls = {"stall_share", kStockDefault, kPulse, true};

TEST(TargetsTest, AimFor_WhatIsMeasured_FindsItsTargetOrNone) {
  EXPECT_EQ(AimFor("ycsb", "A", kSpeed)->value, 1.35);
  EXPECT_EQ(AimFor("tails", "1024 B", kStalls)->value, 19);
  EXPECT_FALSE(AimFor("ycsb", "A", {"ops_per_s", kPulse, kStock2Cpu, false}));
  EXPECT_FALSE(AimFor("fillrandom", "128 B", kSpeed));
  EXPECT_EQ(Describe(*AimFor("tails", "1024 B", {"p99.9_us", kPulse, kStockDefault, false})),
            "at most 0.58");
}

// In data/experiments.json.
TEST(TargetsTest, AimFor_EveryListedTarget_IsWhatTheReportReads) {
  const nlohmann::json& list = DataOf("experiments").at("targets");
  ASSERT_GT(list.size(), 40U);
  std::set<std::string> seen;
  for (const nlohmann::json& aim : list) {
    const nlohmann::json& q = aim.at("quantity");
    // Of two targets for the same, the first is the benchmark's; the report shows both.
    if (!seen.insert(aim.at("experiment").dump() + aim.at("row").dump() + q.dump()).second)
      continue;
    const auto target =
        AimFor(aim.at("experiment"), aim.at("row"),
               {q.at("metric"), q.at("of"), q.at("over"), q.value("points", false)});
    ASSERT_TRUE(target) << aim;
    EXPECT_TRUE(aim.at("what").is_string() && aim.at("needs").is_string()) << aim;
    const std::string kind = aim.at("target").at("kind");
    // "within" is described by its limits.
    if (kind != "within") {
      EXPECT_EQ(Describe(*target).rfind(kind, 0), 0U) << kind;
    }
    EXPECT_EQ(aim.at("target").at("value"), target->value);
    EXPECT_EQ(aim.at("target").contains("most"), kind == "within");
  }
}

TEST(TargetsTest, ExperimentsData_EveryValueOfThePaper_HasWhatTheReportReads) {
  size_t values = 0;
  for (const nlohmann::json& e : DataOf("experiments").at("experiments")) {
    if (!e.contains("paper") || !e["paper"].contains("values")) continue;
    for (const nlohmann::json& v : e["paper"]["values"]) {
      ++values;
      EXPECT_TRUE(v.at("what").is_string() && v.at("where").is_string()) << v;
      EXPECT_TRUE(v.at("ours").at("metric").is_string() && v["ours"].at("of").is_string()) << v;
      if (v.contains("value")) {
        EXPECT_TRUE(v["value"].is_number() && !v.contains("least")) << v;
      } else {
        EXPECT_LT(v.at("least").get<double>(), v.at("most").get<double>()) << v;
      }
    }
  }
  EXPECT_GT(values, 40U);
}

}  // namespace
}  // namespace pulse::bench
