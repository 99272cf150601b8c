// The adaptive choice on simulated servers: each design has a capacity and a cost to the host.
#include "services/redis/adaptive_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing.h"

namespace pulse::redis {
namespace {

struct Design {
  double capacity;  // requests per second
  double host_cpu;  // nanoseconds for a request
};

// Clients that offer `load` requests a second to whatever design is in force. Noise moves each
// tick's rate.
class Simulation {
 public:
  Simulation(std::vector<Design> designs, double noise, uint64_t seed)
      : designs_(std::move(designs)), noise_(noise), random_(seed), choice_(designs_.size(), 0) {}

  // Runs for `seconds`; returns the requests that were served in them.
  double Run(double load, double seconds) {
    const double begin = served_;
    for (double t = 0; t < seconds - 1e-9; t += kTick) {
      const Design& now = designs_[current_];
      const double rate = std::min(load, now.capacity) *
                          (1 + noise_ * std::uniform_real_distribution<>(-1, 1)(random_));
      served_ += rate * kTick;
      host_ += rate * kTick * now.host_cpu;
      nanos_ += AdaptiveChoice::kTickNanos;
      current_ =
          choice_.Next({nanos_, static_cast<uint64_t>(served_), static_cast<int64_t>(host_)});
    }
    return served_ - begin;
  }
  size_t current() const { return current_; }
  const AdaptiveChoice& choice() const { return choice_; }
  std::vector<Design>* designs() { return &designs_; }

 private:
  static constexpr double kTick = static_cast<double>(AdaptiveChoice::kTickNanos) * 1e-9;
  std::vector<Design> designs_;
  double noise_;
  std::mt19937_64 random_;
  AdaptiveChoice choice_;
  size_t current_ = 0;
  double served_ = 0;
  double host_ = 0;
  int64_t nanos_ = 1;
};

TEST(AdaptiveChoiceTest, Overload_TheFastestServes) {
  Simulation server({{100e3, 500}, {90e3, 100}, {180e3, 300}, {60e3, 0}}, 0, 1);
  server.Run(1e6, 1);
  EXPECT_EQ(server.current(), 2u);
  EXPECT_FALSE(server.choice().in_trial());
}

TEST(AdaptiveChoiceTest, AllKeepUp_TheHostIsSpared) {
  Simulation server({{100e3, 500}, {90e3, 100}, {180e3, 300}}, 0, 1);
  server.Run(50e3, 1);
  EXPECT_EQ(server.current(), 1u);
}

TEST(AdaptiveChoiceTest, Idle_NothingIsTried) {
  Simulation server({{100e3, 500}, {90e3, 100}}, 0, 1);
  server.Run(0, 100);
  server.Run(100, 100);
  EXPECT_EQ(server.choice().trials(), 0u);
  EXPECT_EQ(server.current(), 0u);
}

TEST(AdaptiveChoiceTest, SteadyLoad_TrialsAreSeldom) {
  Simulation server({{100e3, 500}, {90e3, 100}, {180e3, 300}}, 0.05, 1);
  server.Run(1e6, 300);
  EXPECT_LE(server.choice().trials(), 12u);
}

TEST(AdaptiveChoiceTest, LoadThatMovesAllTheTime_TrialsStayBounded) {
  Simulation server({{100e3, 500}, {90e3, 100}, {180e3, 300}}, 0.02, 1);
  for (int i = 0; i < 600; ++i) server.Run(i % 2 == 0 ? 20e3 : 60e3, 0.5);
  EXPECT_LE(server.choice().trials(), 4u + 300 / 10 + 1);
}

TEST(AdaptiveChoiceTest, OneDesign_StaysInForce) {
  Simulation server({{100e3, 500}}, 0.02, 1);
  server.Run(1e6, 60);
  EXPECT_EQ(server.current(), 0u);
}

// It serves what the best design would, but for the time of its trials.
TEST(AdaptiveChoiceTest, RandomServersAndLoads_NearTheBest) {
  std::mt19937_64 random(testing_util::TestSeed());
  const auto pick = [&random](double least, double most) {
    return std::uniform_real_distribution<>(least, most)(random);
  };
  double served = 0;
  double possible = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Design> designs;
    for (int i = 0; i < 4; ++i) designs.push_back({pick(50e3, 500e3), pick(0, 5000)});
    Simulation server(designs, 0.01, random());
    double highest = 0;
    for (const Design& d : designs) highest = std::max(highest, d.capacity);
    for (int step = 0; step < 4; ++step) {
      const double load = pick(10e3, 600e3);
      const double best = std::min(load, highest);
      // Where the load is near the old one, the next trial comes half a minute later.
      const double at_first = server.Run(load, 31);
      const double later = server.Run(load, 31);
      EXPECT_GE(later, 0.95 * best * 31) << "load " << load;
      served += at_first + later;
      possible += best * 62;
    }
  }
  EXPECT_GE(served, 0.97 * possible);
}

TEST(AdaptiveChoiceTest, StepOfTheLoad_AnotherChoiceWithinASecond) {
  // The first is best where all keep up, the second where they do not.
  Simulation server({{100e3, 100}, {300e3, 500}}, 0.01, 7);
  for (int i = 0; i < 3; ++i) {
    server.Run(50e3, 1);
    EXPECT_EQ(server.current(), 0u) << i;
    server.Run(20, 25);
    server.Run(1e6, 1);
    EXPECT_EQ(server.current(), 1u) << i;
    server.Run(20, 25);
  }
}

// Of rates that jump, a short trial takes the second for the first now and then.
TEST(AdaptiveChoiceTest, RatesThatJump_TheBestIsFoundAtASecondLook) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Simulation server({{85e3, 500}, {78e3, 100}, {77e3, 200}}, 0.15, seed);
    server.Run(1e6, 4);
    EXPECT_FALSE(server.choice().in_trial());
    found += server.current() == 0 ? 1 : 0;
  }
  EXPECT_GE(found, 92);
}

// The load rises while a trial is under way: what was measured before says nothing.
TEST(AdaptiveChoiceTest, StepWithinATrial_IsNotTakenForADesignsRate) {
  for (double into = 0.05; into < 0.7; into += 0.025) {
    Simulation server({{300e3, 500}, {100e3, 100}, {120e3, 200}}, 0, 1);
    server.Run(50e3, into);
    server.Run(1e6, 2);
    EXPECT_EQ(server.current(), 0u) << into;
  }
}

}  // namespace
}  // namespace pulse::redis
