#include "bench/macro/paper/report_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace pulse::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportChart Bars() {
  ReportChart chart;
  chart.title = "Speed <of> & \"all\"";
  chart.unit = "operations per second";
  chart.groups = {"128 B", "1024 B"};
  chart.series = {{"stock", 0, {{Spread{100, 90, 110}, {}}, {Spread{50, 50, 50}, {}}}},
                  {"pulse", 1, {{Spread{200, 150, 210}, 180.0}, {std::nullopt, 75.0}}}};
  return chart;
}

// The numbers in attribute `name` of the elements of class `kind`.
std::vector<double> Attribute(const std::string& svg, const std::string& kind,
                              const std::string& name) {
  std::vector<double> found;
  const std::regex wanted("<[a-z]+ class=\"" + kind + "\"[^>]* " + name + "=\"([-0-9.]+)\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), wanted), end; it != end; ++it) {
    found.push_back(std::stod((*it)[1]));
  }
  return found;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(ReportChartTest, BarsAreAsLongAsTheirValues) {
  const std::string svg = RenderReportChart(Bars(), nullptr);
  const auto stock = Attribute(svg, "c0", "width");
  const auto pulse = Attribute(svg, "c1", "width");
  ASSERT_EQ(stock.size(), 3U);  // the legend's first
  ASSERT_EQ(pulse.size(), 2U);
  EXPECT_NEAR(stock[1] / stock[2], 2, 0.01);
  EXPECT_NEAR(pulse[1] / stock[1], 2, 0.01);
  // From the same zero.
  EXPECT_EQ(Attribute(svg, "c0", "x")[1], Attribute(svg, "c1", "x")[1]);
  EXPECT_EQ(Attribute(svg, "grid", "x1")[0], Attribute(svg, "c0", "x")[1]);
}

TEST(ReportChartTest, SaysItsValues) {
  const std::string svg = RenderReportChart(Bars(), nullptr);
  EXPECT_THAT(svg, HasSubstr("<title>128 B, pulse: 200 (from 150 to 210 over pairs)</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>1024 B, stock: 50.0</title>"));
  EXPECT_THAT(svg, HasSubstr("the paper, 128 B, pulse: 180"));
  EXPECT_THAT(svg, HasSubstr("role=\"img\" aria-label=\"Speed &lt;of&gt; &amp; &quot;all&quot;"));
  EXPECT_THAT(svg, HasSubstr("1024 B, pulse: not measured; the paper: 75.0."));
  EXPECT_THAT(svg, HasSubstr(">not measured</text>"));
  EXPECT_EQ(Count(svg, "class=\"mark\""), 3U);
  // One whisker each where there is a spread.
  EXPECT_EQ(Count(svg, "class=\"whisker\""), 2U);
  EXPECT_THAT(svg, Not(HasSubstr("<of>")));
}

TEST(ReportChartTest, AFileHasItsOwnColoursAndAPagePartHasNone) {
  EXPECT_THAT(RenderReportChart(Bars(), nullptr), Not(HasSubstr("<style>")));
  const std::string light = RenderReportChart(Bars(), &LightTheme());
  const std::string dark = RenderReportChart(Bars(), &DarkTheme());
  EXPECT_THAT(light, HasSubstr(LightTheme().series[1]));
  EXPECT_THAT(light, HasSubstr("class=\"ground\""));
  EXPECT_THAT(light, Not(HasSubstr("var(")));
  EXPECT_THAT(dark, HasSubstr(DarkTheme().series[1]));
  EXPECT_NE(light, dark);
}

// Relative luminance and contrast as WCAG 2 defines them.
double Luminance(const std::string& colour) {
  const auto part = [&](size_t at) {
    const double c = static_cast<double>(std::stoi(colour.substr(at, 2), nullptr, 16)) / 255;
    return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}
double Contrast(const std::string& a, const std::string& b) {
  const double one = Luminance(a), two = Luminance(b);
  return (std::max(one, two) + 0.05) / (std::min(one, two) + 0.05);
}

TEST(ReportChartTest, ColoursStandOutFromTheGround) {
  for (const ChartTheme* theme : {&LightTheme(), &DarkTheme()}) {
    EXPECT_GE(Contrast(theme->text, theme->ground), 7);
    EXPECT_GE(Contrast(theme->muted, theme->ground), 4.5);
    for (const std::string& colour : theme->series) {
      EXPECT_GE(Contrast(colour, theme->ground), 3) << colour;
    }
  }
}

TEST(ReportChartTest, OddValuesAreDrawnWithinTheChart) {
  ReportChart chart = Bars();
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  chart.series = {{"a", 0, {{Spread{0, 0, 0}, {}}, {Spread{-5, -9, -1}, nan}}},
                  {"b", 1, {{Spread{nan, nan, nan}, {}}, {Spread{infinite, 1, infinite}, {}}}}};
  for (const auto kind :
       {ReportChart::Kind::kBars, ReportChart::Kind::kDots, ReportChart::Kind::kLine}) {
    for (const bool logarithmic : {false, true}) {
      chart.kind = kind;
      chart.logarithmic = logarithmic && kind == ReportChart::Kind::kDots;
      const std::string svg = RenderReportChart(chart, nullptr);
      for (const char* attribute : {"x", "y", "width", "cx", "cy", "x1", "y1", "d"}) {
        const std::regex bad(std::string(" ") + attribute + "=\"[^\"]*(nan|inf)");
        EXPECT_FALSE(std::regex_search(svg, bad)) << attribute;
      }
      for (const double width : Attribute(svg, "c.", "width")) EXPECT_GE(width, 1);
      for (const double x : Attribute(svg, "c.", "cx")) EXPECT_TRUE(x >= 0 && x <= 760) << x;
    }
  }
}

TEST(ReportChartTest, AGapInALineIsAGap) {
  ReportChart chart;
  chart.kind = ReportChart::Kind::kLine;
  chart.groups = {"32", "64", "128", "256"};
  chart.series = {
      {"", 1, {{Spread{1, 1, 1}, {}}, {}, {Spread{3, 3, 3}, {}}, {Spread{4, 4, 4}, {}}}}};
  const std::string svg = RenderReportChart(chart, nullptr);
  EXPECT_THAT(svg, testing::ContainsRegex("class=\"line l1\" d=\"M[0-9. ]*M[0-9. ]*L[0-9. ]*\""));
}

TEST(ReportChartTest, OneFigureAgainstAnother) {
  ReportChart chart;
  chart.kind = ReportChart::Kind::kAgainst;
  chart.group_title = "requests a second";
  chart.groups = {"reads"};
  chart.series = {{"host", 0, {{Spread{0.5, 0.4, 0.6}, {}, Spread{80, 70, 90}}}},
                  {"agent", 1, {{Spread{0, 0, 0}, {}, Spread{40, 40, 40}}}},
                  {"nobody", 2, {{Spread{1, 1, 1}, {}}}}};
  const std::string svg = RenderReportChart(chart, nullptr);
  const auto host_x = Attribute(svg, "c0", "cx"), agent_x = Attribute(svg, "c1", "cx");
  const auto host_y = Attribute(svg, "c0", "cy"), agent_y = Attribute(svg, "c1", "cy");
  ASSERT_EQ(host_x.size(), 1U);
  ASSERT_EQ(agent_x.size(), 1U);
  EXPECT_TRUE(Attribute(svg, "c2", "cx").empty());  // one figure alone has no place
  const double left = Attribute(svg, "grid", "x1")[0];
  EXPECT_NEAR((host_x[0] - left) / (agent_x[0] - left), 2, 0.01);
  EXPECT_LT(host_y[0], agent_y[0]);  // more is higher
  EXPECT_THAT(svg, HasSubstr("<title>reads, host: 0.50 (from 0.40 to 0.60 over pairs) at 80.0 "
                             "requests a second</title>"));
  EXPECT_EQ(Count(svg, "class=\"whisker\""), 1U);
}

TEST(ReportChartTest, NothingAtAllIsStillAChart) {
  EXPECT_THAT(RenderReportChart(ReportChart{}, nullptr), HasSubstr("</svg>"));
  ReportChart line;
  line.kind = ReportChart::Kind::kLine;
  EXPECT_THAT(RenderReportChart(line, &LightTheme()), HasSubstr("</svg>"));
  line.kind = ReportChart::Kind::kAgainst;
  EXPECT_THAT(RenderReportChart(line, &LightTheme()), HasSubstr("</svg>"));
}

TEST(ReportChartTest, FiguresAreShort) {
  EXPECT_EQ(FormatFigure(0), "0");
  EXPECT_EQ(FormatFigure(0.0523), "0.052");
  EXPECT_EQ(FormatFigure(1.084), "1.08");
  EXPECT_EQ(FormatFigure(12.34), "12.3");
  EXPECT_EQ(FormatFigure(123.4), "123");
  EXPECT_EQ(FormatFigure(999.7), "1,000");
  EXPECT_EQ(FormatFigure(1234567), "1,234,567");
  EXPECT_EQ(FormatFigure(-1234), "-1,234");
  EXPECT_EQ(FormatFigure(std::nan("")), "–");
  EXPECT_EQ(FormatSpread({1.5, 1, 2}), "1.50 (1.00 – 2.00)");
  EXPECT_EQ(FormatSpread({1.5, 1.5, 1.5}), "1.50");
  EXPECT_EQ(FormatSpread({1.5, 1.4999, 1.5001}), "1.50");  // what is seen to be no spread
}

}  // namespace
}  // namespace pulse::bench
