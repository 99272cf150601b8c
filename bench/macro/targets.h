// What the project set out to reach, from data/experiments.json: for the tables of a run; the
// report judges the list. Plain computation.
#pragma once

#include <optional>
#include <string>

#include "bench/macro/pair_stats.h"

namespace pulse::bench {

// A figure of variant `of`; with `over`, the ratio of its figure to that one's in the same pair,
// or its lead in per cent points.
struct Quantity {
  std::string metric;
  std::string of;
  std::string over;
  bool points = false;
};

// The target of `quantity` in that row, if it is one of the list.
std::optional<Target> AimFor(const std::string& experiment, const std::string& row,
                             const Quantity& quantity);

}  // namespace pulse::bench
