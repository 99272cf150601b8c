// `pulse graph load`: CSV into a graph database; `pulse graph check`: reads all of one.
#include "apps/pulse/graph/cmd_load.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/load/load.h"
#include "services/graph/model/text.h"

namespace pulse {
namespace {

struct LoadArgs {
  std::string db;
  std::vector<std::string> nodes, edges, types;
  std::string delimiter = ",", quote = "\"", escape, array_delimiter = ";";
  graph::LoadOptions options;
};

absl::Status ReadCharacter(const char* option, const std::string& text, char* c) {
  if (text == "\\t" || text == "tab") {
    *c = '\t';
    return absl::OkStatus();
  }
  if (text.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", text, ": expected one character, or tab"));
  }
  *c = text[0];
  return absl::OkStatus();
}

absl::Status ReadLoadArgs(LoadArgs* args) {
  graph::LoadOptions& options = args->options;
  for (const std::string& text : args->nodes) {
    PULSE_ASSIGN_OR_RETURN(auto file, graph::ParseNodeFile(text));
    options.nodes.push_back(std::move(file));
  }
  for (const std::string& text : args->edges) {
    PULSE_ASSIGN_OR_RETURN(auto file, graph::ParseEdgeFile(text));
    options.edges.push_back(std::move(file));
  }
  if (options.nodes.empty() && options.edges.empty()) {
    return absl::InvalidArgumentError(
        "nothing to load; name files by --nodes LABEL=FILE and --edges TYPE=FILE");
  }
  for (const std::string& text : args->types) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--type ", text, ": expected PROPERTY=TYPE, such as age=int"));
    }
    options.types[text.substr(0, at)] = text.substr(at + 1);
  }
  PULSE_RETURN_IF_ERROR(ReadCharacter("--delimiter", args->delimiter, &options.dialect.delimiter));
  PULSE_RETURN_IF_ERROR(ReadCharacter("--quote", args->quote, &options.dialect.quote));
  if (!args->escape.empty()) {
    PULSE_RETURN_IF_ERROR(ReadCharacter("--escape", args->escape, &options.dialect.escape));
  }
  return ReadCharacter("--array-delimiter", args->array_delimiter,
                       &options.dialect.array_delimiter);
}

void PrintReport(const graph::LoadReport& report, double seconds) {
  std::printf("%" PRIu64 " nodes, %" PRIu64 " relationships from %s in %.2f s\n", report.nodes,
              report.edges, FormatBytes(report.bytes).c_str(), seconds);
  if (report.rejected == 0) return;
  std::printf("%" PRIu64 " lines were rejected, of these %" PRIu64
              " relationships of a node that is not there and %" PRIu64 " nodes of a key twice\n",
              report.rejected, report.dangling, report.duplicates);
  for (const std::string& example : report.examples) std::printf("  %s\n", example.c_str());
}

absl::Status RunLoad(LoadArgs args) {
  PULSE_RETURN_IF_ERROR(ReadLoadArgs(&args));
  PULSE_ASSIGN_OR_RETURN(const auto store, graph::GraphStore::Open(args.db));
  Progress progress(0);
  args.options.progress = [&progress](const graph::LoadProgress& now) {
    if (absl::StartsWith(now.what, "reading ")) {
      progress.Bytes(now.what.c_str(), now.done, now.total);
    } else {
      progress.Items(now.what.c_str(), now.done, now.total);
    }
  };
  PULSE_ASSIGN_OR_RETURN(const graph::LoadReport report,
                         graph::LoadCsvInto(store.get(), args.options));
  const double seconds = progress.Elapsed();
  PULSE_RETURN_IF_ERROR(store->Close());
  PrintReport(report, seconds);
  return absl::OkStatus();
}

