// GraphService: runs statements on a database, for whoever has rows to take: a server's
// connection, a shell, a program. Section III of the DSA paper says what its transactions are; this
// is the layer above: plans by text, transactions that begin and end by themselves, limits, schema
// statements, and what runs now.
//
// Ownership: the database outlives the service, the service outlives its transactions. Threads: any
// for the service; a transaction is used by one thread at a time. Run and Commit block: they
// execute on the calling thread.
//
// Errors: those of cypher/error.h; Aborted where the transaction lost against another and is worth
// a repetition; PermissionDenied; AlreadyExists and FailedPrecondition of broken constraints; the
// store's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/model/database.h"
#include "services/graph/session/caller.h"
#include "services/graph/session/csv_files.h"
#include "services/graph/session/plan_cache.h"
#include "services/graph/session/procedures.h"
#include "services/graph/session/running.h"
#include "services/graph/session/statement_counts.h"

namespace pulse::cypher {

struct ServiceOptions {
  size_t query_memory_bytes = size_t{1} << 30;  // of one query, estimated
  uint64_t total_query_memory_bytes = 0;        // of all queries together, as these; 0: no limit
  // Where a query goes on beyond half of either.
  SpillOptions spill{.directory = DefaultSpillDirectory()};
  int64_t query_nanos = 0;  // of one query or transaction; 0: no limit
  // Threads of one query that only reads, with the one that runs it; of all queries together, so
  // many less one run beside those that run queries. 0: `query_cpus`, at most four.
  int query_threads = 0;
  int query_cpus = 0;  // CPUs of the threads that run queries; 0: those of this process
  int retries = 12;    // of transactions that begin by themselves
  size_t cached_plans = 1000;
  size_t cached_text_bytes = size_t{4} << 20;
  size_t max_text_bytes = size_t{4} << 20;
  bool serializable = false;  // all transactions, else those that ask for it (RunOptions)
  CsvDirectory imports;       // the files of LOAD CSV and IMPORT DATABASE; as it is: none
  CsvDirectory exports;       // where EXPORT DATABASE may write; as it is: nowhere
  std::function<int64_t()> clock = NowNanos;  // monotonic; any thread asks it
};

struct RunOptions {
  const ValueMap* parameters = nullptr;  // sorted by key; null: none
  int64_t timeout_nanos = 0;             // 0: the service's; never more than that
  // When the statement came in, on the service's clock: its time counts from then, and so has what
  // Prepare took in it. 0: now.
  int64_t began_nanos = 0;
  bool read_only = false;
  // Its commit is refused, too, where another one changed what it has read
  // (graph/model/database.h).
  bool serializable = false;
  // Of Begin: called with what others end the transaction by, before Begin can wait for anybody.
  std::function<void(RunningEntry*)> on_begin;
  // What Enter made: Prepare and Run are one entry of the list then, so that who has seen the one
  // ends the other. The statement has to outlive it, or Run. Null: each has an entry of its own.
  RunningEntry* entry = nullptr;
  // Asked now and then by the thread that runs a statement; true ends it. Null: not asked.
  const std::function<bool()>* interrupted = nullptr;
};

// Takes rows.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Of `view`, which nodes and relationships in them can be looked up in during the call. False: no
  // more rows are wanted.
  virtual bool OnRows(const GraphView& view, const Value* rows, size_t stride, size_t count,
                      std::span<const Slot> columns) = 0;
  // The statement runs once more, since its transaction was aborted: the rows so far do not count.
  // False: somebody has seen them, and the statement fails.
  virtual bool Restart() = 0;
  // Why it wants no more rows, where that is an error: the statement's, then.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

struct Outcome {
  Counters counters;
  uint64_t indexes_added = 0, indexes_removed = 0;
  uint64_t constraints_added = 0, constraints_removed = 0;
  uint64_t rows = 0;
  std::string plan;       // of EXPLAIN and PROFILE, as text
  Value plan_tree;        // and as drivers want it; else null
  std::string notice;     // why a schema statement changed nothing
  uint64_t sequence = 0;  // of the commit that holds what was written
};

class GraphService;

// An explicit transaction. An error of Run leaves nothing to do but to roll back. Destroyed without
// Commit, it is rolled back.
class Transaction {
 public:
  ~Transaction();
  // As the service's, within this transaction's limits.
  absl::StatusOr<std::shared_ptr<const Statement>> Prepare(
      std::string_view text, const std::function<bool()>* interrupted = nullptr);
  // `interrupted`: as RunOptions has it.
  absl::Status Run(const Statement& statement, const ValueMap* parameters, RowSink* sink,
                   Outcome* outcome, const std::function<bool()>* interrupted = nullptr);
  // Schema statements take effect here, one after the other.
  absl::Status Commit(uint64_t* sequence);
  std::string id() const { return entry_->id(); }
  RunningEntry* entry() { return entry_.get(); }

