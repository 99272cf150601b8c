#include "bench/macro/paper/report.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/macro/opponent.h"
#include "bench/macro/paper/experiment.h"
#include "bench/macro/paper/report_remote.h"
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
                 {"PulseDB", ProgramOf(result)}};
  return pairs;
}

const nlohmann::json* ResultOf(const std::vector<ReportEntry>& entries, const std::string& name) {
  for (const ReportEntry& entry : entries) {
    if (entry.name == name && !entry.result.is_null()) return &entry.result;
  }
  return nullptr;
}

// Targets with the same needs share a line. `unclear`: some target's pairs differ.
void AddNeeds(const std::vector<Judgement>& judgements, bool unclear, Report* report) {
  std::vector<std::pair<std::string, std::string>> lines;  // needs, and of what
  for (const Judgement& judged : judgements) {
    const bool shown = judged.verdict != Verdict::kNotApplicable &&
                       (judged.verdict != Verdict::kNotMeasured || judged.why.empty());
    if (shown || judged.aim->needs.empty()) continue;
    const auto same = std::find_if(lines.begin(), lines.end(), [&judged](const auto& line) {
      return line.first == judged.aim->needs;
    });
    if (same == lines.end()) {
      lines.emplace_back(judged.aim->needs, judged.aim->what);
    } else {
      absl::StrAppend(&same->second, "; ", judged.aim->what);
    }
  }
  for (const auto& [needs, what] : lines) {
    report->needs.push_back(absl::StrCat(what, ": not shown here. It would need ", needs, "."));
  }
  if (unclear) {
    report->needs.push_back(
        "Not clear: the spread over pairs is on both sides of what was asked. It would need more "
        "pairs (--pairs), or a machine without neighbours.");
  }
}

// Stock that keeps up leaves nothing to gain by faster compactions: who reads the targets must
// know.
void AddStallNote(const std::vector<ReportEntry>& entries, Report* report) {
  const nlohmann::json* const tails = ResultOf(entries, "tails");
  if (tails == nullptr || FlagIn(ObjectIn(*tails, "settings"), "tiny")) return;
  for (const FigureRow& row : RowsOf(*tails)) {
    const auto stalled = row.Of({"stall_share", kStockDefault, "", false});
    if (!stalled || stalled->median >= 0.01) continue;
    report->needs.push_back(fmt::format(
        "Stock RocksDB stalled for {:.1f} % of the run here, and for 58 % in the paper: its "
        "writers waited for nothing that faster compactions could shorten. Targets against it are "
        "judged all the same.",
        100 * stalled->median));
  }
}

void AddTargets(const std::vector<ReportEntry>& entries, Report* report) {
  ReportTable& table = report->targets;
  table.header = {"", "asked", "got", "", "from", "pairs"};
  const std::vector<Judgement> judgements =
      JudgeAll([&entries](const std::string& name) { return ResultOf(entries, name); });
  size_t held = 0, missed = 0, unclear = 0, open = 0;
  for (const Judgement& judged : judgements) {
    ++(judged.verdict == Verdict::kHeld       ? held
       : judged.verdict == Verdict::kMissed   ? missed
       : judged.verdict == Verdict::kNotClear ? unclear
                                              : open);
    std::string verdict = VerdictName(judged.verdict);
    if (!judged.why.empty()) absl::StrAppend(&verdict, ": ", judged.why);
    const std::string pairs = judged.got ? absl::StrCat(judged.got->count) : "–";
    std::string what = judged.aim->what;
    if (!judged.against.empty()) absl::StrAppend(&what, " (", judged.against, ")");
    table.rows.push_back({what, Describe(judged.aim->target),
                          judged.got ? FormatSpread(*judged.got) : "–", verdict,
                          judged.aim->experiment, pairs});
  }
  for (const ReportEntry& entry : entries) {
    if (entry.benchmark.empty()) continue;
    for (std::vector<std::string>& row : RemoteTargets(entry)) {
      ++(row[3] == VerdictName(Verdict::kHeld)       ? held
         : row[3] == VerdictName(Verdict::kMissed)   ? missed
         : row[3] == VerdictName(Verdict::kNotClear) ? unclear
                                                     : open);
      table.rows.push_back(std::move(row));
    }
  }
  table.caption = fmt::format(
      "{} held, {} missed, {} not clear, {} not judged; medians over pairs with the least and the "
      "most. Held: in every pair, against each that is compared with; missed: in none. Where a "
      "ratio is just what is asked, two pairs are on one side of it by chance every other time, "
      "three every fourth. Of PulseDB's lines, pulse merges on the host (placement=split), and "
      "adaptive chooses where",
      held, missed, unclear, open);
  AddNeeds(judgements, unclear > 0, report);
  AddStallNote(entries, report);
}

