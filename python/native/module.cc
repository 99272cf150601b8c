// pulsedb._native: the graph as Python has it. Statements run without the GIL, so that other
// threads go on, and look for signals while they run on the main thread.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <pthread.h>
#include <pythread.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "pulse/version.h"
#include "python/native/columns.h"
#include "python/native/convert.h"
#include "python/native/gil.h"
#include "python/native/result.h"
#include "services/graph/library/embedded.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace nb = nanobind;

namespace pulse::python {
namespace {

using graph::EmbeddedGraph;
using graph::EmbeddedTransaction;
using graph::StatementOptions;

unsigned long main_thread = 0;

// This process, without a system call: a forked child learns its own number before fork() returns.
pid_t this_process = 0;
void LearnProcess() { this_process = getpid(); }

// What is of the process that made it. A process that was forked from it has a copy of the memory,
// but neither the threads nor the file positions: it must not touch a store, nor destroy one, which
// would write into the files of the other, or wait for ever.
template <typename T>
class OfProcess {
 public:
  explicit OfProcess(T made) : made_(std::move(made)) {}
  ~OfProcess() {
    if (!here()) {
      (void)new T(std::move(made_));  // never freed
      return;
    }
    const WithoutGil release;
    made_ = T();
  }
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;

  bool here() const { return this_process == process_; }
  auto* get() const {
    if (!here()) {
      Raise(cypher::RuntimeError(
                "Closed", "Closed",
                cypher::Concat("the graph was opened by process ", process_, ", and this is ",
                               this_process,
                               ", which was forked from it: a process opens its own graph")),
            cypher::Doing::kQuery);
    }
    return made_.get();
  }
  // Also in another process: for what is no more than read.
  const auto* peek() const { return made_.get(); }

 private:
  const pid_t process_ = this_process;
  T made_;
};

// Asks for signals every 50 ms, which Python handles on its main thread only. True: one raised.
class SignalPoll {
 public:
  SignalPoll() {
    if (PyThread_get_thread_ident() == main_thread) ask_ = [this] { return Raised(); };
  }
  const std::function<bool()>* ask() const { return ask_ ? &ask_ : nullptr; }

 private:
  bool Raised() {
    const int64_t now = NowNanos();
    if (last_ == 0) last_ = now;
    if (now - last_ < 50'000'000) return false;
    const nb::gil_scoped_acquire acquire;
    last_ = NowNanos();
    // A handler may fork: the statement goes on in the process that it began in.
    return PyErr_CheckSignals() != 0 || this_process != process_;
  }
  const pid_t process_ = this_process;
  std::function<bool()> ask_;
  int64_t last_ = 0;
};

int64_t TimeoutNanos(nb::handle seconds) {
  if (seconds.is_none()) return 0;
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (!(value > 0) || value > 9e9)
    throw nb::value_error("a timeout is a number of seconds above 0");
  return std::max<int64_t>(1, static_cast<int64_t>(value * 1e9));
}

// Runs a statement on a graph or in a transaction.
template <typename Target>
nb::object Execute(Target* target, nb::handle query, nb::handle params, nb::handle timeout) {
  std::string_view text;
  if (!PyUnicode_Check(query.ptr())) {
    throw nb::type_error("a query is a str");
  }
  if (!TextOf(query.ptr(), &text)) throw nb::python_error();
  cypher::ValueMap parameters;
  if (!ParametersFromPython(params.ptr(), &parameters)) throw nb::python_error();
  cypher::Doing doing = cypher::Doing::kQuery;
  const SignalPoll poll;
  StatementOptions options;
  options.timeout_nanos = TimeoutNanos(timeout);
  options.interrupted = poll.ask();
  options.doing = &doing;
  absl::StatusOr<graph::ResultTable> table;
  {
    const WithoutGil release;
    table = target->Execute(text, &parameters, options);
  }
  if (!table.ok()) Raise(table.status(), doing);
  // Made where Python keeps it.
  static const nb::handle type = nb::type<Result>();
  nb::object made = nb::inst_alloc(type);
  new (nb::inst_ptr<Result>(made)) Result(*std::move(table));
  nb::inst_mark_ready(made);
  return made;
}

// Calls without the GIL; raises what it returns.
template <typename Function>
auto Without(cypher::Doing doing, Function function) {
  auto result = [&] {
    const WithoutGil release;
    return function();
  }();
  if constexpr (std::is_same_v<decltype(result), absl::Status>) {
    if (!result.ok()) Raise(result, doing);
  } else {
    if (!result.ok()) Raise(result.status(), doing);
    return *std::move(result);
  }
}

class Transaction {
 public:
  explicit Transaction(std::unique_ptr<EmbeddedTransaction> transaction)
      : transaction_(std::move(transaction)) {}
  EmbeddedTransaction* get() const { return transaction_.get(); }
  bool open() const { return transaction_.peek()->open(); }
  void Rollback() {
    if (!transaction_.here()) return;
    End(cypher::Doing::kQuery, &EmbeddedTransaction::Rollback);
  }
  void Commit() { End(cypher::Doing::kCommit, &EmbeddedTransaction::Commit); }
  // By Commit() or Rollback(), and not since the graph was closed.
  bool ended() const { return ended_; }

