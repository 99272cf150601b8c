// What is owed, and a simulation of threads on few cores: no clock is read.
#include "vdpu/core_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pulse::vdpu {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(SleepOwedTest, SleepOwed_SlowCore_IsTheTimeItTakesLonger) {
  EXPECT_EQ(SleepOwed(10 * kMs, 0, 1.0), 0);
  EXPECT_EQ(SleepOwed(10 * kMs, 0, 0.5), 10 * kMs);
  EXPECT_EQ(SleepOwed(10 * kMs, 0, 0.25), 30 * kMs);
  EXPECT_EQ(SleepOwed(10 * kMs, 7 * kMs, 0.5), 3 * kMs);
  EXPECT_EQ(SleepOwed(10 * kMs, 12 * kMs, 0.5), -2 * kMs) << "what was too much counts next time";
}

// `threads` that are always busy, each with a host CPU of its own, look at what they owe after each
// `step` of consumed time. Returns the host CPU time consumed for each second.
double Simulate(int threads, int cores, double speed, int64_t step, int64_t oversleep) {
  struct Thread {
    int64_t now = 0;
    int64_t consumed = 0;
    int64_t slept = 0;
  };
  std::vector<Thread> all(threads);
  CoreBudget budget(cores, speed);
  constexpr int64_t kEnd = 20'000 * kMs;
  while (true) {
    Thread& t = *std::min_element(all.begin(), all.end(),
                                  [](const Thread& a, const Thread& b) { return a.now < b.now; });
    if (t.now >= kEnd) break;
    t.now += step;
    t.consumed += step;
    const int64_t owed = std::max<int64_t>(0, SleepOwed(t.consumed, t.slept, speed));
    const int64_t ready = std::max(t.now + owed, budget.Charge(step, t.now));
    if (ready <= t.now) continue;
    t.slept += std::min(owed, ready - t.now) + oversleep;
    t.now = ready + oversleep;
  }
  int64_t consumed = 0;
  for (const Thread& t : all) consumed += t.consumed;
  return static_cast<double>(consumed) / kEnd;
}

TEST(CoreBudgetTest, Threads_CoresOfTheirOwn_HaveTheirSpeed) {
  for (const int64_t oversleep : {int64_t{0}, kMs / 10}) {
    EXPECT_NEAR(Simulate(1, 1, 0.455, 4 * kMs, oversleep), 0.455, 0.005);
    EXPECT_NEAR(Simulate(8, 8, 0.455, 4 * kMs, oversleep), 8 * 0.455, 0.04);
    EXPECT_NEAR(Simulate(3, 8, 0.81, 4 * kMs, oversleep), 3 * 0.81, 0.03);
  }
}

TEST(CoreBudgetTest, Threads_MoreThanCores_ShareThem) {
  EXPECT_NEAR(Simulate(2, 1, 0.455, 4 * kMs, 0), 0.455, 0.01);
  EXPECT_NEAR(Simulate(5, 2, 0.5, 4 * kMs, 0), 1.0, 0.02);
  EXPECT_NEAR(Simulate(4, 1, 1.0, 4 * kMs, 0), 1.0, 0.02);
}

TEST(CoreBudgetTest, Charge_NoCoresGiven_SetsNoBound) {
  EXPECT_NEAR(Simulate(16, 0, 0.5, 4 * kMs, 0), 8.0, 0.1);
  CoreBudget budget(0, 0.5);
  EXPECT_EQ(budget.Charge(1000 * kMs, 5), 5);
}

TEST(CoreBudgetTest, Charge_AfterAQuietTime_SavesNoMoreThanTheSlack) {
  CoreBudget budget(1, 0.5);
  const int64_t late = 100'000 * kMs;
  // 100 ms of a host core take 200 ms of this one, of which 100 have passed.
  EXPECT_EQ(budget.Charge(100 * kMs, late), late + 100 * kMs - CoreBudget::kSlackNanos);
  EXPECT_EQ(budget.Charge(10 * kMs, late), late + 120 * kMs - CoreBudget::kSlackNanos);
}

}  // namespace
}  // namespace pulse::vdpu
