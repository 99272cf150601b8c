// `pulse graph`: a graph database in a directory, queried, and served to Neo4j's drivers.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/graph/close_store.h"
#include "apps/pulse/graph/cmd_load.h"
#include "apps/pulse/graph/engine_options.h"
#include "apps/pulse/graph/page_server.h"
#include "apps/pulse/graph/shell.h"
#include "apps/pulse/metrics/endpoint.h"
#include "apps/pulse/metrics/graph_metrics.h"
#include "apps/pulse/server_options.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/machine_memory.h"
#include "base/stop_signal.h"
#include "services/graph/bolt/server.h"
#include "services/graph/core/files.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/store.h"
#include "services/graph/model/text.h"

namespace pulse {
namespace {

using cypher::Concat;

struct GraphArgs {
  std::string db;
  std::string query;
  bool json = false;
  bool read_only = false;
  bool damaged = false;
  bool page_reads = false;
  bool serializable = false;
  std::vector<std::string> parameters;
  std::string memory = "256M";
  std::string node_memory;  // empty: no limit
  std::string keep_log;     // empty: none
  uint64_t retain = 0;
  std::string query_memory = "1G";
  std::string total_query_memory;  // empty: half of the machine's
  std::string spill;               // empty: the default
  std::string spill_limit = "16G";
  std::string transaction_memory = "8G";
  int query_threads = 0;
  double timeout_seconds = 0;
  EngineArgs engine;
  bolt::BoltOptions bolt;
  int port = 7687;
  int http_port = -1;  // none
  std::string cpus, password_file;
  std::string metrics;
  bool metrics_anywhere = false;
  cypher::CsvDirectory imports{.path = {}, .everywhere = true};  // serve: by --import
  cypher::CsvDirectory exports{.path = {}, .everywhere = true};  // serve: by --export
};

struct OpenedGraph {
  std::unique_ptr<graph::engines::EngineSet> engines;  // null: nothing is flushed
  std::unique_ptr<graph::GraphStore> store;
  graph::GraphStore* operator->() const { return store.get(); }
};

bool HasManifest(const std::string& db) {
  return !absl::IsNotFound(
      graph::SystemFiles()->Read(Concat(db, "/", graph::kManifestFile)).status());
}

// `follow`: reading only, each statement sees what another process has committed until then.
absl::StatusOr<OpenedGraph> OpenStore(const GraphArgs& args, bool read_only, bool follow = false) {
  OpenedGraph opened;
  graph::StoreOptions options;
  if (!read_only) {
    PULSE_ASSIGN_OR_RETURN(opened.engines, OpenEngines(args.engine));
    options.engines = opened.engines.get();
  } else {
    PULSE_RETURN_IF_ERROR(CheckEngineName(args.engine));
  }
  options.read_only = read_only;
  options.follow = read_only && follow;
  options.allow_damage = args.damaged;
  options.page_reads = args.page_reads;
  options.retain_commits = args.retain;
  PULSE_RETURN_IF_ERROR(ReadSize("--memory", args.memory, "256M", &options.memory_limit));
  PULSE_RETURN_IF_ERROR(ReadNodeMemory(args.node_memory, &options.node_memory));
  PULSE_RETURN_IF_ERROR(
      ReadSize("--transaction-memory", args.transaction_memory, "8G", &options.transaction_memory));
  if (!args.keep_log.empty()) {
    PULSE_RETURN_IF_ERROR(ReadSize("--keep-log", args.keep_log, "256M", &options.keep_log_bytes));
  }
  auto store = graph::GraphStore::Open(args.db, options);
  if (store.ok() && read_only && !(*store)->stats().damage.empty()) {
    std::fprintf(stderr, "pulse graph: %s; what comes before is shown\n",
                 (*store)->stats().damage.c_str());
  }
  const bool lacks_file = absl::IsNotFound(store.status()) && HasManifest(args.db);
  if (read_only && absl::IsNotFound(store.status()) && !lacks_file) {
    return absl::NotFoundError(Concat(args.db, ": there is no graph database"));
  }
  if (absl::IsDataLoss(store.status()) || lacks_file) {
    return absl::DataLossError(Concat(std::string(store.status().message()),
                                      "; `pulse graph check ", args.db,
                                      "` names all that is damaged, and the remedy"));
  }
  if (!store.ok()) return store.status();
  opened.store = *std::move(store);
  return opened;
}

absl::StatusOr<cypher::ServiceOptions> ReadServiceOptions(const GraphArgs& args) {
  cypher::ServiceOptions options;
  uint64_t bytes = 0;
  PULSE_RETURN_IF_ERROR(ReadSize("--query-memory", args.query_memory, "1G", &bytes));
  options.query_memory_bytes = bytes;
  if (!args.spill.empty()) options.spill.directory = args.spill;
  if (args.spill_limit == "0") {
    options.spill.limit_bytes = 0;
  } else {
    PULSE_RETURN_IF_ERROR(
        ReadSize("--spill-limit", args.spill_limit, "16G", &options.spill.limit_bytes));
  }
  options.query_threads = args.query_threads;
  if (args.timeout_seconds > 0) {  // the least is none that never ends
    options.query_nanos = std::max<int64_t>(1, static_cast<int64_t>(args.timeout_seconds * 1e9));
  }
  options.serializable = args.serializable;
  options.imports = args.imports;
  options.exports = args.exports;
  return options;
}

// Their values are expressions, so that each type can be given.
absl::StatusOr<cypher::ValueMap> ReadParameters(const GraphArgs& args,
                                                cypher::GraphService* service) {
  cypher::ValueMap parameters;
  for (const std::string& text : args.parameters) {
    const size_t at = text.find('=');
    // Of 'x = 1', too: a name that begins or ends with a space is a slip.
    std::string name(absl::StripAsciiWhitespace(text.substr(0, std::min(at, text.size()))));
    if (at == std::string::npos || name.empty()) {
      return absl::InvalidArgumentError(
          Concat("--param ", text, ": expected NAME=EXPRESSION, such as --param \"name='Ann'\""));
    }
    if (name[0] == '$') {
      return absl::InvalidArgumentError(
          Concat("--param ", text, ": the name has no $ here: --param ", name.substr(1), "=..."));
    }
    auto value = ReadCypherValue(service, text.substr(at + 1));
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          Concat("--param ", text, ": the value is an expression of Cypher, with text in quotes: ",
                 std::string(value.status().message())));
    }
    if (std::any_of(parameters.begin(), parameters.end(),
                    [&](const auto& known) { return known.first == name; })) {
      return absl::InvalidArgumentError(Concat("--param ", name, " is given twice"));
    }
    parameters.emplace_back(std::move(name), *std::move(value));
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return parameters;
}

// A write beyond a limit of files, or to a pipe without a reader, is an error of that write.
void IgnoreSignalsOfWrites() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

absl::Status RunQuery(GraphArgs args) {
  PULSE_ASSIGN_OR_RETURN(const cypher::ServiceOptions options, ReadServiceOptions(args));
  if (args.query == "-") {
    args.query.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    if (std::ferror(stdin) != 0) return ErrnoError(errno, "reading", "standard input");
  }
  // What only reads leaves the database to another process that writes.
  const bool read_only = args.read_only || args.damaged || !cypher::StatementWrites(args.query);
  PULSE_ASSIGN_OR_RETURN(const OpenedGraph store, OpenStore(args, read_only));
  cypher::GraphService service(store.store.get(), options);
  PULSE_ASSIGN_OR_RETURN(const cypher::ValueMap parameters, ReadParameters(args, &service));
  PULSE_RETURN_IF_ERROR(RunGraphStatement(&service, nullptr, args.query, parameters, args.json));
  return read_only ? absl::OkStatus() : CloseWritten(store.store.get(), args.db);
}

absl::Status RunShell(GraphArgs args) {
  args.read_only |= args.damaged;
  PrepareTerminal();
  PULSE_ASSIGN_OR_RETURN(const cypher::ServiceOptions options, ReadServiceOptions(args));
  // A damaged database has nobody who writes.
  PULSE_ASSIGN_OR_RETURN(const OpenedGraph store, OpenStore(args, args.read_only, !args.damaged));
  cypher::GraphService service(store.store.get(), options);
  PULSE_RETURN_IF_ERROR(RunGraphShell(&service, args.json));
  return args.read_only ? absl::OkStatus() : CloseWritten(store.store.get(), args.db);
}

absl::Status RunServer(GraphArgs args) {
  args.imports.everywhere = args.exports.everywhere = false;
  PULSE_ASSIGN_OR_RETURN(cypher::ServiceOptions options, ReadServiceOptions(args));
  PULSE_RETURN_IF_ERROR(ReadCpus("--cpus", args.cpus, &args.bolt.cpus));
  // Threads of a query run where the worker runs that started them.
  options.query_cpus = static_cast<int>(args.bolt.cpus.size());
  if (args.total_query_memory.empty()) {
    options.total_query_memory_bytes = MachineMemory() / 2;
  } else if (args.total_query_memory != "0") {
    PULSE_RETURN_IF_ERROR(ReadSize("--total-query-memory", args.total_query_memory, "8G",
                                   &options.total_query_memory_bytes));
  }
  PULSE_RETURN_IF_ERROR(ReadPasswordFile(args.password_file, &args.bolt));
  args.bolt.port = static_cast<uint16_t>(args.port);
  args.bolt.throttle = std::make_shared<net::LogonThrottle>();
  StopSignal stop;  // before any thread starts
  args.read_only |= args.damaged;
  PULSE_ASSIGN_OR_RETURN(const OpenedGraph store, OpenStore(args, args.read_only, !args.damaged));
  stop.Started();
  cypher::GraphService service(store.store.get(), options);
  PULSE_ASSIGN_OR_RETURN(const auto server, bolt::BoltServer::Open(&service, args.bolt));
  std::unique_ptr<PageServer> page;
  if (args.http_port >= 0) {
    PULSE_ASSIGN_OR_RETURN(page, PageServer::Open(&service, args.bolt, args.bolt.throttle,
                                                  static_cast<uint16_t>(args.http_port)));
  }
  std::unique_ptr<metrics::Endpoint> metrics;
  if (!args.metrics.empty()) {
    metrics::Sources sources;
    sources.graph = [&] { return metrics::TakeGraphNumbers(&service, *server, *store.store); };
    PULSE_ASSIGN_OR_RETURN(
        metrics, metrics::Endpoint::Open(args.metrics, args.metrics_anywhere, std::move(sources)));
  }
  // All that may fail comes before anybody is told that the server listens.
  Say(absl::StrFormat("pulse graph: %s on bolt://%s:%d (process %d%s)", args.db, args.bolt.bind,
                      server->port(), getpid(), args.bolt.tls_cert.empty() ? "" : ", TLS"));
  if (page != nullptr) {
    Say(absl::StrFormat("pulse graph: the page: http://127.0.0.1:%d/", page->port()));
  }
  if (metrics != nullptr) Say(absl::StrFormat("pulse graph: metrics at %s", metrics->url()));
  if (store.engines != nullptr) {
    Say(absl::StrFormat("pulse graph: copy engine %s", store.engines->Describe()));
  }
  stop.Wait();
  Say("pulse graph: stopping");
  metrics.reset();  // it asks the server
  page.reset();
  server->Stop();
  if (args.read_only) return absl::OkStatus();
  const absl::Status closed = CloseWritten(store.store.get(), args.db);
  if (const std::string did = store.engines->Summary(); !did.empty()) {
    Say(absl::StrFormat("pulse graph: copy engines: %s", did));
  }
  return closed;
}

void AddStoreOptions(CLI::App* cmd, GraphArgs* args) {
  cmd->add_option("DB", args->db, "directory of the database")->required();
  cmd->add_flag(
      "--read-only", args->read_only,
      "for reading, beside a process that writes: each statement sees what it has committed");
  AddEngineOptions(cmd, &args->engine);
  cmd->add_option("--memory", args->memory,
                  "memory for relationships that are not flushed yet; less than 9M counts as 9M")
      ->capture_default_str();
  AddNodeMemoryOption(cmd, &args->node_memory);
  cmd->add_flag(
      "--page-reads", args->page_reads,
      "for relationships that memory cannot hold: a look-up reads single pages of runs, and\n"
      "not what the kernel reads around them");
  cmd->add_option("--keep-log", args->keep_log,
                  "bytes of the log that are kept behind a checkpoint, for `pulse graph changes`\n"
                  "(default: the newest segment before it)");
  cmd->add_option("--retain", args->retain,
                  "commits before the newest that AT SNAPSHOT can read, of those since the\n"
                  "database was opened here")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1'000'000'000'000}))
      ->capture_default_str();
  cmd->add_option("--query-memory", args->query_memory, "the most that one query may take, about")
      ->capture_default_str();
  cmd->add_option("--spill", args->spill,
                  "directory of the temporary files with what a query sorts or groups beyond half\n"
                  "of that memory (default: TMPDIR, /var/tmp or /tmp, the first that can be\n"
                  "written to)")
      ->check(CLI::ExistingDirectory);
  cmd->add_option("--spill-limit", args->spill_limit,
                  "the most that one query may have in these files; 0: it writes none, and ends\n"
                  "where it needs more memory")
      ->capture_default_str();
  cmd->add_option("--transaction-memory", args->transaction_memory,
                  "the most that the changes of one transaction may take until it ends, about")
      ->capture_default_str();
  cmd->add_option("--query-threads", args->query_threads,
                  "threads of one query that only reads, and of all queries together one less\n"
                  "beside those that run them; 0: the CPUs of this process, at most 4")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  cmd->add_option("--timeout", args->timeout_seconds,
                  "seconds after which a query, or a transaction, is ended; 0: never")
      ->check(NotNan)
      ->check(CLI::Range(0.0, 1e9));
  cmd->add_flag("--serializable", args->serializable,
                "refuse a commit also where another one has changed what it read");
}

