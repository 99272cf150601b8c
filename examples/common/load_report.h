// What load generators print: rates and percentiles of latencies. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/histogram.h"
#include "nlohmann/json.hpp"

namespace pulse::examples {

struct LoadFigures {
  const char* name;  // "reads"
  uint64_t count;
  const Histogram* nanos;
};

std::string RenderFigures(std::span<const LoadFigures> figures, double seconds);
// "reads_per_s", "reads_p50_us", ..., for those of which there are any; "ops_per_s" of all.
nlohmann::json FiguresJson(std::span<const LoadFigures> figures, double seconds);

}  // namespace pulse::examples
