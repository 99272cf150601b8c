#include "bench/paper/report.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

std::string FiguresOf(const nlohmann::json& paper) {
  std::string all;
  if (!paper.is_object() || !paper.contains("figures") || !paper["figures"].is_array()) return all;
  for (const nlohmann::json& figure : paper["figures"]) {
    if (figure.is_string())
      absl::StrAppend(&all, all.empty() ? "" : ", ", figure.get<std::string>());
  }
  return all;
}

Pairs Machine(const nlohmann::json& result) {
  const nlohmann::json& m = ObjectIn(result, "machine");
  Pairs pairs = {{"processor", fmt::format("{}, {:g} CPUs", TextIn(m, "cpu", "unknown"),
                                           NumberIn(m, "cpus", 0))},
                 {"memory", fmt::format("{:.3g} GiB", NumberIn(m, "memory_bytes", 0) / (1 << 30))},
                 {"kernel", TextIn(m, "kernel", "unknown")},
                 {"file system", TextIn(m, "file_system", "unknown")},
                 {"RocksDB", TextIn(m, "rocksdb", "unknown")},
                 {"PulseDB", TextIn(result, "pulse_version", "unknown")}};
  return pairs;
}

ReportTable TargetTable(const std::vector<ReportEntry>& entries) {
  ReportTable table;
  table.header = {"", "asked", "got", "", "from"};
  const auto result_of = [&](const std::string& name) -> const nlohmann::json* {
    for (const ReportEntry& entry : entries) {
      if (entry.name == name && !entry.result.is_null()) return &entry.result;
    }
    return nullptr;
  };
  size_t reached = 0, missed = 0, open = 0;
  for (const Judgement& judged : JudgeAll(result_of)) {
    ++(judged.verdict == Verdict::kReached  ? reached
       : judged.verdict == Verdict::kMissed ? missed
                                            : open);
    std::string verdict = VerdictName(judged.verdict);
    if (!judged.why.empty()) absl::StrAppend(&verdict, ": ", judged.why);
    table.rows.push_back({judged.aim->what, Describe(judged.aim->target),
                          judged.got ? FormatSpread(*judged.got) : "–", verdict,
                          judged.aim->experiment});
  }
  table.caption = fmt::format("{} reached, {} missed, {} not judged; medians of ratios over pairs",
                              reached, missed, open);
  return table;
}

ReportSection SectionOf(const ReportEntry& entry, const std::string& command) {
  ReportSection section;
  section.name = entry.name;
  section.title = entry.title;
  section.figures = FiguresOf(entry.paper);
  section.done = !entry.result.is_null();
  if (section.done) {
    FillSection(entry, &section);
    return section;
  }
  section.statement =
      entry.problem.empty() ? "Not run." : absl::StrCat("No result: ", entry.problem, ".");
  section.command =
      absl::StrCat(command, " --only ", entry.name, entry.problem.empty() ? "" : " --redo");
  return section;
}

}  // namespace

Report MakeReport(const std::vector<ReportEntry>& entries, const std::string& command) {
  Report report;
  report.title = "PulseDB: the paper's experiments";
  std::set<std::string> machines;
  bool tiny = false;
  size_t done = 0;
  double cpus = 0;
  for (const ReportEntry& entry : entries) {
    report.sections.push_back(SectionOf(entry, command));
    if (entry.result.is_null()) continue;
    ++done;
    const nlohmann::json& machine = ObjectIn(entry.result, "machine");
    if (machines.insert(machine.dump()).second && machines.size() == 1) {
      report.machine = Machine(entry.result);
      cpus = NumberIn(machine, "cpus", 0);
    }
    tiny = tiny || FlagIn(ObjectIn(entry.result, "settings"), "tiny");
  }
  if (tiny) {
    report.warnings.push_back(
        "Results of tiny runs are among these. They show that everything works; their figures mean "
        "nothing.");
  }
  if (machines.size() > 1) {
    report.warnings.push_back(
        "The results come from more than one machine; each section says from which.");
  }
  if (done < entries.size()) {
    report.warnings.push_back(
        fmt::format("{} of {} experiments have run; the others are named with "
                    "the command that runs them.",
                    done, entries.size()));
  }
  report.lead =
      "Opponents run side by side, once in each round; a ratio is taken within the round, and what "
      "is shown is the median over rounds, with the least and the most. Absolute figures mean "
      "little on another machine.";
  if (done != 0) {
    absl::StrAppend(&report.lead,
                    fmt::format(" This machine has {:g} CPU{}; the agent's CPU stands for the DPU.",
                                cpus, cpus == 1 ? "" : "s"));
  }
  report.targets = TargetTable(entries);
  return report;
}

}  // namespace pulse::bench