 private:
  friend class GraphService;
  Transaction(GraphService* service, Caller caller, std::unique_ptr<RunningEntry> entry);
  absl::Status RunUncounted(const Statement& statement, const ValueMap* parameters, RowSink* sink,
                            Outcome* outcome, const std::function<bool()>* interrupted);
  absl::Status RunSchema(const SchemaCommand& command, Outcome* outcome);
  absl::Status Ended() const;

  GraphService* const service_;
  const Caller caller_;
  const std::unique_ptr<RunningEntry> entry_;
  std::shared_ptr<const GraphView> view_;  // read-only
  absl::Status read_only_;                 // why it is, where the database is
  std::unique_ptr<DatabaseTransaction> transaction_;
  std::vector<SchemaCommand> schema_;
  bool wrote_ = false;
  bool failed_ = false;
};

class GraphService {
 public:
  GraphService(Database* database, const ServiceOptions& options);

  // Lists what Prepare and Run are given in RunOptions; it is listed as long as the result lives.
  std::unique_ptr<RunningEntry> Enter(const Caller& caller, const RunOptions& options);
  // Parses and plans, or finds the plan. While it plans, it is among what runs, and ends as Run
  // does: by the limit of time, by TERMINATE, when it is interrupted.
  absl::StatusOr<std::shared_ptr<const Statement>> Prepare(std::string_view text,
                                                           const Caller& caller = {},
                                                           const RunOptions& options = {});
  // In a transaction of its own, which is committed when this returns OK.
  absl::Status Run(const Statement& statement, const Caller& caller, const RunOptions& options,
                   RowSink* sink, Outcome* outcome);
  absl::StatusOr<std::unique_ptr<Transaction>> Begin(const Caller& caller,
                                                     const RunOptions& options);

  Database* database() { return database_; }
  RunningList* running() { return &running_; }
  const MemoryPool& query_memory() const { return query_memory_; }
  PlanCache* plans() { return &plans_; }
  // What it has run so far.
  StatementNumbers numbers() const { return counts_.Take(); }
  const ServiceOptions& options() const { return options_; }

 private:
  friend class Transaction;
  // Null: it has to be made.
  absl::StatusOr<std::shared_ptr<const Statement>> FindStatement(std::string_view text);
  // The entry shows the statement's text afterwards; after an error, none.
  absl::StatusOr<std::shared_ptr<const Statement>> MakeStatement(
      std::string_view text, RunningEntry* entry, const std::function<bool()>* interrupted);
  absl::StatusOr<std::shared_ptr<const Statement>> PlanStatement(std::string_view text,
                                                                 const StopHook& stop);
  absl::Status RunUncounted(const Statement& statement, const Caller& caller,
                            const RunOptions& options, RowSink* sink, Outcome* outcome);
  absl::Status RunListed(const Statement& statement, const Caller& caller, RunningEntry* entry,
                         const RunOptions& options, RowSink* sink, Outcome* outcome);
  absl::StatusOr<std::unique_ptr<DatabaseTransaction>> BeginWriting(const RunOptions& options);
  int64_t TimeoutOf(const RunOptions& options) const;
  absl::Status CheckAccess(const Statement& statement, const Caller& caller) const;
  // All of them, or with an error none.
  absl::Status ApplySchema(std::span<const SchemaCommand> commands);
  static void CountSchema(const SchemaCommand& command, Outcome* outcome);
  // EXPORT and IMPORT DATABASE.
  absl::Status RunExchange(const SchemaCommand& command, const RunningEntry& entry,
                           const RunOptions& options, Outcome* outcome);
  // What CREATE or DROP would meet: OK with `change` false where there is nothing to do.
  absl::Status CheckSchema(const SchemaCommand& command,
                           const std::vector<IndexDefinition>& indexes, bool* change,
                           Outcome* outcome) const;
  absl::Status Execute(const Statement& statement, const Caller& caller, const RunningEntry& entry,
                       const ValueMap* parameters, const std::function<bool()>* interrupted,
                       const GraphView* view, GraphTransaction* transaction, RowSink* sink,
                       Outcome* outcome);
  absl::Status RunOnce(const Statement& statement, const Caller& caller, RunningEntry* entry,
                       const RunOptions& options, RowSink* sink, Outcome* outcome);

  Database* const database_;
  const ServiceOptions options_;
  MemoryPool query_memory_;
  std::atomic<int> spare_threads_;  // that queries may start now
  RunningList running_;
  PlanCache plans_;
  StatementCounts counts_;
  const ServiceProcedures procedures_;
};

}  // namespace pulse::cypher
