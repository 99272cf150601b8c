#include "services/graph/session/service.h"

#include <time.h>

#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "services/graph/exchange/export.h"
#include "services/graph/exchange/import.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/session/chained_transaction.h"
#include "services/graph/session/failure.h"
#include "services/graph/session/plan_tree.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

absl::Status Terminated(const RunningEntry& entry) {
  if (entry.is_late()) {
    return LimitError(absl::StatusCode::kDeadlineExceeded,
                      Concat(entry.id(), " has reached its limit of time"));
  }
  return LimitError(absl::StatusCode::kCancelled, Concat(entry.id(), " was terminated"));
}

// Adds the view to what the engine gives.
class EngineSink : public ResultSink {
 public:
  EngineSink(const GraphView* view, RowSink* sink) : view_(view), sink_(sink) {}
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    return sink_->OnRows(*view_, rows, stride, count, columns);
  }

 private:
  const GraphView* const view_;
  RowSink* const sink_;
};

// Longer with each try, and of a random length, so that those who met do not meet again.
void WaitBeforeRetry(int attempt) {
  static thread_local std::minstd_rand random(std::random_device{}());
  const int64_t most = int64_t{1'000'000} << std::min(attempt, 6);
  const auto nanos = static_cast<int64_t>(random()) % most;
  const timespec wait = {0, static_cast<long>(nanos)};
  nanosleep(&wait, nullptr);
}

StatementKind KindOf(const Statement& statement) {
  if (statement.schema) return StatementKind::kSchema;
  return statement.plan->writes ? StatementKind::kWrite : StatementKind::kRead;
}

// Of engines that have moved something since `before`.
std::vector<EngineCopies> CopiesSince(const std::vector<EngineCopies>& before,
                                      std::vector<EngineCopies> now) {
  for (EngineCopies& copies : now) {
    for (const EngineCopies& old : before) {
      if (old.engine != copies.engine) continue;
      copies.flushes -= old.flushes;
      copies.merges -= old.merges;
      copies.bytes -= old.bytes;
    }
  }
  std::erase_if(now, [](const EngineCopies& copies) { return copies.bytes == 0; });
  return now;
}

std::string SchemaText(const IndexDefinition& index) {
  std::string keys;
  for (const std::string& key : index.keys) keys += Concat(keys.empty() ? "" : ", ", key);
  return index.of_edges ? Concat("()-[:", index.label, " {", keys, "}]-()")
                        : Concat("(:", index.label, " {", keys, "})");
}

constexpr int kMostThreads = 4;  // of a query, where nobody says how many

ServiceOptions WithThreads(ServiceOptions options) {
  if (options.query_threads <= 0) {
    const int cpus = options.query_cpus > 0 ? options.query_cpus : AllowedCpus();
    options.query_threads = std::clamp(cpus, 1, kMostThreads);
  }
  return options;
}

}  // namespace

GraphService::GraphService(Database* database, const ServiceOptions& options)
    : database_(database),
      options_(WithThreads(options)),
      query_memory_(options_.total_query_memory_bytes),
      spare_threads_(options_.query_threads - 1),
      running_(options.clock),
      plans_(options.cached_plans, options.cached_text_bytes),
      procedures_(database, &running_, &plans_) {}

std::unique_ptr<RunningEntry> GraphService::Enter(const Caller& caller, const RunOptions& options) {
  return running_.Add(caller, TimeoutOf(options), options.began_nanos);
}

absl::StatusOr<std::shared_ptr<const Statement>> GraphService::Prepare(std::string_view text,
                                                                       const Caller& caller,
                                                                       const RunOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto known, FindStatement(text));
  if (known != nullptr) {
    if (options.entry != nullptr) options.entry->BeginQuery(known->text);
    return known;
  }
  std::unique_ptr<RunningEntry> own;
  if (options.entry == nullptr) own = Enter(caller, options);
  return MakeStatement(text, own != nullptr ? own.get() : options.entry, options.interrupted);
}

absl::StatusOr<std::shared_ptr<const Statement>> GraphService::FindStatement(
    std::string_view text) {
  if (text.size() > options_.max_text_bytes) {
    counts_.CountFailure(FailureReason::kCompile);
    return CompileError(
        "SyntaxError", "UnexpectedSyntax",
        Concat("the statement is longer than the limit of ", options_.max_text_bytes, " bytes"));
  }
  auto known = plans_.Find(text, database_->NodeCount());
  counts_.CountPlan(known != nullptr);
  return known;
}

