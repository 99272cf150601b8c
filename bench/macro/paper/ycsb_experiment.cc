// Section IV.C as an experiment.

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "bench/macro/paper/agent_process.h"
#include "bench/macro/paper/experiments.h"
#include "bench/macro/result_files.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/ycsb_bench.h"

namespace pulse::bench {
namespace {

// Reads of a slow disk are what takes the time.
constexpr uint64_t kQuickShare = 4;

class YcsbExperiment : public Experiment {
 public:
  explicit YcsbExperiment(const nlohmann::json& spec)
      : Experiment(spec.at("name"), spec.at("title"), spec.at("paper"),
                   spec.value("optional", false)),
        spec_(spec),
        variant_count_(spec.at("variants").size()) {}

  Needs NeedsAt(const Size& size) const override {
    const YcsbPlan plan = PlanFor(size);
    return {YcsbSpace(plan, variant_count_), YcsbMemory(plan, size.tiny)};
  }

  nlohmann::json Settings(const Size& size) const override {
    return YcsbSettings(PlanFor(size), size.tiny);
  }

  int Steps(const Session& session, const Size& size, const RowLog& rows) const override {
    return YcsbSteps(session, PlanLeft(size, rows), variant_count_);
  }

  double Seconds(const Session& session, const Size& size, const RowLog& rows) const override {
    return YcsbSeconds(session, PlanLeft(size, rows), variant_count_);
  }

  absl::Status Check(const Session& session) const override {
    return spec_.contains("agent_options") ? CheckAgentProcess(session) : absl::OkStatus();
  }

  absl::Status Run(Session* session, const Size& size, RowLog* rows) const override {
    const YcsbPlan plan = PlanLeft(size, *rows);
    std::optional<AgentProcess> agent;
    PulseTarget target = session->pulse_target();
    if (spec_.contains("agent_options")) {
      const auto options = spec_["agent_options"].get<std::vector<std::string>>();
      PULSE_RETURN_IF_ERROR(agent.emplace(session, options).Start());
      target.agent_socket = agent->socket();
    }
    const auto variants = ExperimentVariants(spec_.at("variants"), *session, target);
    session->Say(Legend(*session, variants));
    PULSE_RETURN_IF_ERROR(RunYcsb(session, plan, variants, [rows](nlohmann::json row) {
      row["label"] = row.at("workload");
      return rows->Add(std::move(row));
    }));
    return agent ? agent->CheckRuns() : absl::OkStatus();
  }

 private:
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

  const nlohmann::json spec_;
  const size_t variant_count_;
};

}  // namespace

std::unique_ptr<Experiment> MakeYcsbExperiment(const nlohmann::json& spec) {
  return std::make_unique<YcsbExperiment>(spec);
}

}  // namespace pulse::bench
