// This file is compiled as a release is: PULSE_CHECK must stay on there.
#ifndef NDEBUG
#define NDEBUG
#endif
#include "base/check.h"

#include <gtest/gtest.h>

namespace pulse {
// In check_debug_test.cc, which is compiled without NDEBUG.
void DebugCheck(bool condition, int* evaluated);

namespace {

TEST(CheckDeathTest, Check_FailsInRelease_NamesPlaceAndCondition) {
  const int n = 3;
  PULSE_CHECK(n == 3);
  PULSE_CHECK(n == 3, "not printed");
  EXPECT_DEATH(PULSE_CHECK(n == 4), "check_test.cc:[0-9]+: check failed: n == 4\n");
  EXPECT_DEATH(PULSE_CHECK(n == 4, "n comes from the caller"),
               "check failed: n == 4: n comes from the caller\n");
}

TEST(CheckDeathTest, DebugCheck_InRelease_IsNotEvaluated) {
  int evaluated = 0;
  PULSE_DCHECK(++evaluated == 0);
  PULSE_DCHECK(++evaluated == 0, "nor is this printed");
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckDeathTest, DebugCheck_WithoutNdebug_Aborts) {
  int evaluated = 0;
  DebugCheck(true, &evaluated);
  EXPECT_EQ(evaluated, 1);
  EXPECT_DEATH(DebugCheck(false, &evaluated), "check_debug_test.cc:[0-9]+: check failed: ");
}

TEST(CheckTest, Check_AsAnExpression_FitsIfWithoutBraces) {
  bool reached = false;
  if (reached)
    PULSE_CHECK(false);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

}  // namespace
}  // namespace pulse