absl::StatusOr<std::shared_ptr<const Statement>> GraphService::MakeStatement(
    std::string_view text, RunningEntry* entry, const std::function<bool()>* interrupted) {
  const StopHook stop = [&] {
    return entry->is_terminated() || entry->is_late() ||
           (interrupted != nullptr && (*interrupted)());
  };
  entry->BeginQuery(text);
  auto made = PlanStatement(text, stop);
  if (made.ok()) {
    entry->BeginQuery((*made)->text);
    return made;
  }
  entry->EndQuery();
  const bool ended = absl::IsCancelled(made.status());
  if (ended) made = Terminated(*entry);
  counts_.CountFailure(ended ? ReasonOf(made.status()) : FailureReason::kCompile);
  return made;
}

absl::StatusOr<std::shared_ptr<const Statement>> GraphService::PlanStatement(std::string_view text,
                                                                             const StopHook& stop) {
  const uint64_t nodes = database_->NodeCount();
  PULSE_ASSIGN_OR_RETURN(ParsedStatement parsed, ParseStatement(text, &stop));
  auto statement = std::make_shared<Statement>();
  statement->text = text;
  statement->schema = std::move(parsed.schema);
  statement->snapshot = parsed.snapshot;
  if (!statement->schema) {
    PULSE_ASSIGN_OR_RETURN(const auto view, database_->Snapshot());
    PlanOptions options;
    options.stop = &stop;
    PULSE_ASSIGN_OR_RETURN(statement->plan, MakePlan(parsed.query, *view, &procedures_, options));
    if (statement->snapshot && statement->plan->writes) {
      return CompileError("SemanticError", "ReadOnly", "AT SNAPSHOT is for queries that only read");
    }
    plans_.Put(statement, nodes);
  }
  return statement;
}

absl::StatusOr<std::unique_ptr<DatabaseTransaction>> GraphService::BeginWriting(
    const RunOptions& options) {
  auto transaction = options.serializable || options_.serializable ? database_->BeginSerializable()
                                                                   : database_->Begin();
  if (transaction.ok() || !absl::IsFailedPrecondition(transaction.status())) return transaction;
  const absl::string_view why = transaction.status().message();
  return RuntimeError("ReadOnlyDatabase", "ReadOnlyDatabase", {why.data(), why.size()});
}

int64_t GraphService::TimeoutOf(const RunOptions& options) const {
  if (options.timeout_nanos == 0) return options_.query_nanos;
  if (options_.query_nanos == 0) return options.timeout_nanos;
  return std::min(options.timeout_nanos, options_.query_nanos);
}

absl::Status GraphService::CheckAccess(const Statement& statement, const Caller& caller) const {
  if (statement.explain()) return absl::OkStatus();
  const bool reads =
      statement.schema ? statement.is_export() : statement.plan->reads || !statement.plan->writes;
  if ((reads && !caller.may_read) || (statement.writes() && !caller.may_write)) {
    return absl::PermissionDeniedError(Concat("the user ", caller.user, " may not ",
                                              reads && !caller.may_read ? "read" : "write"));
  }
  if (statement.is_exchange() && !caller.may_admin) {
    return absl::PermissionDeniedError(
        Concat("the user ", caller.user, " is no administrator: files of the server are theirs"));
  }
  return absl::OkStatus();
}

