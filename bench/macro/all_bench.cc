// `pulse bench all`: every benchmark in a short form, each as a program of its own, and one report.
// Which, and how, is in data/all.json.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/bench_dir.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/program_process.h"
#include "bench/macro/report_program.h"
#include "bench/macro/result_files.h"
#include "bench/macro/revision.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Words = std::vector<std::string>;

struct AllStep {
  std::string name;
  std::string what;
  double seconds = 0;    // that it takes, about
  Words words;           // of its command line
  std::string result;    // the file that it leaves
  bool goes_on = false;  // it takes up results that are there, unless it is told --redo
  bool done = false;
};

// The version and the revision; where that stays when the source changes, also the program's file.
std::string BuildMark() {
  std::string mark = absl::StrCat(PULSE_VERSION, " ", SourceRevision());
  struct stat self = {};
  if (NamesNoCommit(SourceRevision()) && stat("/proc/self/exe", &self) == 0) {
    absl::StrAppend(&mark, " ", self.st_size, " ", self.st_mtim.tv_sec, " ", self.st_mtim.tv_nsec);
  }
  return mark;
}

class AllRun {
 public:
  explicit AllRun(const BenchArgs& args)
      : args_(args),
        out_(args.Get<std::string>("out")),
        work_(args.common.dir.empty() ? out_ + "/work" : args.common.dir) {}

  absl::Status Read();
  void List() const;
  absl::Status Run();
  absl::Status Report() const;

 private:
  Words WordsOf(const nlohmann::json& step) const;
  // What the mark of a step that is done says: another build or another command is not the same.
  std::string Mark(const AllStep& step) const {
    return absl::StrCat(BuildMark(), "\n", absl::StrJoin(step.words, " "), "\n");
  }
  std::string MarkFile(const AllStep& step) const {
    return absl::StrCat(out_, "/logs/", step.name, ".done");
  }
  // Of a step that goes on: what is begun and not done.
  std::string BegunFile(const AllStep& step) const {
    return absl::StrCat(out_, "/logs/", step.name, ".begun");
  }
  std::string LogFile(const AllStep& step) const {
    return absl::StrCat(out_, "/logs/", step.name, ".log");
  }
  // Makes way for a new result; returns the words of the command line.
  absl::StatusOr<Words> Prepare(const AllStep& step) const;
  // Empty: it is done. Else what went wrong.
  std::string RunStep(const AllStep& step, Progress* progress) const;

