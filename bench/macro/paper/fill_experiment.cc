#include "bench/macro/paper/fill_experiment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/paper/agent_process.h"
#include "bench/macro/paper/result_files.h"
#include "bench/macro/paper/targets.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kTinyFill = uint64_t{3} << 20;

FillSettings SettingsFor(const FillExperimentSpec& spec, uint64_t value_bytes, const Size& size) {
  const uint64_t bytes = size.tiny ? kTinyFill : static_cast<uint64_t>(size.scale * kPaperBytes);
  FillSettings settings;
  settings.num = std::max(static_cast<uint64_t>(size.threads), bytes / (kKeyBytes + value_bytes));
  settings.value_bytes = value_bytes;
  settings.threads = size.threads;
  settings.overwrite = spec.overwrite;
  settings.phases = spec.phases;
  // A phase is a run of its own.
  if (!spec.phases.empty()) settings.num *= size.tiny ? spec.phases.size() : 2;
  settings.shape = PaperShapeFor(size.tiny, settings.data_bytes(), size.memtable_bytes);
  return settings;
}

bool ChoosesSizes(const FillExperimentSpec& spec, const Size& size) {
  return spec.value_sizes.size() > 1 && !size.value_sizes.empty();
}

const std::vector<uint64_t>& SizesOf(const FillExperimentSpec& spec, const Size& size) {
  if (ChoosesSizes(spec, size)) return size.value_sizes;
  return size.quick ? spec.quick_sizes : spec.value_sizes;
}

class FillExperiment : public Experiment {
 public:
  explicit FillExperiment(FillExperimentSpec spec)
      : Experiment(spec.name, spec.title, spec.paper, spec.optional), spec_(std::move(spec)) {}

  Needs NeedsAt(const Size& size) const override {
    Needs most;
    for (const uint64_t value_bytes : SizesOf(spec_, size)) {
      const FillSettings s = SettingsFor(spec_, value_bytes, size);
      most.disk = std::max(most.disk, s.space() + (spec_.pool ? s.run_space() : 0));
      most.memory = std::max(most.memory, RunMemory(s.shape, spec_.queue_bytes));
    }
    return most;
  }

  nlohmann::json Settings(const Size& size) const override {
    nlohmann::json points = nlohmann::json::array();
    for (const uint64_t value_bytes : SizesOf(spec_, size)) {
      const FillSettings s = SettingsFor(spec_, value_bytes, size);
      points.push_back({{"value_bytes", value_bytes}, {"num", s.num}, {"shape", ToJson(s.shape)}});
    }
    nlohmann::json phases = nlohmann::json::array();
    for (const FillPhase& phase : spec_.phases) {
      phases.push_back({{"name", phase.name},
                        {"on_host_cpus", phase.on_host_cpus},
                        {"on_agent_cpus", phase.on_agent_cpus}});
    }
    nlohmann::json settings = {{"workload", spec_.overwrite ? "overwrite" : "fillrandom"},
                               {"threads", size.threads},
                               {"phases", std::move(phases)},
                               {"points", std::move(points)}};
    if (ChoosesSizes(spec_, size)) settings["value_sizes"] = size.value_sizes;
    return settings;
  }

  int Steps(const Session& session, const Size& size, const RowLog& rows) const override {
    int steps = 0;
    for (const uint64_t value_bytes : SizesOf(spec_, size)) {
      if (rows.Has(LabelOf(value_bytes))) continue;
      steps +=
          static_cast<int>(spec_.opponent_count) * session.rounds() + (spec_.overwrite ? 1 : 0);
    }
    return steps;
  }

  double Seconds(const Session& session, const Size& size, const RowLog& rows) const override {
    double seconds = 0;
    const auto runs = static_cast<double>(spec_.opponent_count) * session.rounds();
    for (const uint64_t value_bytes : SizesOf(spec_, size)) {
      if (rows.Has(LabelOf(value_bytes))) continue;
      const FillSettings s = SettingsFor(spec_, value_bytes, size);
      const double one = RunSeconds(s.num, kKeyBytes + value_bytes);
      // Neighbours take half of the time.
      seconds += one * (runs * (spec_.phases.empty() ? 1 : 2) + (spec_.overwrite ? 1 : 0));
    }
    return seconds;
  }

  absl::Status Check(const Session& session) const override {
    return spec_.agent_options.empty() ? absl::OkStatus() : CheckAgentProcess(session);
  }

