// EmbeddedGraph: a graph store within a program, and the sessions on it. pulse/graph.h and the
// Python package are two faces of it; both take results as tables of cypher::Value.
//
// Ownership: transactions keep the graph. Threads: any, for the graph; a transaction and a result
// are for one thread at a time. Calls execute on the calling thread and block on I/O. After Close()
// every call is FailedPrecondition; Close() ends statements and loads that run, and waits for them.
// Calls from within a statement, on its thread (by StatementOptions::interrupted), may do what
// others may, but for what would wait for that statement: Close(), and all of its transaction, are
// FailedPrecondition; Close() and Rollback() end the statement.
//
// Errors: those of session/service.h and core/store.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/core/store.h"
#include "services/graph/library/result_table.h"
#include "services/graph/load/load.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/service.h"

namespace pulse::graph {

struct EmbeddedOptions {
  // LOAD CSV reads what the process may read.
  EmbeddedOptions() { service.imports.everywhere = service.exports.everywhere = true; }
  StoreOptions store;  // but for its `engines`
  cypher::ServiceOptions service;
  // Who carries out copies and compactions, where the graph is open for writing: a name, an agent's
  // socket and CPUs (engines/engine_set.h). Without a name `auto`; all empty: the store's thread.
  std::string engine, agent, engine_cpus;
};

struct StatementOptions {
  int64_t timeout_nanos = 0;  // 0: the graph's; never more than that
  bool read_only = false;
  bool serializable = false;
  // As cypher::RunOptions has it.
  const std::function<bool()>* interrupted = nullptr;
  // Set to what was being done, for FailureOf() of an error; may be null.
  cypher::Doing* doing = nullptr;
};

class EmbeddedTransaction;

class EmbeddedGraph : public std::enable_shared_from_this<EmbeddedGraph> {
 public:
  // Unavailable: the engine that is asked for is not there.
  static absl::StatusOr<std::shared_ptr<EmbeddedGraph>> Open(const std::string& path,
                                                             const EmbeddedOptions& options);
  // As a kill would leave it: all that was committed is there.
  ~EmbeddedGraph();

  // In a transaction of its own. `parameters` are sorted by key, each once; null: none.
  absl::StatusOr<ResultTable> Execute(std::string_view text, const cypher::ValueMap* parameters,
                                      const StatementOptions& options);
  absl::StatusOr<std::unique_ptr<EmbeddedTransaction>> Begin(const StatementOptions& options);

  // Loads that are interrupted, or meet Close(), before they commit are Cancelled, and nothing of
  // them is written.
  //
  // CSV files, all or nothing: as whole runs; where a constraint has to hold for each node, by a
  // transaction.
  absl::StatusOr<LoadReport> LoadFiles(const LoadOptions& options);
  // Nodes of one label: by a bulk load where they are many and no constraint is there, else by one
  // transaction. Returns how many. A key that comes twice, or is null, is InvalidArgument. Makes an
  // index on the key where none is; AlreadyExists where its name (that of CREATE INDEX) is taken.
  absl::StatusOr<uint64_t> LoadNodes(const std::string& label, NamedColumns columns, uint64_t rows,
                                     const std::string& key,
                                     const Interrupted* interrupted = nullptr);
  struct EdgeEnds {
    std::string label, key;  // of the nodes; an empty label: of all
    cypher::Column column;
  };
  // What LoadNodes and LoadEdges refuse whatever values they get, for who has yet to read these. Of
  // columns without rows the names count. `rows`: some come, so that the keys must be there.
  absl::Status CheckNodes(const std::string& label, const NamedColumns& columns, uint64_t rows,
                          const std::string& key);
  absl::Status CheckEnds(const EdgeEnds& source, const EdgeEnds& target, bool rows);
  // Relationships between nodes that are there, found by their keys, in one transaction; many are
  // in runs when it returns. NotFound names the first key that no node has, InvalidArgument one
  // that two nodes have.
  absl::StatusOr<uint64_t> LoadEdges(const std::string& type, EdgeEnds source, EdgeEnds target,
                                     NamedColumns columns, uint64_t rows,
                                     const Interrupted* interrupted = nullptr);

  absl::Status Checkpoint();
  // Ends what runs and rolls back open transactions, then writes a checkpoint where it may write.
  // The second call does nothing.
  absl::Status Close();
  bool closed() const { return closing_.load(std::memory_order_relaxed); }
  StoreStats stats();
  std::vector<cypher::IndexDefinition> Indexes();
  cypher::DatabaseNames Names();
  uint64_t sequence();

 private:
  friend class EmbeddedTransaction;
  class Call;
  EmbeddedGraph(std::unique_ptr<EngineSource> engines, std::unique_ptr<GraphStore> store,
                const EmbeddedOptions& options);
  absl::Status CheckOpen() const;
  absl::Status CheckWritable() const;
  // What ends a load: its caller, who may be null, or Close().
  Interrupted EndsBy(const Interrupted* caller) const;

  const EmbeddedOptions options_;
  // Shared: a call is at work. Exclusive: Close() takes the store away.
  std::shared_mutex gate_;
  std::atomic<bool> closing_{false};
  const std::unique_ptr<EngineSource> engines_;  // null: the store's thread
  std::unique_ptr<GraphStore> store_;
  std::unique_ptr<cypher::GraphService> service_;
  // A load by key: from the look at the keys that are there to the commit of its own.
  std::mutex keyed_load_mu_;
  std::mutex transactions_mu_;
  std::set<EmbeddedTransaction*> transactions_;
};

// A call at work on this thread: the graph's gate is held shared as long as it lives, by the
// outermost where one is within another.
class EmbeddedGraph::Call {
 public:
  explicit Call(EmbeddedGraph* graph, const EmbeddedTransaction* transaction = nullptr);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // What runs by this call; it lives as long as somebody may be called back.
  void set_entry(cypher::RunningEntry* entry) { entry_ = entry; }

  // Whether this thread is within a call on the graph, or a statement of the transaction.
  static bool IsWithin(const EmbeddedGraph* graph);
  static bool IsWithin(const EmbeddedTransaction* transaction);
  // Ends the statements of the graph, or of the transaction, that this thread is within.
  static void Terminate(const EmbeddedGraph* graph, const EmbeddedTransaction* transaction);

 private:
  static thread_local Call* innermost_;

  EmbeddedGraph* const graph_;
  const EmbeddedTransaction* const transaction_;
  cypher::RunningEntry* entry_ = nullptr;
  Call* const outer_;
  std::shared_lock<std::shared_mutex> lock_;
};

// Destroyed without Commit(), it is rolled back. An error of Execute leaves nothing to do but to
// roll back.
class EmbeddedTransaction {
 public:
  ~EmbeddedTransaction();
  absl::StatusOr<ResultTable> Execute(std::string_view text, const cypher::ValueMap* parameters,
                                      const StatementOptions& options);
  absl::Status Commit();
  // OK also where it is over.
  absl::Status Rollback();
  // Neither committed nor rolled back. Never waits.
  bool open() const { return open_.load(std::memory_order_acquire); }

 private:
  friend class EmbeddedGraph;
  EmbeddedTransaction(std::shared_ptr<EmbeddedGraph> graph,
                      std::unique_ptr<cypher::Transaction> transaction);

  void EndLocked();

  const std::shared_ptr<EmbeddedGraph> graph_;
  std::mutex mu_;
  std::unique_ptr<cypher::Transaction> transaction_;
  std::atomic<bool> open_{true};
};

}  // namespace pulse::graph
