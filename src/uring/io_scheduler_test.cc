// IoScheduler against a simulated device: shares, windows, order, boosts, and that nobody starves.
#include "uring/io_scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/testing.h"

namespace pulse {
namespace {

constexpr uint64_t kKiB = IoScheduler::kKiB;
constexpr uint64_t kMiB = IoScheduler::kMiB;
constexpr auto kAll = {IoClass::kCritical, IoClass::kInteractive, IoClass::kElevated,
                       IoClass::kBackground, IoClass::kUnknown};
constexpr size_t Index(IoClass c) { return static_cast<size_t>(c); }

// A device that serves in the order of arrival. Its time is the cost that it has served.
class SchedulerTest : public ::testing::Test {
 protected:
  struct Request : IoItem {
    size_t who = 0;
  };

  size_t AddOrigin() {
    origins_.push_back(std::make_unique<IoOrigin>(&scheduler_));
    served_.emplace_back();
    return origins_.size() - 1;
  }
  IoOrigin& origin(size_t who) { return *origins_[who]; }

  Request* Push(size_t who, IoClass c, uint64_t payload) {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Request>());
      free_.push_back(all_.back().get());
    }
    Request* r = free_.back();
    free_.pop_back();
    r->who = who;
    scheduler_.Push(r, origins_[who].get(), c, payload);
    return r;
  }

  // Hands the device what may start.
  void Fill() {
    while (IoItem* item = scheduler_.Next()) {
      ASSERT_EQ(scheduler_.Next(), item) << "asking changes the answer";
      scheduler_.Start(item);
      device_.push_back(static_cast<Request*>(item));
      if (on_start_) on_start_(*device_.back());
    }
  }
  uint64_t InFlight() const {
    return std::accumulate(device_.begin(), device_.end(), uint64_t{0},
                           [](uint64_t sum, const Request* r) { return sum + r->cost; });
  }
  uint64_t InFlight(IoClass c) const {
    uint64_t sum = 0;
    for (const Request* r : device_) sum += r->io_class == c ? r->cost : 0;
    return sum;
  }
  uint64_t InFlightOf(size_t who) const {
    uint64_t sum = 0;
    for (const Request* r : device_) sum += r->who == who ? r->cost : 0;
    return sum;
  }
  uint64_t InFlightOf(size_t who, IoClass c) const {
    uint64_t sum = 0;
    for (const Request* r : device_) sum += r->who == who && r->io_class == c ? r->cost : 0;
    return sum;
  }
  // The device finishes its oldest request; null when it has none.
  Request* ServeOne() {
    Fill();
    if (device_.empty()) return nullptr;
    Request* r = device_.front();
    device_.pop_front();
    now_ += r->cost;
    served_[r->who][Index(r->io_class)] += r->cost;
    scheduler_.Done(r);
    free_.push_back(r);
    return r;
  }
  // Serves `amount`; each request that ends is followed by another like it.
  void ServeSteadily(uint64_t amount) {
    for (const uint64_t until = now_ + amount; now_ < until;) {
      const Request* r = ServeOne();
      ASSERT_NE(r, nullptr) << "the device is idle though requests wait";
      Push(r->who, r->io_class, r->payload);
    }
  }
  uint64_t Served(IoClass c) const {
    uint64_t sum = 0;
    for (const auto& s : served_) sum += s[Index(c)];
    return sum;
  }
  void ForgetServed() {
    for (auto& s : served_) s.fill(0);
  }

  IoScheduler scheduler_;
  std::vector<std::unique_ptr<IoOrigin>> origins_;
  std::vector<std::array<uint64_t, kIoClasses>> served_;
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
  std::deque<Request*> device_;
  uint64_t now_ = 0;
  std::function<void(const Request&)> on_start_;
};

TEST_F(SchedulerTest, Classes_AnyRequestSizes_ShareByTheirQuanta) {
  const size_t who = AddOrigin();
  const std::array<uint64_t, kIoClasses> sizes = {64 * kKiB, 4 * kKiB, 4 * kMiB, 1 * kMiB,
                                                  256 * kKiB};
  for (IoClass c : kAll) {  // so many that they are never all in flight
    for (uint64_t n = 0; n < 40 * kMiB; n += sizes[Index(c)]) Push(who, c, sizes[Index(c)]);
  }
  ServeSteadily(200 * kMiB);  // what was in flight before all waited
  ForgetServed();
  constexpr uint64_t kAmount = 4096 * kMiB;
  ServeSteadily(kAmount);
  const double all = static_cast<double>(
      std::accumulate(IoScheduler::kQuantum.begin(), IoScheduler::kQuantum.end(), uint64_t{0}));
  for (IoClass c : kAll) {
    const double share = static_cast<double>(Served(c)) / kAmount;
    EXPECT_NEAR(share, IoScheduler::kQuantum[Index(c)] / all, 0.02) << static_cast<int>(c);
  }
}

