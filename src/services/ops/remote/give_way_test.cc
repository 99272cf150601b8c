// The rule by which operators give way, with a clock and numbers of the test's.
#include "services/ops/remote/give_way.h"

#include <gtest/gtest.h>

namespace pulse::ops::remote {
namespace {

using Level = GiveWay::Level;

// A front that takes so many nanoseconds of CPU for a request, and operators that always have
// chunks of both kinds.
class Machine {
 public:
  static constexpr int64_t kTick = 10'000'000;

  // Lets time pass.
  void Run(double seconds) {
    const int64_t end = now_ + static_cast<int64_t>(seconds * 1e9);
    for (; now_ < end; now_ += kTick) {
      const bool heavy = operators_ && rule_.MayBegin(true);
      const bool light = operators_ && rule_.MayBegin(false);
      // A chunk ends a few ticks after it may not begin.
      draining_ = heavy || light ? chunk_ticks_ : draining_ > 0 ? draining_ - 1 : 0;
      const double cost = heavy ? cost_beside_heavy : light ? cost_beside_light : cost_alone;
      const auto requests = static_cast<uint64_t>(requests_per_second * kTick / 1e9);
      sums_.requests += requests;
      sums_.cpu_nanos += static_cast<uint64_t>(cost * static_cast<double>(requests));
      heavy_ticks += heavy ? 1 : 0;
      light_ticks += light ? 1 : 0;
      ++ticks;
      rule_.Tick(now_, sums_, draining_ > 0);
    }
  }
  void StopOperators() { operators_ = false; }
  double HeavyShare() const { return static_cast<double>(heavy_ticks) / ticks; }
  double LightShare() const { return static_cast<double>(light_ticks) / ticks; }
  void ResetShares() { heavy_ticks = light_ticks = ticks = 0; }
  const GiveWay& rule() const { return rule_; }

  double cost_alone = 10'000;
  double cost_beside_heavy = 10'000;
  double cost_beside_light = 10'000;
  double requests_per_second = 40'000;

 private:
  GiveWay rule_;
  GiveWay::Numbers sums_;
  int64_t now_ = 1'000'000'000;
  bool operators_ = true;
  int chunk_ticks_ = 3;
  int draining_ = 0;
  int heavy_ticks = 0;
  int light_ticks = 0;
  int ticks = 0;
};

TEST(GiveWayTest, Front_NotSlower_OperatorsRunAlmostAlways) {
  Machine machine;
  machine.cost_beside_heavy = machine.cost_beside_light = 10'300;
  machine.Run(20);
  EXPECT_EQ(machine.rule().level(), Level::kAll);
  EXPECT_EQ(machine.rule().raised(), 0U);
  EXPECT_GT(machine.HeavyShare(), 0.9) << "but for windows in which the baseline is taken";
  EXPECT_LT(machine.HeavyShare(), 1.0);
  EXPECT_NEAR(machine.rule().alone_nanos(), 10'000, 1);
  EXPECT_NEAR(machine.rule().beside_nanos(), 10'300, 1);
}

TEST(GiveWayTest, Front_SlowerByMemory_OnlyWhatLoadsMemoryWaits) {
  Machine machine;
  machine.cost_beside_heavy = 13'300;
  machine.Run(5);
  machine.ResetShares();
  machine.Run(60);
  EXPECT_GT(machine.rule().raised(), 0U);
  EXPECT_LT(machine.HeavyShare(), 0.1) << "tried again now and then";
  EXPECT_GT(machine.HeavyShare(), 0.0);
  EXPECT_GT(machine.LightShare(), 0.9);
}

TEST(GiveWayTest, Front_SlowerByAll_AllWait) {
  Machine machine;
  machine.cost_beside_heavy = 15'000;
  machine.cost_beside_light = 12'000;
  machine.Run(5);
  machine.ResetShares();
  machine.Run(100);
  EXPECT_LT(machine.HeavyShare(), 0.1);
  EXPECT_LT(machine.LightShare(), 0.35);
  EXPECT_GT(machine.LightShare(), 0.0);
}

TEST(GiveWayTest, Front_NoLongerSlower_OperatorsComeBack) {
  Machine machine;
  machine.cost_beside_heavy = machine.cost_beside_light = 20'000;
  machine.Run(20);
  EXPECT_NE(machine.rule().level(), Level::kAll);
  machine.cost_beside_heavy = machine.cost_beside_light = 10'000;
  machine.Run(80);
  EXPECT_EQ(machine.rule().level(), Level::kAll);
}

TEST(GiveWayTest, Front_WithFewRequests_HoldsNobodyUp) {
  Machine machine;
  machine.cost_beside_heavy = machine.cost_beside_light = 20'000;
  machine.Run(20);
  machine.requests_per_second = 100;
  machine.Run(2);
  machine.ResetShares();
  machine.Run(20);
  EXPECT_EQ(machine.rule().level(), Level::kAll);
  EXPECT_EQ(machine.HeavyShare(), 1.0);
}

TEST(GiveWayTest, Front_ThatBecomesSlowerByItself_IsComparedWithItsNewSelf) {
  Machine machine;
  machine.Run(10);
  machine.cost_alone = machine.cost_beside_heavy = machine.cost_beside_light = 18'000;
  machine.Run(40);
  EXPECT_EQ(machine.rule().level(), Level::kAll);
  EXPECT_NEAR(machine.rule().alone_nanos(), 18'000, 500);
}

TEST(GiveWayTest, Operators_ThatAreOver_LeaveABaseline) {
  Machine machine;
  machine.StopOperators();
  machine.Run(2);
  EXPECT_NEAR(machine.rule().alone_nanos(), 10'000, 1);
  EXPECT_EQ(machine.rule().beside_nanos(), 0);
  EXPECT_TRUE(machine.rule().MayBegin(true));
}

}  // namespace
}  // namespace pulse::ops::remote
