#include "bench/macro/soak_report.h"

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

constexpr const char* kOps[SoakLoad::kKinds] = {"puts", "batches", "deletes", "gets", "scans"};

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

std::string Amount(const NamedTrend& t, double value) {
  return t.bytes ? FormatBytes(static_cast<uint64_t>(value)) : fmt::format("{:.0f}", value);
}

std::string MischiefLine(const SoakOutcome& o) {
  std::string line;
  for (size_t i = 0; i < kMischiefs; ++i) {
    if (o.mischief[i] == 0) continue;
    absl::StrAppend(&line, line.empty() ? "" : ", ", o.mischief[i], " ",
                    MischiefName(static_cast<Mischief>(i)));
  }
  return line.empty() ? "none" : line;
}

std::string OpsLine(const SoakOutcome& o) {
  std::string line = fmt::format("{}: ", o.figures.total());
  for (size_t k = 0; k < SoakLoad::kKinds; ++k) {
    absl::StrAppend(&line, k == 0 ? "" : ", ", o.figures.ops[k], " ", kOps[k]);
  }
  return line;
}

std::string Speed(double ops, size_t samples) {
  if (samples == 0) return "no such interval";
  return fmt::format("{:.0f} (median of {} intervals)", ops, samples);
}

}  // namespace

bool Passed(const SoakOutcome& o) {
  return o.checked && o.problems.empty() && o.figures.failed == 0 && o.figures.wrong == 0 &&
         o.keys_wrong == 0;
}

std::string Render(const SoakOutcome& o) {
  TextTable table({"soak", FormatDuration(o.seconds)});
  table.AlignLeft(1);
  const auto row = [&](const char* name, std::string value) {
    table.AddRow({name, std::move(value)});
  };
  row("operations", OpsLine(o));
  row("failed operations", fmt::format("{}", o.figures.failed));
  row("wrong reads under load", fmt::format("{}", o.figures.wrong));
  row("keys checked at the end", o.checked ? fmt::format("{}", o.keys_checked) : "not all");
  row("wrong keys at the end", fmt::format("{}", o.keys_wrong));
  row("done to the agent", MischiefLine(o));
  row("failovers", fmt::format("{}", o.stats.failovers));
  row("reconnects", fmt::format("{}", o.stats.reconnects));
  row("time without an agent", fmt::format("{:.1f} s", Seconds(o.stats.agentless_nanos)));
  row("written by the agent", FormatBytes(o.stats.bytes_persisted));
  row("written by the host", FormatBytes(o.stats.bytes_inline));
  row("ops/s, agent undisturbed", Speed(o.speeds.with_agent, o.speeds.with_samples));
  row("ops/s, agent disturbed", Speed(o.speeds.disturbed, o.speeds.disturbed_samples));
  row("ops/s, no agent", Speed(o.speeds.without, o.speeds.without_samples));
  row("longest write", fmt::format("{:.0f} ms", o.worst_write_ms));

  TextTable trends({"held (medians)", "first quarter", "third", "last", "tolerance", "verdict"});
  for (const NamedTrend& t : o.trends) {
    trends.AddRow({t.name, Amount(t, t.trend.first), Amount(t, t.trend.third),
                   Amount(t, t.trend.last), Amount(t, t.trend.tolerance), t.trend.Word()});
  }
  std::string text = table.Render() + "\n" + trends.Render();
  if (!o.problems.empty()) absl::StrAppend(&text, "\nProblems:\n");
  for (const std::string& p : o.problems) absl::StrAppend(&text, "  ", p, "\n");
  return text;
}

nlohmann::json ToJson(const SoakOutcome& o) {
  nlohmann::json json = {{"passed", Passed(o)},
                         {"seconds", o.seconds},
                         {"operations", o.figures.total()},
                         {"failed_operations", o.figures.failed},
                         {"wrong_reads", o.figures.wrong},
                         {"checked", o.checked},
                         {"keys_checked", o.keys_checked},
                         {"keys_wrong", o.keys_wrong},
                         {"failovers", o.stats.failovers},
                         {"reconnects", o.stats.reconnects},
                         {"agentless_s", Seconds(o.stats.agentless_nanos)},
                         {"bytes_persisted", o.stats.bytes_persisted},
                         {"bytes_inline", o.stats.bytes_inline},
                         {"bytes_fetched", o.stats.bytes_fetched},
                         {"backpressure_s", Seconds(o.stats.backpressure_nanos)},
                         {"barrier_s", Seconds(o.stats.barrier_nanos)},
                         {"ops_per_s_agent", o.speeds.with_agent},
                         {"ops_per_s_disturbed", o.speeds.disturbed},
                         {"ops_per_s_no_agent", o.speeds.without},
                         {"worst_write_ms", o.worst_write_ms},
                         {"problems", o.problems}};
  for (size_t k = 0; k < SoakLoad::kKinds; ++k) json["by_kind"][kOps[k]] = o.figures.ops[k];
  for (size_t i = 0; i < kMischiefs; ++i) {
    json["mischief"][MischiefName(static_cast<Mischief>(i))] = o.mischief[i];
  }
  for (const NamedTrend& t : o.trends) {
    json["trends"][t.name] = {{"first_quarter", t.trend.first},
                              {"third_quarter", t.trend.third},
                              {"last_quarter", t.trend.last},
                              {"tolerance", t.trend.tolerance},
                              {"verdict", t.trend.Word()}};
  }
  return json;
}

}  // namespace pulse::bench
