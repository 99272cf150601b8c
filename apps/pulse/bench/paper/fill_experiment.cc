#include "bench/paper/fill_experiment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/paper/agent_process.h"
#include "bench/paper/targets.h"
#include "bench/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kTinyBytes = uint64_t{3} << 20;

FillSettings SettingsFor(const FillExperimentSpec& spec, uint64_t value_bytes, const Size& size) {
  const uint64_t bytes = size.tiny ? kTinyBytes : static_cast<uint64_t>(size.scale * kPaperBytes);
  FillSettings settings;
  settings.num = std::max(static_cast<uint64_t>(size.threads), bytes / (kKeyBytes + value_bytes));
  settings.value_bytes = value_bytes;
  settings.threads = size.threads;
  settings.overwrite = spec.overwrite;
  settings.shape = PaperShapeFor(size.tiny, settings.data_bytes(), size.memtable_bytes);
  return settings;
}

class FillExperiment : public Experiment {
 public:
  explicit FillExperiment(FillExperimentSpec spec)
      : Experiment(spec.name, spec.title, spec.paper), spec_(std::move(spec)) {}

  Needs NeedsAt(const Size& size) const override {
    Needs most;
    for (const uint64_t value_bytes : spec_.value_sizes) {
      const FillSettings s = SettingsFor(spec_, value_bytes, size);
      most.disk = std::max(most.disk, s.space() + (spec_.pool ? s.run_space() : 0));
      most.memory = std::max(most.memory, RunMemory(s.shape, spec_.queue_bytes));
    }
    return most;
  }

  nlohmann::json Settings(const Size& size) const override {
    nlohmann::json points = nlohmann::json::array();
    for (const uint64_t value_bytes : spec_.value_sizes) {
      const FillSettings s = SettingsFor(spec_, value_bytes, size);
      points.push_back({{"value_bytes", value_bytes}, {"num", s.num}, {"shape", ToJson(s.shape)}});
    }
    return {{"workload", spec_.overwrite ? "overwrite" : "fillrandom"},
            {"threads", size.threads},
            {"points", std::move(points)}};
  }

  int Steps(const Session& session, const Size&) const override {
    const auto sizes = static_cast<int>(spec_.value_sizes.size());
    return sizes *
           (static_cast<int>(spec_.opponent_count) * session.rounds() + (spec_.overwrite ? 1 : 0));
  }

  absl::Status Check(const Session& session) const override {
    return spec_.agent_options.empty() ? absl::OkStatus() : CheckAgentProcess(session);
  }

  absl::StatusOr<nlohmann::json> Run(Session* session, const Size& size) const override {
    PulseTarget target = session->pulse_target();
    std::optional<AgentProcess> agent;
    if (!spec_.agent_options.empty()) {
      PULSE_RETURN_IF_ERROR(agent.emplace(session, spec_.agent_options).Start());
      target.agent_socket = agent->socket();
    }
    const std::vector<Opponent> opponents = spec_.opponents(*session, target);
    session->Say(Legend(*session, opponents));
    nlohmann::json rows = nlohmann::json::array();
    for (const uint64_t value_bytes : spec_.value_sizes) {
      auto row = RunSize(session, opponents, value_bytes, size);
      if (!row.ok()) return row.status();
      if (agent) PULSE_RETURN_IF_ERROR(agent->CheckRuns());
      rows.push_back(*std::move(row));
    }
    return rows;
  }

 private:
  absl::StatusOr<nlohmann::json> RunSize(Session* session, const std::vector<Opponent>& opponents,
                                         uint64_t value_bytes, const Size& size) const {
    const FillSettings settings = SettingsFor(spec_, value_bytes, size);
    const std::string label = fmt::format("{} B", value_bytes);
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
        const Spread share = runs.Difference(q.of, q.over, q.metric);
        row.ratio = {100 * share.median, 100 * share.min, 100 * share.max};
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
