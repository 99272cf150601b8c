// `pulse graph load`: CSV into a graph database.
#include "apps/pulse/graph/cmd_load.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/graph/close_store.h"
#include "apps/pulse/graph/engine_options.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/json.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/model/text.h"

namespace pulse {
namespace {

struct LoadArgs {
  std::string db;
  std::vector<std::string> nodes, edges, types;
  std::string delimiter = ",", quote = "\"", escape, array_delimiter;
  std::string load_memory, node_memory;
  EngineArgs engine;
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
  if (args->array_delimiter.empty()) {
    options.dialect.array_delimiter = graph::ArrayDelimiterBeside(options.dialect.delimiter);
    return absl::OkStatus();
  }
  return ReadCharacter("--array-delimiter", args->array_delimiter,
                       &options.dialect.array_delimiter);
}

void PrintReport(const graph::LoadReport& report, double seconds) {
  std::printf("%" PRIu64 " nodes, %" PRIu64 " relationships from %s in %.2f s\n", report.nodes,
              report.edges, FormatBytes(report.bytes).c_str(), seconds);
  if (report.rejected == 0) return;
  std::printf("%" PRIu64 " lines were rejected, of these %" PRIu64
              " relationships of a node that is not there, %" PRIu64
              " nodes of a key twice and %" PRIu64 " that break a constraint\n",
              report.rejected, report.dangling, report.duplicates, report.violations);
  for (const std::string& example : report.examples)
    std::printf("  %s\n", CleanText(example).c_str());
}

// Before a database is made for them.
absl::Status CheckFilesAreThere(const graph::LoadOptions& options) {
  std::vector<std::string> paths;
  for (const auto& file : options.nodes) paths.push_back(file.path);
  for (const auto& file : options.edges) paths.push_back(file.path);
  for (const std::string& path : paths) {
    if (access(path.c_str(), R_OK) != 0) return ErrnoError(errno, "opening", path);
  }
  return absl::OkStatus();
}

absl::Status RunLoad(LoadArgs args) {
  PULSE_RETURN_IF_ERROR(ReadLoadArgs(&args));
  PULSE_RETURN_IF_ERROR(ReadLoadMemory(args.load_memory, &args.options));
  graph::StoreOptions storing;
  PULSE_RETURN_IF_ERROR(ReadNodeMemory(args.node_memory, &storing.node_memory));
  PULSE_ASSIGN_OR_RETURN(const auto engines, OpenEngines(args.engine));
  storing.engines = engines.get();
  PULSE_RETURN_IF_ERROR(CheckFilesAreThere(args.options));
  PULSE_ASSIGN_OR_RETURN(const auto store, graph::GraphStore::Open(args.db, storing));
  Progress progress(0);
  args.options.progress = [&progress](const graph::LoadProgress& now) { ShowLoad(now, &progress); };
  PULSE_ASSIGN_OR_RETURN(const graph::LoadReport report,
                         graph::LoadCsvInto(store.get(), args.options));
  const double seconds = progress.Elapsed();
  PULSE_RETURN_IF_ERROR(CloseWritten(store.get(), args.db));
  PrintReport(report, seconds);
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  if (errno == EPIPE) return absl::OkStatus();
  std::clearerr(stdout);  // it is said here
  const absl::Status lost = ErrnoError(errno != 0 ? errno : EIO, "writing", "standard output");
  return {lost.code(),
          absl::StrCat(lost.message(), ". The load is committed: do not run it again")};
}

}  // namespace

absl::Status ReadLoadMemory(const std::string& text, graph::LoadOptions* options) {
  if (text.empty()) return absl::OkStatus();
  return ReadSize("--load-memory", text, "4G", &options->memory_bytes);
}

void AddNodeMemoryOption(CLI::App* cmd, std::string* text) {
  cmd->add_option("--node-memory", *text,
                  "the most that nodes and their indexes may take, about: what would go beyond it\n"
                  "is refused (no limit)");
}

absl::Status ReadNodeMemory(const std::string& text, uint64_t* bytes) {
  if (text.empty() || text == "0") return absl::OkStatus();
  return ReadSize("--node-memory", text, "8G", bytes);
}

void ShowLoad(const graph::LoadProgress& now, Progress* progress) {
  if (absl::StartsWith(now.what, "reading ")) {
    progress->Bytes(now.what.c_str(), now.done, now.total);
  } else {
    progress->Items(now.what.c_str(), now.done, now.total);
  }
}

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
  cmd->add_option("--escape", args->escape,
                  "in quotes, before a quote or another one that counts as it is");
  cmd->add_option("--array-delimiter", args->array_delimiter,
                  "between the elements of a list, and between labels\n"
                  "(;, or | where --delimiter is ;)");
  cmd->add_option("--null", args->options.dialect.null_text,
                  "a field of this text is null, as the empty one always is");
  cmd->add_option("--reject", args->options.reject_path,
                  "write lines that cannot be loaded to this file, with the reason, and go on;\n"
                  "without it the first one ends the load");
  cmd->add_option("--load-memory", args->load_memory,
                  "the most that the load may have in memory before it writes, about (no limit)");
  AddNodeMemoryOption(cmd, &args->node_memory);
  AddEngineOptions(cmd, &args->engine);
  cmd->add_option("--threads", args->options.threads, "0: as many as there are CPUs")
      ->check(CLI::Range(0, 256));
  cmd->callback([args] { Finish(RunLoad(*args)); });
}

}  // namespace pulse