absl::Status GraphService::Execute(const Statement& statement, const Caller& caller,
                                   const RunningEntry& entry, const ValueMap* parameters,
                                   const std::function<bool()>* interrupted, const GraphView* view,
                                   GraphTransaction* transaction, RowSink* sink, Outcome* outcome) {
  if (statement.explain()) {
    outcome->plan = PlanText(*statement.plan);
    outcome->plan_tree = PlanTree(*statement.plan);
    return absl::OkStatus();
  }
  ExecuteOptions options;
  options.view = view;
  options.transaction = transaction;
  options.parameters = parameters;
  options.limits.memory_bytes = options_.query_memory_bytes;
  options.spill = options_.spill;
  if (query_memory_.limit() != 0) options.pool = &query_memory_;
  options.cancelled = entry.terminated();
  options.monotonic_nanos = options_.clock;
  options.transaction_nanos = entry.began_wall_nanos();
  options.interrupted = interrupted;
  options.caller = &caller;
  options.parallel.threads = options_.query_threads;
  options.parallel.spare = &spare_threads_;
  const OpenCsv open_csv = [this](std::string_view where, char separator) {
    return OpenCsvFile(options_.imports, where, separator);
  };
  options.open_csv = &open_csv;
  if (entry.deadline() != 0) {
    options.limits.nanos = entry.deadline() - running_.Now();
    if (options.limits.nanos <= 0) return Terminated(entry);
  }
  EngineSink engine_sink(transaction != nullptr ? transaction : view, sink);
  ExecuteSummary summary;
  Profile profile;
  std::vector<EngineCopies> copied_before;
  if (statement.plan->profile) {
    options.profile = &profile;
    copied_before = database_->Copies();
  }
  absl::Status status;
  try {
    status = cypher::Execute(*statement.plan, options, &engine_sink, &summary);
  } catch (const std::bad_alloc&) {  // the limit of the process, or of its control group
    // Before anything is committed: the transaction is rolled back, and what it took is free.
    status = LimitError(absl::StatusCode::kResourceExhausted,
                        "the system gave no memory for this query; a lower limit of query memory "
                        "ends such queries earlier");
  }
  outcome->counters = summary.counters;
  outcome->rows = summary.rows;
  if (summary.spilled_bytes > 0) counts_.CountSpill(summary.spilled_bytes);
  if (statement.plan->profile) {
    profile.copied = CopiesSince(copied_before, database_->Copies());
    outcome->plan = PlanText(*statement.plan, &profile);
    outcome->plan_tree = PlanTree(*statement.plan, &profile);
  }
  if (entry.is_terminated()) return Terminated(entry);  // also where the sink stopped because of it
  return status;
}

absl::Status GraphService::RunOnce(const Statement& statement, const Caller& caller,
                                   RunningEntry* entry, const RunOptions& options, RowSink* sink,
                                   Outcome* outcome) {
  *outcome = Outcome();
  if (!statement.writes() || statement.explain()) {
    PULSE_ASSIGN_OR_RETURN(const auto view, database_->Snapshot(statement.snapshot));
    return Execute(statement, caller, *entry, options.parameters, options.interrupted, view.get(),
                   nullptr, sink, outcome);
  }
  PULSE_ASSIGN_OR_RETURN(auto transaction, BeginWriting(options));
  if (statement.plan->in_transactions) {
    transaction = std::make_unique<ChainedTransaction>(
        std::move(transaction), [this, &options] { return BeginWriting(options); });
  }
  PULSE_RETURN_IF_ERROR(Execute(statement, caller, *entry, options.parameters, options.interrupted,
                                nullptr, transaction.get(), sink, outcome));
  if (entry->is_terminated()) return Terminated(*entry);
  return transaction->Commit();
}

absl::Status GraphService::Run(const Statement& statement, const Caller& caller,
                               const RunOptions& options, RowSink* sink, Outcome* outcome) {
  const int64_t began = options.began_nanos != 0 ? options.began_nanos : running_.Now();
  *outcome = Outcome();
  absl::Status status = RunUncounted(statement, caller, options, sink, outcome);
  if (absl::Status given_up = sink->status(); !given_up.ok()) status = std::move(given_up);
  // Whatever came of it: the statement, whose text the entry shows, may go now.
  if (options.entry != nullptr) options.entry->EndQuery();
  counts_.CountStatement(KindOf(statement), status, outcome->rows, running_.Now() - began);
  return status;
}

absl::Status GraphService::RunUncounted(const Statement& statement, const Caller& caller,
                                        const RunOptions& options, RowSink* sink,
                                        Outcome* outcome) {
  PULSE_RETURN_IF_ERROR(CheckAccess(statement, caller));
  if (options.read_only && statement.writes() && !statement.explain()) {
    return RuntimeError("SemanticError", "ReadOnly",
                        "this statement writes, and its transaction is for reading only");
  }
  std::unique_ptr<RunningEntry> own;
  if (options.entry == nullptr) own = Enter(caller, options);
  RunningEntry* const entry = own != nullptr ? own.get() : options.entry;
  entry->BeginQuery(statement.text);
  const absl::Status status = RunListed(statement, caller, entry, options, sink, outcome);
  if (status.ok()) outcome->sequence = database_->sequence();
  return status;
}

