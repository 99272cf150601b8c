// `pulse bench ycsb`: the core workloads of YCSB, as section IV.C of the paper has them.
#include "bench/macro/ycsb/ycsb_bench.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/experiment.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kYcsbSize = uint64_t{1} << 30;
constexpr uint64_t kYcsbSlack = uint64_t{256} << 20;
constexpr char kYcsbLoaded[] = "loaded";

uint64_t DataBytes(const YcsbPlan& plan) { return plan.records * (kKeyBytes + plan.value_bytes); }

bool NeedsLoaded(const YcsbPlan& plan) {
  return std::any_of(plan.workloads.begin(), plan.workloads.end(),
                     [](const WorkloadSpec& workload) { return !workload.IsLoad(); });
}

// How many databases are loaded beforehand.
uint64_t LoadsOf(const YcsbPlan& plan, size_t variants) {
  if (!NeedsLoaded(plan)) return 0;
  return plan.load == YcsbLoad::kOwn ? variants : 1;
}

DbShape ShapeOf(const YcsbPlan& plan, bool tiny) {
  DbShape shape = PaperShapeFor(tiny, DataBytes(plan), plan.memtable_bytes);
  shape.background_jobs = plan.jobs;
  return shape;
}

// The runs of one plan.
class Runner {
 public:
  Runner(Session* session, const YcsbPlan& plan)
      : session_(session), plan_(plan), shape_(ShapeOf(plan, session->args().tiny)) {}

  absl::Status Load(const std::vector<Variant>& variants) {
    if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kYcsbLoaded));
    const WorkloadSpec& load = AllWorkloads().front();
    if (plan_.load == YcsbLoad::kCopied) {
      return session_
          ->Prepared(kYcsbLoaded, "loading the database of all workloads",
                     Spec(load, StockVariants({}).front(), kYcsbLoaded), Words)
          .status();
    }
    for (const Variant& variant : variants) {
      const std::string name = LoadedBy(variant);
      nlohmann::json spec = Spec(load, variant, name);
      spec["settle"] = false;
      PULSE_RETURN_IF_ERROR(session_
                                ->Prepared(name, variant.name + " loads its database",
                                           std::move(spec), Words, variant.cpus)
                                .status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> RunOne(const WorkloadSpec& workload, const Variant& variant,
                                        const std::string& label, bool first) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (!workload.IsLoad())
      PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(LoadedBy(variant), "run"));
    session_->CoolDown();
    auto result = session_->Step(label, Spec(workload, variant, "run"), variant.cpus, Words);
    if (!result.ok()) return result;
    if (first) PULSE_RETURN_IF_ERROR(Check(*result, label, variant));
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    return result;
  }

  // For the next workload, whose databases are others.
  void Forget() { contents_.reset(); }

  absl::Status CleanUp() {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (session_->args().keep) return absl::OkStatus();
    return session_->dir().RemoveAll(kYcsbLoaded);
  }

 private:
  std::string LoadedBy(const Variant& variant) const {
    return plan_.load == YcsbLoad::kCopied ? kYcsbLoaded
                                           : absl::StrCat(kYcsbLoaded, "-", variant.name);
  }

  nlohmann::json Spec(const WorkloadSpec& workload, const Variant& variant,
                      const std::string& dir) const {
    const bool load = workload.IsLoad();
    return {{"job", "ycsb"},
            {"dir", session_->dir().Sub(dir)},
            {"shape", shape_},
            {"variant", variant},
            {"workload", workload.name},
            {"records", load ? 0 : plan_.records},
            {"operations", load ? plan_.records : plan_.operations},
            {"value_bytes", plan_.value_bytes},
            {"threads", plan_.threads},
            {"settle", true},
            {"seed", session_->args().seed}};
  }

  static std::string Words(const nlohmann::json& r) {
    return fmt::format("{:.0f} ops/s", r.value("ops_per_s", 0.0));
  }

  // All of the database, value by value; and the same records as with the first variant. Which of
  // two threads wrote one last is chance.
  absl::Status Check(const nlohmann::json& result, const std::string& label,
                     const Variant& variant) {
    PULSE_RETURN_IF_ERROR(session_->Verify(label, "run", shape_, plan_.value_bytes, variant,
                                           /*keys_only=*/true, &contents_));
    const auto records = result.at("records_after").get<uint64_t>();
    if (contents_->entries == records) return absl::OkStatus();
    return absl::DataLossError(fmt::format("wrong contents after the run: {} records instead of {}",
                                           contents_->entries, records));
  }

  Session* const session_;
  const YcsbPlan& plan_;
  const DbShape shape_;
  std::optional<Contents> contents_;
};

}  // namespace

uint64_t YcsbSpace(const YcsbPlan& plan, size_t variants) {
  uint64_t writes = 0;
  for (const WorkloadSpec& workload : plan.workloads) {
    if (!workload.IsLoad()) writes = std::max(writes, workload.Writes(plan.operations));
  }
  // A run's data, as much again while it is compacted, and the log; the loaded databases beside it.
  const uint64_t data = DataBytes(plan);
  const uint64_t run = (data + writes * (kKeyBytes + plan.value_bytes)) * 5 / 2;
  const uint64_t loaded = LoadsOf(plan, variants) * (data * 5 / 4);
  return run + loaded + kYcsbSlack;
}

