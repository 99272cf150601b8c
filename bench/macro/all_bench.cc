// `pulse bench all`: every benchmark in a short form, each as a program of its own, and one report.
// Which, and how, is in data/all.json.
#include <sys/wait.h>

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

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/program_process.h"
#include "bench/macro/report_program.h"
#include "bench/macro/revision.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Words = std::vector<std::string>;

struct AllStep {
  std::string name;
  std::string what;
  double seconds = 0;  // that it takes, about
  Words words;         // of its command line
  std::string result;  // the file that it leaves
  bool done = false;
};

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
  // What the mark of a step that is done says: another revision or another command is not the same.
  std::string Mark(const AllStep& step) const {
    return absl::StrCat(SourceRevision(), "\n", absl::StrJoin(step.words, " "), "\n");
  }
  std::string MarkFile(const AllStep& step) const {
    return absl::StrCat(out_, "/logs/", step.name, ".done");
  }
  std::string LogFile(const AllStep& step) const {
    return absl::StrCat(out_, "/logs/", step.name, ".log");
  }
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

std::string AllRun::RunStep(const AllStep& step, Progress* progress) const {
  std::error_code ec;
  std::filesystem::remove(MarkFile(step), ec);
  ProgramProcess process;
  if (absl::Status st = process.Start(step.words, {}, LogFile(step), "/proc/self/exe"); !st.ok()) {
    return std::string(st.message());
  }
  while (process.Runs()) {
    progress->Tick();
    // sleep: the program says nothing to its parent but its end
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  std::filesystem::remove_all(absl::StrCat(work_, "/", step.name), ec);
  const int status = process.wait_status();
  if (WIFSIGNALED(status)) return fmt::format("it ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) {
    return fmt::format("exit status {}: {}", WEXITSTATUS(status), LastLineOf(LogFile(step)));
  }
  if (!std::filesystem::exists(step.result, ec)) {
    return absl::StrCat("it left no result at ", step.result);
  }
  std::ofstream mark(MarkFile(step));
  mark << Mark(step);
  mark.close();
  return mark.good() ? "" : absl::StrCat("cannot write ", MarkFile(step));
}

absl::Status AllRun::Run() {
  std::error_code ec;
  for (const std::string& directory : {out_ + "/logs", work_}) {
    std::filesystem::create_directories(directory, ec);
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
  std::filesystem::remove(work_, ec);  // if nothing is left in it
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
