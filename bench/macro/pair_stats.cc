#include "bench/macro/pair_stats.h"

#include <algorithm>
#include <cmath>

#include "apps/pulse/util/text_table.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

Spread Summarize(std::vector<double> figures) {
  if (figures.empty()) return {};
  std::sort(figures.begin(), figures.end());
  const size_t half = figures.size() / 2;
  const double median =
      figures.size() % 2 == 1 ? figures[half] : (figures[half - 1] + figures[half]) / 2;
  return {median, figures.front(), figures.back(), figures.size()};
}

Spread Times(const Spread& s, double factor) {
  return {s.median * factor, s.min * factor, s.max * factor, s.count};
}

size_t InTurn(int round, size_t turn, size_t all) {
  return (static_cast<size_t>(round) + turn) % all;
}

void RunSet::Add(const std::string& variant, int round, const nlohmann::json& result) {
  for (const auto& [metric, value] : result.items()) {
    if (!value.is_number()) continue;
    const auto figure = value.get<double>();
    if (std::isfinite(figure)) runs_[variant][metric][round] = figure;
  }
}

const RunSet::Rounds& RunSet::RoundsOf(const std::string& variant,
                                       const std::string& metric) const {
  static const Rounds none;
  const auto run = runs_.find(variant);
  if (run == runs_.end()) return none;
  const auto rounds = run->second.find(metric);
  return rounds == run->second.end() ? none : rounds->second;
}

std::vector<std::string> RunSet::Metrics(const std::string& variant) const {
  std::vector<std::string> names;
  if (!Has(variant)) return names;
  for (const auto& [metric, rounds] : runs_.at(variant)) names.push_back(metric);
  return names;
}

std::vector<double> RunSet::Series(const std::string& variant, const std::string& metric) const {
  std::vector<double> series;
  for (const auto& [round, figure] : RoundsOf(variant, metric)) series.push_back(figure);
  return series;
}

Spread RunSet::Of(const std::string& variant, const std::string& metric) const {
  return Summarize(Series(variant, metric));
}

std::string RunSet::Lowest(const std::vector<std::string>& variants,
                           const std::string& metric) const {
  std::string best;
  for (const std::string& name : variants) {
    if (!Has(name)) continue;
    if (best.empty() || Of(name, metric).median < Of(best, metric).median) best = name;
  }
  return best;
}

Spread RunSet::OverPairs(
    const std::string& upper, const std::string& lower, const std::string& metric,
    const std::function<std::optional<double>(double, double)>& combine) const {
  const Rounds& others = RoundsOf(lower, metric);
  std::vector<double> figures;
  for (const auto& [round, figure] : RoundsOf(upper, metric)) {
    const auto other = others.find(round);
    if (other == others.end()) continue;
    if (const auto both = combine(figure, other->second)) figures.push_back(*both);
  }
  return Summarize(std::move(figures));
}

Spread RunSet::Ratio(const std::string& upper, const std::string& lower,
                     const std::string& metric) const {
  return OverPairs(upper, lower, metric, [](double a, double b) -> std::optional<double> {
    if (b > 0) return a / b;
    return std::nullopt;
  });
}

Spread RunSet::Difference(const std::string& upper, const std::string& lower,
                          const std::string& metric) const {
  return OverPairs(upper, lower, metric, [](double a, double b) { return std::optional(a - b); });
}

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kHeld:
      return "held";
    case Outcome::kMissed:
      return "missed";
    case Outcome::kNotClear:
      return "not clear";
  }
  return "";
}

bool Target::ReachedBy(double ratio) const {
  switch (kind) {
    case Kind::kAtLeast:
      return ratio >= value;
    case Kind::kAtMost:
      return ratio <= value;
    case Kind::kAbove:
      return ratio > value;
    case Kind::kWithin:
      return ratio >= value && ratio <= most;
  }
  return false;
}

// One round has no spread, so it supports nothing.
Outcome Target::Judge(const Spread& s) const {
  if (s.count < 2) return Outcome::kNotClear;
  if (ReachedBy(s.min) && ReachedBy(s.max)) return Outcome::kHeld;
  const bool around = kind == Kind::kWithin && s.min < value && s.max > most;
  return ReachedBy(s.min) || ReachedBy(s.max) || around ? Outcome::kNotClear : Outcome::kMissed;
}

Target ParseTarget(const std::string& text) {
  const size_t blank = text.rfind(' ');
  const double value = std::stod(text.substr(blank));
  const std::string kind = text.substr(0, blank);
  return {kind == "at least"  ? Target::Kind::kAtLeast
          : kind == "at most" ? Target::Kind::kAtMost
                              : Target::Kind::kAbove,
          value};
}

std::string Describe(const Target& target) {
  switch (target.kind) {
    case Target::Kind::kAtLeast:
      return fmt::format("at least {:g}", target.value);
    case Target::Kind::kAtMost:
      return fmt::format("at most {:g}", target.value);
    case Target::Kind::kAbove:
      return fmt::format("above {:g}", target.value);
    case Target::Kind::kWithin:
      return fmt::format("{:g} to {:g}", target.value, target.most);
  }
  return "";
}

std::string RenderRatios(const std::vector<RatioRow>& rows) {
  TextTable table({"ratio over pairs", "median", "min .. max", "target", ""});
  for (const RatioRow& row : rows) {
    std::vector<std::string> cells = {
        row.label, fmt::format("{:.2f}", row.ratio.median),
        fmt::format("{:.2f} .. {:.2f}", row.ratio.min, row.ratio.max)};
    if (row.target) {
      cells.push_back(Describe(*row.target));
      cells.push_back(OutcomeName(row.target->Judge(row.ratio)));
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

nlohmann::json ToJson(const Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"count", s.count}};
}

nlohmann::json ToJson(const std::vector<RatioRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const RatioRow& row : rows) {
    nlohmann::json item = ToJson(row.ratio);
    item["ratio"] = row.label;
    if (row.target) {
      item["target"] = Describe(*row.target);
      item["verdict"] = OutcomeName(row.target->Judge(row.ratio));
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace pulse::bench
