#include "bench/macro/paper/report_sections.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/macro/opponent.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

std::string PaperText(double value) { return FormatFigure(value); }

}  // namespace

int ColourOf(const std::string& opponent) {
  static const auto* const known = new std::map<std::string, int>{{kStockDefault, 0},
                                                                  {kPulse, 1},
                                                                  {kStock2Cpu, 2},
                                                                  {kPulsePool, 3},
                                                                  {kAdaptive, 3},
                                                                  {kDcomp, 4},
                                                                  {kAggressive, 5},
                                                                  {kHost, 2},
                                                                  {kSplit, 1},
                                                                  {kWhole, 4},
                                                                  {"pool-on-host", 4},
                                                                  {"pulse-on-host", 5},
                                                                  {"pulse-poll", 3},
                                                                  {"pulse-libaio", 4},
                                                                  {"pulse-threads", 5},
                                                                  // of remote storage
                                                                  {"os-io_uring", 0},
                                                                  {"os-threads", 2},
                                                                  {"library", 3},
                                                                  {"forwarded", 4},
                                                                  {"offloaded", 1},
                                                                  {"offloaded-copying", 5},
                                                                  {"off", 0},
                                                                  {"off-2cpu", 2},
                                                                  {"on", 1},
                                                                  {"direct-epoll", 0},
                                                                  {"direct-io_uring", 2},
                                                                  {"forward-epoll", 4},
                                                                  {"forward-io_uring", 1},
                                                                  {"splice-epoll", 5},
                                                                  {"splice-io_uring", 3}};
  const auto it = known->find(opponent);
  if (it != known->end()) return it->second;
  if (absl::StartsWith(opponent, kPulse)) return ColourOf(kPulse);
  size_t sum = 0;
  for (const char c : opponent) sum = sum * 31 + static_cast<unsigned char>(c);
  return static_cast<int>(sum % kChartColours);
}

std::vector<std::string> SectionBuilder::Opponents() const {
  std::vector<std::string> all;
  for (const FigureRow& row : rows_) {
    for (const std::string& opponent : row.opponents()) {
      if (std::find(all.begin(), all.end(), opponent) == all.end()) all.push_back(opponent);
    }
  }
  return all;
}

ChartPoint SectionBuilder::PointOf(const FigureRow& row, const Shown& shown) const {
  ChartPoint point;
  if (const auto figure = row.Of(shown.quantity)) point.ours = Times(*figure, shown.factor);
  const PaperValue* const paper = FindPaperValue(paper_, shown.quantity, row.label());
  if (paper != nullptr && !paper->IsRange()) point.paper = paper->least * shown.factor;
  return point;
}

bool SectionBuilder::Measured(const ReportChart& chart) const {
  for (const BarSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (point.ours) return true;
    }
  }
  return false;
}

void SectionBuilder::Add(ReportChart chart) {
  if (Measured(chart)) section_->charts.push_back(std::move(chart));
}

void SectionBuilder::Absolute(const std::string& title, const std::string& unit,
                              const std::string& metric, double factor) {
  ReportChart chart;
  chart.title = title;
  chart.unit = unit;
  std::vector<Shown> shown;
  for (const std::string& opponent : Opponents()) {
    shown.push_back({opponent, {metric, opponent, "", false}, factor});
  }
  ByRow(std::move(chart), shown);
}

void SectionBuilder::ByRow(ReportChart chart, const std::vector<Shown>& shown) {
  if (rows_.size() == 1) {
    // Names at the bars want no legend; each bar still has its colour.
    BarSeries series;
    for (const Shown& one : shown) {
      chart.groups.push_back(one.name);
      series.points.push_back(PointOf(rows_.front(), one));
      chart.group_colours.push_back(ColourOf(one.quantity.of));
    }
    chart.series.push_back(std::move(series));
    Add(std::move(chart));
    return;
  }
  for (const FigureRow& row : rows_) chart.groups.push_back(row.label());
  std::set<int> taken;
  for (const Shown& one : shown) {
    BarSeries series;
    series.name = one.name;
    series.colour = ColourOf(one.quantity.of);
    // Two series of one opponent are told apart by whom it is compared with.
    if (!taken.insert(series.colour).second) series.colour = ColourOf(one.quantity.over);
    taken.insert(series.colour);
    for (const FigureRow& row : rows_) series.points.push_back(PointOf(row, one));
    chart.series.push_back(std::move(series));
  }
  Add(std::move(chart));
}

void SectionBuilder::ByMetric(ReportChart chart,
                              const std::vector<std::pair<std::string, std::string>>& metrics) {
  if (rows_.empty()) return;
  for (const auto& [name, metric] : metrics) chart.groups.push_back(name);
  for (const std::string& opponent : Opponents()) {
    BarSeries series;
    series.name = opponent;
    series.colour = ColourOf(opponent);
    for (const auto& [name, metric] : metrics) {
      series.points.push_back(PointOf(rows_.front(), {name, {metric, opponent, "", false}}));
    }
    chart.series.push_back(std::move(series));
  }
  Add(std::move(chart));
}

