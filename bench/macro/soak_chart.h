// A chart of several panels over one axis, of time or of categories, as an SVG file that needs
// nothing else. Colours follow the reader's light or dark setting. Plain computation.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pulse::bench {

struct ChartSeries {
  std::string name;
  // Second, or number of the category from 0; value; NaN leaves a gap.
  std::vector<std::pair<double, double>> points;
};

struct ChartPanel {
  std::string title;                // with the unit; the axis begins at 0
  std::vector<ChartSeries> series;  // four at most
  bool logarithmic = false;         // the axis is, from a power of ten to another
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
  std::vector<std::string> categories;  // instead of time
  std::string axis;                     // their title
  std::vector<ChartPanel> panels;
  std::vector<ChartMark> marks;
};

std::string RenderChart(const Chart& chart);

}  // namespace pulse::bench
