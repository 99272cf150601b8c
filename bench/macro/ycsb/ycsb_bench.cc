// `pulse bench ycsb`: the core workloads of YCSB, as section IV.C of the paper has them.
#include "bench/macro/ycsb/ycsb_bench.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/paper/experiment.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kYcsbSize = uint64_t{1} << 30;
constexpr uint64_t kYcsbSlack = uint64_t{256} << 20;
constexpr uint64_t kTinyOperations = 2000;
constexpr char kYcsbLoaded[] = "loaded";

uint64_t DataBytes(const YcsbPlan& plan) { return plan.records * (kKeyBytes + plan.value_bytes); }

bool NeedsLoaded(const YcsbPlan& plan) {
  return std::any_of(plan.workloads.begin(), plan.workloads.end(),
                     [](const WorkloadSpec& workload) { return !workload.IsLoad(); });
}

// How many databases are loaded beforehand.
uint64_t LoadsOf(const YcsbPlan& plan, size_t opponents) {
  if (!NeedsLoaded(plan)) return 0;
  return plan.load == YcsbLoad::kOwn ? opponents : 1;
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

  absl::Status Load(const std::vector<Opponent>& opponents) {
    if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kYcsbLoaded));
    const WorkloadSpec& load = AllWorkloads().front();
    if (plan_.load == YcsbLoad::kCopied) {
      return session_
          ->Prepared(kYcsbLoaded, "loading the database of all workloads",
                     Spec(load, StockOpponents({}).front(), kYcsbLoaded), Words)
          .status();
    }
    for (const Opponent& opponent : opponents) {
      const std::string name = LoadedBy(opponent);
      nlohmann::json spec = Spec(load, opponent, name);
      spec["settle"] = false;
      PULSE_RETURN_IF_ERROR(session_
                                ->Prepared(name, opponent.name + " loads its database",
                                           std::move(spec), Words, opponent.cpus)
                                .status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> RunOne(const WorkloadSpec& workload, const Opponent& opponent,
                                        const std::string& label, bool first) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (!workload.IsLoad())
      PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(LoadedBy(opponent), "run"));
    session_->CoolDown();
    auto result = session_->Step(label, Spec(workload, opponent, "run"), opponent.cpus, Words);
    if (!result.ok()) return result;
    if (first) PULSE_RETURN_IF_ERROR(Check(*result, label, opponent));
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
  std::string LoadedBy(const Opponent& opponent) const {
    return plan_.load == YcsbLoad::kCopied ? kYcsbLoaded
                                           : absl::StrCat(kYcsbLoaded, "-", opponent.name);
  }

  nlohmann::json Spec(const WorkloadSpec& workload, const Opponent& opponent,
                      const std::string& dir) const {
    const bool load = workload.IsLoad();
    return {{"job", "ycsb"},
            {"dir", session_->dir().Sub(dir)},
            {"shape", ToJson(shape_)},
            {"opponent", ToJson(opponent)},
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

  // All of the database, value by value; and the same records as with the first opponent. Which of
  // two threads wrote one last is chance.
  absl::Status Check(const nlohmann::json& result, const std::string& label,
                     const Opponent& opponent) {
    const auto seen = session_->Verify(label, "run", shape_, plan_.value_bytes, opponent);
    if (!seen.ok()) return seen.status();
    if (!contents_) contents_ = *seen;
    const auto records = result.at("records_after").get<uint64_t>();
    if (seen->entries == records && seen->keys == contents_->keys) return absl::OkStatus();
    return absl::DataLossError(fmt::format(
        "wrong contents after the run: {} records with checksum of keys {}, where {} were written "
        "and the first opponent left {} with {}",
        seen->entries, seen->keys, records, contents_->entries, contents_->keys));
  }

  Session* const session_;
  const YcsbPlan& plan_;
  const DbShape shape_;
  std::optional<Contents> contents_;
};

}  // namespace

uint64_t YcsbSpace(const YcsbPlan& plan, size_t opponents) {
  uint64_t writes = 0;
  for (const WorkloadSpec& workload : plan.workloads) {
    if (!workload.IsLoad()) writes = std::max(writes, workload.Writes(plan.operations));
  }
  // A run's data, as much again while it is compacted, and the log; the loaded databases beside it.
  const uint64_t data = DataBytes(plan);
  const uint64_t run = (data + writes * (kKeyBytes + plan.value_bytes)) * 5 / 2;
  const uint64_t loaded = LoadsOf(plan, opponents) * (data * 5 / 4);
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
      {"shape", ToJson(ShapeOf(plan, tiny))},
      {"initial_database",
       plan.load == YcsbLoad::kCopied
           ? "loaded once by stock-default on all CPUs, compactions at rest; each run has a copy"
           : "loaded by each opponent for itself, and left when the last record was written, so "
             "that what its compactions owe falls due in the run; each run has a copy"}};
}

int YcsbSteps(const Session& session, const YcsbPlan& plan, size_t opponents) {
  return static_cast<int>(plan.workloads.size() * opponents) * session.rounds() +
         static_cast<int>(LoadsOf(plan, opponents));
}

double YcsbSeconds(const Session& session, const YcsbPlan& plan, size_t opponents) {
  const uint64_t record = kKeyBytes + plan.value_bytes;
  double seconds = static_cast<double>(LoadsOf(plan, opponents)) * RunSeconds(plan.records, record);
  for (const WorkloadSpec& workload : plan.workloads) {
    const uint64_t writes = workload.IsLoad() ? plan.records : workload.Writes(plan.operations);
    // A scan of fifty records goes to as many blocks as some reads do.
    constexpr uint64_t kReadsOfScan = 12;
    const uint64_t reads =
        workload.IsLoad()
            ? 0
            : plan.operations *
                  (workload.read + workload.read_modify_write + workload.scan * kReadsOfScan) / 100;
    seconds +=
        static_cast<double>(opponents) * session.rounds() * RunSeconds(writes, record, reads);
  }
  return seconds;
}