void AddDamaged(CLI::App* cmd, GraphArgs* args) {
  cmd->add_flag("--damaged", args->damaged,
                "for reading: what was committed before the place where the log is damaged");
}

void AddServe(CLI::App* graph, const std::shared_ptr<GraphArgs>& args) {
  CLI::App* cmd = graph->add_subcommand("serve",
                                        "Serve a graph database to Neo4j's drivers, by Bolt 5.\n"
                                        "  pulse graph serve my-graph --bolt 7687\n"
                                        "Stops on SIGTERM or SIGINT; ignores SIGHUP.");
  AddStoreOptions(cmd, args.get());
  AddDamaged(cmd, args.get());
  bolt::BoltOptions& options = args->bolt;
  cmd->add_option("--bolt", args->port, "TCP port; 0: one that the kernel chooses")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd->add_option("--http", args->http_port,
                  "also a page to query and see the graph, on 127.0.0.1 and this TCP port; 0: one\n"
                  "that the kernel chooses (default: no page)")
      ->check(CLI::Range(0, 65535));
  cmd->add_option("--bind", options.bind,
                  "address to listen on; beyond loopback only with a password or TLS")
      ->capture_default_str();
  AddAccessOptions(cmd, &options, &args->password_file);
  cmd->add_option("--max-clients", options.max_clients, "connections at a time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  cmd->add_option("--threads", options.threads, "threads that serve connections")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  cmd->add_option("--total-query-memory", args->total_query_memory,
                  "the most that all queries together may take, about; 0: no limit (default: half\n"
                  "of the memory of the machine, or of the cgroup)");
  cmd->add_option("--workers", options.workers,
                  "threads that run queries; a client that is slow in taking a large result holds\n"
                  "one")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  cmd->add_option(
         "--import", args->imports.path,
         "directory whose files LOAD CSV and IMPORT DATABASE may read (default: none; clients\n"
         "read what it has)")
      ->check(CLI::ExistingDirectory);
  cmd->add_option("--export", args->exports.path,
                  "directory that EXPORT DATABASE may write to (default: none)")
      ->check(CLI::ExistingDirectory);
  metrics::Endpoint::AddOptions(cmd, "9466", &args->metrics, &args->metrics_anywhere);
  cmd->add_option("--cpus", args->cpus, "CPUs of all these threads, as 0,2-3 (default: all)");
  cmd->callback([args] { Finish(RunServer(*args)); });
}

}  // namespace

