#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/description.h"
#include "bench/macro/fill_runs.h"
#include "bench/macro/paper/agent_process.h"
#include "bench/macro/paper/experiments.h"
#include "bench/macro/result_files.h"
#include "bench/macro/targets.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kTinyFill = uint64_t{3} << 20;

// What a row is of.
struct Point {
  std::string label;
  uint64_t value_bytes = 1024;
  int compactions = 0;  // at a time; 0: as many as the paper's
};

// Random writes as data/experiments.json describes them.
class FillExperiment : public Experiment {
 public:
  explicit FillExperiment(const Json& spec)
      : Experiment(spec.at("name"), spec.at("title"), spec.at("paper"),
                   spec.value("optional", false)),
        spec_(spec),
        overwrite_(spec.value("overwrite", false)),
        variant_count_(spec.at("variants").size()) {
    for (const Json& p : spec.value("phases", Json::array())) {
      phases_.push_back({p[0].get<std::string>(), p[1].get<int>(), p[2].get<int>()});
    }
  }

  Needs NeedsAt(const Size& size) const override {
    Needs most;
    for (const Point& point : PointsOf(size)) {
      const FillSettings s = SettingsFor(point, size);
      const bool pool = spec_.value("pool", false);
      most.disk = std::max(most.disk, s.space() + (pool ? s.run_space() : 0));
      most.memory =
          std::max(most.memory, RunMemory(s.shape, spec_.value("queue_bytes", kUsualQueueBytes)));
    }
    return most;
  }

  Json Settings(const Size& size) const override {
    Json points = Json::array();
    for (const Point& point : PointsOf(size)) {
      const FillSettings s = SettingsFor(point, size);
      points.push_back({{"value_bytes", point.value_bytes}, {"num", s.num}, {"shape", s.shape}});
      if (point.compactions != 0) points.back()["compactions"] = point.compactions;
    }
    Json settings = {{"workload", overwrite_ ? "overwrite" : "fillrandom"},
                     {"threads", size.threads},
                     {"points", std::move(points)}};
    if (ChoosesSizes(size)) settings["value_sizes"] = size.value_sizes;
    if (spec_.contains("compactions")) return settings;
    settings["phases"] = Json::array();
    for (const FillPhase& phase : phases_) {
      settings["phases"].push_back({{"name", phase.name},
                                    {"on_host_cpus", phase.on_host_cpus},
                                    {"on_agent_cpus", phase.on_agent_cpus}});
    }
    return settings;
  }

  int Steps(const Session& session, const Size& size, const RowLog& rows) const override {
    const auto left = static_cast<int>(PointsLeft(size, rows).size());
    return left * (static_cast<int>(variant_count_) * session.rounds() + (overwrite_ ? 1 : 0));
  }

  double Seconds(const Session& session, const Size& size, const RowLog& rows) const override {
    double seconds = 0;
    const auto runs = static_cast<double>(variant_count_) * session.rounds();
    for (const Point& point : PointsLeft(size, rows)) {
      const double one = RunSeconds(SettingsFor(point, size).num, kKeyBytes + point.value_bytes);
      // Neighbours take half of the time.
      seconds += one * (runs * (phases_.empty() ? 1 : 2) + (overwrite_ ? 1 : 0));
    }
    return seconds;
  }

