#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/text_table.h"
#include "bench/macro/compaction_bench.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// What PulseDB is meant to reach, for each value size. For other sizes there is no target.
struct Goals {
  double time_default;
  double time_tuned;
  double cpu_default;
  double cpu_tuned;
};

const std::map<uint64_t, Goals>& AllGoals() {
  static const auto* const goals = new std::map<uint64_t, Goals>{
      {128, {1.35, 1.05, 0.80, 1.00}},
      {512, {1.50, 1.30, 0.76, 0.95}},
      {1024, {1.80, 1.65, 0.72, 0.90}},
      {2048, {2.00, 1.80, 0.62, 0.85}},
  };
  return *goals;
}

std::string OpponentTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"opponent (medians)", "seconds", "min .. max", "MiB/s", "host CPU s/GiB",
                   "agent CPU s/GiB", "sync ms", "switches"});
  for (const Opponent& o : opponents) {
    const Spread wall = runs.Of(o.name, "wall_s");
    table.AddRow(
        {o.name, fmt::format("{:.2f}", wall.median),
         fmt::format("{:.2f} .. {:.2f}", wall.min, wall.max),
         fmt::format("{:.0f}", runs.Of(o.name, "mib_per_s").median),
         fmt::format("{:.2f}", runs.Of(o.name, "host_cpu_s_per_gib").median),
         o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "agent_cpu_s_per_gib").median) : "-",
         o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "sync_ms").median) : "-",
         fmt::format("{:.0f}", runs.Of(o.name, "voluntary_switches").median +
                                   runs.Of(o.name, "involuntary_switches").median)});
  }
  return table.Render();
}

// `value_bytes` picks the targets; 0, as for a tiny run, has none.
std::vector<RatioRow> Ratios(uint64_t value_bytes, const RunSet& runs) {
  const auto found = AllGoals().find(value_bytes);
  const auto goal = [&found](Target::Kind kind, double Goals::*field) -> std::optional<Target> {
    if (found == AllGoals().end()) return std::nullopt;
    return Target{kind, found->second.*field};
  };
  std::vector<RatioRow> rows;
  std::optional<Target> goal_sync;
  if (value_bytes != 0) goal_sync = Target{Target::Kind::kAtMost, 0.5};
  if (!runs.Has(kPulse)) return rows;
  if (runs.Has(kPulsePool)) {
    rows.push_back({"time, pulse / pulse-pool", runs.Ratio(kPulse, kPulsePool, "wall_s"), {}});
    rows.push_back({"final sync of a table, pulse-pool / pulse",
                    runs.Ratio(kPulsePool, kPulse, "sync_ms"), goal_sync});
  }
  const std::string best = runs.Lowest({kStockDefault, kStockBps, kStockDirect}, "wall_s");
  // Only among all of them is the fastest the best; among some it has no target.
  const bool all = runs.Has(kStockDefault) && runs.Has(kStockBps) && runs.Has(kStockDirect);
  const std::string best_name =
      fmt::format("{} ({})", all ? "best tuned" : "fastest stock measured", best);
  const auto tuned_goal = [&](Target::Kind kind, double Goals::*field) {
    return all ? goal(kind, field) : std::nullopt;
  };
  const std::string both = runs.Lowest({kStock2Cpu, kStock2CpuSub}, "wall_s");
  const std::string cpu = "host_cpu_s_per_gib";
  const auto least = Target::Kind::kAtLeast;
  const auto most = Target::Kind::kAtMost;
  if (runs.Has(kStockDefault)) {
    rows.push_back({"time, stock-default / pulse", runs.Ratio(kStockDefault, kPulse, "wall_s"),
                    goal(least, &Goals::time_default)});
  }
  if (!best.empty()) {
    rows.push_back({fmt::format("time, {} / pulse", best_name), runs.Ratio(best, kPulse, "wall_s"),
                    tuned_goal(least, &Goals::time_tuned)});
  }
  if (runs.Has(kStockDefault)) {
    rows.push_back({"host CPU per GiB, pulse / stock-default",
                    runs.Ratio(kPulse, kStockDefault, cpu), goal(most, &Goals::cpu_default)});
  }
  if (!best.empty()) {
    rows.push_back({fmt::format("host CPU per GiB, pulse / {}", best_name),
                    runs.Ratio(kPulse, best, cpu), tuned_goal(most, &Goals::cpu_tuned)});
  }
  if (!both.empty()) {
    rows.push_back({fmt::format("third line: time, stock on both CPUs ({}) / pulse", both),
                    runs.Ratio(both, kPulse, "wall_s"), std::nullopt});
  }
  return rows;
}

}  // namespace

std::string ReportCompaction(const Session& session, const Frozen& frozen,
                             const std::vector<Opponent>& opponents, const RunSet& runs,
                             nlohmann::json* json) {
  const std::vector<RatioRow> rows = Ratios(session.args().tiny ? 0 : frozen.value_bytes, runs);
  std::string text = fmt::format("\nValues of {} B: level 0 of {} in {} files, {} pair{}\n",
                                 frozen.value_bytes, FormatBytes(frozen.table_bytes), frozen.files,
                                 session.pairs(), session.pairs() == 1 ? "" : "s");
  absl::StrAppend(&text, OpponentTable(opponents, runs));
  if (!rows.empty()) absl::StrAppend(&text, "\n", RenderRatios(rows));
  (*json)["value_bytes"] = frozen.value_bytes;
  (*json)["level0"] = {
      {"writes", frozen.num}, {"files", frozen.files}, {"table_bytes", frozen.table_bytes}};
  (*json)["opponents"] = SpreadsJson(
      runs, opponents,
      {"wall_s", "mib_per_s", "host_cpu_s_per_gib", "agent_cpu_s_per_gib", "read_bytes",
       "write_bytes", "syncs", "sync_ms", "voluntary_switches", "involuntary_switches"});
  (*json)["ratios"] = ToJson(rows);
  return text;
}

}  // namespace pulse::bench
