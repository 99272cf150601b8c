// How the charts and tables of a section are put together from an experiment's rows. Plain
// computation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/macro/paper/figures.h"
#include "bench/macro/paper/report.h"

namespace pulse::bench {

class SectionBuilder {
 public:
  // A figure and how a chart shows it.
  struct Shown {
    std::string name;
    Quantity quantity;
    double factor = 1;
  };

  SectionBuilder(const nlohmann::json& result, const nlohmann::json& paper, ReportSection* section)
      : rows_(RowsOf(result)), paper_(PaperValues(paper)), section_(section) {}

  const std::vector<FigureRow>& rows() const { return rows_; }
  // All opponents of all rows, in their order.
  std::vector<std::string> Opponents() const;

  // Bars of `metric`, a group for each row and a bar for each opponent.
  void Absolute(const std::string& title, const std::string& unit, const std::string& metric,
                double factor = 1);
  // Groups are rows; each series is one of `shown`. A single row becomes a single column of names.
  void ByRow(ReportChart chart, const std::vector<Shown>& shown);
  // Of the first row: groups are `metrics` (name and metric), series the opponents.
  void ByMetric(ReportChart chart, const std::vector<std::pair<std::string, std::string>>& metrics);
  // Of the first row: a line over `shown`.
  void Sweep(ReportChart chart, const std::vector<Shown>& shown);
  // Ratios of `of` to `over`, a dot for each pair of these and each row, around 1.
  void Ratios(const std::string& title, const std::string& metric, bool more_is_better,
              const std::vector<std::pair<std::string, std::string>>& of_over);

  // Columns of medians with spreads, a line for each row and opponent. Without what nobody has.
  void Figures(const std::vector<Shown>& columns);
  // The paper's figures beside ours.
  void PaperTable();

 private:
  bool Measured(const ReportChart& chart) const;
  ChartPoint PointOf(const FigureRow& row, const Shown& shown) const;
  void Add(ReportChart chart);

  const std::vector<FigureRow> rows_;
  const std::vector<PaperValue> paper_;
  ReportSection* const section_;
};

// The same opponent has the same colour in all charts.
int ColourOf(const std::string& opponent);

}  // namespace pulse::bench