  absl::Status Check(const Session& session) const override {
    for (const Json& refused : spec_.value("refused_options", Json::array())) {
      const auto option = refused.get<std::string>();
      if (!absl::StrContains(session.args().uri_options, option)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name(), " measures PulseDB's defaults, and --uri has ", option,
                       "...; leave that out, or choose other experiments with --only"));
    }
    return spec_.contains("agent_options") ? CheckAgentProcess(session) : absl::OkStatus();
  }

  absl::Status Run(Session* session, const Size& size, RowLog* rows) const override {
    PulseTarget target = session->pulse_target();
    std::optional<AgentProcess> agent;
    if (spec_.contains("agent_options")) {
      const auto options = spec_["agent_options"].get<std::vector<std::string>>();
      PULSE_RETURN_IF_ERROR(agent.emplace(session, options).Start());
      target.agent_socket = agent->socket();
    }
    const auto variants = ExperimentVariants(spec_.at("variants"), *session, target);
    session->Say(Legend(*session, variants));
    for (const Point& point : PointsLeft(size, *rows)) {
      PULSE_ASSIGN_OR_RETURN(auto row, RunPoint(session, variants, point, size));
      if (agent) PULSE_RETURN_IF_ERROR(agent->CheckRuns());
      // At once: a run that goes on later must not find the first without the others.
      std::vector<Json> all = PhaseRows(row);
      all.insert(all.begin(), std::move(row));
      PULSE_RETURN_IF_ERROR(rows->AddAll(all));
    }
    return absl::OkStatus();
  }

 private:
  bool ChoosesSizes(const Size& size) const {
    return spec_.contains("value_sizes") && spec_["value_sizes"].size() > 1 &&
           !size.value_sizes.empty();
  }

  std::vector<Point> PointsOf(const Size& size) const {
    std::vector<Point> points;
    for (const Json& n : spec_.value("compactions", Json::array())) {
      points.push_back(
          {fmt::format("{} compaction{}", n.get<int>(), n == 1 ? "" : "s"), 1024, n.get<int>()});
    }
    if (!points.empty()) return points;
    const auto sizes =
        spec_.value(size.quick ? "quick_sizes" : "value_sizes", std::vector<uint64_t>{1024});
    for (const uint64_t bytes : ChoosesSizes(size) ? size.value_sizes : sizes) {
      points.push_back({phases_.empty() ? fmt::format("{} B", bytes) : "all phases", bytes});
    }
    return points;
  }

  std::vector<Point> PointsLeft(const Size& size, const RowLog& rows) const {
    std::vector<Point> points = PointsOf(size);
    std::erase_if(points, [&](const Point& p) { return rows.Has(p.label); });
    return points;
  }

  FillSettings SettingsFor(const Point& point, const Size& size) const {
    const uint64_t bytes = size.tiny ? kTinyFill : static_cast<uint64_t>(size.scale * kPaperBytes);
    FillSettings settings;
    settings.num =
        std::max(static_cast<uint64_t>(size.threads), bytes / (kKeyBytes + point.value_bytes));
    settings.value_bytes = point.value_bytes;
    settings.threads = size.threads;
    settings.overwrite = overwrite_;
    settings.phases = phases_;
    // A phase is a run of its own.
    if (!phases_.empty()) settings.num *= size.tiny ? phases_.size() : 2;
    settings.shape = PaperShapeFor(size.tiny, settings.data_bytes(), size.memtable_bytes);
    if (point.compactions != 0) {
      settings.measure_memory = true;
      // RocksDB gives a quarter of the jobs, at least one, to flushes.
      settings.shape.background_jobs = point.compactions + 1;
    }
    return settings;
  }

  // What each phase shows of the same runs.
  std::vector<Json> PhaseRows(const Json& row) const {
    std::vector<Json> rows;
    for (size_t i = 0; i < phases_.size(); ++i) {
      const std::string metric = absl::StrCat("phase", i + 1, "_ops_per_s");
      Json runs = Json::array();
      for (const Json& run : row.at("runs")) {
        runs.push_back({{"variant", run.at("variant")},
                        {"pair", run.at("pair")},
                        {"turn", run.at("turn")},
                        {"ops_per_s", run.at(metric)}});
      }
      rows.push_back({{"label", fmt::format("{}: {}", i + 1, phases_[i].name)}, {"runs", runs}});
    }
    return rows;
  }

  absl::StatusOr<Json> RunPoint(Session* session, const std::vector<Variant>& variants,
                                const Point& point, const Size& size) const {
    const FillSettings settings = SettingsFor(point, size);
    const auto runs =
        FillRuns(session, settings).Run(variants, absl::StrCat(name(), ", ", point.label));
    if (!runs.ok()) return runs.status();
    const std::vector<RatioRow> ratios = Compare(*runs, point.label, size.tiny);
    session->Say(fmt::format("\n{}, {}: {} {} by {} thread(s), values of {} B\n", name(),
                             point.label, settings.num, overwrite_ ? "overwrites" : "random writes",
                             settings.threads, point.value_bytes));
    session->Say(spec_.contains("columns")
                     ? MedianTable("MiB (medians)", spec_["columns"], variants, *runs)
                     : FillTables(variants, *runs));
    Json row = Section(*runs, variants);
    row.update({{"label", point.label}, {"value_bytes", point.value_bytes}, {"num", settings.num}});
    if (ratios.empty()) return row;
    session->Say("\n" + RenderRatios(ratios));
    row["ratios"] = ToJson(ratios);
    return row;
  }

  std::vector<RatioRow> Compare(const RunSet& runs, const std::string& label, bool tiny) const {
    std::vector<RatioRow> rows;
    for (const Json& c : spec_.value("comparisons", Json::array())) {
      const Quantity q = {c[1].get<std::string>(), c[2].get<std::string>(), c[3].get<std::string>(),
                          c.size() > 4};
      // Too small a run compacts nothing.
      if (runs.Series(q.of, q.metric).empty() || runs.Series(q.over, q.metric).empty()) continue;
      RatioRow row{
          absl::StrCat(c[0].get<std::string>(), ", ", q.of, q.points ? " - " : " / ", q.over),
          runs.Ratio(q.of, q.over, q.metric),
          {}};
      if (q.points) row.ratio = Times(runs.Difference(q.of, q.over, q.metric), 100);
      const auto aim = AimFor(name(), label, q);
      // A stall cannot become shorter by more than there is.
      const bool possible =
          !q.points || (aim && 100 * runs.Of(q.of, q.metric).median >= aim->value);
      if (!tiny && possible) row.target = aim;
      rows.push_back(std::move(row));
    }
    return rows;
  }

  const Json spec_;
  const bool overwrite_;
  const size_t variant_count_;
  std::vector<FillPhase> phases_;
};

}  // namespace

std::unique_ptr<Experiment> MakeFillExperiment(const Json& spec) {
  return std::make_unique<FillExperiment>(spec);
}

}  // namespace pulse::bench
