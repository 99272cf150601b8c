// A chart of several panels over one axis of time, as an SVG file that needs nothing else. Colours
// follow the reader's light or dark setting. Plain computation.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pulse::bench {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // second, value; NaN leaves a gap
};

struct ChartPanel {
  std::string title;                // with the unit; the axis begins at 0
  std::vector<ChartSeries> series;  // two at most
};

// A span of time, shaded in every panel.
struct ChartMark {
  double begin = 0;
  double end = 0;
  std::string name;     // shown when pointed at
  bool strong = false;  // with a line at its begin
};

struct Chart {
  std::string title;
  double seconds = 0;
  std::vector<ChartPanel> panels;
  std::vector<ChartMark> marks;
};

std::string RenderChart(const Chart& chart);

}  // namespace pulse::bench
