// What the project set out to reach: for the tables of a run, and for the report. Plain
// computation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/macro/pair_stats.h"
#include "bench/macro/paper/figures.h"

namespace pulse::bench {

struct Aim {
  std::string what;
  std::string experiment;
  std::string row;  // the label
  Quantity quantity;
  Target target;
  std::string needs;  // what it would take to show it, where it cannot be shown
};

// The list, in the order in which it is shown.
const std::vector<Aim>& Aims();

// The target of `quantity` in that row, if it is one of the list.
std::optional<Target> AimFor(const std::string& experiment, const std::string& row,
                             const Quantity& quantity);

// The list as experiments.json has it, for bench/report, which judges it.
nlohmann::json AimsJson();

}  // namespace pulse::bench
