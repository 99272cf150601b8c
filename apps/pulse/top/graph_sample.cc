#include "apps/pulse/top/graph_sample.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errors.h"
#include "base/json.h"

namespace pulse::top {
namespace {

// Sums of a name over its labels, and each by "name{labels}".
class Series {
 public:
  absl::Status Read(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty() || line[0] == '#') continue;
      const size_t end = line.rfind(' ');
      double value = 0;
      if (end == absl::string_view::npos || !absl::SimpleAtod(line.substr(end + 1), &value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("no metrics: ", CleanText(std::string(line.substr(0, 80)))));
      }
      const absl::string_view series = line.substr(0, end);
      const absl::string_view name = series.substr(0, series.find('{'));
      if (name.substr(0, kPrefix.size()) != kPrefix) continue;
      values_[std::string(series)] += value;
      if (name.size() < series.size()) values_[std::string(name)] += value;
    }
    return absl::OkStatus();
  }
  absl::Status Get(const std::string& name, double* value) const {
    const auto it = values_.find("pulse_graph_" + name);
    if (it == values_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("its metrics have no pulse_graph_", name));
    }
    if (!std::isfinite(it->second) || it->second < 0) {
      return absl::InvalidArgumentError(absl::StrCat("its pulse_graph_", name, " is no count"));
    }
    *value = it->second;
    return absl::OkStatus();
  }
  bool empty() const { return values_.empty(); }

 private:
  static constexpr absl::string_view kPrefix = "pulse_graph_";
  std::map<std::string, double> values_;
};

}  // namespace

absl::StatusOr<GraphSample> ParseGraphMetrics(std::string_view text) {
  Series series;
  PULSE_RETURN_IF_ERROR(series.Read({text.data(), text.size()}));
  if (series.empty()) {
    return absl::InvalidArgumentError(
        "this is no graph server: pulse top --graph watches the address of pulse graph serve "
        "--metrics");
  }
  GraphSample s;
  double failed = 0;
  const std::pair<const char*, double*> figures[] = {
      {"statements_total{kind=\"read\"}", &s.reads},
      {"statements_total{kind=\"write\"}", &s.writes},
      {"statements_total{kind=\"schema\"}", &s.schema},
      {"statements_failed_total", &s.failed},
      {"statement_duration_seconds_sum", &s.statement_seconds},
      {"conflicts_total", &s.conflicts},
      {"rows_total", &s.rows},
      {"flushes_total", &s.flushes},
      {"flushed_bytes_total", &s.flushed_bytes},
      {"compactions_total", &s.compactions},
      {"compacted_bytes_total", &s.compacted_bytes},
      {"compactions_on_agent_total", &s.compactions_on_agent},
      {"process_cpu_seconds_total", &s.cpu},
      {"connections", &s.connections},
      {"transactions_open", &s.transactions},
      {"oldest_transaction_seconds", &s.oldest_seconds},
      {"process_memory_bytes", &s.resident},
      {"memory_bytes", &s.store_memory},
      {"runs", &s.runs},
      {"run_bytes", &s.run_bytes},
      {"log_bytes", &s.log_bytes},
      {"maintenance_failed", &failed}};
  for (const auto& [name, value] : figures) PULSE_RETURN_IF_ERROR(series.Get(name, value));
  s.maintenance_failed = failed > 0;
  return s;
}

GraphRates CompareGraph(const GraphSample* before, const GraphSample& now, double seconds) {
  GraphRates r;
  r.now = now;
  // Of a server that was started anew, all is less than before.
  if (before == nullptr || before->cpu > now.cpu || before->statements() > now.statements() ||
      seconds <= 0) {
    return r;
  }
  r.seconds = seconds;
  const auto rate = [&](double GraphSample::*counter) {
    return std::max(0.0, now.*counter - before->*counter) / seconds;
  };
  r.reads = rate(&GraphSample::reads);
  r.writes = rate(&GraphSample::writes);
  r.statements = r.reads + r.writes + rate(&GraphSample::schema);
  r.failed = rate(&GraphSample::failed);
  r.conflicts = rate(&GraphSample::conflicts);
  r.rows = rate(&GraphSample::rows);
  r.flushes = rate(&GraphSample::flushes);
  r.flushed_bytes = rate(&GraphSample::flushed_bytes);
  r.compactions = rate(&GraphSample::compactions);
  r.compacted_bytes = rate(&GraphSample::compacted_bytes);
  if (r.statements > 0) r.mean_seconds = rate(&GraphSample::statement_seconds) / r.statements;
  r.cpu_share = rate(&GraphSample::cpu);
  return r;
}

}  // namespace pulse::top
