// Section IV.C as an experiment.
#include "bench/macro/paper/ycsb_experiment.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/paper/agent_process.h"
#include "bench/macro/paper/figures.h"
#include "bench/macro/paper/result_files.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/ycsb_bench.h"

namespace pulse::bench {
namespace {

// Reads of a slow disk are what takes the time.
constexpr uint64_t kQuickShare = 4;

class YcsbExperiment : public Experiment {
 public:
  explicit YcsbExperiment(YcsbOpponents opponents)
      : Experiment("ycsb", "YCSB workloads Load and A to F",
                   PaperJson({"Fig. 14", "Table III"}, Figure14())),
        opponents_(std::move(opponents)) {}
  YcsbExperiment(YcsbOpponents opponents, PlacedAgent placed)
      : Experiment(absl::StrCat("ycsb-", placed.profile),
                   absl::StrCat("YCSB by where compactions run, profile ", placed.profile),
                   PaperJson({"Fig. 14"}, {}), /*optional=*/true),
        opponents_(std::move(opponents)),
        placed_(std::move(placed)) {}

  Needs NeedsAt(const Size& size) const override {
    const YcsbPlan plan = PlanFor(size);
    return {YcsbSpace(plan, opponents_.count), YcsbMemory(plan, size.tiny)};
  }

  nlohmann::json Settings(const Size& size) const override {
    return YcsbSettings(PlanFor(size), size.tiny);
  }

  int Steps(const Session& session, const Size& size, const RowLog& rows) const override {
    return YcsbSteps(session, PlanLeft(size, rows), opponents_.count);
  }

  double Seconds(const Session& session, const Size& size, const RowLog& rows) const override {
    return YcsbSeconds(session, PlanLeft(size, rows), opponents_.count);
  }

  absl::Status Check(const Session& session) const override {
    return placed_ ? CheckAgentProcess(session) : absl::OkStatus();
  }

  absl::Status Run(Session* session, const Size& size, RowLog* rows) const override {
    const YcsbPlan plan = PlanLeft(size, *rows);
    std::optional<AgentProcess> agent;
    PulseTarget target = session->pulse_target();
    if (placed_) {
      PULSE_RETURN_IF_ERROR(agent.emplace(session, placed_->agent_options).Start());
      target.agent_socket = agent->socket();
    }
    const std::vector<Opponent> opponents = opponents_.make(*session, target);
    session->Say(Legend(*session, opponents));
    PULSE_RETURN_IF_ERROR(RunYcsb(session, plan, opponents, [rows](nlohmann::json row) {
      row["label"] = row.at("workload");
      return rows->Add(std::move(row));
    }));
    return agent ? agent->CheckRuns() : absl::OkStatus();
  }

 private:
  static std::vector<PaperValue> Figure14() {
    const std::pair<const char*, double> ratios[] = {{"load", 1.55}, {"A", 1.35}, {"B", 1.13},
                                                     {"C", 1.02},    {"D", 1.20}, {"E", 1.12},
                                                     {"F", 1.38}};
    std::vector<PaperValue> values;
    for (const auto& [workload, ratio] : ratios) {
      values.push_back({absl::StrCat("throughput, ", workload, ", PulseDB / RocksDB"),
                        "Fig. 14",
                        workload,
                        ratio,
                        ratio,
                        {"ops_per_s", kPulse, kStockDefault}});
    }
    return values;
  }

  static YcsbPlan PlanLeft(const Size& size, const RowLog& rows) {
    YcsbPlan plan = PlanFor(size);
    const auto done = [&rows](const WorkloadSpec& w) { return rows.Has(w.name); };
    plan.workloads.erase(std::remove_if(plan.workloads.begin(), plan.workloads.end(), done),
                         plan.workloads.end());
    return plan;
  }

  static YcsbPlan PlanFor(const Size& size) {
    YcsbPlan plan;
    plan.threads = size.threads;
    plan.load = size.own_load ? YcsbLoad::kOwn : YcsbLoad::kCopied;
    plan.memtable_bytes = size.memtable_bytes;
    plan.workloads = AllWorkloads();
    plan.records = static_cast<uint64_t>(size.scale * kPaperBytes) / (kKeyBytes + plan.value_bytes);
    plan.operations = static_cast<uint64_t>(size.scale * kPaperOperations);
    if (size.quick) plan.operations = std::max<uint64_t>(1, plan.operations / kQuickShare);
    if (size.tiny) {
      plan.records = 4000;
      plan.operations = 1000;
    }
    plan.records = std::max<uint64_t>(1, plan.records);
    plan.operations = std::max<uint64_t>(1, plan.operations);
    return plan;
  }

  const YcsbOpponents opponents_;
  const std::optional<PlacedAgent> placed_;
};

}  // namespace

std::unique_ptr<Experiment> MakeYcsbExperiment(YcsbOpponents opponents) {
  return std::make_unique<YcsbExperiment>(std::move(opponents));
}

std::unique_ptr<Experiment> MakeYcsbExperiment(YcsbOpponents opponents, PlacedAgent placed) {
  return std::make_unique<YcsbExperiment>(std::move(opponents), std::move(placed));
}

}  // namespace pulse::bench
