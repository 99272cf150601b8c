// Section IV.C as an experiment.
#include "bench/paper/ycsb_experiment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/paper/figures.h"
#include "bench/workload.h"
#include "bench/ycsb/ycsb_bench.h"

namespace pulse::bench {
namespace {

class YcsbExperiment : public Experiment {
 public:
  YcsbExperiment()
      : Experiment("ycsb", "YCSB workloads Load and A to F",
                   PaperJson({"Fig. 14", "Table III"}, Figure14())) {}

  Needs NeedsAt(const Size& size) const override {
    const YcsbPlan plan = PlanFor(size);
    return {YcsbSpace(plan, kUsualOpponents), YcsbMemory(plan, size.tiny)};
  }

  nlohmann::json Settings(const Size& size) const override {
    return YcsbSettings(PlanFor(size), size.tiny);
  }

  int Steps(const Session& session, const Size& size) const override {
    return YcsbSteps(session, PlanFor(size), kUsualOpponents);
  }

  absl::StatusOr<nlohmann::json> Run(Session* session, const Size& size) const override {
    const YcsbPlan plan = PlanFor(size);
    const auto opponents = PaperOpponents(*session, {});
    if (!opponents.ok()) return opponents.status();
    session->Say(Legend(*session, *opponents));
    auto rows = RunYcsb(session, plan, *opponents);
    if (!rows.ok()) return rows.status();
    for (nlohmann::json& row : *rows) row["label"] = row.at("workload");
    return rows;
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

  static YcsbPlan PlanFor(const Size& size) {
    YcsbPlan plan;
    plan.threads = size.threads;
    plan.load = size.own_load ? YcsbLoad::kOwn : YcsbLoad::kCopied;
    plan.memtable_bytes = size.memtable_bytes;
    plan.workloads = AllWorkloads();
    plan.records = static_cast<uint64_t>(size.scale * kPaperBytes) / (kKeyBytes + plan.value_bytes);
    plan.operations = static_cast<uint64_t>(size.scale * kPaperOperations);
    if (size.tiny) {
      plan.records = 4000;
      plan.operations = 1000;
    }
    plan.records = std::max<uint64_t>(1, plan.records);
    plan.operations = std::max<uint64_t>(1, plan.operations);
    return plan;
  }
};

}  // namespace

std::unique_ptr<Experiment> MakeYcsbExperiment() { return std::make_unique<YcsbExperiment>(); }

}  // namespace pulse::bench
