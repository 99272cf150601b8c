#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "bench/macro/paper/targets.h"
#include "bench/macro/ycsb/ycsb_bench.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

std::string Micros(double us) { return fmt::format("{:.{}f}", us, us < 100 ? 1 : 0); }

std::string SpeedTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"opponent (medians)", "ops/s", "min .. max", "stalled", "settle s", "host CPU s",
                   "agent CPU s", "sorted runs"});
  for (const Opponent& o : opponents) {
    const Spread speed = runs.Of(o.name, "ops_per_s");
    table.AddRow({o.name, fmt::format("{:.0f}", speed.median),
                  fmt::format("{:.0f} .. {:.0f}", speed.min, speed.max),
                  fmt::format("{:.1f} %", 100 * runs.Of(o.name, "stall_share").median),
                  fmt::format("{:.1f}", runs.Of(o.name, "settle_s").median),
                  fmt::format("{:.2f}", runs.Of(o.name, "host_cpu_s").median),
                  o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "agent_cpu_s").median) : "-",
                  fmt::format("{:.0f} -> {:.0f}", runs.Of(o.name, "sorted_runs_before").median,
                              runs.Of(o.name, "sorted_runs_after").median)});
  }
  return table.Render();
}

constexpr const char* kKinds[] = {"read", "write", "scan"};
constexpr const char* kLatencies[] = {"mean_us",  "p50_us",    "p99_us",
                                      "p99.9_us", "p99.99_us", "max_us"};

bool HasKind(const RunSet& runs, const Opponent& opponent, const char* kind) {
  return !runs.Series(opponent.name, absl::StrCat(kind, "_p99_us")).empty();
}

std::string LatencyTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"latency, us (medians)", "mean", "p50", "p99", "p99.9", "p99.99", "max"});
  for (const char* kind : kKinds) {
    for (const Opponent& o : opponents) {
      if (!HasKind(runs, o, kind)) continue;
      std::vector<std::string> cells = {absl::StrCat(kind, ", ", o.name)};
      for (const char* latency : kLatencies) {
        cells.push_back(Micros(runs.Of(o.name, absl::StrCat(kind, "_", latency)).median));
      }
      table.AddRow(std::move(cells));
    }
  }
  return table.Render();
}

std::vector<RatioRow> Ratios(const WorkloadSpec& workload, const std::vector<Opponent>& opponents,
                             const RunSet& runs, bool tiny) {
  std::vector<RatioRow> rows;
  if (!runs.Has(kPulse)) return rows;
  for (const Opponent& stock : opponents) {
    if (stock.IsPulse()) continue;
    const auto add = [&](const std::string& label, const std::string& metric,
                         std::optional<Target> target) {
      rows.push_back({absl::StrCat(label, ", pulse / ", stock.name),
                      runs.Ratio(kPulse, stock.name, metric), target});
    };
    // A tiny run's figures mean nothing, so it has no targets.
    const bool aimed = !tiny && stock.name == kStockDefault;
    add("throughput", "ops_per_s",
        aimed ? AimFor("ycsb", workload.name, {"ops_per_s", kPulse, stock.name}) : std::nullopt);
    for (const char* kind : kKinds) {
      if (!HasKind(runs, stock, kind)) continue;
      add(absl::StrCat(kind, " p99"), absl::StrCat(kind, "_p99_us"), std::nullopt);
      add(absl::StrCat(kind, " p99.9"), absl::StrCat(kind, "_p99.9_us"), std::nullopt);
    }
    add("host CPU", "host_cpu_s", std::nullopt);
  }
  return rows;
}

}  // namespace

std::string ReportYcsb(const WorkloadSpec& workload, const std::vector<Opponent>& opponents,
                       const RunSet& runs, bool tiny, nlohmann::json* section) {
  const std::vector<RatioRow> ratios = Ratios(workload, opponents, runs, tiny);
  std::vector<std::string> metrics = {
      "ops_per_s",     "wall_s",     "settle_s",    "stall_share",        "delayed_share",
      "stopped_share", "host_cpu_s", "agent_cpu_s", "sorted_runs_before", "sorted_runs_after"};
  for (const char* kind : kKinds) {
    if (!HasKind(runs, opponents.front(), kind)) continue;
    for (const char* latency : kLatencies) metrics.push_back(absl::StrCat(kind, "_", latency));
  }
  (*section)["workload"] = workload.name;
  (*section)["meaning"] = workload.meaning;
  (*section)["opponents"] = SpreadsJson(runs, opponents, metrics);
  (*section)["ratios"] = ToJson(ratios);
  std::string text = fmt::format("\nWorkload {}: {}\n", workload.name, workload.meaning);
  absl::StrAppend(&text, SpeedTable(opponents, runs), "\n", LatencyTable(opponents, runs));
  if (!ratios.empty()) absl::StrAppend(&text, "\n", RenderRatios(ratios));
  return text;
}

}  // namespace pulse::bench