absl::Status RunYcsb(Session* session, const YcsbPlan& plan, const std::vector<Opponent>& opponents,
                     const std::function<absl::Status(nlohmann::json)>& done) {
  Runner runner(session, plan);
  if (NeedsLoaded(plan)) PULSE_RETURN_IF_ERROR(runner.Load(opponents));
  for (const WorkloadSpec& workload : plan.workloads) {
    runner.Forget();
    nlohmann::json raw = nlohmann::json::array();
    const auto runs = session->RunRounds(
        opponents, "workload " + workload.name,
        [&](const Opponent& opponent, const std::string& label, bool first) {
          return runner.RunOne(workload, opponent, label, first);
        },
        &raw);
    if (!runs.ok()) return runs.status();
    nlohmann::json section;
    session->Say(ReportYcsb(workload, opponents, *runs, session->args().tiny, &section));
    section["runs"] = std::move(raw);
    PULSE_RETURN_IF_ERROR(done(std::move(section)));
  }
  return runner.CleanUp();
}

namespace {

struct YcsbArgs {
  CommonArgs common;
  std::vector<std::string> workloads;
  std::string load = "copied";
  YcsbPlan plan;  // but for its workloads and its load
};

absl::Status RunYcsbBench(YcsbArgs args) {
  YcsbPlan& plan = args.plan;
  plan.load = args.load == "own" ? YcsbLoad::kOwn : YcsbLoad::kCopied;
  PULSE_RETURN_IF_ERROR(CheckValueBytes(plan.value_bytes, kStampBytes));
  auto workloads = SelectWorkloads(args.workloads);
  if (!workloads.ok()) return workloads.status();
  plan.workloads = *std::move(workloads);
  const auto size = SizeOf(args.common, kYcsbSize);
  if (!size.ok()) return size.status();
  const auto memtable = MemtableOf(args.common);
  if (!memtable.ok()) return memtable.status();
  plan.memtable_bytes = *memtable;
  if (plan.records == 0) {
    plan.records = std::max<uint64_t>(1, *size / (kKeyBytes + plan.value_bytes));
  }
  if (plan.operations == 0) {
    // 20 million on 40 GB, the paper has.
    plan.operations = args.common.tiny ? kTinyOperations : std::max<uint64_t>(1, plan.records / 2);
  }
  const size_t named = args.common.opponents.size();
  auto session =
      Session::Open("ycsb", args.common, YcsbSpace(plan, named == 0 ? kUsualOpponents : named));
  if (!session.ok()) return session.status();
  const auto opponents = PaperOpponents(**session, args.common.opponents);
  if (!opponents.ok()) return opponents.status();
  (*session)->report()["settings"].update(YcsbSettings(plan, args.common.tiny));
  (*session)->ExpectSteps(YcsbSteps(**session, plan, opponents->size()));
  (*session)->Say(Legend(**session, *opponents));
  (*session)->Say(fmt::format(
      "{} records of {} B; {} operations for each workload by {} threads; {} background jobs, "
      "direct reads, {} pair{}\nDatabase of A to F: {}\n",
      plan.records, plan.value_bytes, plan.operations, plan.threads, plan.jobs, (*session)->pairs(),
      (*session)->pairs() == 1 ? "" : "s",
      YcsbSettings(plan, args.common.tiny).at("initial_database").get<std::string>()));
  nlohmann::json& sections = (*session)->report()["workloads"] = nlohmann::json::array();
  PULSE_RETURN_IF_ERROR(
      RunYcsb(session->get(), plan, *opponents, [&sections](nlohmann::json section) {
        sections.push_back(std::move(section));
        return absl::OkStatus();
      }));
  return (*session)->WriteReport();
}

}  // namespace

void AddYcsbBench(CLI::App& bench) {
  auto args = std::make_shared<YcsbArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "ycsb", "The YCSB workloads Load and A to F: throughput, latencies of reads and writes");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--workloads", args->workloads,
                  "Only these: load, A, B, C, D, E, F; always in YCSB's order [all]")
      ->delimiter(',');
  cmd->add_option("--size", args->common.size,
                  "Keys and values to load, such as 512M; powers of 1024 [1G]");
  cmd->add_option("--records", args->plan.records, "Number of records, instead of --size");
  cmd->add_option("--operations", args->plan.operations,
                  "Operations for each workload but the load [half as many as records]");
  cmd->add_option("--value", args->plan.value_bytes, "Value size in bytes")->capture_default_str();
  cmd->add_option("--threads", args->plan.threads, "Threads that operate")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  cmd->add_option(
         "--load", args->load,
         "Who loads the database of A to F: \"copied\", stock RocksDB for all; \"own\", each "
         "opponent for itself, as in the paper")
      ->check(CLI::IsMember({"copied", "own"}))
      ->capture_default_str();
  cmd->add_option("--jobs", args->plan.jobs, "RocksDB's max_background_jobs")
      ->check(CLI::Range(2, 256))
      ->capture_default_str();
  AddPaperOptions(cmd, &args->common);
  cmd->footer(
      "Every run works on a copy of a loaded database (--load). "
      "Threads go as fast as they are let (a closed loop); every value read is checked, and after "
      "an opponent's first run of a workload the whole database. A read-modify-write counts as one "
      "operation, and its two halves with the latencies of reads and of writes.");
  cmd->callback([args] { Finish(RunYcsbBench(*args)); });
}

}  // namespace pulse::bench
