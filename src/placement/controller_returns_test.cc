// The controller and an agent that takes compactions and does not do them, or takes none: it is
// full for others.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "placement/controller.h"

namespace pulse::placement {
namespace {

Load BusyHost() {
  Load load;
  load.host_busy = 1;
  return load;
}

// An agent that takes compactions and does not do them loses time at most as often as tries may.
TEST(ControllerReturns, ReturnsEverything_Agent_IsRarelyAsked) {
  Load no_pending = BusyHost();
  no_pending.pending_ratio = 0;
  for (const Load& load : {Load(), BusyHost(), no_pending}) {
    for (const bool fails : {false, true}) {
      ControllerOptions options;
      options.agent_tasks = 4;
      options.agent_speed = 4;
      Controller controller(options);
      double now = 0;
      int returned = 0;
      for (int i = 0; i < 2000; ++i) {
        const Choice c = controller.Begin(1, {100'000'000, false}, load, now);
        const bool whole = c.place == Place::kOffloadAll;
        if (whole) {
          ++returned;
          now += 3;
          if (!fails) {
            controller.Returned(1, /*full=*/false);
            EXPECT_EQ(controller.running(Place::kOffloadAll), 0);
          }
        }
        now += 1;
        controller.End(1, now, !(whole && fails));
      }
      EXPECT_LE(returned, 30) << (fails ? "fails" : "returns") << ", host busy " << load.host_busy
                              << ", pending ratio " << load.pending_ratio;
    }
  }
}

// An agent that was started anew loses all that it had: that is one reason to doubt it, not eight.
TEST(ControllerReturns, ReturnedTogether_SeveralCompactions_CountAsOne) {
  ControllerOptions options;
  options.host_cores = 4;
  options.agent_tasks = 8;
  Controller controller(options);
  Load load = BusyHost();
  load.host_busy = 4;
  double now = 1;
  uint64_t id = 0;
  const auto begin = [&] { return controller.Begin(++id, {100'000'000, false}, load, now).place; };
  int whole = 0;
  for (int i = 0; i < 100; ++i) {
    const bool is_whole = (begin(), begin()) == Place::kOffloadAll;
    whole += is_whole;
    now += is_whole ? 0.1 : 0.5;
    controller.End(id - 1, now, true);
    controller.End(id, now, true);
  }
  ASSERT_GT(whole, 80);
  const uint64_t first = id + 1;
  for (int i = 0; i < 8; ++i) begin();
  now += 0.1;
  for (uint64_t i = first; i <= id; ++i) controller.Returned(i, /*full=*/false);
  for (uint64_t i = first; i <= id; ++i) controller.End(i, now, true);
  begin();
  EXPECT_EQ(begin(), Place::kOffloadAll);
}

// It was fast. From then on another process has all of its places, or it returns whatever it gets:
// what it once was must not keep anybody from the best of the other two.
TEST(ControllerReturns, TakesNothingAnyMore_FastAgent_IsLeft) {
  Load no_pending = BusyHost();
  no_pending.pending_ratio = 0;
  for (const Load& load : {Load(), BusyHost(), no_pending}) {
    for (const bool full : {true, false}) {
      for (const double split_seconds : {0.5, 2.0}) {
        SCOPED_TRACE(::testing::Message()
                     << "host busy " << load.host_busy << ", pending ratio " << load.pending_ratio
                     << ", full " << full << ", split takes " << split_seconds);
        Controller controller(ControllerOptions{});
        double now = 1;
        uint64_t id = 0;
        // How many are done in each place.
        const auto work = [&](int count, bool takes) {
          std::array<int, kPlaces> at = {};
          for (int i = 0; i < count; ++i) {
            Place place = controller.Begin(++id, {100'000'000, false}, load, now).place;
            if (place == Place::kOffloadAll && !takes) {
              controller.Returned(id, full);
              place = Place::kOffloadIo;
              if (!full) now += 1;
            }
            EXPECT_EQ(controller.running(Place::kOffloadAll), place == Place::kOffloadAll ? 1 : 0);
            ++at[static_cast<size_t>(place)];
            now += place == Place::kOffloadAll  ? 0.3
                   : place == Place::kOffloadIo ? split_seconds
                                                : 1.0;
            controller.End(id, now, true);
          }
          return at;
        };
        const auto before = work(1000, true);
        EXPECT_GT(before[2], 500) << "or this tests nothing: split " << before[1];
        work(1000, false);  // it finds out
        const auto after = work(500, false);
        EXPECT_GT(after[split_seconds < 1 ? 1 : 0], 400)
            << "host " << after[0] << ", split " << after[1];
        if (!full || split_seconds > 1) continue;
        // The other process has ended. Nothing was lost by asking, so it was asked often.
        work(1000, true);
        EXPECT_GT(work(500, true)[2], 300);
      }
    }
  }
}

}  // namespace
}  // namespace pulse::placement
