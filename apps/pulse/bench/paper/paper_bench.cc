// `pulse bench paper`: the experiments of the paper's evaluation, one result file each; those that
// are there already are not run again.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errors.h"
#include "bench/common_options.h"
#include "bench/paper/experiment.h"
#include "bench/paper/report_files.h"
#include "bench/paper/result_files.h"
#include "commands.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "util/disk.h"

namespace pulse::bench {
namespace {

struct PaperArgs {
  CommonArgs common;
  std::string out = "./pulse-paper";
  Size size;  // but for what `common` has
  std::vector<std::string> only;
  bool redo = false;
  bool report_only = false;
  std::string markdown;
  std::string load = "own";
};

struct Job {
  const Experiment* experiment;
  std::string file;
  nlohmann::json identity;  // what the result begins with
};

uint64_t AvailableMemory() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && in >> kib) return kib << 10;
  }
  return UINT64_MAX;  // who cannot tell does not refuse
}

nlohmann::json Identity(const PaperArgs& args, const Experiment& experiment,
                        const nlohmann::json& session) {
  nlohmann::json settings = session.at("settings");
  settings["scale"] = args.size.scale;
  settings.update(experiment.Settings(args.size));
  return {{"benchmark", "paper"},
          {"experiment", experiment.name()},
          {"title", experiment.title()},
          {"pulse_version", session.at("pulse_version")},
          {"machine", session.at("machine")},
          {"settings", std::move(settings)}};
}

// Leaves those that have to run in `jobs`; says of the others that they have. Another result in the
// way is an error, so that hours of measuring are not overwritten by a slip.
absl::Status SkipDone(const PaperArgs& args, Session* session, std::vector<Job>* jobs) {
  std::vector<Job> left;
  for (Job& job : *jobs) {
    const EarlierResult found = FindResult(job.file, job.identity);
    if (found.kind == EarlierResult::Kind::kSame && !args.redo) {
      session->Say(fmt::format("{}: done before, see {}\n", job.experiment->name(), job.file));
      continue;
    }
    if (found.kind == EarlierResult::Kind::kOther && !args.redo) {
      return absl::FailedPreconditionError(absl::StrCat(
          job.file, " has a result with other settings (", absl::StrJoin(found.differences, "; "),
          "); give the same ones, choose another --out, or replace it with --redo"));
    }
    left.push_back(std::move(job));
  }
  *jobs = std::move(left);
  return absl::OkStatus();
}

absl::Status CheckRoom(const PaperArgs& args, const std::string& dir,
                       const std::vector<Job>& jobs) {
  std::vector<const Experiment*> experiments;
  for (const Job& job : jobs) experiments.push_back(job.experiment);
  const auto disk = InspectDisk(dir);
  if (!disk.ok()) return disk.status();
  const Needs there = {disk->free_bytes, AvailableMemory()};
  const Needs needs = MostOf(experiments, args.size);
  if (needs.disk <= there.disk && needs.memory <= there.memory) return absl::OkStatus();
  const double largest = LargestScale(experiments, there, args.size);
  return absl::ResourceExhaustedError(fmt::format(
      "the experiments need {} of disk in {} and {} of memory at --scale {}, and there are {} and "
      "{}; {}",
      FormatBytes(needs.disk), dir, FormatBytes(needs.memory), args.size.scale,
      FormatBytes(there.disk), FormatBytes(there.memory),
      largest > 0 ? fmt::format("the largest --scale that fits is {:.2g}", largest)
                  : "no scale fits: make room, or choose another --dir"));
}

absl::Status RunJob(const PaperArgs& args, Session* session, Job* job) {
  const Experiment& experiment = *job->experiment;
  session->Say(fmt::format("\n== {}: {} ({})\n", experiment.name(), experiment.title(),
                           absl::StrJoin(experiment.paper().at("figures"), ", ",
                                         [](std::string* out, const nlohmann::json& figure) {
                                           out->append(figure.get<std::string>());
                                         })));
  auto rows = experiment.Run(session, args.size);
  if (!rows.ok()) {
    return absl::Status(rows.status().code(),
                        absl::StrCat(experiment.name(), ": ", rows.status().message(),
                                     "; what is finished is kept, and the same command goes on"));
  }
  PULSE_RETURN_IF_ERROR(session->DropPool());
  nlohmann::json result = std::move(job->identity);
  result["paper"] = experiment.paper();
  result["units"] = MetricUnits();
  result["page_cache"] = session->report()["settings"].value("page_cache", "");
  result["finished"] = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  result["rows"] = *std::move(rows);
  PULSE_RETURN_IF_ERROR(WriteResult(job->file, result));
  session->Say(fmt::format("JSON: {}\n", job->file));
  return absl::OkStatus();
}

std::vector<ReportEntry> Entries() {
  std::vector<ReportEntry> entries;
  for (const auto& experiment : AllExperiments()) {
    entries.push_back({experiment->name(), experiment->title(), experiment->paper(), nullptr, ""});
  }
  return entries;
}

// From what there is in --out, of this run and of earlier ones.
absl::Status WriteReports(const PaperArgs& args, bool with_markdown) {
  std::vector<ReportEntry> entries = Entries();
  LoadResults(args.out, &entries);
  const Report report = MakeReport(entries, absl::StrCat("pulse bench paper --out ", args.out));
  PULSE_RETURN_IF_ERROR(WriteHtml(args.out, report));
  if (!with_markdown || args.markdown.empty()) return absl::OkStatus();
  return WriteMarkdown(args.markdown, report);
}

void SayReports(const PaperArgs& args) {
  fmt::print("Report: {}/report.html\n", args.out);
  if (!args.markdown.empty()) fmt::print("Markdown: {}\n", args.markdown);
}

