// The rule, part by part.
#include "placement/rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "base/testing.h"

namespace pulse::placement {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::TestSeed;

constexpr double kBf2 = 0.455;

Load BusyHost(double pending_ratio = -1) {
  Load load;
  load.host_busy = 1;
  load.pending_ratio = pending_ratio;
  return load;
}

Rule WithSpeed(double speed, int tasks = 1) {
  RuleOptions options;
  options.agent_speed = speed;
  options.agent_tasks = options.agent_cores = tasks;
  return Rule(options);
}

// Where one compaction goes, alone.
Place One(Rule* rule, const Load& load, const Compaction& job = {}) {
  const Place place = rule->Begin(1, job, load).place;
  rule->End(1);
  return place;
}

Place First(double speed, const Load& load) {
  Rule rule = WithSpeed(speed);
  return One(&rule, load);
}

TEST(Rule, NoPendingKnown_GoesWhereItGetsMoreOfAProcessor) {
  EXPECT_EQ(First(1, BusyHost()), Place::kOffloadAll);
  EXPECT_EQ(First(0.81, BusyHost()), Place::kOffloadAll);
  EXPECT_EQ(First(kBf2, BusyHost()), Place::kOffloadIo);
  EXPECT_EQ(First(1, Load()), Place::kOffloadIo) << "nobody wants the host";
  EXPECT_EQ(First(2, Load()), Place::kOffloadAll) << "the agent is that much faster";
}

TEST(Rule, LittlePending_BusyHost_IsSpared) {
  EXPECT_EQ(First(kBf2, BusyHost(0.1)), Place::kOffloadAll);
  EXPECT_EQ(First(kBf2, BusyHost(0.9)), Place::kOffloadIo);
  EXPECT_EQ(First(kBf2, BusyHost(1.5)), Place::kOffloadIo);
  Load idle = BusyHost(0);
  idle.host_busy = 0;
  EXPECT_EQ(First(kBf2, idle), Place::kOffloadIo) << "nobody wants the host";
}

TEST(Rule, PendingLimitReached_HalfOfItIsDoneFirst) {
  Rule rule = WithSpeed(kBf2);
  EXPECT_EQ(One(&rule, BusyHost(0.4)), Place::kOffloadAll);
  EXPECT_EQ(One(&rule, BusyHost(0.9)), Place::kOffloadAll) << "below the limit";
  EXPECT_EQ(One(&rule, BusyHost(1.1)), Place::kOffloadIo);
  EXPECT_EQ(One(&rule, BusyHost(0.7)), Place::kOffloadIo);
  EXPECT_EQ(One(&rule, BusyHost(0.4)), Place::kOffloadAll);
}

TEST(Rule, HostBusyNow_AndThen_IsOfOneOpinion) {
  Rule rule = WithSpeed(kBf2);
  Load load = BusyHost(0);
  load.host_busy = 0.45;
  EXPECT_EQ(One(&rule, load), Place::kOffloadIo);
  load.host_busy = 0.55;
  EXPECT_EQ(One(&rule, load), Place::kOffloadAll);
  load.host_busy = 0.45;
  EXPECT_EQ(One(&rule, load), Place::kOffloadAll);
  load.host_busy = 0.3;
  EXPECT_EQ(One(&rule, load), Place::kOffloadIo);
}

TEST(Rule, AboutToStall_GoesWhereItIsDoneSooner) {
  const Compaction stalling{/*urgent=*/true, /*about_to_stall=*/true};
  Rule slow = WithSpeed(kBf2), fast = WithSpeed(1);
  EXPECT_EQ(One(&slow, BusyHost(0.1), stalling), Place::kOffloadIo);
  EXPECT_EQ(One(&slow, BusyHost(0.1)), Place::kOffloadAll) << "the others as before";
  EXPECT_EQ(One(&fast, BusyHost(0.1), stalling), Place::kOffloadAll);
}

TEST(Rule, NoAgentOrVerySlowOne_StaysOnHost) {
  Load none = BusyHost(0);
  none.agent = none.can_offload_all = false;
  Rule rule = WithSpeed(1);
  EXPECT_EQ(One(&rule, none), Place::kHost);
  EXPECT_FALSE(rule.agent_does_io());
  EXPECT_EQ(One(&rule, BusyHost(0)), Place::kOffloadAll);
  EXPECT_TRUE(rule.agent_does_io());
  EXPECT_EQ(First(0.1, BusyHost(0)), Place::kHost) << "nothing would ever be done";
}

TEST(Rule, NotOffloadable_IsSplit) {
  Load load = BusyHost(0);
  load.can_offload_all = false;
  EXPECT_EQ(First(1, load), Place::kOffloadIo);
  Rule no_tasks = WithSpeed(1, 0);
  EXPECT_EQ(One(&no_tasks, BusyHost(0)), Place::kOffloadIo);
}

TEST(Rule, SeveralAtATime_FillBothProcessors) {
  Rule rule = WithSpeed(1, 2);
  EXPECT_EQ(rule.Begin(1, {}, Load()).place, Place::kOffloadIo);
  EXPECT_EQ(rule.Begin(2, {}, Load()).place, Place::kOffloadAll) << "half of the host is less";
  EXPECT_EQ(rule.Begin(3, {}, Load()).place, Place::kOffloadAll);
  EXPECT_EQ(rule.Begin(4, {}, Load()).place, Place::kOffloadIo) << "the agent has no slot";
  rule.End(1);
  rule.End(4);
  EXPECT_EQ(rule.Begin(5, {}, Load()).place, Place::kOffloadIo);
}

TEST(Rule, KeepsLast_TheLastSlotIsForUrgentOnes) {
  RuleOptions options;
  options.agent_tasks = options.agent_cores = 2;
  options.keeps_last = true;
  Rule rule(options);
  EXPECT_EQ(rule.Begin(1, {}, BusyHost(0)).place, Place::kOffloadAll);
  EXPECT_EQ(rule.Begin(2, {}, BusyHost(0)).place, Place::kOffloadIo);
  EXPECT_EQ(rule.Begin(3, {/*urgent=*/true}, BusyHost(0)).place, Place::kOffloadAll);
}

TEST(Rule, SetAgent_AnotherSpeed_Counts) {
  Rule rule = WithSpeed(1);
  EXPECT_EQ(One(&rule, BusyHost()), Place::kOffloadAll);
  rule.SetAgent(2, kBf2);
  EXPECT_EQ(One(&rule, BusyHost()), Place::kOffloadIo);
}

TEST(Rule, Returned_CountsOnTheHost) {
  Rule rule = WithSpeed(1);
  ASSERT_EQ(rule.Begin(1, {}, BusyHost(0)).place, Place::kOffloadAll);
  rule.Returned(1, /*failed=*/false);
  rule.Returned(1, /*failed=*/false);
  rule.Returned(7, /*failed=*/false);
  EXPECT_EQ(rule.running(Place::kOffloadAll), 0);
  EXPECT_EQ(rule.running(Place::kOffloadIo), 1);
  EXPECT_EQ(rule.Begin(2, {}, BusyHost(0)).place, Place::kOffloadAll) << "it was full, no more";
  rule.End(1);
  rule.End(2);
  EXPECT_EQ(rule.running(Place::kOffloadIo) + rule.running(Place::kOffloadAll), 0);
}

TEST(Rule, ReturnsEverything_Agent_IsRarelyAsked) {
  Rule rule = WithSpeed(4);
  int asked = 0;
  for (int i = 0; i < 2000; ++i) {
    if (rule.Begin(1, {}, BusyHost(0)).place == Place::kOffloadAll) {
      ++asked;
      rule.Returned(1, /*failed=*/true);
    }
    rule.End(1);
  }
  EXPECT_GT(asked, 5) << "it may be able to, later";
  EXPECT_LE(asked, 30);
  // Once it does one, it is asked as ever.
  while (rule.Begin(1, {}, BusyHost(0)).place != Place::kOffloadAll) rule.End(1);
  rule.End(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(One(&rule, BusyHost(0)), Place::kOffloadAll);
}

TEST(Rule, ReturnedTogether_CountOnce) {
  Rule rule = WithSpeed(1, 8);
  for (uint64_t id = 1; id <= 8; ++id) {
    ASSERT_EQ(rule.Begin(id, {}, BusyHost(0)).place, Place::kOffloadAll);
  }
  for (uint64_t id = 1; id <= 8; ++id) rule.Returned(id, /*failed=*/true);
  for (uint64_t id = 1; id <= 8; ++id) rule.End(id);
  int skipped = 0;
  while (One(&rule, BusyHost(0)) != Place::kOffloadAll) ++skipped;
  EXPECT_EQ(skipped, 2);
}

TEST(Rule, AgentTasks_AllTaken_NoMoreOffloadAll) {
  Rule rule = WithSpeed(100, 2);
  std::mt19937_64 rng(TestSeed());
  std::map<uint64_t, Place> running;
  for (uint64_t id = 0; id < 3000; ++id) {
    running[id] = rule.Begin(id, {rng() % 2 == 0}, Load()).place;
    int whole = 0;
    for (const auto& [other, place] : running) whole += place == Place::kOffloadAll ? 1 : 0;
    ASSERT_LE(whole, 2);
    ASSERT_EQ(rule.running(Place::kOffloadAll), whole);
    while (running.size() > rng() % 6) {
      rule.End(running.begin()->first);
      running.erase(running.begin());
    }
  }
}

TEST(Rule, Why_AnotherPartDecides_IsReportedOnce) {
  Rule rule = WithSpeed(kBf2);
  const auto why = [&](const Load& load) {
    std::string text = rule.Begin(1, {}, load).why;
    rule.End(1);
    return text;
  };
  EXPECT_THAT(why(BusyHost(0)), HasSubstr("little compaction is pending"));
  EXPECT_THAT(why(BusyHost(0)), IsEmpty());
  EXPECT_THAT(why(BusyHost(2)), HasSubstr("reached its limit"));
  Load none;
  none.agent = false;
  EXPECT_THAT(why(none), HasSubstr("there is no agent"));
}

}  // namespace
}  // namespace pulse::placement
