#include <optional>

#include "absl/strings/str_cat.h"
#include "bench/macro/description.h"
#include "bench/macro/targets.h"
#include "bench/macro/ycsb/ycsb_bench.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr const char* kKinds[] = {"read", "write", "scan"};
bool HasKind(const RunSet& runs, const Variant& variant, const char* kind) {
  return !runs.Series(variant.name, absl::StrCat(kind, "_p99_us")).empty();
}

std::vector<RatioRow> Ratios(const WorkloadSpec& workload, const std::vector<Variant>& variants,
                             const RunSet& runs, bool tiny) {
  std::vector<RatioRow> rows;
  if (!runs.Has(kPulse)) return rows;
  for (const Variant& stock : variants) {
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

std::string ReportYcsb(const WorkloadSpec& workload, const std::vector<Variant>& variants,
                       const Runs& runs, bool tiny, nlohmann::json* section) {
  const std::vector<RatioRow> ratios = Ratios(workload, variants, runs, tiny);
  *section = Section(runs, variants);
  (*section)["workload"] = workload.name;
  (*section)["meaning"] = workload.meaning;
  (*section)["ratios"] = ToJson(ratios);
  const nlohmann::json& data = DataOf("ycsb");
  std::string text = fmt::format("\nWorkload {}: {}\n", workload.name, workload.meaning);
  absl::StrAppend(&text, MedianTable("variant (medians)", data.at("columns"), variants, runs));
  for (const char* kind : kKinds) {
    nlohmann::json columns = data.at("latency");
    for (nlohmann::json& c : columns) c[1] = absl::StrCat(kind, "_", c[1].get<std::string>());
    std::vector<Variant> with;
    for (const Variant& o : variants) {
      if (HasKind(runs, o, kind)) with.push_back(o);
    }
    if (with.empty()) continue;
    absl::StrAppend(
        &text, "\n",
        MedianTable("latency, us (medians)", columns, with, runs, absl::StrCat(kind, ", ")));
  }
  if (!ratios.empty()) absl::StrAppend(&text, "\n", RenderRatios(ratios));
  return text;
}

}  // namespace pulse::bench
