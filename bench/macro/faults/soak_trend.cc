#include "bench/macro/faults/soak_trend.h"

#include <algorithm>

#include "bench/macro/pair_stats.h"

namespace pulse::bench {

double MedianOf(std::vector<double> figures) { return Summarize(std::move(figures)).median; }

Trend JudgeTrend(const std::vector<double>& series, double share, double floor) {
  const size_t quarter = series.size() / 4;
  const auto median = [&](size_t index) {
    const auto begin = series.begin() + static_cast<std::ptrdiff_t>(index * quarter);
    // The last quarter takes what the division left over.
    const auto end = index == 3 ? series.end() : begin + static_cast<std::ptrdiff_t>(quarter);
    return MedianOf({begin, end});
  };
  Trend trend;
  trend.first = median(0);
  trend.third = median(2);
  trend.last = median(3);
  trend.tolerance = std::max(floor, share * trend.first);
  trend.judged = series.size() >= kTrendSamples;
  trend.grows = trend.judged && trend.last - trend.first > trend.tolerance &&
                trend.last - trend.third > trend.tolerance / 3;
  return trend;
}

}  // namespace pulse::bench
