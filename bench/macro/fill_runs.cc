#include "bench/macro/fill_runs.h"

#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kFillSlack = uint64_t{256} << 20;
constexpr char kLoaded[] = "loaded";

std::string Words(const nlohmann::json& r) {
  return fmt::format("{:.0f} ops/s, p99.9 {:.0f} us", r.value("ops_per_s", 0.0),
                     r.value("p99.9_us", 0.0));
}

}  // namespace

uint64_t FillSettings::data_bytes() const { return num * (kKeyBytes + value_bytes); }

// The data, as much again while it is compacted, and the log.
uint64_t FillSettings::run_space() const {
  return data_bytes() * (overwrite ? 2 : 1) * 5 / 2 + kFillSlack;
}

uint64_t FillSettings::space() const {
  return run_space() + (overwrite ? data_bytes() * 5 / 4 : 0);
}

nlohmann::json FillRuns::Spec(const Opponent& opponent, const std::string& dir,
                              uint64_t key_seed) const {
  nlohmann::json phases = nlohmann::json::array();
  for (const FillPhase& phase : settings_.phases) {
    phases.push_back(
        {{"on_host_cpus", phase.on_host_cpus}, {"on_agent_cpus", phase.on_agent_cpus}});
  }
  return {{"job", "fill"},
          {"phases", std::move(phases)},
          {"host_cpus", session_->host_cpus()},
          {"agent_cpus", session_->agent_cpus()},
          {"dir", session_->dir().Sub(dir)},
          {"shape", ToJson(settings_.shape)},
          {"opponent", ToJson(opponent)},
          {"num", settings_.num},
          {"value_bytes", settings_.value_bytes},
          {"threads", settings_.threads},
          {"measure_memory", settings_.measure_memory},
          {"seed", session_->args().seed},
          {"key_seed", key_seed}};
}

absl::StatusOr<RunSet> FillRuns::Run(const std::vector<Opponent>& opponents,
                                     const std::string& label, nlohmann::json* raw) {
  if (settings_.overwrite) {
    if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kLoaded));
    const Opponent loader = StockOpponents({}).front();
    // Other keys than the runs will write: they are drawn with repeats, so many are new.
    const auto made = session_->Prepared(kLoaded, label + ", loading",
                                         Spec(loader, kLoaded, session_->args().seed + 1), Words);
    if (!made.ok()) return made.status();
  }
  auto runs = session_->RunRounds(
      opponents, label,
      [this](const Opponent& opponent, const std::string& what, bool first) {
        return RunOne(opponent, what, first);
      },
      raw);
  if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kLoaded));
  return runs;
}

absl::StatusOr<nlohmann::json> FillRuns::RunOne(const Opponent& opponent, const std::string& label,
                                                bool first) {
  PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
  if (settings_.overwrite) PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(kLoaded, "run"));
  if (!opponent.pool.empty()) PULSE_RETURN_IF_ERROR(session_->ReadyPool(settings_.run_space()));
  session_->CoolDown();
  auto result =
      session_->Step(label, Spec(opponent, "run", session_->args().seed), opponent.cpus, Words);
  if (!result.ok()) return result.status();
  if (first) PULSE_RETURN_IF_ERROR(Check(label, opponent));
  PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
  return result;
}

// Which of two threads wrote a key last is chance, so with several only the keys are compared (and
// each value on its own).
absl::Status FillRuns::Check(const std::string& label, const Opponent& opponent) {
  auto seen = session_->Verify(label, "run", settings_.shape, settings_.value_bytes, opponent);
  if (!seen.ok()) return seen.status();
  if (!contents_) contents_ = *seen;
  const bool same =
      settings_.threads == 1 ? seen->sum == contents_->sum : seen->keys == contents_->keys;
  if (same && seen->entries == contents_->entries) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "wrong contents after the writes: {} entries with checksum {}, where the first opponent "
      "left {} with {}",
      seen->entries, seen->sum, contents_->entries, contents_->sum));
}

std::string FillSpeedTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"opponent (medians)", "ops/s", "MiB/s", "settle s", "stalled", "delayed",
                   "stopped", "host CPU s", "agent CPU s", "sync ms"});
  for (const Opponent& o : opponents) {
    const auto share = [&](const char* metric) {
      return fmt::format("{:.1f} %", 100 * runs.Of(o.name, metric).median);
    };
    table.AddRow({o.name, fmt::format("{:.0f}", runs.Of(o.name, "ops_per_s").median),
                  fmt::format("{:.1f}", runs.Of(o.name, "mib_per_s").median),
                  fmt::format("{:.1f}", runs.Of(o.name, "settle_s").median), share("stall_share"),
                  share("delayed_share"), share("stopped_share"),
                  fmt::format("{:.2f}", runs.Of(o.name, "host_cpu_s").median),
                  o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "agent_cpu_s").median) : "-",
                  o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "sync_ms").median) : "-"});
  }
  return table.Render();
}

std::string FillLatencyTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"write latency, us (medians)", "mean", "p50", "p99", "p99.9", "p99.99", "max"});
  for (const Opponent& o : opponents) {
    std::vector<std::string> cells = {o.name};
    for (const char* metric : {"mean_us", "p50_us", "p99_us", "p99.9_us", "p99.99_us", "max_us"}) {
      const double us = runs.Of(o.name, metric).median;
      cells.push_back(us < 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us));
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

nlohmann::json FillSpreads(const std::vector<Opponent>& opponents, const RunSet& runs) {
  return SpreadsJson(runs, opponents,
                     {"ops_per_s",
                      "mib_per_s",
                      "wall_s",
                      "settle_s",
                      "mean_us",
                      "p50_us",
                      "p99_us",
                      "p99.9_us",
                      "p99.99_us",
                      "max_us",
                      "stall_share",
                      "delayed_share",
                      "stopped_share",
                      "host_cpu_s",
                      "agent_cpu_s",
                      "compaction_cpu_s",
                      "compaction_mib_per_s",
                      "compaction_cpu_s_per_gib",
                      "host_cpu_s_per_gib",
                      "whole_compactions",
                      "syncs",
                      "sync_ms"});
}

}  // namespace pulse::bench
