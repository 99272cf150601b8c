// The charts of the report, as SVG: bars and dots with the spread over pairs, lines for sweeps, one
// figure against another, and the paper's figure beside ours. Axes of all but dots begin at 0.
// Every mark says its value when pointed at. Plain computation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/macro/pair_stats.h"

namespace pulse::bench {

struct ChartPoint {
  std::optional<Spread> ours;  // empty: not measured
  std::optional<double> paper;
  std::optional<Spread> across = std::nullopt;  // of kAgainst: its place from left to right
};

struct BarSeries {
  std::string name;
  int colour = 0;                  // of kChartColours
  std::vector<ChartPoint> points;  // one for each group
};

struct ReportChart {
  enum class Kind { kBars, kDots, kLine, kAgainst };
  struct Band {
    double least = 0;
    double most = 0;
    std::string name;
  };
  Kind kind = Kind::kBars;
  std::string title;
  std::string unit;  // of the axis, with what is better
  std::vector<std::string> groups;
  std::string group_title;         // of the axis from left to right: what the groups are
  std::vector<int> group_colours;  // of a single series: its marks' own; empty: the series' colour
  std::vector<BarSeries> series;
  bool logarithmic = false;         // of dots
  std::optional<double> reference;  // a line to compare with
  std::optional<Band> band;         // the paper's range
};

inline constexpr int kChartColours = 6;

// What the marks are painted in: colours, or CSS variables that have them.
struct ChartTheme {
  std::string ground, text, muted, grid, band;
  std::string series[kChartColours];
};

// Told apart by people who see few colours, and at least 3 : 1 against the ground.
const ChartTheme& LightTheme();
const ChartTheme& DarkTheme();

// The rules that RenderReportChart()'s classes want, each under `scope` ("" or "main ").
std::string ChartStyle(const ChartTheme& theme, const std::string& scope);

// An <svg> element. With a theme it is a file of its own; null leaves colours to the page's style.
std::string RenderReportChart(const ReportChart& chart, const ChartTheme* theme);

// "93,917", "12.3", "1.08", "0.052".
std::string FormatFigure(double value);
// "1.08 (1.02 – 1.20)"; the median alone where there is no spread.
std::string FormatSpread(const Spread& spread);

}  // namespace pulse::bench
