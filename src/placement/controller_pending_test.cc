// The controller and the pending-compaction limit: a busy host is spared while little is pending.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "placement/controller.h"

namespace pulse::placement {
namespace {

Load BusyHost(double pending_ratio) {
  Load load;
  load.host_busy = 1;
  load.pending_ratio = pending_ratio;
  return load;
}

// Compactions one at a time, which take as long as the test says.
struct Line {
  explicit Line(double agent_speed) : controller(OptionsOf(agent_speed)) {}
  static ControllerOptions OptionsOf(double agent_speed) {
    ControllerOptions options;
    options.agent_speed = agent_speed;
    return options;
  }

  Place Do(double host_seconds, double whole_seconds, const Load& load,
           bool about_to_stall = false) {
    const Choice choice =
        controller.Begin(++id, {100'000'000, /*urgent=*/about_to_stall, about_to_stall}, load, now);
    if (!choice.why.empty()) why = choice.why;
    now += choice.place == Place::kOffloadAll ? whole_seconds : host_seconds;
    controller.End(id, now, true);
    return choice.place;
  }
  int Whole(int count, double host_seconds, double whole_seconds, const Load& load) {
    int whole = 0;
    for (int i = 0; i < count; ++i) {
      whole += Do(host_seconds, whole_seconds, load) == Place::kOffloadAll ? 1 : 0;
    }
    return whole;
  }

  Controller controller;
  double now = 1;
  uint64_t id = 0;
  std::string why;
};

TEST(ControllerPending, LittlePending_BusyHost_IsSparedFromTheBeginning) {
  const auto first = [](double speed, const Load& load) { return Line(speed).Do(1, 1, load); };
  EXPECT_EQ(first(0.455, BusyHost(0.1)), Place::kOffloadAll);
  EXPECT_EQ(first(0.455, BusyHost(0.9)), Place::kOffloadIo);
  EXPECT_EQ(first(0.455, BusyHost(1.5)), Place::kOffloadIo);
  EXPECT_EQ(first(0.455, BusyHost(-1)), Place::kOffloadIo) << "not known";
  EXPECT_EQ(first(0.1, BusyHost(0)), Place::kHost) << "nothing would ever be done";
  Load idle = BusyHost(0), shared = BusyHost(0), split_only = BusyHost(0), none = BusyHost(0);
  idle.host_busy = 0;
  shared.separate_cpus = false;
  split_only.can_offload_all = false;
  none.agent = none.can_offload_all = false;
  EXPECT_EQ(first(0.455, idle), Place::kOffloadIo) << "nobody wants the host";
  EXPECT_EQ(first(0.455, shared), Place::kOffloadIo) << "nothing is spared";
  EXPECT_EQ(first(0.455, split_only), Place::kOffloadIo);
  EXPECT_EQ(first(0.455, none), Place::kHost);
}

// The agent takes half as long again as host and agent together.
TEST(ControllerPending, PendingLimitReached_BusyHost_ThroughputDecides) {
  Line line(0.455);
  EXPECT_GE(line.Whole(50, 1, 1.5, BusyHost(0.1)), 48) << "one shows what split would be";
  EXPECT_GE(line.Whole(50, 1, 1.5, BusyHost(0.9)), 50) << "below the limit";
  line.why.clear();
  line.Whole(20, 1, 1.5, BusyHost(1.1));
  EXPECT_THAT(line.why, ::testing::HasSubstr("whole -> "));
  EXPECT_LT(line.Whole(100, 1, 1.5, BusyHost(1.1)), 15);
  EXPECT_LT(line.Whole(100, 1, 1.5, BusyHost(0.7)), 15) << "some of it has to be paid first";
  line.Whole(10, 1, 1.5, BusyHost(0.4));
  EXPECT_THAT(line.why, ::testing::HasSubstr("little compaction is pending"));
  EXPECT_EQ(line.Whole(50, 1, 1.5, BusyHost(0.4)), 50);
  // The pending compaction is done when the host has time.
  Load idle = BusyHost(0.4);
  idle.host_busy = 0;
  EXPECT_LT(line.Whole(50, 1, 1.5, idle), 5);
}

TEST(ControllerPending, LittlePending_SlowAgentTellsItIsFast_IsFoundOut) {
  Line line(1);
  EXPECT_GT(line.Whole(12, 1, 8, BusyHost(0)), 0);
  EXPECT_LE(line.Whole(100, 1, 8, BusyHost(0)), 2);
}

TEST(ControllerPending, LittlePending_AgentBecomesVerySlow_IsLeft) {
  Line line(1);
  EXPECT_GE(line.Whole(100, 1, 1, BusyHost(0)), 98);
  line.Whole(20, 1, 10, BusyHost(0));
  EXPECT_LE(line.Whole(100, 1, 10, BusyHost(0)), 5);
}

TEST(ControllerPending, AboutToStall_Compaction_GoesWhereItIsFaster) {
  for (const double whole_seconds : {0.7, 1.5}) {
    Line line(1 / whole_seconds);
    line.Whole(50, 1, whole_seconds, BusyHost(0.1));
    const Place expected = whole_seconds < 1 ? Place::kOffloadAll : Place::kOffloadIo;
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(line.Do(1, whole_seconds, BusyHost(0.1), /*about_to_stall=*/true), expected);
      EXPECT_EQ(line.Do(1, whole_seconds, BusyHost(0.1)), Place::kOffloadAll)
          << "the others as before";
    }
  }
}

}  // namespace
}  // namespace pulse::placement