absl::Status GraphService::RunListed(const Statement& statement, const Caller& caller,
                                     RunningEntry* entry, const RunOptions& options, RowSink* sink,
                                     Outcome* outcome) {
  // It may have been listed for a while.
  if (entry->is_terminated()) return Terminated(*entry);
  if (statement.is_exchange()) return RunExchange(*statement.schema, *entry, options, outcome);
  if (statement.schema) {
    bool change = false;
    PULSE_RETURN_IF_ERROR(CheckSchema(*statement.schema, database_->Indexes(), &change, outcome));
    if (!change) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(BeginWriting(options).status());  // says so where nobody may write
    PULSE_RETURN_IF_ERROR(ApplySchema({&*statement.schema, 1}));
    CountSchema(*statement.schema, outcome);
    return absl::OkStatus();
  }
  for (int attempt = 0;; ++attempt) {
    absl::Status status = RunOnce(statement, caller, entry, options, sink, outcome);
    if (!absl::IsAborted(status)) return status;
    counts_.CountConflict();
    // What commits on the way would be there twice.
    if (attempt >= options_.retries || statement.plan->in_transactions) return status;
    if (entry->is_terminated()) return Terminated(*entry);
    if (!sink->Restart()) return status;
    counts_.CountRetry();
    WaitBeforeRetry(attempt);
  }
}

absl::Status GraphService::RunExchange(const SchemaCommand& command, const RunningEntry& entry,
                                       const RunOptions& options, Outcome* outcome) {
  const std::function<bool()> stopped = [&] {
    return entry.is_terminated() || entry.is_late() ||
           (options.interrupted != nullptr && (*options.interrupted)());
  };
  const auto named = [&](const absl::Status& status) {
    // Whoever stopped it is told as of a query.
    return absl::IsCancelled(status) ? Terminated(entry) : status;
  };
  // A directory is no rule of the schema.
  const auto of_directory = [](const absl::Status& status) {
    return absl::IsPermissionDenied(status) ? status : OfKind(status, "ExternalResourceFailed");
  };
  if (command.exchange == SchemaCommand::Exchange::kExport) {
    const auto to = graph::NewDirectory::Create(options_.exports, command.directory, "--export");
    if (!to.ok()) return of_directory(to.status());
    graph::ExportOptions exporting;
    exporting.stopped = stopped;
    return named(graph::ExportDatabase(database_, exporting, to->get()).status());
  }
  const auto from = graph::OpenExport(options_.imports, command.directory, "--import");
  if (!from.ok()) return of_directory(from.status());
  graph::ImportOptions importing;
  importing.memory_bytes = options_.query_memory_bytes;
  importing.stopped = stopped;
  const auto imported = graph::ImportDatabase(*from, importing, database_);
  plans_.Clear();
  if (!imported.ok()) return named(imported.status());
  outcome->counters.nodes_created = imported->nodes;
  outcome->counters.edges_created = imported->edges;
  outcome->indexes_added = imported->indexes;
  outcome->constraints_added = imported->constraints;
  return absl::OkStatus();
}