// All nodes and relationships of a view, with their labels and properties, so that every block is
// read and its checksum compared.
absl::Status ReadAll(const cypher::GraphView& view, uint64_t* nodes, uint64_t* edges) {
  std::array<cypher::NodeId, 1024> ids;
  cypher::Properties properties;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, view.ScanNodes(cypher::kNoToken, &position, ids));
    if (n == 0) break;
    for (size_t i = 0; i < n; ++i) {
      properties.clear();
      PULSE_RETURN_IF_ERROR(view.ReadNodeProperties(ids[i], &properties));
    }
    *nodes += n;
    // The incoming side, too: the scan below reads the outgoing one.
    cypher::NeighbourBatch batch;
    cypher::ExpandPosition at;
    while (at.node < n) {
      batch.clear();
      PULSE_RETURN_IF_ERROR(
          view.Expand({ids.data(), n}, cypher::Direction::kIn, {}, 4096, &at, &batch));
      for (const cypher::NodeId other : batch.node) {
        PULSE_ASSIGN_OR_RETURN(const bool exists, view.NodeExists(other));
        if (!exists) {
          return absl::DataLossError(
              absl::StrCat("a relationship comes from node ", other, ", which is not there"));
        }
      }
    }
  }
  std::array<cypher::EdgeRef, 1024> refs;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, view.ScanEdges({}, &position, refs));
    if (n == 0) return absl::OkStatus();
    for (size_t i = 0; i < n; ++i) {
      properties.clear();
      PULSE_RETURN_IF_ERROR(view.ReadEdgeProperties(refs[i], &properties));
    }
    *edges += n;
  }
}

absl::Status RunCheck(const std::string& db) {
  graph::StoreOptions options;
  options.read_only = true;
  auto store = graph::GraphStore::Open(db, options);
  absl::Status status = store.status();
  if (absl::IsNotFound(status)) {
    return absl::NotFoundError(absl::StrCat(db, ": there is no graph database"));
  }
  uint64_t nodes = 0;
  uint64_t edges = 0;
  if (status.ok()) {
    auto view = (*store)->Snapshot();
    status = view.ok() ? ReadAll(**view, &nodes, &edges) : view.status();
  }
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(db, ": ", status.message()));
  }
  std::printf("%s: sound: %" PRIu64 " nodes, %" PRIu64 " relationships, commit %" PRIu64 "\n",
              db.c_str(), nodes, edges, (*store)->sequence());
  return absl::OkStatus();
}

}  // namespace

void AddGraphLoadCommand(CLI::App* graph) {
  auto args = std::make_shared<LoadArgs>();
  CLI::App* cmd = graph->add_subcommand(
      "load",
      "Load CSV files into a graph database, all of it or nothing.\n"
      "  pulse graph load my-graph --nodes Person=people.csv --edges KNOWS=knows.csv\n"
      "Plain headers: the first column of a node's file is its key, the first two of a\n"
      "relationship's file are the keys of its source and its target. Neo4j's headers (:ID,\n"
      ":LABEL, :START_ID, :END_ID, :TYPE, name:int) are understood, too. Keys refer to nodes of\n"
      "the same load.");
  cmd->add_option("DB", args->db, "directory of the database, made if it is not there")->required();
  cmd->add_option("--nodes", args->nodes, "LABEL=FILE; several")->allow_extra_args(true);
  cmd->add_option("--edges", args->edges, "TYPE=FILE or TYPE(SOURCE,TARGET)=FILE; several")
      ->allow_extra_args(true);
  cmd->add_option("--type", args->types,
                  "PROPERTY=TYPE, before what a header says; others are inferred from all values")
      ->allow_extra_args(false);
  cmd->add_option("--delimiter", args->delimiter, "between fields, as | or tab")
      ->capture_default_str();
  cmd->add_option("--quote", args->quote, "around fields")->capture_default_str();
  cmd->add_option("--escape", args->escape, "in quotes, before a character that counts as it is");
  cmd->add_option("--array-delimiter", args->array_delimiter,
                  "between the elements of a list, and between labels")
      ->capture_default_str();
  cmd->add_option("--null", args->options.dialect.null_text,
                  "a field of this text is null, as the empty one always is");
  cmd->add_option("--reject", args->options.reject_path,
                  "write lines that cannot be loaded to this file, with the reason, and go on;\n"
                  "without it the first one ends the load");
  cmd->add_option("--threads", args->options.threads, "0: as many as there are CPUs")
      ->check(CLI::Range(0, 256));
  cmd->callback([args] { Finish(RunLoad(*args)); });
}

void AddGraphCheckCommand(CLI::App* graph) {
  auto db = std::make_shared<std::string>();
  CLI::App* cmd = graph->add_subcommand(
      "check",
      "Read all of a graph database: log, checkpoint and runs, with their checksums. Exit status\n"
      "1 where something is damaged, with the file and the place.");
  cmd->add_option("DB", *db, "directory of the database")->required();
  cmd->callback([db] { Finish(RunCheck(*db)); });
}

}  // namespace pulse