uint64_t YcsbMemory(const YcsbPlan& plan, bool tiny) {
  return RunMemory(ShapeOf(plan, tiny), kUsualQueueBytes);
}

nlohmann::json YcsbSettings(const YcsbPlan& plan, bool tiny) {
  return {
      {"records", plan.records},
      {"operations", plan.operations},
      {"value_bytes", plan.value_bytes},
      {"threads", plan.threads},
      {"shape", ShapeOf(plan, tiny)},
      {"initial_database",
       plan.load == YcsbLoad::kCopied
           ? "loaded once by stock-default on all CPUs, compactions at rest; each run has a copy"
           : "loaded by each variant for itself, and left when the last record was written, so "
             "that what its compactions owe falls due in the run; each run has a copy"}};
}

int YcsbSteps(const Session& session, const YcsbPlan& plan, size_t variants) {
  return static_cast<int>(plan.workloads.size() * variants) * session.rounds() +
         static_cast<int>(LoadsOf(plan, variants));
}

double YcsbSeconds(const Session& session, const YcsbPlan& plan, size_t variants) {
  const uint64_t record = kKeyBytes + plan.value_bytes;
  double seconds = static_cast<double>(LoadsOf(plan, variants)) * RunSeconds(plan.records, record);
  for (const WorkloadSpec& workload : plan.workloads) {
    const uint64_t writes = workload.IsLoad() ? plan.records : workload.Writes(plan.operations);
    // A scan of fifty records goes to as many blocks as some reads do.
    constexpr uint64_t kReadsOfScan = 12;
    const uint64_t reads =
        workload.IsLoad()
            ? 0
            : plan.operations *
                  (workload.read + workload.read_modify_write + workload.scan * kReadsOfScan) / 100;
    seconds += static_cast<double>(variants) * session.rounds() * RunSeconds(writes, record, reads);
  }
  return seconds;
}

absl::Status RunYcsb(Session* session, const YcsbPlan& plan, const std::vector<Variant>& variants,
                     const std::function<absl::Status(nlohmann::json)>& done) {
  Runner runner(session, plan);
  if (NeedsLoaded(plan)) PULSE_RETURN_IF_ERROR(runner.Load(variants));
  for (const WorkloadSpec& workload : plan.workloads) {
    runner.Forget();
    const auto runs =
        session->RunRounds(variants, "workload " + workload.name,
                           [&](const Variant& variant, const std::string& label, bool first) {
                             return runner.RunOne(workload, variant, label, first);
                           });
    if (!runs.ok()) return runs.status();
    nlohmann::json section;
    session->Say(ReportYcsb(workload, variants, *runs, session->args().tiny, &section));
    PULSE_RETURN_IF_ERROR(done(std::move(section)));
  }
  return runner.CleanUp();
}

absl::Status RunYcsbBench(BenchArgs args) {
  YcsbPlan plan;
  plan.load = args.Get<std::string>("load") == "own" ? YcsbLoad::kOwn : YcsbLoad::kCopied;
  plan.value_bytes = args.Get<uint64_t>("value_bytes");
  plan.threads = args.Get<int>("threads");
  plan.jobs = args.Get<int>("jobs");
  PULSE_RETURN_IF_ERROR(CheckValueBytes(plan.value_bytes, kStampBytes));
  auto workloads = SelectWorkloads(args.Get<std::vector<std::string>>("workloads"));
  if (!workloads.ok()) return workloads.status();
  plan.workloads = *std::move(workloads);
  const auto size = SizeOf(args.common, uint64_t{1} << 30);
  if (!size.ok()) return size.status();
  PULSE_ASSIGN_OR_RETURN(plan.memtable_bytes, MemtableOf(args.common));
  plan.records = args.Get<uint64_t>("records");
  if (plan.records == 0) {
    plan.records = std::max<uint64_t>(1, *size / (kKeyBytes + plan.value_bytes));
  }
  plan.operations = args.Get<uint64_t>("operations");
  // 20 million on 40 GB, the paper has.
  if (plan.operations == 0) plan.operations = std::max<uint64_t>(1, plan.records / 2);
  const size_t named = args.common.variants.size();
  PULSE_ASSIGN_OR_RETURN(auto session,
                         Session::Open(args, YcsbSpace(plan, named == 0 ? kUsualVariants : named)));
  Session& s = *session;
  PULSE_ASSIGN_OR_RETURN(const auto variants, PaperVariants(s, args.common.variants));
  const nlohmann::json settings = YcsbSettings(plan, args.common.tiny);
  s.report()["settings"].update(settings);
  s.ExpectSteps(YcsbSteps(s, plan, variants.size()));
  s.Say(Legend(s, variants));
  s.Say(fmt::format(
      "{} records of {} B; {} operations for each workload by {} threads; {} background jobs, "
      "direct reads, {} pair(s)\nDatabase of A to F: {}\n",
      plan.records, plan.value_bytes, plan.operations, plan.threads, plan.jobs, s.pairs(),
      settings.at("initial_database").get<std::string>()));
  nlohmann::json& sections = s.report()["workloads"] = nlohmann::json::array();
  PULSE_RETURN_IF_ERROR(RunYcsb(&s, plan, variants, [&sections](nlohmann::json section) {
    sections.push_back(std::move(section));
    return absl::OkStatus();
  }));
  return s.WriteReport();
}

}  // namespace pulse::bench
