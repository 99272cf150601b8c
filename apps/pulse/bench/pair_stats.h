// Paired runs and what follows from them. A benchmark runs all opponents once per round; figures of
// the same round make a pair, and a ratio is the median over pairs, shown with its spread. Plain
// computation; thread-compatible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// Of at least one figure; all zero for none.
Spread Summarize(std::vector<double> figures);

// The figures of all runs, by opponent and metric, in the order of the rounds.
class RunSet {
 public:
  // Adds the numbers of one run's result object, of which each is a metric.
  void Add(const std::string& opponent, const nlohmann::json& result);

  bool Has(const std::string& opponent) const { return runs_.count(opponent) != 0; }
  const std::vector<double>& Series(const std::string& opponent, const std::string& metric) const;
  Spread Of(const std::string& opponent, const std::string& metric) const;

  // Of the named opponents that ran, the one with the lowest median; empty when none ran.
  std::string Lowest(const std::vector<std::string>& opponents, const std::string& metric) const;

  // Over pairs: `upper`'s figure divided by `lower`'s.
  Spread Ratio(const std::string& upper, const std::string& lower, const std::string& metric) const;
  // Over pairs: `upper`'s figure less `lower`'s.
  Spread Difference(const std::string& upper, const std::string& lower,
                    const std::string& metric) const;

 private:
  std::map<std::string, std::map<std::string, std::vector<double>>> runs_;
};

struct Target {
  enum class Kind { kAtLeast, kAtMost };
  Kind kind = Kind::kAtLeast;
  double value = 0;
  bool ReachedBy(double ratio) const;
};

// One line of a ratio table.
struct RatioRow {
  std::string label;
  Spread ratio;
  std::optional<Target> target;
};

std::string RenderRatios(const std::vector<RatioRow>& rows);
nlohmann::json ToJson(const std::vector<RatioRow>& rows);
nlohmann::json ToJson(const Spread& spread);

}  // namespace pulse::bench
