// `pulse graph salvage`: a new database of what can be read of a damaged one.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/pulse/commands.h"
#include "apps/pulse/graph/cmd_load.h"
#include "apps/pulse/graph/engine_options.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "services/graph/salvage/salvage.h"

namespace pulse {
namespace {

struct SalvageArgs {
  std::string db, out;
  std::string memory = "256M";
  EngineArgs engine;
};

// One line for each kind of loss that there was.
void PrintReport(const SalvageArgs& args, const graph::SalvageReport& report) {
  for (const std::string& damage : report.damages) std::printf("%s\n", damage.c_str());
  if (report.more_damages > 0) std::printf("and %" PRIu64 " more\n", report.more_damages);
  std::printf("%s: %" PRIu64 " nodes, %" PRIu64 " relationships\n", args.out.c_str(), report.nodes,
              report.edges);
  if (report.damages.empty()) {
    std::printf("nothing was damaged\n");
    return;
  }
  const struct {
    uint64_t count;
    const char* what;
  } lines[] = {
      {report.files_lost, "files lost"},
      {report.records_lost, "records of relationships lost, one for each direction"},
      {report.values_lost, "values of relationships' properties lost, at most"},
      {report.frames_lost, "stretches of the checkpoint lost"},
      {report.commits_lost, "commits of the log lost, at most"},
      {report.edges_from_other_side,
       "relationships known by one direction, without what their properties were in runs"},
      {report.bare_nodes, "nodes known by their relationships only: no labels, no properties"},
      {report.edges_without_node, "relationships left out, as a node of theirs was deleted"},
      {report.names_made_up, "names of labels, types and keys made up (lost_...)"},
  };
  for (const auto& line : lines) {
    if (line.count > 0) std::printf("%" PRIu64 " %s\n", line.count, line.what);
  }
}

absl::Status RunSalvage(const SalvageArgs& args) {
  graph::SalvageOptions options;
  PULSE_RETURN_IF_ERROR(ReadSize("--memory", args.memory, "256M", &options.memory_limit));
  PULSE_ASSIGN_OR_RETURN(const auto engines, OpenEngines(args.engine));
  options.engines = engines.get();
  PULSE_ASSIGN_OR_RETURN(const graph::SalvageReport report,
                         graph::SalvageGraph(args.db, args.out, options));
  PrintReport(args, report);
  return absl::OkStatus();
}

}  // namespace

void AddGraphSalvageCommand(CLI::App* graph) {
  auto args = std::make_shared<SalvageArgs>();
  CLI::App* cmd = graph->add_subcommand(
      "salvage",
      "Make a new database of what can be read of a damaged one, which stays as it is.\n"
      "  pulse graph salvage my-graph --out rescued\n"
      "Everything that is lost is named and counted; without a manifest, and where commits are\n"
      "lost, what was deleted may be there again. The disk holds the new one's contents twice\n"
      "for a while.");
  cmd->add_option("DB", args->db, "directory of the damaged database")->required();
  cmd->add_option("--out", args->out, "directory of the new one: none yet, or an empty one")
      ->required();
  cmd->add_option("--memory", args->memory,
                  "memory for relationships while the new one is written; nodes are beside it")
      ->capture_default_str();
  AddEngineOptions(cmd, &args->engine);
  cmd->callback([args] { Finish(RunSalvage(*args)); });
}

}  // namespace pulse
