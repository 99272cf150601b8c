// `pulse bench paper`: the experiments of the paper's evaluation, one result file each; those that
// are there already are not run again.
#include <fcntl.h>
#include <sys/vfs.h>

#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/util/disk.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/experiment.h"
#include "bench/macro/fill_runs.h"
#include "bench/macro/report_program.h"
#include "bench/macro/result_files.h"
#include "bench/macro/revision.h"
#include "bench/macro/targets.h"
#include "bench/macro/workload.h"
#include "fmt/chrono.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr char kCatalogueName[] = "experiments.json";

struct PaperArgs {
  CommonArgs common;
  std::string out = "./pulse-paper";
  Size size;  // but for what `common` has
  std::vector<std::string> only;
  bool redo = false;
  bool keep_older = false;
  bool report_only = false;
  std::string markdown;
  std::string load = "own";
};

struct PendingExperiment {
  const Experiment* experiment;
  std::string file;
  nlohmann::json identity;  // what the result begins with
  RowLog rows;
  double seconds = 0;  // that it takes, about
  bool anew = false;   // what is there of it is moved aside first
};

// What decides about reads and syncs beside the machine. How the page cache is emptied is seen
// without emptying it: as DropPageCache does it.
nlohmann::json Storage(const Session& session) {
  const UniqueFd control(open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
  // A device may have another name after a restart; most file systems have a number of their own.
  std::string source = MountSource(session.dir().path());
  struct statfs fs = {};
  if (statfs(session.dir().path().c_str(), &fs) == 0 && (fs.f_fsid.__val[0] | fs.f_fsid.__val[1])) {
    source = fmt::format("file system {:08x}{:08x}", static_cast<uint32_t>(fs.f_fsid.__val[0]),
                         static_cast<uint32_t>(fs.f_fsid.__val[1]));
  }
  return {{"source", source}, {"page_cache", control.valid() ? "drop_caches" : "fadvise"}};
}

nlohmann::json Identity(const PaperArgs& args, const Experiment& experiment,
                        const nlohmann::json& session, const nlohmann::json& storage) {
  nlohmann::json settings = session.at("settings");
  settings["scale"] = args.size.scale;
  settings["quick"] = args.size.quick;
  settings["threads"] = args.size.threads;
  settings["memtable_bytes"] = args.size.memtable_bytes;
  settings["load"] = args.load;
  settings.update(experiment.Settings(args.size));
  return {{"benchmark", "paper"},
          {"experiment", experiment.name()},
          {"title", experiment.title()},
          {"pulse_version", session.at("pulse_version")},
          {"revision", session.at("revision")},
          {"machine", session.at("machine")},
          {"storage", storage},
          {"settings", std::move(settings)}};
}

// Of rows that are there though their experiment has its result.
std::string Unused(const std::string& result_file) {
  std::filesystem::path part(result_file);
  part.replace_extension(".part");
  std::error_code ec;
  if (!std::filesystem::exists(part, ec)) return "";
  return fmt::format("; {}, of another run, is not used", part.string());
}

// Whether its result is there, said; another result in the way is an error, so that hours of
// measuring are not overwritten by a slip.
absl::StatusOr<bool> IsDone(const PaperArgs& args, const RedoLog& redo, Session* session,
                            PendingExperiment* next) {
  const std::string& name = next->experiment->name();
  const EarlierResult found = FindResult(next->file, next->identity);
  const bool in_the_way =
      found.kind == EarlierResult::Kind::kOlder || found.kind == EarlierResult::Kind::kOther;
  next->anew = args.redo && (!redo.Begun(name) || in_the_way);
  if (next->anew) {
    session->Say(fmt::format("{}: begins anew\n", name));
    return false;
  }
  const std::string differences = absl::StrJoin(found.differences, "; ");
  switch (found.kind) {
    case EarlierResult::Kind::kSame:
      session->Say(fmt::format("{}: done {}before, see {}{}\n", name, args.redo ? "anew " : "",
                               next->file, Unused(next->file)));
      return true;
    case EarlierResult::Kind::kOlder:
      if (!args.keep_older) {
        return absl::FailedPreconditionError(absl::StrCat(
            next->file, " has a result of another version of this program (", differences,
            "); replace it with --redo, or go on with it by --keep-older, which the report says"));
      }
      session->Say(fmt::format("{}: done before by another version ({}), see {}\n", name,
                               differences, next->file));
      return true;
    case EarlierResult::Kind::kOther:
      return absl::FailedPreconditionError(
          absl::StrCat(next->file, " has a result with other settings (", differences,
                       "); give the same ones, choose another --out, or replace it with --redo"));
    case EarlierResult::Kind::kNone:
      break;
  }
  if (std::error_code ec; std::filesystem::exists(next->file, ec)) {
    session->Say(fmt::format("{}: {} has no rows; runs again\n", name, next->file));
  }
  if (const std::string said = next->rows.TakeUp(args.keep_older); !said.empty()) {
    session->Say(fmt::format("{}: {}\n", name, said));
  }
  return false;
}

// Loaded databases that an earlier run has left in the directory, and how to be rid of them.
std::string LeftOver(const std::string& dir) {
  uint64_t bytes = 0;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) {
    if (it->is_directory(ec)) bytes += BytesIn(it->path().string(), "");
  }
  if (bytes == 0) return "";
  return fmt::format("an earlier run has left {} there: remove it with rm -r {}/*/",
                     FormatBytes(bytes), dir);
}