absl::Status GraphService::CheckSchema(const SchemaCommand& command,
                                       const std::vector<IndexDefinition>& indexes, bool* change,
                                       Outcome* outcome) const {
  const IndexDefinition& wanted = command.index;
  const auto named = std::find_if(indexes.begin(), indexes.end(),
                                  [&](const IndexDefinition& i) { return i.name == wanted.name; });
  *change = false;
  if (command.drop) {
    const std::string_view what = command.constraint ? "constraint" : "index";
    if (named == indexes.end() || (command.constraint && !named->constraint)) {
      outcome->notice = Concat("there is no ", what, " `", wanted.name, "`");
      if (command.lenient) return absl::OkStatus();
      const absl::Status missing = absl::NotFoundError(outcome->notice);
      return command.constraint ? OfKind(missing, "ConstraintNotFound") : missing;
    }
    if (!command.constraint && named->constraint) {
      return RuntimeError(
          "ForbiddenOnConstraintIndex", "ForbiddenOnConstraintIndex",
          Concat("the index `", wanted.name, "` belongs to a constraint: use DROP CONSTRAINT"));
    }
    *change = true;
    return absl::OkStatus();
  }
  const auto same = std::find_if(indexes.begin(), indexes.end(),
                                 [&](const IndexDefinition& i) { return i.Excludes(wanted); });
  if (named == indexes.end() && same == indexes.end()) {
    *change = true;
    return absl::OkStatus();
  }
  const IndexDefinition& other = named != indexes.end() ? *named : *same;
  outcome->notice = Concat("there is already ", other.constraint ? "a constraint `" : "an index `",
                           other.name, "` for ", SchemaText(other));
  // What refuses less is not what was asked for; any of them finds nodes.
  const bool serves = other.unique >= wanted.unique && other.required >= wanted.required &&
                      other.type == wanted.type;
  if (command.lenient && (named != indexes.end() || serves)) return absl::OkStatus();
  const bool equal = same != indexes.end() && same->unique == wanted.unique &&
                     same->required == wanted.required && same->constraint == wanted.constraint &&
                     same->type == wanted.type;
  const absl::Status there = absl::AlreadyExistsError(
      equal ? outcome->notice : Concat(outcome->notice, ": drop it first, or choose another name"));
  if (equal) return there;
  const std::string_view kind = other.constraint ? "Constraint" : "Index";
  return OfKind(there,
                Concat(kind, named != indexes.end() ? "WithNameAlreadyExists" : "AlreadyExists"));
}

void GraphService::CountSchema(const SchemaCommand& command, Outcome* outcome) {
  const bool constraint = command.index.constraint || command.constraint;
  uint64_t* const count =
      command.drop ? (constraint ? &outcome->constraints_removed : &outcome->indexes_removed)
                   : (constraint ? &outcome->constraints_added : &outcome->indexes_added);
  ++*count;
}