void AddGraphCommand(CLI::App& app) {
  auto args = std::make_shared<GraphArgs>();
  CLI::App* graph = app.add_subcommand("graph", "A property graph database that speaks Cypher.");
  graph->require_subcommand(1);
  graph->preparse_callback([](size_t) { IgnoreSignalsOfWrites(); });
  CLI::App* query =
      graph->add_subcommand("query",
                            "Run one statement of Cypher and print its result.\n"
                            "  pulse graph query my-graph 'MATCH (n:Person {name: $name}) RETURN "
                            "n' --param \"name='Ann'\"\n"
                            "A statement that writes makes the database where there is none.");
  AddStoreOptions(query, args.get());
  AddDamaged(query, args.get());
  query->add_option("CYPHER", args->query, "the statement; -: from standard input")->required();
  query->add_flag("--json", args->json, "a JSON object for each row, one a line");
  query
      ->add_option("--param", args->parameters,
                   "NAME=EXPRESSION: the value of $NAME; may come several times")
      ->allow_extra_args(false);
  query->callback([args] { Finish(RunQuery(*args)); });
  CLI::App* shell = graph->add_subcommand(
      "shell", "Statements from a terminal, with history, or from standard input.");
  AddStoreOptions(shell, args.get());
  AddDamaged(shell, args.get());
  shell->add_flag("--json", args->json, "a JSON object for each row, one a line");
  shell->callback([args] { Finish(RunShell(*args)); });
  AddServe(graph, args);
  AddGraphLoadCommand(graph);
  AddGraphCheckCommand(graph);
  AddGraphExchangeCommands(graph);
  AddGraphBackupCommand(graph);
  AddGraphSalvageCommand(graph);
  AddGraphChangesCommand(graph);
}

}  // namespace pulse