absl::Status CheckRoom(const PaperArgs& args, const std::string& dir,
                       const std::vector<PendingExperiment>& pending) {
  std::vector<const Experiment*> experiments;
  for (const PendingExperiment& next : pending) experiments.push_back(next.experiment);
  PULSE_ASSIGN_OR_RETURN(const auto disk, InspectDisk(dir));
  return CheckNeeds(experiments, {disk.free_bytes, AvailableMemory()}, args.size, dir,
                    LeftOver(dir));
}

// How long a usual processor's second takes on this one: by a short run.
absl::StatusOr<double> ProbeSpeed(Session* session) {
  FillSettings probe;
  probe.num = 60'000;
  probe.shape = PaperShapeFor(/*tiny=*/false, probe.data_bytes(), kQuickMemtableBytes);
  PULSE_ASSIGN_OR_RETURN(
      const auto run, FillRuns(session, probe).Once(StockVariants(session->host_cpus()).front()));
  const double seconds = run.value("wall_s", 0.0) + run.value("settle_s", 0.0);
  return seconds / (RunSeconds(probe.num, kKeyBytes + probe.value_bytes) - RunSeconds(0, 0));
}

// Says how long all of it will take, and sets up the progress.
absl::Status Estimate(const PaperArgs& args, Session* session,
                      std::vector<PendingExperiment>* pending) {
  int steps = 0;
  for (const PendingExperiment& next : *pending)
    steps += next.experiment->Steps(*session, args.size, next.rows);
  if (args.size.tiny || pending->empty()) {
    session->ExpectSteps(steps);
    return absl::OkStatus();
  }
  PULSE_ASSIGN_OR_RETURN(const auto speed, ProbeSpeed(session));
  double all = 0;
  std::vector<std::string> each;
  for (PendingExperiment& next : *pending) {
    next.seconds = speed * next.experiment->Seconds(*session, args.size, next.rows);
    all += next.seconds;
    each.push_back(absl::StrCat(next.experiment->name(), " ", FormatDuration(next.seconds)));
  }
  session->Say(fmt::format("Estimate: {} for {} runs ({})\n", FormatDuration(all), steps,
                           absl::StrJoin(each, ", ")));
  session->ExpectSteps(steps, all);
  return absl::OkStatus();
}

absl::Status RunPending(const PaperArgs& args, RedoLog* redo, Session* session,
                        PendingExperiment* next) {
  const Experiment& experiment = *next->experiment;
  const int steps = experiment.Steps(*session, args.size, next->rows);
  if (next->seconds > 0 && steps > 0) session->ExpectEach(next->seconds / steps);
  session->Say(fmt::format("\n== {}: {} ({})\n", experiment.name(), experiment.title(),
                           absl::StrJoin(experiment.paper().at("figures"), ", ",
                                         [](std::string* out, const nlohmann::json& figure) {
                                           out->append(figure.get<std::string>());
                                         })));
  if (next->anew) {
    next->rows.Forget();
    PULSE_ASSIGN_OR_RETURN(const auto said, redo->Begin(experiment.name(), next->file));
    if (!said.empty()) session->Say(fmt::format("{}: {}\n", experiment.name(), said));
  }
  PULSE_RETURN_IF_ERROR(next->rows.Begin());
  if (const absl::Status ran = experiment.Run(session, args.size, &next->rows); !ran.ok()) {
    return absl::Status(ran.code(),
                        absl::StrCat(experiment.name(), ": ", ran.message(),
                                     "; what is finished is kept, and the same command goes on"));
  }
  PULSE_RETURN_IF_ERROR(session->DropPool());
  nlohmann::json result = std::move(next->identity);
  result["paper"] = experiment.paper();
  result["units"] = MetricUnits();
  result["page_cache"] = session->report()["settings"].value("page_cache", "");
  result["finished"] = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  result["rows"] = next->rows.rows();
  PULSE_RETURN_IF_ERROR(WriteResult(next->file, result));
  next->rows.Forget();
  session->Say(fmt::format("JSON: {}\n", next->file));
  return absl::OkStatus();
}