 private:
  void End(cypher::Doing doing, absl::Status (EmbeddedTransaction::*call)()) {
    EmbeddedTransaction* const transaction = get();
    absl::Status status;
    {
      const WithoutGil release;
      status = (transaction->*call)();
    }
    // That kind: from within a statement of it, which is to be ended first.
    if (cypher::InfoOf(status).kind != "Within") ended_ = true;
    if (!status.ok()) Raise(status, doing);
  }

  OfProcess<std::unique_ptr<EmbeddedTransaction>> transaction_;
  bool ended_ = false;
};

// Of a path, which may be of any bytes.
std::string TextOfBytes(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

class Graph {
 public:
  Graph(const std::string& path, const graph::EmbeddedOptions& options)
      : graph_(Open(path, options)) {}
  EmbeddedGraph* get() const { return graph_.get(); }
  bool closed() const { return graph_.peek()->closed(); }

 private:
  static std::shared_ptr<EmbeddedGraph> Open(const std::string& path,
                                             const graph::EmbeddedOptions& options) {
    absl::StatusOr<std::shared_ptr<EmbeddedGraph>> graph;
    {
      const WithoutGil release;
      graph = EmbeddedGraph::Open(path, options);
    }
    if (!graph.ok()) RaiseOfStore(graph.status());
    return *std::move(graph);
  }
  const OfProcess<std::shared_ptr<EmbeddedGraph>> graph_;
};

void OpenGraph(Graph* self, const nb::bytes& path, bool read_only, bool create, bool sync,
               uint64_t memory, uint64_t query_memory, nb::handle timeout, uint64_t retain,
               bool page_reads, bool damaged, const nb::bytes& spill, uint64_t spill_limit,
               int threads, const std::string& engine, const nb::bytes& agent,
               const std::string& engine_cpus, uint64_t node_memory) {
  graph::EmbeddedOptions options;
  options.store.read_only = read_only;
  options.store.create = create;
  options.store.sync = sync;
  options.store.memory_limit = memory;
  options.store.retain_commits = retain;
  options.store.page_reads = page_reads;
  options.store.allow_damage = damaged;
  options.store.node_memory = node_memory;
  options.service.query_memory_bytes = query_memory;
  if (spill.size() > 0) options.service.spill.directory = TextOfBytes(spill);
  options.service.spill.limit_bytes = spill_limit;
  options.service.query_threads = threads;
  options.service.query_nanos = TimeoutNanos(timeout);
  options.engine = engine;
  options.agent = TextOfBytes(agent);
  options.engine_cpus = engine_cpus;
  new (self) Graph(TextOfBytes(path), options);
}

void OfStore(EmbeddedGraph* graph, absl::Status (EmbeddedGraph::*call)()) {
  absl::Status status;
  {
    const WithoutGil release;
    status = (graph->*call)();
  }
  if (!status.ok()) RaiseOfStore(status);
}

NamedColumns Take(nb::handle columns, uint64_t* rows, const SignalPoll& poll,
                  const graph::ArrowCheck& check) {
  return nb::hasattr(columns, "__arrow_c_stream__")
             ? ColumnsFromArrow(columns, rows, poll.ask(), check)
             : ColumnsFromPython(columns, rows);
}

std::string TextOfPart(nb::handle tuple, int part) {
  std::string_view text;
  const nb::object item = tuple[part];
  if (!PyUnicode_Check(item.ptr())) {
    throw nb::type_error("labels, keys and the names of columns are of type str");
  }
  if (!TextOf(item.ptr(), &text)) throw nb::python_error();
  return std::string(text);
}

uint64_t LoadNodes(Graph& self, const std::string& label, nb::handle data, const std::string& key) {
  uint64_t rows = 0;
  EmbeddedGraph* const graph = self.get();
  const SignalPoll poll;
  NamedColumns columns = Take(data, &rows, poll, [&](const NamedColumns& names, bool) {
    return graph->CheckNodes(label, names, 0, key);
  });
  return Without(cypher::Doing::kQuery, [&] {
    return graph->LoadNodes(label, std::move(columns), rows, key, poll.ask());
  });
}

// `source` and `target`: (column, label, key).
uint64_t LoadEdges(Graph& self, const std::string& type, nb::handle data, nb::handle source,
                   nb::handle target) {
  EmbeddedGraph* const graph = self.get();
  uint64_t rows = 0;
  const SignalPoll poll;
  EmbeddedGraph::EdgeEnds ends[2];
  std::string names[2];
  const nb::handle given[2] = {source, target};
  for (int i = 0; i < 2; ++i) {
    names[i] = TextOfPart(given[i], 0);
    ends[i].label = TextOfPart(given[i], 1);
    ends[i].key = TextOfPart(given[i], 2);
  }
  const auto find = [&names](auto& columns, int i) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const auto& one) { return one.first == names[i]; });
    if (found != columns.end()) return found;
    const nb::gil_scoped_acquire acquire;
    PyErr_SetString(PyExc_KeyError, ("there is no column " + names[i]).c_str());
    return found;
  };
  NamedColumns columns = Take(data, &rows, poll, [&](const NamedColumns& there, bool any) {
    const bool both = find(there, 0) != there.end() && find(there, 1) != there.end();
    return both ? graph->CheckEnds(ends[0], ends[1], any) : absl::NotFoundError("a column");
  });
  for (int i = 0; i < 2; ++i) {
    const auto found = find(columns, i);
    if (found == columns.end()) throw nb::python_error();
    ends[i].column = std::move(found->second);
    columns.erase(found);
  }
  return Without(cypher::Doing::kQuery, [&] {
    return graph->LoadEdges(type, std::move(ends[0]), std::move(ends[1]), std::move(columns), rows,
                            poll.ask());
  });
}