absl::Status GraphService::ApplySchema(std::span<const SchemaCommand> commands) {
  std::vector<SchemaChange> changes;
  for (const SchemaCommand& command : commands) changes.push_back({command.drop, command.index});
  PULSE_RETURN_IF_ERROR(database_->ChangeSchema(changes));
  plans_.Clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Transaction>> GraphService::Begin(const Caller& caller,
                                                                 const RunOptions& options) {
  auto entry = running_.Add(caller, TimeoutOf(options));
  if (options.on_begin) options.on_begin(entry.get());
  std::unique_ptr<Transaction> transaction(new Transaction(this, caller, std::move(entry)));
  // Who may not write needs no more than a snapshot.
  if (options.read_only || !caller.may_write) {
    PULSE_ASSIGN_OR_RETURN(transaction->view_, database_->Snapshot());
  } else {
    auto writing = BeginWriting(options);
    if (writing.ok()) {
      transaction->transaction_ = *std::move(writing);
    } else if (InfoOf(writing.status()).kind != "ReadOnlyDatabase") {
      return writing.status();
    } else {
      // Drivers begin as for writing unless told otherwise: what only reads is served all the same.
      transaction->read_only_ = writing.status();
      PULSE_ASSIGN_OR_RETURN(transaction->view_, database_->Snapshot());
    }
  }
  return transaction;
}

Transaction::Transaction(GraphService* service, Caller caller, std::unique_ptr<RunningEntry> entry)
    : service_(service), caller_(std::move(caller)), entry_(std::move(entry)) {}

Transaction::~Transaction() = default;

absl::Status Transaction::Ended() const {
  if (entry_->is_terminated()) return Terminated(*entry_);
  if (failed_) {
    return RuntimeError("TransactionFailed", "TransactionFailed",
                        "the transaction has failed: it can only be rolled back");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Statement>> Transaction::Prepare(
    std::string_view text, const std::function<bool()>* interrupted) {
  PULSE_RETURN_IF_ERROR(Ended());
  PULSE_ASSIGN_OR_RETURN(auto known, service_->FindStatement(text));
  if (known != nullptr) return known;
  auto made = service_->MakeStatement(text, entry_.get(), interrupted);
  entry_->EndQuery();
  return made;
}

absl::Status Transaction::Run(const Statement& statement, const ValueMap* parameters, RowSink* sink,
                              Outcome* outcome, const std::function<bool()>* interrupted) {
  const int64_t began = service_->running_.Now();
  *outcome = Outcome();
  absl::Status status = RunUncounted(statement, parameters, sink, outcome, interrupted);
  if (absl::Status given_up = sink->status(); !given_up.ok()) status = std::move(given_up);
  if (absl::IsAborted(status)) service_->counts_.CountConflict();
  service_->counts_.CountStatement(KindOf(statement), status, outcome->rows,
                                   service_->running_.Now() - began);
  return status;
}

absl::Status Transaction::RunUncounted(const Statement& statement, const ValueMap* parameters,
                                       RowSink* sink, Outcome* outcome,
                                       const std::function<bool()>* interrupted) {
  PULSE_RETURN_IF_ERROR(Ended());
  absl::Status status = service_->CheckAccess(statement, caller_);
  entry_->BeginQuery(statement.text);
  const bool writes = statement.writes() && !statement.explain();
  if (!status.ok()) {
  } else if (statement.is_exchange()) {
    status = absl::InvalidArgumentError(
        "EXPORT and IMPORT DATABASE are statements in a transaction of their own");
  } else if (statement.snapshot) {
    status = absl::InvalidArgumentError(
        "AT SNAPSHOT is for queries in a transaction of their own: this one has its snapshot");
  } else if (writes && transaction_ == nullptr) {
    // Not as ReadOnlyDatabase: drivers would look for another server, and try for half a minute.
    status = read_only_.ok()
                 ? RuntimeError("SemanticError", "ReadOnly",
                                "this statement writes, and the transaction is for reading only")
                 : RuntimeError(
                       "SemanticError", "ReadOnly",
                       Concat("this statement writes, and ", std::string(read_only_.message())));
  } else if (writes && (statement.schema ? wrote_ : !schema_.empty())) {
    status = RuntimeError("SemanticError", "SchemaAndData",
                          "a transaction cannot change both the schema and data");
  } else if (statement.schema) {
    status = RunSchema(*statement.schema, outcome);
  } else if (writes && statement.plan->in_transactions) {
    status = RuntimeError(
        "TransactionStartFailed", "TransactionStartFailed",
        "CALL { … } IN TRANSACTIONS commits: it has to be a statement in a transaction of its own, "
        "and not within one that was begun");
  } else {
    wrote_ |= writes;
    status = service_->Execute(statement, caller_, *entry_, parameters, interrupted, view_.get(),
                               transaction_.get(), sink, outcome);
  }
  entry_->EndQuery();
  failed_ |= !status.ok();
  return status;
}

absl::Status Transaction::RunSchema(const SchemaCommand& command, Outcome* outcome) {
  // As it will be, with what this transaction has asked for before.
  std::vector<IndexDefinition> indexes = service_->database_->Indexes();
  for (const SchemaCommand& before : schema_) {
    if (before.drop) {
      std::erase_if(indexes, [&](const auto& index) { return index.name == before.index.name; });
    } else {
      indexes.push_back(before.index);
    }
  }
  bool change = false;
  PULSE_RETURN_IF_ERROR(service_->CheckSchema(command, indexes, &change, outcome));
  if (!change) return absl::OkStatus();
  GraphService::CountSchema(command, outcome);
  schema_.push_back(command);
  return absl::OkStatus();
}

absl::Status Transaction::Commit(uint64_t* sequence) {
  PULSE_RETURN_IF_ERROR(Ended());
  failed_ = true;  // whatever happens now, there is no second time
  if (!schema_.empty()) {
    transaction_.reset();  // it wrote nothing, and may be what others wait for
    PULSE_RETURN_IF_ERROR(service_->ApplySchema(schema_));
  } else if (transaction_ != nullptr && wrote_) {
    const absl::Status status = transaction_->Commit();
    if (absl::IsAborted(status)) service_->counts_.CountConflict();
    PULSE_RETURN_IF_ERROR(status);
  }
  transaction_.reset();
  view_.reset();
  *sequence = service_->database_->sequence();
  return absl::OkStatus();
}

}  // namespace pulse::cypher
