// Overflow against simulated agents and hosts, in which time is a number.
#include "services/redis/overflow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace pulse::resp {
namespace {

constexpr int64_t kMicro = 1'000;
constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

// A loop and a host, and clients that ask again as soon as they are answered.
struct Busy {
  // Of what a client asks for together.
  int64_t look_up = 120 * kMicro;
  int64_t pass_on = 25 * kMicro;
  int64_t at_host = 130 * kMicro;
  int64_t reply = 10 * kMicro;  // to notice the host's
  int64_t rest = 0;             // what a client does between
  int clients = 16;
  bool overflows = true;

  Overflow overflow;
  int64_t now = kSecond;
  int64_t last_turn = 0;
  uint64_t local = 0;
  uint64_t passed = 0;

  struct AtHost {
    int64_t done = 0;
    int64_t passed_at = 0;
  };
  std::vector<int64_t> ready;  // when clients' next requests come
  std::deque<AtHost> at_the_host;
  int64_t host_free = 0;

  void Run(int64_t time) {
    ready.resize(static_cast<size_t>(clients) - at_the_host.size(), now);
    for (const int64_t end = now + time; now < end;) Turn(end);
  }
  double PerSecond(int64_t time) {
    const uint64_t before = local + passed;
    Run(time);
    return static_cast<double>(local + passed - before) * 1e9 / static_cast<double>(time);
  }