// Who shares what: "0.1 (tails, queue); 0.2 (ycsb)". Empty when all are the same.
std::string Differing(const std::vector<ReportEntry>& entries,
                      const std::function<std::string(const nlohmann::json&)>& property) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const ReportEntry& entry : entries) {
    if (entry.result.is_null()) continue;
    const std::string value = property(entry.result);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&value](const auto& group) { return group.first == value; });
    if (same == groups.end()) {
      groups.emplace_back(value, entry.name);
    } else {
      absl::StrAppend(&same->second, ", ", entry.name);
    }
  }
  if (groups.size() < 2) return "";
  std::string text;
  for (const auto& [value, names] : groups) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", value, " (", names, ")");
  }
  return text;
}

void WarnOfDifferences(const std::vector<ReportEntry>& entries, Report* report) {
  const auto machine = [](const nlohmann::json& result) {
    const nlohmann::json& m = ObjectIn(result, "machine");
    return fmt::format("{}, {:g} CPUs, kernel {}, RocksDB {}, {}", TextIn(m, "cpu", "unknown"),
                       NumberIn(m, "cpus", 0), TextIn(m, "kernel", "unknown"),
                       TextIn(m, "rocksdb", "unknown"), TextIn(m, "file_system", "unknown"));
  };
  if (const std::string which = Differing(entries, machine); !which.empty()) {
    report->warnings.push_back("The results come from more than one machine: " + which + ".");
  }
  if (const std::string which = Differing(entries, ProgramOf); !which.empty()) {
    report->warnings.push_back(
        "The results come from more than one version of the program: " + which + ".");
  }
  // Benchmarks of remote storage have settings of their own.
  std::vector<ReportEntry> experiments = entries;
  std::erase_if(experiments, [](const ReportEntry& entry) { return !entry.benchmark.empty(); });
  for (const char* key :
       {"scale", "quick", "threads", "memtable_bytes", "pairs", "warm_ups", "seed", "host_cpus",
        "agent_cpus", "uri_options", "environment_options"}) {
    const auto setting = [key](const nlohmann::json& result) {
      const nlohmann::json& settings = ObjectIn(result, "settings");
      const auto it = settings.find(key);
      return it == settings.end() ? std::string("none") : it->dump();
    };
    if (const std::string which = Differing(experiments, setting); !which.empty()) {
      report->warnings.push_back(absl::StrCat("The experiments differ in ", key, ": ", which, "."));
    }
  }
}

ReportSection SectionOf(const ReportEntry& entry, const std::string& command,
                        const std::string& program) {
  ReportSection section;
  section.name = entry.name;
  section.title = entry.title;
  section.figures = FiguresOf(entry.paper);
  section.done = !entry.result.is_null();
  if (section.done) {
    FillSection(entry, &section);
    if (const std::string by = ProgramOf(entry.result); !program.empty() && by != program) {
      section.notes.push_back(
          absl::StrCat("Measured by PulseDB ", by,
                       ", which is not the program that wrote this report: ", program, "."));
    }
    return section;
  }
  section.statement =
      entry.problem.empty() ? "Not run." : absl::StrCat("No result: ", entry.problem, ".");
  section.command = entry.command;
  if (!entry.benchmark.empty()) return section;
  section.command =
      absl::StrCat(command, " --only ", entry.name, entry.problem.empty() ? "" : " --redo");
  return section;
}

}  // namespace

