#include "bench/macro/soak_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace pulse::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

Chart Small() {
  Chart chart;
  chart.title = "a <b> & c";
  chart.seconds = 10;
  chart.panels = {{"up", {{"host", {{0, 0}, {5, 50}, {10, 100}}}}},
                  {"gaps", {{"x", {{0, 1}, {5, std::nan("")}, {10, 1}}}, {"y", {}}}}};
  chart.marks = {{2, 4, "kill", true}, {6, 7, "slow", false}};
  return chart;
}

TEST(SoakChartTest, PanelsMarksAndScales) {
  const std::string svg = RenderChart(Small());
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt; &amp; c"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr(">100</text>"));
  EXPECT_THAT(svg, HasSubstr("kill, 2.0 s to 4.0 s"));
  EXPECT_THAT(svg, HasSubstr("slow, 6.0 s to 7.0 s"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
}

TEST(SoakChartTest, WhereNothingWasMeasuredTheLineBreaks) {
  const std::string svg = RenderChart(Small());
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  // Two strokes for the series with the gap, and none for the empty one.
  EXPECT_THAT(svg, testing::ContainsRegex("class=\"line one\" d=\"M[0-9. ]*M[0-9. ]*\""));
  EXPECT_THAT(svg, Not(HasSubstr("line two")));
}

TEST(SoakChartTest, CategoriesAndALogarithmicAxis) {
  Chart chart;
  chart.categories = {"1", "8", "64"};
  chart.axis = "producers";
  chart.panels = {{"rates", {{"a", {{0, 30}, {1, 300}, {2, 3000}}}, {"b", {}}, {"c", {}}}, true}};
  const std::string svg = RenderChart(chart);
  EXPECT_THAT(svg, HasSubstr(">64</text>"));
  EXPECT_THAT(svg, HasSubstr(">producers</text>"));
  for (const char* grid : {">10</text>", ">100</text>", ">1000</text>", ">10000</text>"}) {
    EXPECT_THAT(svg, HasSubstr(grid));
  }
  EXPECT_THAT(svg, Not(HasSubstr("seconds")));
  EXPECT_THAT(svg, Not(HasSubstr("agent")));
  // Equal ratios are equal distances.
  EXPECT_THAT(svg, testing::ContainsRegex("d=\"M64.0 200.[0-9]L504.0 163.[0-9]L944.0 127.[0-9]\""));
}

TEST(SoakChartTest, NothingAtAllIsStillAChart) {
  EXPECT_THAT(RenderChart(Chart{}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace pulse::bench
