#include "bench/pair_stats.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "util/text_table.h"

namespace pulse::bench {

Spread Summarize(std::vector<double> figures) {
  if (figures.empty()) return {};
  std::sort(figures.begin(), figures.end());
  const size_t half = figures.size() / 2;
  const double median =
      figures.size() % 2 == 1 ? figures[half] : (figures[half - 1] + figures[half]) / 2;
  return {median, figures.front(), figures.back()};
}

void RunSet::Add(const std::string& opponent, const nlohmann::json& result) {
  for (const auto& [metric, value] : result.items()) {
    if (value.is_number()) runs_[opponent][metric].push_back(value.get<double>());
  }
}

const std::vector<double>& RunSet::Series(const std::string& opponent,
                                          const std::string& metric) const {
  static const std::vector<double> none;
  const auto run = runs_.find(opponent);
  if (run == runs_.end()) return none;
  const auto series = run->second.find(metric);
  return series == run->second.end() ? none : series->second;
}

Spread RunSet::Of(const std::string& opponent, const std::string& metric) const {
  return Summarize(Series(opponent, metric));
}

std::string RunSet::Lowest(const std::vector<std::string>& opponents,
                           const std::string& metric) const {
  std::string best;
  for (const std::string& name : opponents) {
    if (!Has(name)) continue;
    if (best.empty() || Of(name, metric).median < Of(best, metric).median) best = name;
  }
  return best;
}

Spread RunSet::Ratio(const std::string& upper, const std::string& lower,
                     const std::string& metric) const {
  const std::vector<double>& a = Series(upper, metric);
  const std::vector<double>& b = Series(lower, metric);
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  }
  return Summarize(std::move(ratios));
}

Spread RunSet::Difference(const std::string& upper, const std::string& lower,
                          const std::string& metric) const {
  const std::vector<double>& a = Series(upper, metric);
  const std::vector<double>& b = Series(lower, metric);
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) differences.push_back(a[i] - b[i]);
  return Summarize(std::move(differences));
}

bool Target::ReachedBy(double ratio) const {
  return kind == Kind::kAtLeast ? ratio >= value : ratio <= value;
}

std::string RenderRatios(const std::vector<RatioRow>& rows) {
  TextTable table({"ratio over pairs", "median", "min .. max", "target", ""});
  for (const RatioRow& row : rows) {
    std::vector<std::string> cells = {
        row.label, fmt::format("{:.2f}", row.ratio.median),
        fmt::format("{:.2f} .. {:.2f}", row.ratio.min, row.ratio.max)};
    if (row.target) {
      cells.push_back(
          fmt::format("{} {:.2f}",
                      row.target->kind == Target::Kind::kAtLeast ? ">=" : "<=", row.target->value));
      cells.push_back(row.target->ReachedBy(row.ratio.median) ? "reached" : "missed");
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

nlohmann::json ToJson(const Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

nlohmann::json ToJson(const std::vector<RatioRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const RatioRow& row : rows) {
    nlohmann::json item = ToJson(row.ratio);
    item["ratio"] = row.label;
    if (row.target) {
      item["target"] = row.target->value;
      item["target_kind"] = row.target->kind == Target::Kind::kAtLeast ? "at least" : "at most";
      item["reached"] = row.target->ReachedBy(row.ratio.median);
    }
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace pulse::bench
