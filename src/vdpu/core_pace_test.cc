#include "vdpu/core_pace.h"

#include "gtest/gtest.h"

namespace pulse::vdpu {
namespace {

// Each look at it takes a nanosecond.
int64_t time_now = 0;
int64_t Clock() { return ++time_now; }

TEST(CorePaceTest, BusyRound_TakesAsLongAsOnASlowCore) {
  time_now = 1000;
  CorePace pace(0.25, Clock);
  pace.Begin();  // at 1001
  time_now += 1000;
  pace.Settle();
  // 1001 nanoseconds of work, look at the clock included, are 4004.
  EXPECT_GE(time_now, 1001 + 4004);
  EXPECT_LE(time_now, 1001 + 4004 + 2);
}

TEST(CorePaceTest, FirstRoundAfterIdling_IsChargedLikeAnyOther) {
  time_now = 0;
  CorePace pace(0.5, Clock);
  for (int look = 0; look < 1000; ++look) {  // finds nothing
    pace.Begin();
    time_now += 50;
  }
  pace.Begin();
  const int64_t begin = time_now;
  time_now += 500;
  pace.Settle();
  EXPECT_GE(time_now, begin + 1000);
  EXPECT_LE(time_now, begin + 1004);  // and the idle time costs nothing
}

TEST(CorePaceTest, PiecesOfARound_AddUpToTheRound) {
  time_now = 0;
  CorePace pace(0.1, Clock);
  pace.Begin();
  const int64_t begin = time_now;
  for (int piece = 0; piece < 10; ++piece) {
    time_now += 100;
    pace.Settle();
  }
  EXPECT_GE(time_now, begin + 10'000);
  EXPECT_LE(time_now, begin + 10'300);  // ten looks at the clock, and what they cost stretched
}

TEST(CorePaceTest, FullSpeed_WaitsForNothing) {
  time_now = 0;
  CorePace pace(1, Clock);
  pace.Begin();
  time_now += 100;
  pace.Settle();
  EXPECT_EQ(time_now, 100);  // it does not even look at the clock
}

}  // namespace
}  // namespace pulse::vdpu