TEST_F(SchedulerTest, OriginsOfAClass_AnyRequestSizes_ShareEqually) {
  const uint64_t sizes[] = {4 * kKiB, 256 * kKiB, 8 * kMiB};
  for (uint64_t size : sizes) {
    const size_t who = AddOrigin();
    for (int i = 0; i < (size == 4 * kKiB ? 2000 : 64); ++i) Push(who, IoClass::kBackground, size);
  }
  ServeSteadily(200 * kMiB);
  ForgetServed();
  ServeSteadily(3000 * kMiB);
  for (size_t who = 0; who < 3; ++who) {
    EXPECT_NEAR(static_cast<double>(served_[who][Index(IoClass::kBackground)]) / kMiB, 1000, 50)
        << who;
  }
}

TEST_F(SchedulerTest, Class_Alone_FillsItsWindowAndGetsEverything) {
  for (IoClass c : kAll) {
    const size_t who = AddOrigin();
    for (int i = 0; i < 256; ++i) Push(who, c, kMiB);
    Fill();
    const uint64_t window = std::min(IoScheduler::FlowWindow(Index(c)), IoScheduler::kOriginWindow);
    EXPECT_GE(InFlight(), window) << static_cast<int>(c);
    EXPECT_LE(InFlight(), window + IoScheduler::CostOf(kMiB));
    const uint64_t begun = now_;
    uint64_t served = 0;
    while (const Request* r = ServeOne()) served += r->cost;
    EXPECT_EQ(served, 256 * IoScheduler::CostOf(kMiB));
    EXPECT_EQ(now_ - begun, served) << "the device was idle in between";
  }
}

TEST_F(SchedulerTest, SmallRequests_OfOneClass_FillTheDepthOfAnEngine) {
  const size_t who = AddOrigin();
  for (int i = 0; i < 256; ++i) Push(who, IoClass::kInteractive, 64 * kKiB);
  Fill();
  EXPECT_EQ(device_.size(), 256u);
}

// The reason for all of this.
TEST_F(SchedulerTest, Flush_OthersWait_HasAWindowInFrontOfItAtMost) {
  const size_t deep = AddOrigin();
  const size_t flushing = AddOrigin();
  for (int i = 0; i < 1000; ++i) Push(deep, IoClass::kBackground, kMiB);
  Fill();
  Request* flush = Push(flushing, IoClass::kCritical, kMiB);
  const uint64_t begun = now_;
  while (ServeOne() != flush) {
  }
  EXPECT_LE(now_ - begun,
            IoScheduler::FlowWindow(Index(IoClass::kBackground)) + 2 * IoScheduler::CostOf(kMiB));
  // With every class busy, all of the window.
  for (IoClass c : kAll) {
    for (int i = 0; i < 200; ++i) Push(deep, c, kMiB);
  }
  while (ServeOne() != nullptr && scheduler_.waiting() > 600) {
  }
  Fill();
  flush = Push(flushing, IoClass::kCritical, kMiB);
  origin(flushing).set_urgent(true);
  const uint64_t again = now_;
  while (ServeOne() != flush) {
  }
  EXPECT_LE(now_ - again, IoScheduler::kTotalWindow + 10 * kMiB);
}

TEST_F(SchedulerTest, UrgentOrigin_BesideAPatientOne_GoesFirstAndGetsNoMore) {
  const size_t patient = AddOrigin();
  const size_t urgent = AddOrigin();
  origin(urgent).set_urgent(true);
  for (int i = 0; i < 64; ++i) {
    Push(patient, IoClass::kElevated, 64 * kKiB);
    Push(urgent, IoClass::kElevated, 64 * kKiB);
  }
  IoItem* first = scheduler_.Next();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(static_cast<Request*>(first)->who, urgent);
  ServeSteadily(100 * kMiB);
  ForgetServed();
  ServeSteadily(1000 * kMiB);
  EXPECT_NEAR(static_cast<double>(served_[urgent][Index(IoClass::kElevated)]) / kMiB, 500, 25);
}

