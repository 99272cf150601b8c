// Paired runs and what follows from them. A benchmark runs all variants once per round; figures of
// the same round make a pair, and a ratio is the median over pairs, shown with its spread. Plain
// computation; thread-compatible.
#pragma once

#include <functional>
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
  size_t count = 0;  // of the figures it sums up
};

// Of at least one figure; all zero for none.
Spread Summarize(std::vector<double> figures);
// In another unit.
Spread Times(const Spread& spread, double factor);

// Who of `all` variants runs as the `turn`-th, from 0, of a round: in each round another one
// first.
size_t InTurn(int round, size_t turn, size_t all);

// The figures of all runs, by variant, metric and round. What one round lacks of a variant, or
// of a metric, makes no pair, and moves no other round's figure.
class RunSet {
 public:
  // Adds the numbers of one run's result object, of which each is a metric. A number that is not
  // finite is none.
  void Add(const std::string& variant, int round, const nlohmann::json& result);

  bool Has(const std::string& variant) const { return runs_.count(variant) != 0; }
  std::vector<std::string> Metrics(const std::string& variant) const;
  std::vector<double> Series(const std::string& variant, const std::string& metric) const;
  Spread Of(const std::string& variant, const std::string& metric) const;

  // Of the named variants that ran, the one with the lowest median; empty when none ran.
  std::string Lowest(const std::vector<std::string>& variants, const std::string& metric) const;

  // Over pairs: `upper`'s figure divided by `lower`'s.
  Spread Ratio(const std::string& upper, const std::string& lower, const std::string& metric) const;
  // Over pairs: `upper`'s figure less `lower`'s.
  Spread Difference(const std::string& upper, const std::string& lower,
                    const std::string& metric) const;

 private:
  using Rounds = std::map<int, double>;
  const Rounds& RoundsOf(const std::string& variant, const std::string& metric) const;
  // `combine` of the figures of each round in which both have one.
  Spread OverPairs(const std::string& upper, const std::string& lower, const std::string& metric,
                   const std::function<std::optional<double>(double, double)>& combine) const;

  std::map<std::string, std::map<std::string, Rounds>> runs_;
};

// What the figures of several rounds say about a claim.
enum class Outcome {
  kHeld,     // in every round
  kMissed,   // in no round
  kNotClear  // in some, or there is one round only
};

const char* OutcomeName(Outcome outcome);  // "held", "missed", "not clear"

struct Target {
  enum class Kind { kAtLeast, kAtMost, kAbove, kWithin };
  Kind kind = Kind::kAtLeast;
  double value = 0;
  double most = 0;  // of kWithin: [value, most]

  bool ReachedBy(double ratio) const;
  Outcome Judge(const Spread& spread) const;
};

std::string Describe(const Target& target);   // "at least 1.6"
Target ParseTarget(const std::string& text);  // of such a text

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
