#include "bench/macro/paper/targets.h"

#include <gtest/gtest.h>

#include "bench/macro/opponent.h"

namespace pulse::bench {
namespace {

const Quantity kSpeed = {"ops_per_s", kPulse, kStockDefault, false};
const Quantity kStalls = {"stall_share", kStockDefault, kPulse, true};

TEST(TargetsTest, AimsAreFoundByWhatTheyMeasure) {
  EXPECT_EQ(AimFor("ycsb", "A", kSpeed)->value, 1.35);
  EXPECT_EQ(AimFor("tails", "1024 B", kStalls)->value, 19);
  EXPECT_FALSE(AimFor("ycsb", "A", {"ops_per_s", kPulse, kStock2Cpu, false}));
  EXPECT_FALSE(AimFor("fillrandom", "128 B", kSpeed));
  EXPECT_EQ(Describe(*AimFor("tails", "1024 B", {"p99.9_us", kPulse, kStockDefault, false})),
            "at most 0.58");
}

TEST(TargetsTest, AimsJson_EveryAim_HasWhatTheReportReads) {
  const nlohmann::json list = AimsJson();
  ASSERT_EQ(list.size(), Aims().size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["what"], Aims()[i].what);
    EXPECT_EQ(list[i]["quantity"]["metric"], Aims()[i].quantity.metric);
    const std::string kind = list[i]["target"]["kind"];
    // "within" is described by its limits.
    if (kind != "within") {
      EXPECT_EQ(Describe(Aims()[i].target).rfind(kind, 0), 0U) << kind;
    }
    EXPECT_EQ(list[i]["target"]["value"], Aims()[i].target.value);
    EXPECT_EQ(list[i]["target"].contains("most"), kind == "within");
  }
}

}  // namespace
}  // namespace pulse::bench
