// Does a figure stay level over a long run, or does it grow? Plain computation.
#pragma once

#include <string>
#include <vector>

namespace pulse::bench {

struct Trend {
  double first = 0;  // medians of the first, third and last quarter
  double third = 0;
  double last = 0;
  double tolerance = 0;
  bool judged = false;  // false: too few samples
  bool grows = false;
  std::string Word() const { return !judged ? "too short to tell" : grows ? "grows" : "flat"; }
};

// Fewer samples are not judged.
inline constexpr size_t kTrendSamples = 60;

// Grows: the median of the last quarter is above the first's by more than the tolerance, which is
// `share` of the first but at least `floor`; and above the third's by more than a third of it. The
// second condition lets a cache fill up once: a steady growth meets both or neither.
Trend JudgeTrend(const std::vector<double>& series, double share, double floor);

double MedianOf(std::vector<double> figures);  // 0 for none

}  // namespace pulse::bench