// `nodes`, `edges`: bytes, "NAME=FILE"; `types`: (property, type).
nb::dict LoadFiles(Graph& self, nb::handle nodes, nb::handle edges, nb::handle types,
                   const std::string& dialect, const std::string& null_text,
                   const nb::bytes& reject, int threads) {
  EmbeddedGraph* const graph = self.get();
  graph::LoadOptions options;
  const auto check = [](const auto& parsed) {
    if (!parsed.ok()) Raise(parsed.status(), cypher::Doing::kQuery);
  };
  for (const nb::handle text : nodes) {
    auto file = graph::ParseNodeFile(TextOfBytes(nb::cast<nb::bytes>(text)));
    check(file);
    options.nodes.push_back(*std::move(file));
  }
  for (const nb::handle text : edges) {
    auto file = graph::ParseEdgeFile(TextOfBytes(nb::cast<nb::bytes>(text)));
    check(file);
    options.edges.push_back(*std::move(file));
  }
  for (const nb::handle pair : types) {
    options.types[TextOfPart(pair, 0)] = TextOfPart(pair, 1);
  }
  // Four characters: delimiter, quote, escape, array delimiter; NUL: none.
  options.dialect.delimiter = dialect.at(0);
  options.dialect.quote = dialect.at(1);
  if (dialect.at(2) != '\0') options.dialect.escape = dialect.at(2);
  options.dialect.array_delimiter = dialect.at(3);
  options.dialect.null_text = null_text;
  options.reject_path = TextOfBytes(reject);
  options.threads = threads;
  const SignalPoll poll;
  options.interrupted = poll.ask();
  const graph::LoadReport report =
      Without(cypher::Doing::kQuery, [&] { return graph->LoadFiles(options); });
  nb::dict out;
  out["nodes"] = report.nodes;
  out["relationships"] = report.edges;
  out["bytes"] = report.bytes;
  out["rejected"] = report.rejected;
  out["dangling"] = report.dangling;
  out["duplicates"] = report.duplicates;
  nb::list examples;
  for (const std::string& example : report.examples) {
    // It names a file, and has what stands there: any bytes.
    PyObject* text =
        PyUnicode_DecodeUTF8(example.data(), static_cast<Py_ssize_t>(example.size()), "replace");
    if (text == nullptr) throw nb::python_error();
    examples.append(nb::steal(text));
  }
  out["examples"] = examples;
  return out;
}

nb::dict Stats(Graph& self) {
  EmbeddedGraph* const graph = self.get();
  graph::StoreStats stats;
  {
    const WithoutGil release;
    stats = graph->stats();
  }
  nb::dict out;
  out["sequence"] = stats.sequence;
  out["log_bytes"] = stats.log_bytes;
  out["node_bytes"] = stats.node_bytes;
  out["edge_bytes"] = stats.edge_bytes;
  out["chunk_bytes"] = stats.chunk_bytes;
  out["run_bytes"] = stats.run_bytes;
  out["flushes"] = stats.flushes;
  out["checkpoints"] = stats.checkpoints;
  out["merges"] = stats.merges;
  out["damage"] = stats.damage;
  return out;
}

