// The figures in an experiment's result, asked for by name: what an opponent reached, its ratio to
// another one's over pairs, and what the paper has for the same. Everything is computed from the
// single runs; what is missing, null or no number is absent, never 0. Plain computation.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/macro/pair_stats.h"
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

// One line of an experiment: a value size, a workload.
class FigureRow {
 public:
  explicit FigureRow(const nlohmann::json& row);

  const std::string& label() const { return label_; }
  // In the order in which they ran first.
  const std::vector<std::string>& opponents() const { return opponents_; }
  // How many pairs `quantity` rests on.
  size_t Count(const Quantity& quantity) const { return Values(quantity).size(); }
  std::optional<Spread> Of(const Quantity& quantity) const;
  // Who `quantity` is over; empty when none of them ran.
  std::string Against(const Quantity& quantity) const;
  // Runs of `opponent` in which it has had no compaction done whole by the agent, where that is
  // known.
  size_t RunsWithoutWhole(const std::string& opponent) const;

 private:
  std::vector<double> Values(const Quantity& quantity) const;

  std::string label_;
  std::vector<std::string> opponents_;
  // By opponent and pair.
  std::map<std::string, std::map<int, std::map<std::string, double>>> runs_;
};

// Whether an opponent is about compactions that the agent does whole, always: its figures mean
// nothing if there was none.
bool IsWholeByName(const std::string& opponent);
// "dcomp: no compaction ran whole in 2 of 2 runs", of the first such opponent that `quantity` is
// about; empty when all is well.
std::string LacksWhole(const FigureRow& row, const Quantity& quantity);

// Empty for what is no result.
std::vector<FigureRow> RowsOf(const nlohmann::json& result);

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

// In the order of an experiment's list; entries of another form are left out.
nlohmann::json ToJson(const PaperValue& value);
// What Experiment::paper() is: the figures' numbers, the values, and in what ours differs.
nlohmann::json PaperJson(const std::vector<std::string>& figures,
                         const std::vector<PaperValue>& values, const std::string& differs = "");
std::vector<PaperValue> PaperValues(const nlohmann::json& paper);

// The first that is about `quantity` in row `label`; null for none.
const PaperValue* FindPaperValue(const std::vector<PaperValue>& values, const Quantity& quantity,
                                 const std::string& label);

// Getters that take anything: an absent member or one of another kind is the default.
std::string TextIn(const nlohmann::json& object, const char* key, const std::string& none = "");
double NumberIn(const nlohmann::json& object, const char* key, double none);
bool FlagIn(const nlohmann::json& object, const char* key);
const nlohmann::json& ObjectIn(const nlohmann::json& object, const char* key);

}  // namespace pulse::bench