absl::Status ReportOnly(const PaperArgs& args) {
  std::vector<ReportEntry> entries = Entries();
  LoadResults(args.out, &entries);
  const auto there = [](const ReportEntry& e) { return !e.result.is_null(); };
  if (std::none_of(entries.begin(), entries.end(), there)) {
    return absl::NotFoundError(absl::StrCat("there is no result in ", args.out,
                                            "; run the experiments first, with the same --out and "
                                            "without --report-only"));
  }
  PULSE_RETURN_IF_ERROR(WriteReports(args, /*with_markdown=*/true));
  SayReports(args);
  return absl::OkStatus();
}

absl::Status CheckArgs(const PaperArgs& args) {
  if (!(args.size.scale > 0) || args.size.scale > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "--scale {}: give a share of the paper's 40 GB, above 0 and up to 1", args.size.scale));
  }
  if (!args.common.agent_socket.empty() || !args.common.opponents.empty() ||
      !args.common.json_file.empty()) {
    return absl::InvalidArgumentError(
        "--agent, --opponents and --json are not for `paper`: each experiment has its own agents, "
        "opponents and file; leave them out");
  }
  return absl::OkStatus();
}

absl::Status RunPaper(PaperArgs args) {
  PULSE_RETURN_IF_ERROR(CheckArgs(args));
  if (!args.markdown.empty()) PULSE_RETURN_IF_ERROR(CheckMarkdown(args.markdown));
  if (args.report_only) return ReportOnly(args);
  args.size.tiny = args.common.tiny;
  args.size.own_load = args.load == "own";
  const auto memtable = MemtableOf(args.common);
  if (!memtable.ok()) return memtable.status();
  args.size.memtable_bytes = *memtable;
  const auto chosen = SelectExperiments(AllExperiments(), args.only);
  if (!chosen.ok()) return chosen.status();
  if (args.common.dir.empty()) args.common.dir = args.out + "/work";
  std::error_code ec;
  std::filesystem::create_directories(args.out, ec);
  if (ec) return ErrnoError(ec.value(), "creating directory", args.out);
  auto session = Session::Open("paper", args.common, 0);
  if (!session.ok()) return session.status();
  Session& s = **session;

  std::vector<Job> jobs;
  for (const Experiment* experiment : *chosen) {
    jobs.push_back({experiment, fmt::format("{}/{}.json", args.out, experiment->name()),
                    Identity(args, *experiment, s.report())});
  }
  PULSE_RETURN_IF_ERROR(SkipDone(args, &s, &jobs));
  PULSE_RETURN_IF_ERROR(CheckRoom(args, s.dir().path(), jobs));
  for (const Job& job : jobs) PULSE_RETURN_IF_ERROR(job.experiment->Check(s));
  int steps = 0;
  for (const Job& job : jobs) steps += job.experiment->Steps(s, args.size);
  s.ExpectSteps(steps);
  PULSE_RETURN_IF_ERROR(WriteReports(args, /*with_markdown=*/false));
  // After each, so that an interrupted run has its report.
  for (Job& job : jobs) {
    PULSE_RETURN_IF_ERROR(RunJob(args, &s, &job));
    PULSE_RETURN_IF_ERROR(WriteReports(args, /*with_markdown=*/false));
  }
  PULSE_RETURN_IF_ERROR(WriteReports(args, /*with_markdown=*/true));
  SayReports(args);
  return absl::OkStatus();
}

}  // namespace

void AddPaperBench(CLI::App& bench) {
  auto args = std::make_shared<PaperArgs>();
  args->common.dir.clear();
  args->common.timeout_seconds = 6 * 3600;
  CLI::App* cmd = bench.add_subcommand(
      "paper", "The experiments of the PulseDB paper, at any scale; goes on where it was stopped");
  AddCommonOptions(cmd, &args->common);
  cmd->get_option("--dir")->default_str("OUT/work");
  cmd->add_option("--out", args->out, "The results go here, one JSON file each, and report.html")
      ->capture_default_str();
  cmd->add_option("--scale", args->size.scale,
                  "Share of the paper's 40 GB and 20 million YCSB operations")
      ->capture_default_str();
  cmd->add_option("--threads", args->size.threads,
                  "Threads that write or operate; as many as the paper's, on a few CPUs, can leave "
                  "none to compactions")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  std::vector<std::string> names;
  for (const auto& experiment : AllExperiments()) names.push_back(experiment->name());
  cmd->add_option("--only", args->only, "Only these: " + absl::StrJoin(names, ", "))
      ->delimiter(',');
  cmd->add_flag("--redo", args->redo, "Run also what is done, and replace results");
  cmd->add_option("--load", args->load,
                  "Who loads the databases of ycsb: \"own\", each opponent for itself, as in the "
                  "paper; \"copied\", stock RocksDB for all")
      ->check(CLI::IsMember({"own", "copied"}))
      ->capture_default_str();
  cmd->add_flag("--report-only", args->report_only,
                "Run nothing: write the report of the results that are in --out");
  cmd->add_option(
      "--markdown", args->markdown,
      "Write the report into this document, too, between its markers, with plots beside "
      "it");
  AddPaperOptions(cmd, &args->common);
  cmd->footer(
      "As the paper has it: 16-byte keys, ten threads (--threads), four background jobs, direct "
      "reads, "
      "64 MiB memtables and tables, Bloom filters of 10 bits, no compression; the block cache is "
      "scaled with the data, nothing else is but by --memtable. Stock RocksDB runs on the host's "
      "CPU and, as a third "
      "line, on host's and agent's together.");
  cmd->callback([args] { Finish(RunPaper(*args)); });
}

}  // namespace pulse::bench
