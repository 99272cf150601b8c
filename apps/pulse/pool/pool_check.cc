// `pulse pool check`.
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "store/check.h"

namespace pulse::pool {
namespace {

constexpr int kProblems = 1;
constexpr int kCannot = 2;
// More lines than these say nothing new on a terminal; --json has them all.
constexpr size_t kMostLines = 50;

struct CheckArgs {
  std::string path;
  bool repair = false;
  bool json = false;
};

nlohmann::json ToJson(const std::vector<store::CheckReport::Line>& lines) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& line : lines) list.push_back({{"offset", line.offset}, {"what", line.what}});
  return list;
}

void PrintJson(const nlohmann::json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void PrintReport(const CheckArgs& args, const store::CheckReport& r) {
  const uint64_t segment = r.geometry.segment_bytes;
  if (args.json) {
    PrintJson({{"pool", args.path},
               {"sound", r.problems.empty()},
               {"repaired", r.repaired},
               {"closed", r.closed},
               {"batches", r.batches},
               {"directories", r.directories},
               {"files", r.files},
               {"segment_bytes", segment},
               {"segments", r.segments},
               {"used_segments", r.used},
               {"problems", ToJson(r.problems)},
               {"notes", ToJson(r.notes)}});
    return;
  }
  size_t lines = 0;
  for (const auto& p : r.problems) {
    if (++lines <= kMostLines) fmt::print("problem: offset {}: {}\n", p.offset, p.what);
  }
  if (lines > kMostLines) fmt::print("... and {} more; --json lists all\n", lines - kMostLines);
  for (const auto& n : r.notes) fmt::print("note: offset {}: {}\n", n.offset, n.what);
  fmt::print("{}: {} files in {} directories, {} of {} used{}\n", args.path, r.files, r.directories,
             FormatBytes(r.used * segment), FormatBytes(r.segments * segment),
             r.closed ? "" : "; it was not closed, which is no problem");
  if (r.problems.empty()) {
    fmt::print("sound\n");
  } else if (r.repaired) {
    fmt::print(
        "repaired: what is listed is what is left. Where changes were lost, a file may hold "
        "another "
        "one's data: check the files, for RocksDB with `ldb checkconsistency`\n");
  } else {
    fmt::print(
        "nothing was changed; --repair keeps what is consistent, and drops the rest. Copy the "
        "pool first\n");
  }
}

void RunCheck(const CheckArgs& args) {
  Progress progress(1);
  progress.Begin("reading the metadata");
  const auto report =
      store::Check(args.path, {.repair = args.repair, .tick = [&] { progress.Tick(); }});
  progress.End(report.ok() ? "done" : "failed");
  if (!report.ok()) {
    if (args.json) {
      PrintJson({{"pool", args.path}, {"error", std::string(report.status().message())}});
    }
    Finish(report.status());
    SetExitCode(kCannot);
    return;
  }
  PrintReport(args, *report);
  if (!report->problems.empty()) SetExitCode(kProblems);
}

}  // namespace

void AddCheckCommand(CLI::App& pool) {
  auto args = std::make_shared<CheckArgs>();
  CLI::App* cmd = pool.add_subcommand(
      "check", "Check a pool's metadata: checksums, names, links, lengths, owners of segments");
  cmd->add_option("PATH", args->path, "The pool")->required();
  cmd->add_flag("--repair", args->repair,
                "Keep what is consistent, drop the rest. Without it nothing is written");
  cmd->add_flag("--json", args->json, "Print the findings as JSON");
  cmd->footer(
      "Exit status 0: sound. 1: problems were found (and, with --repair, removed). 2: it cannot be "
      "checked: in use, no pool, or nothing in it can be saved.");
  cmd->callback([args] { RunCheck(*args); });
}

}  // namespace pulse::pool
