// How a figure of an experiment's result is named, and what the paper says of it. Result files
// carry both; bench/report computes the figures from the single runs. Plain computation.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace pulse::bench {

// A figure of opponent `of`; with `over`, the ratio of its figure to that one's in the same pair,
// or its lead in per cent points. `over` may be several, "host|split|whole": then that one of them
// that has the highest median, so this is for metrics of which more is better.
struct Quantity {
  std::string metric;
  std::string of;
  std::string over;
  bool points = false;

  bool operator==(const Quantity&) const = default;
};

// Operations by the time until compactions rest as well: what goes on for ever at that rate.
// Whoever leaves much to be compacted writes the faster for it, for a while. Every run has it that
// has its parts.
inline constexpr char kPaidFor[] = "paid_ops_per_s";

// What the paper says of one quantity, or of its range over all rows.
struct PaperValue {
  std::string what;
  std::string where;  // "Fig. 10"
  std::string row;    // the label of ours; empty: any
  double least = 0;
  double most = 0;  // the same as `least` for a single value
  Quantity ours;

  bool IsRange() const { return least != most; }
};

nlohmann::json ToJson(const Quantity& quantity);
nlohmann::json ToJson(const PaperValue& value);
// What Experiment::paper() is: the figures' numbers, the values, and in what ours differs.
nlohmann::json PaperJson(const std::vector<std::string>& figures,
                         const std::vector<PaperValue>& values, const std::string& differs = "");

}  // namespace pulse::bench