std::string ProgramOf(const nlohmann::json& result) {
  return absl::StrCat(TextIn(result, "pulse_version", "unknown"), " (",
                      TextIn(result, "revision", "unknown"), ")");
}

std::string CommandFor(const std::string& out, const nlohmann::json& settings) {
  std::string command = "pulse bench paper --out " + out;
  const bool quick = FlagIn(settings, "quick");
  if (FlagIn(settings, "tiny")) absl::StrAppend(&command, " --tiny");
  if (quick) absl::StrAppend(&command, " --quick");
  const auto number = [&](const char* key, const char* option, double usual) {
    const double value = NumberIn(settings, key, usual);
    if (value != usual) command += fmt::format(" {} {:g}", option, value);
  };
  number("scale", "--scale", quick ? kQuickScale : kUsualScale);
  number("threads", "--threads", quick ? kQuickThreads : kUsualThreads);
  if (!FlagIn(settings, "tiny")) number("pairs", "--pairs", quick ? kQuickPairs : 5);
  const auto usual_memtable = static_cast<double>(quick ? kQuickMemtableBytes : 0);
  if (const double bytes = NumberIn(settings, "memtable_bytes", usual_memtable);
      bytes != usual_memtable) {
    command += fmt::format(" --memtable {:.0f}", bytes);
  }
  if (const auto sizes = settings.find("value_sizes"); sizes != settings.end()) {
    std::vector<uint64_t> values;
    for (const nlohmann::json& value : *sizes) {
      if (value.is_number_unsigned()) values.push_back(value.get<uint64_t>());
    }
    if (!values.empty()) {
      absl::StrAppend(&command, " --value-sizes ", absl::StrJoin(values, ","));
    }
  }
  number("seed", "--seed", 1);
  const auto text = [&](const char* key, const char* option, const std::string& usual) {
    const std::string value = TextIn(settings, key, usual);
    if (value != usual) absl::StrAppend(&command, " ", option, " '", value, "'");
  };
  text("load", "--load", "own");
  text("host_cpus", "--host-cpus", "0");
  text("agent_cpus", "--agent-cpus", "1");
  text("uri_options", "--uri", "");
  return command;
}

Report MakeReport(const std::vector<ReportEntry>& entries, const std::string& command,
                  const std::string& program) {
  Report report;
  report.title = "PulseDB: the papers' experiments";
  bool tiny = false;
  size_t done = 0;
  double cpus = 0;
  for (const ReportEntry& entry : entries) {
    report.sections.push_back(SectionOf(entry, command, program));
    if (entry.result.is_null()) continue;
    ++done;
    if (done == 1) {
      report.machine = Machine(entry.result);
      cpus = NumberIn(ObjectIn(entry.result, "machine"), "cpus", 0);
    }
    tiny = tiny || FlagIn(ObjectIn(entry.result, "settings"), "tiny");
  }
  if (tiny) {
    report.warnings.push_back(
        "Results of tiny runs are among these. They show that everything works; their figures mean "
        "nothing.");
  }
  WarnOfDifferences(entries, &report);
  if (done < entries.size()) {
    report.warnings.push_back(
        fmt::format("{} of {} experiments have run; the others are named with "
                    "the command that runs them.",
                    done, entries.size()));
  }
  report.lead =
      "Opponents run side by side, once in each round, another one first in each; a ratio is taken "
      "within the round, and what is shown is the median over rounds, with the least and the most. "
      "Absolute figures mean little on another machine.";
  if (done != 0) {
    absl::StrAppend(&report.lead,
                    fmt::format(" This machine has {:g} CPU{}; the agent's CPU stands for the DPU.",
                                cpus, cpus == 1 ? "" : "s"));
  }
  AddTargets(entries, &report);
  return report;
}

}  // namespace pulse::bench