// The list of experiments and targets, for the report: with it, what has not run is named, too.
// `settings` and `flags` are those of the command that measures; nothing is known of them without.
absl::Status WriteCatalogue(const std::string& out, const nlohmann::json& settings,
                            const std::string& flags) {
  nlohmann::json experiments = nlohmann::json::array();
  for (const auto& experiment : AllExperiments()) {
    experiments.push_back({{"name", experiment->name()},
                           {"title", experiment->title()},
                           {"paper", experiment->paper()},
                           {"optional", experiment->optional()}});
  }
  nlohmann::json catalogue = {{"experiments", std::move(experiments)},
                              {"targets", DataOf("experiments").at("targets")}};
  if (!settings.is_null()) catalogue["settings"] = settings;
  if (!flags.empty()) catalogue["flags"] = flags;
  return WriteResult(absl::StrCat(out, "/", kCatalogueName), catalogue);
}

// From what there is in --out, of this run and of earlier ones.
absl::Status MakeReport(const PaperArgs& args, bool with_markdown) {
  std::vector<std::string> words = {args.out};
  if (!args.report_only) words.emplace_back("--allow-empty");
  if (with_markdown && !args.markdown.empty()) {
    words.insert(words.end(), {"--markdown", args.markdown});
  }
  return RunReport(words);
}

bool HasReport(const PaperArgs& args) {
  std::error_code ec;
  return std::filesystem::exists(args.out + "/report.html", ec);
}

void SayReports(const PaperArgs& args) {
  fmt::print("Report: {}/report.html\n", args.out);
  if (!args.markdown.empty()) fmt::print("Markdown: {}\n", args.markdown);
}

// The same of a run, which is done without it: the results are what was measured. The `last` is
// said, and goes into the document, too.
absl::Status TryReport(const PaperArgs& args, bool last) {
  const absl::Status made = MakeReport(args, /*with_markdown=*/last);
  if (absl::IsUnavailable(made)) {
    fmt::print(stderr, "no report: {}; the results are in {}/*.json\n", std::string(made.message()),
               args.out);
    return absl::OkStatus();
  }
  if (made.ok() && last) SayReports(args);
  return made;
}

absl::Status ReportOnly(const PaperArgs& args) {
  bool any = false;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(args.out, ec), end; !ec && it != end;
       it.increment(ec)) {
    any = any || (it->path().extension() == ".json" && it->path().filename() != kCatalogueName);
  }
  if (!any) {
    return absl::NotFoundError(absl::StrCat("there is no result in ", args.out,
                                            "; run the experiments first, with the same --out and "
                                            "without --report-only"));
  }
  PULSE_RETURN_IF_ERROR(WriteCatalogue(args.out, nullptr, ""));
  PULSE_RETURN_IF_ERROR(MakeReport(args, /*with_markdown=*/true));
  SayReports(args);
  return absl::OkStatus();
}

// Before hours of measuring: a document without its marks is refused.
absl::Status CheckMarkdown(const PaperArgs& args) {
  if (args.markdown.empty()) return absl::OkStatus();
  const absl::Status checked = RunReport({"--check", "--markdown", args.markdown});
  return absl::IsUnavailable(checked) && !args.report_only ? absl::OkStatus() : checked;
}

absl::Status CheckArgs(const PaperArgs& args) {
  if (!(args.size.scale > 0) || args.size.scale > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "--scale {}: give a share of the paper's 40 GB, above 0 and up to 1", args.size.scale));
  }
  return absl::OkStatus();
}