// A host that always says "stopped" gains a factor, and no more than that.
TEST_F(SchedulerTest, Pressure_Permanent_HelpsWithinBounds) {
  for (int i = 0; i < 4; ++i) AddOrigin();
  origin(0).set_pressure(2);
  origin(1).set_pressure(1);
  for (size_t who = 0; who < 4; ++who) {
    for (int i = 0; i < 64; ++i) {
      for (IoClass c : {IoClass::kCritical, IoClass::kElevated, IoClass::kBackground})
        Push(who, c, 256 * kKiB);
    }
  }
  ServeSteadily(400 * kMiB);
  ForgetServed();
  constexpr uint64_t kAmount = 4000 * kMiB;
  ServeSteadily(kAmount);
  const auto part = [&](size_t who, IoClass c) {
    return static_cast<double>(served_[who][Index(c)]) / static_cast<double>(Served(c));
  };
  for (IoClass c : {IoClass::kCritical, IoClass::kElevated}) {
    EXPECT_NEAR(part(0, c), 4.0 / 8, 0.04) << static_cast<int>(c);
    EXPECT_NEAR(part(1, c), 2.0 / 8, 0.04) << static_cast<int>(c);
    EXPECT_NEAR(part(2, c), 1.0 / 8, 0.04) << static_cast<int>(c);
    EXPECT_NEAR(part(3, c), 1.0 / 8, 0.04) << static_cast<int>(c);
  }
  for (size_t who = 0; who < 4; ++who) {
    EXPECT_NEAR(part(who, IoClass::kBackground), 0.25, 0.04) << "deep compactions end no stall";
  }
  // 4 : 2 x 2 : 1
  EXPECT_NEAR(static_cast<double>(Served(IoClass::kBackground)) / kAmount, 1.0 / 9, 0.02);
}

TEST_F(SchedulerTest, Pressure_UnknownLevel_IsNone) {
  const size_t who = AddOrigin();
  for (uint32_t level : {3u, 4u, 0x7fffffffu, ~0u}) {
    origin(who).set_pressure(2);
    origin(who).set_pressure(level);
    EXPECT_EQ(origin(who).pressure(), 0u) << level;
  }
}

TEST_F(SchedulerTest, StuckRequests_FillingTheirWindows_DoNotStopOthers) {
  const size_t stuck = AddOrigin();
  for (IoClass c : {IoClass::kBackground, IoClass::kUnknown}) {
    for (int i = 0; i < 64; ++i) Push(stuck, c, kMiB);
  }
  Fill();
  device_.clear();  // they never end
  const size_t well = AddOrigin();
  for (IoClass c : kAll) {
    for (int i = 0; i < 10; ++i) Push(well, c, kMiB);
  }
  size_t served = 0;
  while (ServeOne() != nullptr) ++served;
  EXPECT_EQ(served, 50u);
}

TEST_F(SchedulerTest, Counters_RequestsWaitingAndServed_AreExact) {
  const size_t who = AddOrigin();
  const auto& flush = origin(who).counters()[Index(IoClass::kCritical)];
  const auto& deep = origin(who).counters()[Index(IoClass::kBackground)];
  for (int i = 0; i < 40; ++i) Push(who, IoClass::kBackground, kMiB);
  Push(who, IoClass::kCritical, 0);
  EXPECT_EQ(deep.waiting, 40u);
  EXPECT_EQ(flush.waiting, 1u);
  Fill();
  EXPECT_EQ(flush.requests, 1u);
  EXPECT_EQ(flush.bytes, 0u);
  EXPECT_EQ(deep.requests, 15u);
  EXPECT_EQ(deep.bytes, 15 * kMiB);
  EXPECT_EQ(deep.in_flight, 15u);
  EXPECT_EQ(deep.waiting, 25u);
  EXPECT_FALSE(scheduler_.holds());
  scheduler_.BeginWaits(1000);
  EXPECT_TRUE(scheduler_.holds());
  Push(who, IoClass::kBackground, kMiB);  // came later: has not waited
  scheduler_.CountWaits(1500);
  EXPECT_EQ(deep.wait_nanos, 25u * 500);
  EXPECT_EQ(flush.wait_nanos, 0u);
  while (ServeOne() != nullptr) {
  }
  EXPECT_EQ(deep.requests, 41u);
  EXPECT_EQ(deep.in_flight, 0u);
  EXPECT_EQ(deep.waiting, 0u);
}

TEST_F(SchedulerTest, Origin_MoreThanAWindowWaits_SaysItIsFull) {
  const size_t who = AddOrigin();
  for (int i = 0; i < 15 + 15; ++i) Push(who, IoClass::kBackground, kMiB);
  Fill();  // 15 are in flight
  EXPECT_FALSE(origin(who).Full(IoClass::kBackground));
  Push(who, IoClass::kBackground, kMiB);
  EXPECT_TRUE(origin(who).Full(IoClass::kBackground));
  EXPECT_FALSE(origin(who).Full(IoClass::kCritical));
  ServeOne();
  Fill();
  EXPECT_FALSE(origin(who).Full(IoClass::kBackground));
}