void SectionBuilder::Sweep(ReportChart chart, const std::vector<Shown>& shown) {
  if (rows_.empty()) return;
  chart.kind = ReportChart::Kind::kLine;
  BarSeries series;
  series.colour = ColourOf(kPulse);
  for (const Shown& one : shown) {
    chart.groups.push_back(one.name);
    series.points.push_back(PointOf(rows_.front(), one));
  }
  chart.series.push_back(std::move(series));
  Add(std::move(chart));
}

void SectionBuilder::Ratios(const std::string& title, const std::string& metric,
                            bool more_is_better,
                            const std::vector<std::pair<std::string, std::string>>& of_over) {
  ReportChart chart;
  chart.kind = ReportChart::Kind::kDots;
  chart.title = title;
  chart.unit = absl::StrCat("ratio, median of pairs with its spread; 1 = equal, ",
                            more_is_better ? "above" : "below", " 1 is better");
  chart.reference = 1;
  // A single series has no legend that would say whose ratio it is.
  if (of_over.size() == 1) {
    absl::StrAppend(&chart.title, ", ", of_over.front().first, " ÷ ", of_over.front().second);
  }
  std::vector<Shown> shown;
  for (const auto& [of, over] : of_over) {
    const Quantity quantity = {metric, of, over, false};
    shown.push_back({absl::StrCat(of, " ÷ ", over), quantity});
    const PaperValue* const range = FindPaperValue(paper_, quantity, "");
    if (range != nullptr && range->IsRange() && range->row.empty()) {
      chart.band = {range->least, range->most,
                    fmt::format("the paper, {}: {} – {} over all its rows", range->where,
                                PaperText(range->least), PaperText(range->most))};
    }
  }
  ByRow(std::move(chart), shown);
}

void SectionBuilder::Figures(const std::vector<Shown>& columns) {
  ReportTable table;
  table.caption = "Medians over pairs, with the least and the most";
  std::vector<Shown> there;
  for (const Shown& column : columns) {
    const auto has = [&](const FigureRow& row) {
      for (const std::string& opponent : row.opponents()) {
        if (row.Of({column.quantity.metric, opponent, "", false})) return true;
      }
      return false;
    };
    if (std::any_of(rows_.begin(), rows_.end(), has)) there.push_back(column);
  }
  table.header.push_back("");
  for (const Shown& column : there) table.header.push_back(column.name);
  for (const FigureRow& row : rows_) {
    for (const std::string& opponent : row.opponents()) {
      std::vector<std::string> cells = {
          rows_.size() == 1 ? opponent : absl::StrCat(row.label(), ", ", opponent)};
      for (const Shown& column : there) {
        const auto figure = row.Of({column.quantity.metric, opponent, "", false});
        cells.push_back(figure ? FormatSpread(Times(*figure, column.factor)) : "–");
      }
      table.rows.push_back(std::move(cells));
    }
  }
  if (!table.rows.empty()) section_->tables.push_back(std::move(table));
}

void SectionBuilder::PaperTable() {
  ReportTable table;
  table.caption = "The paper's figures beside ours";
  table.header = {"", "paper", "ours", "from"};
  for (PaperValue value : paper_) {
    std::optional<Spread> ours;
    for (const FigureRow& row : rows_) {
      if (!value.row.empty() && row.label() != value.row) continue;
      const auto figure = row.Of(value.ours);
      if (!figure) continue;
      // Of a range over rows ours is the range of the medians.
      const Spread medians = {figure->median, figure->median, figure->median, figure->count};
      if (!ours) {
        ours = value.IsRange() ? medians : *figure;
      } else if (value.IsRange()) {
        ours->min = std::min(ours->min, figure->median);
        ours->max = std::max(ours->max, figure->median);
      }
    }
    // Shares are shown in per cent.
    const double factor = absl::EndsWith(value.ours.metric, "_share") ? 100 : 1;
    if (ours) ours = Times(*ours, factor);
    value.least *= factor, value.most *= factor;
    const std::string paper =
        value.IsRange() ? absl::StrCat(PaperText(value.least), " – ", PaperText(value.most))
                        : PaperText(value.least);
    std::string text = "not measured";
    if (ours && value.IsRange()) {
      text = ours->min == ours->max
                 ? FormatFigure(ours->min)
                 : absl::StrCat(FormatFigure(ours->min), " – ", FormatFigure(ours->max));
    } else if (ours) {
      text = FormatSpread(*ours);
    }
    table.rows.push_back({value.what, paper, text, value.where});
  }
  if (!table.rows.empty()) section_->tables.push_back(std::move(table));
}

}  // namespace pulse::bench
