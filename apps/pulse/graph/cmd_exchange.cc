// `pulse graph export` and `import`: a database as CSV files, and back.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/graph/cmd_load.h"
#include "apps/pulse/util/disk.h"
#include "base/errors.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/exchange/export.h"
#include "services/graph/exchange/import.h"

namespace pulse {
namespace {

struct ExchangeArgs {
  std::string db, directory, load_memory, node_memory;
};

constexpr graph::AllowedDirectory Anywhere() { return {.path = {}, .everywhere = true}; }

void PrintReport(const graph::ExchangeReport& report, const char* where, double seconds) {
  std::printf("%" PRIu64 " nodes, %" PRIu64 " relationships, %" PRIu64 " indexes, %" PRIu64
              " constraints %s %" PRIu64 " files (%s) in %.2f s\n",
              report.nodes, report.edges, report.indexes, report.constraints, where, report.files,
              FormatBytes(report.bytes).c_str(), seconds);
}

absl::Status RunExport(const ExchangeArgs& args) {
  graph::StoreOptions options;
  options.read_only = true;
  const auto store = graph::GraphStore::Open(args.db, options);
  if (absl::IsNotFound(store.status())) {
    return absl::NotFoundError(absl::StrCat(args.db, ": there is no graph database"));
  }
  PULSE_RETURN_IF_ERROR(store.status());
  if (const std::string damage = (*store)->stats().damage; !damage.empty()) {
    std::fprintf(stderr, "pulse graph: %s; what comes before is exported\n", damage.c_str());
  }
  PULSE_ASSIGN_OR_RETURN(const auto to,
                         graph::NewDirectory::Create(Anywhere(), args.directory, ""));
  Progress progress(0);
  graph::ExportOptions exporting;
  exporting.progress = [&progress](uint64_t done, uint64_t total) {
    progress.Items("exporting", done, total);
  };
  PULSE_ASSIGN_OR_RETURN(const auto report,
                         graph::ExportDatabase(store->get(), exporting, to.get()));
  PrintReport(report, "in", progress.Elapsed());
  return absl::OkStatus();
}

// Into a database that gets its name at the end, so that a kill leaves none.
absl::Status RunImport(const ExchangeArgs& args) {
  PULSE_ASSIGN_OR_RETURN(auto from, graph::OpenExport(Anywhere(), args.directory, ""));
  PULSE_RETURN_IF_ERROR(ReadLoadMemory(args.load_memory, &from.load));
  graph::StoreOptions options;
  PULSE_RETURN_IF_ERROR(ReadNodeMemory(args.node_memory, &options.node_memory));
  // Maps them: whoever runs the command owns the files.
  for (auto& file : from.load.nodes) file.descriptor = -1;
  for (auto& file : from.load.edges) file.descriptor = -1;
  auto made = graph::NewDirectory::Create(Anywhere(), args.db, "");
  if (absl::IsAlreadyExists(made.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(args.db, ": there is already something; an import makes a new database"));
  }
  PULSE_RETURN_IF_ERROR(made.status());
  Progress progress(0);
  from.load.progress = [&progress](const graph::LoadProgress& now) { ShowLoad(now, &progress); };
  graph::ExchangeReport report;
  {
    PULSE_ASSIGN_OR_RETURN(const auto store,
                           graph::GraphStore::Open((*made)->partial_path(), options));
    PULSE_ASSIGN_OR_RETURN(const graph::LoadReport loaded,
                           graph::LoadCsvInto(store.get(), from.load));
    PULSE_RETURN_IF_ERROR(from.CheckCounts(loaded));
    for (const auto& index : from.indexes) {
      PULSE_RETURN_IF_ERROR(store->CreateIndex(index));
      ++(index.constraint ? report.constraints : report.indexes);
    }
    report.nodes = loaded.nodes;
    report.edges = loaded.edges;
    report.bytes = loaded.bytes;
    report.files = from.files.size();
    PULSE_RETURN_IF_ERROR(store->Close());
  }
  PULSE_RETURN_IF_ERROR((*made)->Commit());
  PrintReport(report, "from", progress.Elapsed());
  return absl::OkStatus();
}

}  // namespace

void AddGraphExchangeCommands(CLI::App* graph) {
  auto args = std::make_shared<ExchangeArgs>();
  CLI::App* out = graph->add_subcommand(
      "export",
      "Write a database as CSV files with a schema file, all of it or nothing; beside a process\n"
      "that writes, the state of this moment.\n"
      "  pulse graph export my-graph my-files");
  out->add_option("DB", args->db, "directory of the database")->required();
  out->add_option("DIR", args->directory, "new directory of the files")->required();
  out->callback([args] { Finish(RunExport(*args)); });
  CLI::App* in = graph->add_subcommand(
      "import",
      "Make a database of what `pulse graph export` wrote, all of it or nothing.\n"
      "  pulse graph import my-copy my-files");
  in->add_option("DB", args->db, "directory of the new database")->required();
  in->add_option("DIR", args->directory, "directory of the files")->required();
  in->add_option("--load-memory", args->load_memory,
                 "the most that it may have in memory before it writes, about (no limit)");
  AddNodeMemoryOption(in, &args->node_memory);
  in->callback([args] { Finish(RunImport(*args)); });
}

}  // namespace pulse
