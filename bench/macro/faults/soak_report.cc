#include "bench/macro/faults/soak_report.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "bench/macro/description.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

constexpr const char* kOps[SoakLoad::kKinds] = {"puts", "batches", "deletes", "gets", "scans"};

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

bool Passed(const SoakOutcome& o) {
  return o.checked && o.problems.empty() && o.figures.failed == 0 && o.figures.wrong == 0 &&
         o.keys_wrong == 0;
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
  for (size_t i = 0; i < kAgentFaults; ++i) {
    json["mischief"][AgentFaultName(static_cast<AgentFault>(i))] = o.faults[i];
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

std::string Render(const nlohmann::json& o) {
  TextTable table({"soak", FormatDuration(o.at("seconds"))});
  const auto& rows = DataOf("soak").at("table");
  for (const auto& row : rows) {
    table.AddRow(
        {row[0].get<std::string>(), Figure(row, o.at(row[1].get<std::string>()).get<double>())});
  }
  for (const char* counts : {"by_kind", "mischief"}) {
    for (const auto& [name, count] : o.at(counts).items()) table.AddRow({name, count.dump()});
  }
  TextTable trends({"held (medians)", "first quarter", "third", "last", "tolerance", "verdict"});
  for (const auto& [name, t] : o.at("trends").items()) {
    std::vector<std::string> cells = {name};
    const bool bytes = absl::StrContains(name, "memory") || absl::StrContains(name, "payload");
    for (const char* key : {"first_quarter", "third_quarter", "last_quarter", "tolerance"}) {
      const auto value = t.at(key).get<double>();
      cells.push_back(bytes ? FormatBytes(static_cast<uint64_t>(value))
                            : fmt::format("{:.0f}", value));
    }
    cells.push_back(t.at("verdict").get<std::string>());
    trends.AddRow(std::move(cells));
  }
  std::string text = table.Render() + "\n" + trends.Render();
  if (!o.at("problems").empty()) absl::StrAppend(&text, "\nProblems:\n");
  for (const auto& p : o.at("problems")) absl::StrAppend(&text, "  ", p.get<std::string>(), "\n");
  return text;
}

}  // namespace pulse::bench