  const BenchArgs& args_;
  const std::string out_;
  const std::string work_;
  std::vector<AllStep> steps_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::Status WriteMark(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (out.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

std::string LastLineOf(const std::string& path) {
  std::string text = ReadFile(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  return text;
}

Words AllRun::WordsOf(const nlohmann::json& step) const {
  const std::string name = step.at("name");
  Words words = step.at("words").get<Words>();
  for (std::string& word : words) word = absl::StrReplaceAll(word, {{"{out}", out_}});
  if (!step.value("own_json", false)) {
    words.insert(words.end(), {"--json", absl::StrCat(out_, "/", name, ".json")});
  }
  const bool has_dir = !step.value("no_dir", false);
  if (has_dir) words.insert(words.end(), {"--dir", absl::StrCat(work_, "/", name)});
  if (has_dir && args_.common.allow_tmpfs) words.emplace_back("--allow-tmpfs");
  if (step.value("cpus", has_dir)) {
    for (const char* option : {"--host-cpus", "--agent-cpus"}) {
      const std::string& cpus = option[2] == 'h' ? args_.common.host_cpus : args_.common.agent_cpus;
      if (!cpus.empty()) words.insert(words.end(), {option, cpus});
    }
  }
  if (!args_.common.tiny) return words;
  // The command with --tiny and what is needed, not the sizes that it would have.
  Words tiny = {words[0], "--tiny"};
  const Words more = step.value("tiny_words", Words());
  tiny.insert(tiny.end(), more.begin(), more.end());
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--allow-tmpfs") {
      tiny.push_back(words[i]);
    } else if (words[i] == "--part" || words[i] == "--out" || words[i] == "--json" ||
               words[i] == "--dir" || words[i] == "--host-cpus" || words[i] == "--agent-cpus") {
      tiny.insert(tiny.end(), {words[i], words[i + 1]});
    }
  }
  return tiny;
}

absl::Status AllRun::Read() {
  const auto only = args_.Get<Words>("only");
  Words names;
  for (const nlohmann::json& step : DataOf("all").at("steps")) {
    AllStep s;
    s.name = step.at("name");
    names.push_back(s.name);
    if (!only.empty() && std::find(only.begin(), only.end(), s.name) == only.end()) continue;
    s.what = step.at("what");
    s.seconds = args_.common.tiny ? 15 : 60 * step.at("minutes").get<double>();
    s.words = WordsOf(step);
    s.result = absl::StrCat(out_, "/", step.value("check", s.name + ".json"));
    s.goes_on = step.value("goes_on", false);
    std::error_code ec;
    s.done = !args_.Get<bool>("redo") && ReadFile(MarkFile(s)) == Mark(s) &&
             std::filesystem::exists(s.result, ec);
    steps_.push_back(std::move(s));
  }
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--only: there is no ", name, "; there are ", absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

void AllRun::List() const {
  double seconds = 0;
  for (const AllStep& step : steps_) {
    fmt::print("{:<12}{:<62}{:>7}{}\n", step.name, step.what, FormatDuration(step.seconds),
               step.done ? "  done" : "");
    if (!step.done) seconds += step.seconds;
  }
  fmt::print("about {} in all, on two CPUs\n", FormatDuration(seconds));
}

absl::StatusOr<Words> AllRun::Prepare(const AllStep& step) const {
  Words words = step.words;
  std::error_code ec;
  if (step.goes_on) {
    // Anew: when asked, over what another build or another command has left, and where it had begun
    // anew when it was interrupted, of which its own record says how far it has come.
    const std::string mark = Mark(step);
    std::string last = ReadFile(BegunFile(step));
    if (last.empty()) last = ReadFile(MarkFile(step));
    const bool anew = args_.Get<bool>("redo") || (!last.empty() && last != mark);
    if (anew) words.emplace_back("--redo");
    if (last == mark + "--redo\n") words.emplace_back("--keep-older");
    PULSE_RETURN_IF_ERROR(WriteMark(BegunFile(step), mark + (anew ? "--redo\n" : "")));
  } else {
    // If this run fails, an earlier result must not pass for its own.
    std::filesystem::rename(step.result, step.result + ".old", ec);
    if (ec && ec != std::errc::no_such_file_or_directory) {
      return ErrnoError(ec.value(), "moving aside", step.result);
    }
  }
  std::filesystem::remove(MarkFile(step), ec);
  return words;
}

std::string AllRun::RunStep(const AllStep& step, Progress* progress) const {
  const absl::StatusOr<Words> words = Prepare(step);
  if (!words.ok()) return std::string(words.status().message());
  ProgramProcess process;
  if (absl::Status st = process.Start(*words, {}, LogFile(step), "/proc/self/exe"); !st.ok()) {
    return std::string(st.message());
  }
  while (process.Runs()) {
    progress->Tick();
    // sleep: the program says nothing to its parent but its end
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (absl::Status st = BenchDir::RemoveWhole(absl::StrCat(work_, "/", step.name)); !st.ok()) {
    fmt::print(stderr, "not removed: {}\n", std::string(st.message()));
  }
  const int status = process.wait_status();
  if (WIFSIGNALED(status)) return fmt::format("it ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) {
    return fmt::format("exit status {}: {}", WEXITSTATUS(status), LastLineOf(LogFile(step)));
  }
  std::error_code ec;
  if (!std::filesystem::exists(step.result, ec)) {
    return absl::StrCat("it left no result at ", step.result);
  }
  if (absl::Status st = WriteMark(MarkFile(step), Mark(step)); !st.ok()) {
    return std::string(st.message());
  }
  std::filesystem::remove(BegunFile(step), ec);
  return "";
}

absl::Status AllRun::Run() {
  bool made = false;  // the last of them, by this run
  for (const std::string& directory : {out_ + "/logs", work_}) {
    std::error_code ec;
    made = std::filesystem::create_directories(directory, ec);
    if (ec) return ErrnoError(ec.value(), "creating", directory);
  }
  int left = 0;
  double seconds = 0;
  for (const AllStep& step : steps_) {
    if (step.done) continue;
    ++left;
    seconds += step.seconds;
  }
  fmt::print("{} of {} benchmarks to run, about {}; results, logs and report are in {}\n", left,
             steps_.size(), FormatDuration(seconds), out_);
  std::fflush(stdout);
  Words failed;
  {
    Progress progress(left, seconds);
    for (const AllStep& step : steps_) {
      if (step.done) continue;
      progress.Expect(step.seconds);
      progress.Begin(absl::StrCat(step.name, " (", step.what, ")"));
      const std::string wrong = RunStep(step, &progress);
      progress.End(wrong.empty() ? "done" : "failed");
      if (wrong.empty()) continue;
      failed.push_back(step.name);
      fmt::print(stderr, "{} failed: {}; its log: {}\n", step.name, wrong, LogFile(step));
    }
  }
  // OUT/work may be of an earlier run that was interrupted. Fails where anything is left in it.
  if (made || args_.common.dir.empty()) rmdir(work_.c_str());
  const absl::Status report = failed.size() == steps_.size() ? absl::OkStatus() : Report();
  if (failed.empty()) return report;
  if (!report.ok()) fmt::print(stderr, "no report: {}\n", std::string(report.message()));
  return absl::InternalError(fmt::format(
      "{} of {} benchmarks failed: {}; their logs are in {}/logs; the same command runs "
      "them again, and only them",
      failed.size(), steps_.size(), absl::StrJoin(failed, ", "), out_));
}

absl::Status AllRun::Report() const {
  Words words = {out_, "--out", out_ + "/report.html"};
  if (const auto against = args_.Get<std::string>("against"); !against.empty()) {
    words.insert(words.end(), {"--against", against});
  }
  PULSE_RETURN_IF_ERROR(RunReport(words));
  fmt::print("report: {}/report.html\n", out_);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunAllBenchmarks(BenchArgs args) {
  AllRun all(args);
  PULSE_RETURN_IF_ERROR(all.Read());
  if (args.Get<bool>("list")) {
    all.List();
    return absl::OkStatus();
  }
  if (args.Get<bool>("report_only")) return all.Report();
  // An hour of measuring is not to end for a program that is missing.
  Words check = {"--check"};
  if (const auto against = args.Get<std::string>("against"); !against.empty()) {
    check.insert(check.end(), {"--against", against});
  }
  PULSE_RETURN_IF_ERROR(RunReport(check));
  return all.Run();
}

}  // namespace pulse::bench