  void Turn(int64_t end) {
    int64_t next = end;
    for (const int64_t at : ready) next = std::min(next, at);
    if (!at_the_host.empty()) next = std::min(next, at_the_host.front().done);
    if (next > now + last_turn) last_turn = 0;  // as the director's loop has it
    now = std::max(now, next);
    const int64_t began = now;
    size_t replies = 0;
    while (replies < at_the_host.size() && at_the_host[replies].done <= began) ++replies;
    for (; replies > 0; --replies) {
      now += reply;
      overflow.Answered(now, at_the_host.front().passed_at);
      at_the_host.pop_front();
      ready.push_back(now + rest);
    }
    std::vector<int64_t> later;
    for (const int64_t at : ready) {
      if (at > began) {
        later.push_back(at);
        continue;
      }
      if (overflows && overflow.Take(now, last_turn)) {
        const int64_t passed_at = now;
        now += pass_on;
        host_free = std::max(host_free, now) + at_host;
        at_the_host.push_back({host_free, passed_at});
        ++passed;
      } else {
        now += look_up;
        later.push_back(now + rest);
        ++local;
      }
    }
    ready = later;
    last_turn = now - began;
  }
};

TEST(OverflowTest, TheHostOfABusyAgentGetsAShare) {
  Busy alone;
  alone.overflows = false;
  const double before = alone.PerSecond(kSecond);
  Busy both;
  both.Run(kSecond);  // to find its share
  EXPECT_GT(both.PerSecond(kSecond), 1.5 * before);
  EXPECT_GT(both.overflow.share(), 0.3);
  EXPECT_LT(both.overflow.share(), 0.9);
}

TEST(OverflowTest, NothingGoesWhereNobodyWaits) {
  Busy few;
  few.clients = 2;
  few.look_up = 20 * kMicro;
  few.Run(kSecond);
  EXPECT_EQ(few.passed, 0u);
  // Whose requests take long, but who waits for nobody else's.
  Busy alone;
  alone.clients = 1;
  alone.look_up = 2 * kMilli;
  alone.rest = 3 * kMilli;
  alone.Run(kSecond);
  EXPECT_EQ(alone.passed, 0u);
  Busy resting;
  resting.rest = 20 * kMilli;
  resting.look_up = 20 * kMicro;
  resting.Run(kSecond);
  EXPECT_LE(resting.passed, resting.local / 100);
}

// A request there takes time slices of others.
TEST(OverflowTest, ABusyHostIsOnlyTried) {
  Busy busy;
  busy.at_host = 40 * kMilli;
  busy.Run(10 * kSecond);
  EXPECT_LT(busy.overflow.share(), 0.01);
  EXPECT_GT(busy.passed, 3u);
  EXPECT_LT(busy.passed, 15u);
  // It has time again, and is found out by the next trial.
  busy.at_host = 130 * kMicro;
  busy.Run(5 * kSecond);
  EXPECT_GT(busy.overflow.share(), 0.3);
  // And is busy again: what it has is all that it gets.
  const uint64_t before = busy.passed;
  busy.at_host = 40 * kMilli;
  busy.Run(kSecond);
  EXPECT_LT(busy.overflow.share(), 0.01);
  EXPECT_LT(busy.passed - before, 100u);
}

TEST(OverflowTest, TheSlowerHostGetsLess) {
  std::vector<double> rates;
  for (const int64_t at_host : {130, 400, 1000, 4000}) {
    Busy busy;
    busy.at_host = at_host * kMicro;
    busy.Run(kSecond);
    rates.push_back(busy.PerSecond(4 * kSecond));
    EXPECT_GT(rates.back(), 8'000) << at_host;  // 8,333 without it
  }
  EXPECT_TRUE(std::is_sorted(rates.rbegin(), rates.rend()));
}

TEST(OverflowTest, AHostThatIsSilentIsOnlyTried) {
  Busy busy;
  busy.Run(kSecond);
  ASSERT_GT(busy.overflow.share(), 0.3);
  busy.at_host = 3600 * kSecond;
  busy.Run(kSecond);
  EXPECT_LT(busy.overflow.share(), 0.01);
  const uint64_t passed = busy.passed;
  busy.Run(20 * kSecond);
  EXPECT_LE(busy.passed - passed, 8u);
  EXPECT_GE(busy.passed - passed, 2u);
}

// What comes back after it was given up counts neither as an answer nor as one less at the host.
TEST(OverflowTest, WhatWasGivenUpIsForgotten) {
  Overflow overflow;
  int64_t now = kSecond;
  const int64_t first = now;
  ASSERT_TRUE(overflow.Take(now, kMilli));
  now += 4 * kSecond;
  ASSERT_FALSE(overflow.Take(now, kMilli));  // given up, and not tried again at once
  now += 100 * kMilli;
  ASSERT_TRUE(overflow.Take(now, kMilli));
  overflow.Answered(now, first);
  overflow.Dropped(now, first);
  EXPECT_FALSE(overflow.Take(now, kMilli)) << "the trial is still there";
  overflow.Answered(now + kMilli, now);
  EXPECT_TRUE(overflow.Take(now + kMilli, kMilli));
}

TEST(OverflowTest, AHostThatIsLostIsTriedWhenItIsHeardOf) {
  Overflow overflow;
  int64_t now = kSecond;
  const auto take = [&] {
    now += 100 * kMicro;
    return overflow.Take(now, kMilli);
  };
  ASSERT_TRUE(take());  // at once: it was never tried
  EXPECT_FALSE(take());
  overflow.Answered(now, now - kMilli);
  std::vector<int64_t> passed;
  ASSERT_TRUE(take());
  overflow.Answered(now, now);  // and is quick: two may go
  while (passed.size() < 2) {
    ASSERT_TRUE(take());
    passed.push_back(now);
  }
  for (const int64_t at : passed) overflow.Lost(now, at);
  for (int i = 0; i < 100'000; ++i) ASSERT_FALSE(take());
  overflow.Heard();
  EXPECT_TRUE(take());
}

// Clients that went away say nothing of the host, and are not waited for.
TEST(OverflowTest, WhoGoesAwayIsNotCounted) {
  Overflow overflow;
  int taken = 0;
  for (int64_t now = kSecond; now < kSecond + 300 * kMilli; now += 100 * kMicro) {
    if (!overflow.Take(now, kMilli)) continue;
    ++taken;
    overflow.Dropped(now, now);
  }
  EXPECT_GE(taken, 4);  // with pauses of 50 ms
  EXPECT_LE(taken, 7);
}

}  // namespace
}  // namespace pulse::resp