// What does not change the figures, and so is in no result's settings.
std::string FurtherFlags(const PaperArgs& args) {
  std::string flags;
  if (args.common.dir != args.out + "/work") absl::StrAppend(&flags, " --dir ", args.common.dir);
  if (args.common.allow_tmpfs) absl::StrAppend(&flags, " --allow-tmpfs");
  return flags;
}

PaperArgs ArgsOf(const BenchArgs& bench) {
  PaperArgs args;
  args.common = bench.common;
  args.out = bench.Get<std::string>("out");
  args.only = bench.Get<std::vector<std::string>>("only");
  args.redo = bench.Get<bool>("redo");
  args.keep_older = bench.Get<bool>("keep_older");
  args.report_only = bench.Get<bool>("report_only");
  args.markdown = bench.Get<std::string>("markdown");
  args.load = bench.Get<std::string>("load");
  args.size.scale = bench.Get<double>("scale");
  args.size.threads = bench.Get<int>("threads");
  args.size.quick = bench.Get<bool>("quick");
  args.size.tiny = args.common.tiny;
  args.size.own_load = args.load == "own";
  const auto sizes = bench.Get<std::set<uint64_t>>("value_sizes");
  args.size.value_sizes.assign(sizes.begin(), sizes.end());
  if (args.size.quick) args.common.warm_ups = 0;
  if (args.common.dir.empty()) args.common.dir = args.out + "/work";
  return args;
}

}  // namespace

absl::Status RunPaperBench(BenchArgs bench) {
  PaperArgs args = ArgsOf(bench);
  PULSE_RETURN_IF_ERROR(CheckArgs(args));
  PULSE_RETURN_IF_ERROR(CheckMarkdown(args));
  if (args.report_only) return ReportOnly(args);
  PULSE_ASSIGN_OR_RETURN(args.size.memtable_bytes, MemtableOf(args.common));
  PULSE_ASSIGN_OR_RETURN(const auto chosen, SelectExperiments(AllExperiments(), args.only));
  std::error_code ec;
  std::filesystem::create_directories(args.out, ec);
  if (ec) return ErrnoError(ec.value(), "creating directory", args.out);
  PULSE_ASSIGN_OR_RETURN(auto session,
                         Session::Open({"paper", args.common, nlohmann::json::object()}, 0));
  Session& s = *session;

  const nlohmann::json storage = Storage(s);
  nlohmann::json identities = nlohmann::json::array();
  for (const Experiment* experiment : chosen) {
    identities.push_back(Identity(args, *experiment, s.report(), storage));
  }
  RedoLog redo(args.out + "/redo.log", identities);
  if (args.redo) {
    const std::string said = redo.TakeUp(args.keep_older);
    if (!said.empty()) s.Say(said + "\n");
  }
  std::vector<PendingExperiment> pending;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Experiment* const experiment = chosen[i];
    const std::string file = fmt::format("{}/{}", args.out, experiment->name());
    const nlohmann::json& identity = identities[i];
    PendingExperiment next = {experiment, file + ".json", identity,
                              RowLog(file + ".part", identity)};
    PULSE_ASSIGN_OR_RETURN(const auto done, IsDone(args, redo, &s, &next));
    if (!done) pending.push_back(std::move(next));
  }
  PULSE_RETURN_IF_ERROR(CheckRoom(args, s.dir().path(), pending));
  for (const PendingExperiment& next : pending) PULSE_RETURN_IF_ERROR(next.experiment->Check(s));
  PULSE_RETURN_IF_ERROR(
      WriteCatalogue(args.out, identities.front().at("settings"), FurtherFlags(args)));
  if (!HasReport(args)) PULSE_RETURN_IF_ERROR(TryReport(args, /*last=*/false));
  PULSE_RETURN_IF_ERROR(Estimate(args, &s, &pending));
  // After each, so that an interrupted run has its report.
  for (PendingExperiment& next : pending) {
    PULSE_RETURN_IF_ERROR(RunPending(args, &redo, &s, &next));
    const bool last = &next == &pending.back();
    PULSE_RETURN_IF_ERROR(TryReport(args, last));
  }
  redo.Forget();  // also what an interrupted one has left: all is there
  if (pending.empty()) PULSE_RETURN_IF_ERROR(TryReport(args, /*last=*/true));
  return absl::OkStatus();
}

}  // namespace pulse::bench