  absl::Status Run(Session* session, const Size& size, RowLog* rows) const override {
    PulseTarget target = session->pulse_target();
    std::optional<AgentProcess> agent;
    if (!spec_.agent_options.empty()) {
      PULSE_RETURN_IF_ERROR(agent.emplace(session, spec_.agent_options).Start());
      target.agent_socket = agent->socket();
    }
    const std::vector<Opponent> opponents = spec_.opponents(*session, target);
    session->Say(Legend(*session, opponents));
    for (const uint64_t value_bytes : SizesOf(spec_, size)) {
      if (rows->Has(LabelOf(value_bytes))) continue;
      auto row = RunSize(session, opponents, value_bytes, size);
      if (!row.ok()) return row.status();
      if (agent) PULSE_RETURN_IF_ERROR(agent->CheckRuns());
      // At once: a run that goes on later must not find the first without the others.
      std::vector<nlohmann::json> all = PhaseRows(*row);
      all.insert(all.begin(), *std::move(row));
      PULSE_RETURN_IF_ERROR(rows->AddAll(all));
    }
    return absl::OkStatus();
  }

 private:
  std::string LabelOf(uint64_t value_bytes) const {
    return spec_.phases.empty() ? fmt::format("{} B", value_bytes) : std::string(kAllPhases);
  }

  // What each phase shows of the same runs.
  std::vector<nlohmann::json> PhaseRows(const nlohmann::json& row) const {
    std::vector<nlohmann::json> rows;
    for (size_t i = 0; i < spec_.phases.size(); ++i) {
      const std::string metric = absl::StrCat("phase", i + 1, "_ops_per_s");
      nlohmann::json runs = nlohmann::json::array();
      for (const nlohmann::json& run : row.at("runs")) {
        runs.push_back({{"opponent", run.at("opponent")},
                        {"pair", run.at("pair")},
                        {"turn", run.at("turn")},
                        {"ops_per_s", run.at(metric)}});
      }
      rows.push_back(
          {{"label", fmt::format("{}: {}", i + 1, spec_.phases[i].name)}, {"runs", runs}});
    }
    return rows;
  }

  absl::StatusOr<nlohmann::json> RunSize(Session* session, const std::vector<Opponent>& opponents,
                                         uint64_t value_bytes, const Size& size) const {
    const FillSettings settings = SettingsFor(spec_, value_bytes, size);
    const std::string label = LabelOf(value_bytes);
    nlohmann::json raw = nlohmann::json::array();
    const auto runs =
        FillRuns(session, settings).Run(opponents, absl::StrCat(name(), ", ", label), &raw);
    if (!runs.ok()) return runs.status();
    const std::vector<RatioRow> ratios = Compare(*runs, label, size.tiny);
    session->Say(fmt::format("\n{}: {} {} by {} thread{}, values of {} B\n", name(), settings.num,
                             spec_.overwrite ? "overwrites" : "random writes", settings.threads,
                             settings.threads == 1 ? "" : "s", value_bytes) +
                 FillSpeedTable(opponents, *runs) + "\n" + FillLatencyTable(opponents, *runs) +
                 "\n" + RenderRatios(ratios));
    return nlohmann::json{{"label", label},           {"value_bytes", value_bytes},
                          {"num", settings.num},      {"opponents", FillSpreads(opponents, *runs)},
                          {"ratios", ToJson(ratios)}, {"runs", std::move(raw)}};
  }

  std::vector<RatioRow> Compare(const RunSet& runs, const std::string& label, bool tiny) const {
    std::vector<RatioRow> rows;
    for (const Comparison& c : spec_.comparisons) {
      const Quantity& q = c.quantity;
      // Too small a run compacts nothing.
      if (runs.Series(q.of, q.metric).empty() || runs.Series(q.over, q.metric).empty()) continue;
      RatioRow row;
      row.label = c.label;
      row.ratio = runs.Ratio(q.of, q.over, q.metric);
      if (q.points) {
        row.ratio = Times(runs.Difference(q.of, q.over, q.metric), 100);
      }
      const auto aim = AimFor(name(), label, q);
      // A stall cannot become shorter by more than there is.
      const bool possible =
          !q.points || (aim && 100 * runs.Of(q.of, q.metric).median >= aim->value);
      if (!tiny && possible) row.target = aim;
      rows.push_back(std::move(row));
    }
    return rows;
  }

  const FillExperimentSpec spec_;
};

}  // namespace

std::unique_ptr<Experiment> MakeFillExperiment(FillExperimentSpec spec) {
  return std::make_unique<FillExperiment>(std::move(spec));
}

}  // namespace pulse::bench
