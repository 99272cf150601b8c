#include "bench/macro/kv/model/stations.h"

#include <cmath>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pulse::kvmodel {
namespace {

using ::testing::ElementsAre;

// One core, one request at a time, `service()` nanoseconds each: the mean time from a request's
// arrival until the core begins with it.
template <class Service>
double MeanWait(double rate, const Service& service) {
  constexpr double kEnd = 4e7;
  EventQueue events;
  Core core(&events, Core::Order::kFirst);
  ReceiveQueue queue({.rate = rate, .capacity = 1000000, .seed = 7});
  double waited = 0;
  double count = 0;
  core.AddSource([&]() -> std::optional<Core::Work> {
    const auto taken = queue.Take(events.now(), 1);
    if (taken.empty()) {
      events.At(queue.next(), [&] { core.Wake(); });
      return std::nullopt;
    }
    waited += events.now() - taken[0];
    ++count;
    return Core::Work{service(), [] {}};
  });
  core.Wake();
  events.RunUntil(kEnd);
  EXPECT_NEAR(core.busy_nanos() / kEnd, rate * 10, 0.01);
  return waited / count;
}

TEST(EventQueue, Events_OfOneTime_RunInTheOrderOfTheirAddition) {
  EventQueue events;
  std::vector<int> order;
  events.At(2, [&] { order.push_back(3); });
  events.At(1, [&] {
    order.push_back(1);
    events.At(1, [&] { order.push_back(2); });
  });
  events.At(2, [&] { order.push_back(4); });
  events.At(5, [&] { order.push_back(5); });
  events.RunUntil(4);
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(events.now(), 4);
  events.RunUntil(5);
  EXPECT_EQ(order.back(), 5);
}

// Pollaczek and Khinchine: the mean wait is rho / (1 - rho) / 2 service times.
TEST(Core, PoissonArrivalsFixedService_MeanWait_IsThatOfMD1) {
  for (const double rho : {0.3, 0.5, 0.8}) {
    const double asked = 10 * rho / (1 - rho) / 2;
    EXPECT_NEAR(MeanWait(rho / 10, [] { return 10.0; }), asked, 0.03 * asked) << rho;
  }
}

// rho / (1 - rho) service times.
TEST(Core, PoissonArrivalsExponentialService_MeanWait_IsThatOfMM1) {
  for (const double rho : {0.3, 0.5, 0.8}) {
    std::mt19937_64 random(11);
    const auto service = [&] {
      return -10 * std::log((static_cast<double>(random() >> 11) + 1) * 0x1p-53);
    };
    const double asked = 10 * rho / (1 - rho);
    EXPECT_NEAR(MeanWait(rho / 10, service), asked, 0.03 * asked) << rho;
  }
}

TEST(Core, TwoSourcesInTurn_BothWithWork_GetEqualShares) {
  EventQueue events;
  Core core(&events, Core::Order::kInTurn);
  int done[2] = {0, 0};
  for (int& n : done) {
    core.AddSource([&n] { return Core::Work{5, [&n] { ++n; }}; });
  }
  core.Wake();
  events.RunUntil(1000);
  EXPECT_EQ(done[0], 100);
  EXPECT_EQ(done[1], 100);
}

TEST(Core, SourcesByOrder_FirstHasWork_SecondWaits) {
  EventQueue events;
  Core core(&events, Core::Order::kFirst);
  int left = 3;
  std::vector<int> order;
  core.AddSource([&]() -> std::optional<Core::Work> {
    if (left == 0) return std::nullopt;
    return Core::Work{1, [&] { order.push_back(left--); }};
  });
  core.AddSource([&] { return Core::Work{1, [&] { order.push_back(0); }}; });
  core.Wake();
  events.RunUntil(5);
  EXPECT_THAT(order, ElementsAre(3, 2, 1, 0, 0));
}

TEST(ReceiveQueue, Full_NewRequests_AreDroppedAndCounted) {
  ReceiveQueue queue({.rate = 0.1, .even = true, .capacity = 4});
  EXPECT_THAT(queue.Take(100, 8), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(queue.arrived(), 10u);
  EXPECT_EQ(queue.dropped(), 6u);
  EXPECT_EQ(queue.waiting(), 0u);
  EXPECT_EQ(queue.next(), 110);
}

TEST(ReceiveQueue, NoRate_IsAlwaysFull) {
  ReceiveQueue queue({.capacity = 3});
  EXPECT_THAT(queue.Take(10, 2), ElementsAre(0, 0));
  EXPECT_THAT(queue.Take(20, 8), ElementsAre(0, 10, 10));
  EXPECT_EQ(queue.waiting(), 3u);
  EXPECT_EQ(queue.arrived(), 8u);
}

TEST(Link, BusyLink_NextTransfer_BeginsBehindIt) {
  Link link(2);
  EXPECT_EQ(link.Send(0, 100), 50);
  EXPECT_EQ(link.Send(10, 20), 60);
  EXPECT_EQ(link.Send(100, 2), 101);
  EXPECT_EQ(link.moved(), 122);
}

}  // namespace
}  // namespace pulse::kvmodel
