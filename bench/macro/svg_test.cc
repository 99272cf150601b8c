#include "bench/macro/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pulse::bench {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Pointwise;
using testing::SizeIs;

TEST(SvgTest, Escapes) {
  EXPECT_EQ(EscapeXml("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(EscapeXml("µ\n\t"), "µ\n\t");
  EXPECT_EQ(EscapeXml(std::string_view("a\0b\x1b\x7f", 5)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(SvgTest, TicksAreRoundAndCoverWhatThereIs) {
  EXPECT_THAT(Ticks(1), Pointwise(DoubleEq(), {0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0}));
  EXPECT_THAT(Ticks(93917), ElementsAre(0, 20000, 40000, 60000, 80000, 100000));
  for (const double most : {1e-9, 0.3, 1.0, 1.82, 7.0, 99.9, 1e6, 123456789.0, 1e300}) {
    const auto ticks = Ticks(most);
    EXPECT_EQ(ticks.front(), 0);
    EXPECT_GE(ticks.back() * (1 + 1e-9), most);
    EXPECT_LT(ticks.back(), most * 1.5);
    EXPECT_THAT(ticks, SizeIs(testing::AllOf(testing::Ge(4), testing::Le(7)))) << most;
  }
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (const double odd : {0.0, -3.0, nan, infinite}) EXPECT_EQ(Ticks(odd).back(), 1) << odd;
}

TEST(SvgTest, PowersOfTen) {
  EXPECT_THAT(PowersOfTen(3, 3000), ElementsAre(1, 10, 100, 1000, 10000));
  EXPECT_THAT(PowersOfTen(10, 1000), ElementsAre(10, 100, 1000));
  EXPECT_THAT(PowersOfTen(10, 10), ElementsAre(10, 100));
  EXPECT_THAT(PowersOfTen(0, 5), ElementsAre(1, 10));
  EXPECT_THAT(PowersOfTen(std::nan(""), std::nan("")), ElementsAre(1, 10));
}

}  // namespace
}  // namespace pulse::bench