void BindTransaction(nb::module_& module) {
  nb::class_<Transaction>(module, "Transaction",
                          "An explicit transaction, made by Graph.begin(). As a context manager it "
                          "commits at the end of the block, and rolls back where the block raises. "
                          "After an error of execute() it can only be rolled back.")
      .def(
          "execute",
          [](Transaction& self, nb::handle query, nb::handle params) {
            return Execute(self.get(), query, params, nb::none());
          },
          nb::arg("query"), nb::arg("params").none() = nb::none(), "As Graph.execute().")
      .def(
          "commit", [](Transaction& self) { self.Commit(); },
          "Makes what was written durable and visible. TransientError where another transaction "
          "was first: nothing is kept, and to run it again is right.")
      .def(
          "rollback", [](Transaction& self) { self.Rollback(); },
          "Drops what was written. Does nothing when it is over.")
      .def_prop_ro(
          "closed", [](Transaction& self) { return !self.open(); },
          "Whether it was committed or rolled back.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__",
          [](Transaction& self, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none() && !self.ended()) {
              self.Commit();
            } else {
              self.Rollback();
            }
            return false;
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
}

void BindGraph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph", nb::is_weak_referenceable())
      .def("__init__", &OpenGraph, nb::arg("path"), nb::arg("read_only"), nb::arg("create"),
           nb::arg("sync"), nb::arg("memory"), nb::arg("query_memory"), nb::arg("timeout").none(),
           nb::arg("retain"), nb::arg("page_reads"), nb::arg("damaged"), nb::arg("spill"),
           nb::arg("spill_limit"), nb::arg("threads"), nb::arg("engine"), nb::arg("agent"),
           nb::arg("engine_cpus"), nb::arg("node_memory"))
      .def(
          "execute",
          [](Graph& self, nb::handle query, nb::handle params, nb::handle timeout) {
            return Execute(self.get(), query, params, timeout);
          },
          nb::arg("query"), nb::arg("params").none() = nb::none(),
          nb::arg("timeout").none() = nb::none(),
          "Runs one statement of Cypher, in a transaction of its own, and returns its Result. "
          "`params` is a dict: $name in the query stands for params['name']. What was written is "
          "durable when this returns. `timeout` is in seconds.")
      .def(
          "begin",
          [](Graph& self, bool read_only, nb::handle timeout, bool serializable) {
            StatementOptions options;
            options.read_only = read_only;
            options.serializable = serializable;
            options.timeout_nanos = TimeoutNanos(timeout);
            EmbeddedGraph* const graph = self.get();
            auto made = Without(cypher::Doing::kQuery, [&] { return graph->Begin(options); });
            return new Transaction(std::move(made));  // Python owns it
          },
          nb::kw_only(), nb::arg("read_only") = false, nb::arg("timeout").none() = nb::none(),
          nb::arg("serializable") = false,
          // A temporary graph ends with its object, and so would the transaction.
          nb::keep_alive<0, 1>(),
          "Begins a Transaction: a snapshot, and what it writes, which nobody else sees before "
          "commit(). A serializable one is also refused by commit() where another one has changed "
          "what it read.")
      .def("_load_nodes", &LoadNodes)
      .def("_load_edges", &LoadEdges)
      .def("_load_files", &LoadFiles)
      .def("_stats", &Stats)
      .def("_closed", [](Graph& self) { return self.closed(); })
      .def("_close", [](Graph& self) { OfStore(self.get(), &EmbeddedGraph::Close); })
      .def(
          "checkpoint", [](Graph& self) { OfStore(self.get(), &EmbeddedGraph::Checkpoint); },
          "Writes all that the log holds into files that open without replaying it.")
      .def_prop_ro(
          "sequence",
          [](Graph& self) {
            EmbeddedGraph* const graph = self.get();
            const WithoutGil release;
            return graph->sequence();
          },
          "The number of the newest commit, as AT SNAPSHOT takes it.");
}

}  // namespace
}  // namespace pulse::python

NB_MODULE(_native, module) {
  // Results may outlive the interpreter's shut-down, which is no fault.
  nb::set_leak_warnings(false);
  module.attr("__version__") = PULSE_VERSION_STRING;
  pulse::python::LearnProcess();
  pthread_atfork(nullptr, nullptr, &pulse::python::LearnProcess);
  pulse::python::StartConversions();
  pulse::python::main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  pulse::python::BindResult(module);
  pulse::python::BindTransaction(module);
  pulse::python::BindGraph(module);
}