TEST_F(SchedulerTest, Origin_GoneWithRequestsWaiting_IsForgotten) {
  const size_t stays = AddOrigin();
  Push(stays, IoClass::kBackground, kMiB);
  {
    IoOrigin goes(&scheduler_);
    std::vector<IoItem> items(20);
    for (IoItem& item : items) scheduler_.Push(&item, &goes, IoClass::kBackground, kMiB);
    EXPECT_EQ(scheduler_.waiting(), 21u);
  }
  EXPECT_EQ(scheduler_.waiting(), 1u);
  EXPECT_NE(ServeOne(), nullptr);
  EXPECT_EQ(ServeOne(), nullptr);
}

// Any mix of classes, origins, sizes, urgency and pressure, arriving at any time: something starts
// whenever the windows allow it, they are kept, and nobody waits for longer than the rounds say.
TEST_F(SchedulerTest, Origins_AnyMixOfRequests_NobodyStarves) {
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 rng(seed);
  const auto below = [&](uint64_t n) { return rng() % n; };
  constexpr size_t kOrigins = 6;
  constexpr uint64_t kLargest = IoScheduler::CostOf(8 * kMiB);
  for (size_t i = 0; i < kOrigins; ++i) AddOrigin();

  // What is served in a round of a class, then in all, before a request that is the first of its
  // origin in its class. A debt is at most one request.
  const auto bound = [&](IoClass c) {
    const uint64_t own_rounds = kLargest / IoScheduler::kOriginQuantum + 2;
    const uint64_t in_class =
        kOrigins *
        (own_rounds * IoScheduler::kPressureFactor[2] * IoScheduler::kOriginQuantum + kLargest);
    const uint64_t rounds = (in_class + kLargest) / IoScheduler::kQuantum[Index(c)] + 2;
    uint64_t round = 0;
    for (uint64_t q : IoScheduler::kQuantum) round += q;
    round += IoScheduler::kQuantum[Index(IoClass::kElevated)] * (IoScheduler::kElevatedBoost - 1);
    return IoScheduler::kTotalWindow + kLargest + rounds * round;
  };

  std::array<std::array<uint64_t, kIoClasses>, kOrigins> since{};  // that one is the first
  const auto waiting = [&](size_t who, IoClass c) -> uint64_t {
    return origin(who).counters()[Index(c)].waiting;
  };
  on_start_ = [&](const Request& r) {
    uint64_t& mine = since[r.who][Index(r.io_class)];
    EXPECT_LE(now_ - mine, bound(r.io_class))
        << "origin " << r.who << ", class " << static_cast<int>(r.io_class) << ", seed " << seed;
    mine = now_;
  };
  const uint64_t eagerness = 1 + below(6);  // how much more is asked for than served
  for (int step = 0; step < 60'000 && !HasFailure(); ++step) {
    for (uint64_t n = below(eagerness + 1); n > 0; --n) {
      const size_t who = below(kOrigins);
      const auto c = static_cast<IoClass>(below(kIoClasses));
      if (waiting(who, c) > 500) continue;
      if (waiting(who, c) == 0) since[who][Index(c)] = now_;
      Push(who, c, below(10) == 0 ? 0 : 1 + below(below(5) == 0 ? 8 * kMiB : 64 * kKiB));
    }
    if (below(100) == 0) origin(below(kOrigins)).set_urgent(below(2) == 0);
    if (below(100) == 0) origin(below(kOrigins)).set_pressure(static_cast<uint32_t>(below(4)));
    Fill();
    ASSERT_LE(InFlight(), IoScheduler::kTotalWindow + kLargest) << "seed " << seed;
    for (IoClass c : kAll) {
      ASSERT_LE(InFlight(c), IoScheduler::kWindow[Index(c)] + kLargest) << "seed " << seed;
    }
    for (size_t who = 0; who < kOrigins; ++who) {
      for (IoClass c : kAll) {
        // Work conservation: only a window that is full may hold a request.
        const bool full = InFlight() >= IoScheduler::kTotalWindow ||
                          InFlight(c) >= IoScheduler::kWindow[Index(c)] ||
                          InFlightOf(who) >= IoScheduler::kOriginWindow ||
                          InFlightOf(who, c) >= IoScheduler::FlowWindow(Index(c));
        ASSERT_TRUE(full || waiting(who, c) == 0)
            << "origin " << who << ", class " << static_cast<int>(c) << " waits, seed " << seed;
      }
    }
    for (uint64_t n = below(3); n > 0; --n) ServeOne();
  }
  while (ServeOne() != nullptr) {
  }
  EXPECT_EQ(scheduler_.waiting(), 0u);
  EXPECT_EQ(free_.size(), all_.size()) << "requests were lost, seed " << seed;
}

}  // namespace
}  // namespace pulse
