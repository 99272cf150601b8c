#include "services/graph/library/embedded.h"

#include <sys/un.h>

#include <ctime>
#include <filesystem>
#include <utility>

#include "base/errors.h"
#include "services/graph/engines/engine_set.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::graph {
namespace {

// Whoever embeds a graph may do all with it.
const cypher::Caller& Embedder() {
  static const cypher::Caller kEmbedder;
  return kEmbedder;
}

absl::Status Over() { return cypher::RuntimeError("Closed", "Closed", "the transaction is over"); }

absl::Status Within(std::string_view what) {
  return cypher::RuntimeError(
      "Within", "Within",
      cypher::Concat(what,
                     " within a statement of it, on the same thread, as by a signal handler"));
}

void SetDoing(const StatementOptions& options, const cypher::Statement& statement) {
  if (options.doing == nullptr) return;
  *options.doing = statement.schema ? cypher::Doing::kSchema : cypher::Doing::kQuery;
}

// Null: the store's own thread.
absl::StatusOr<std::unique_ptr<EngineSource>> OpenEngines(const EmbeddedOptions& options) {
  engines::EngineSetOptions set;
  set.agent_socket = options.agent;
  set.cpus = options.engine_cpus;
  if (!options.engine.empty()) {
    PULSE_ASSIGN_OR_RETURN(set.kind, engines::ParseEngineKind(options.engine));
  } else if (set.agent_socket.empty() && set.cpus.empty()) {
    return nullptr;
  }
  if (options.store.read_only) return nullptr;  // which copies nothing
  if (!options.agent.empty()) {
    // Connected to as often as it is lost, whatever the program's directory is by then; where that
    // makes a path longer than a socket's may be, this one has to do.
    std::error_code error;
    const std::string whole = std::filesystem::absolute(options.agent, error).string();
    if (error) return ErrnoError(error.value(), "finding the current directory for", options.agent);
    if (whole.size() < sizeof(sockaddr_un::sun_path)) set.agent_socket = whole;
  }
  auto opened = engines::EngineSet::Open(std::move(set));
  if (opened.ok() || absl::IsInvalidArgument(opened.status())) return opened;
  // Not the database is locked, or not found.
  return absl::UnavailableError(opened.status().message());
}

}  // namespace

absl::StatusOr<std::shared_ptr<EmbeddedGraph>> EmbeddedGraph::Open(const std::string& path,
                                                                   const EmbeddedOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto engines, OpenEngines(options));
  StoreOptions storing = options.store;
  storing.engines = engines.get();
  PULSE_ASSIGN_OR_RETURN(auto store, GraphStore::Open(path, storing));
  return std::shared_ptr<EmbeddedGraph>(
      new EmbeddedGraph(std::move(engines), std::move(store), options));
}

EmbeddedGraph::EmbeddedGraph(std::unique_ptr<EngineSource> engines,
                             std::unique_ptr<GraphStore> store, const EmbeddedOptions& options)
    : options_(options),
      engines_(std::move(engines)),
      store_(std::move(store)),
      service_(std::make_unique<cypher::GraphService>(store_.get(), options.service)) {}

EmbeddedGraph::~EmbeddedGraph() = default;

absl::Status EmbeddedGraph::CheckOpen() const {
  if (!closed()) return absl::OkStatus();
  return cypher::RuntimeError("Closed", "Closed", "the graph is closed");
}

absl::Status EmbeddedGraph::CheckWritable() const {
  PULSE_RETURN_IF_ERROR(CheckOpen());
  if (!options_.store.read_only) return absl::OkStatus();
  return cypher::RuntimeError("ReadOnlyDatabase", "ReadOnlyDatabase",
                              "the graph is open for reading only");
}

absl::StatusOr<ResultTable> EmbeddedGraph::Execute(std::string_view text,
                                                   const cypher::ValueMap* parameters,
                                                   const StatementOptions& options) {
  Call call(this);
  PULSE_RETURN_IF_ERROR(CheckOpen());
  cypher::RunOptions run;
  run.parameters = parameters;
  run.timeout_nanos = options.timeout_nanos;
  run.began_nanos = service_->running()->Now();
  run.read_only = options.read_only;
  run.serializable = options.serializable;
  run.interrupted = options.interrupted;
  const auto entry = service_->Enter(Embedder(), run);
  call.set_entry(entry.get());
  run.entry = entry.get();
  PULSE_ASSIGN_OR_RETURN(auto prepared, service_->Prepare(text, Embedder(), run));
  SetDoing(options, *prepared);
  absl::StatusOr<ResultTable> result{ResultTable(std::move(prepared))};
  TableSink sink(&*result, options_.service.query_memory_bytes);
  sink.EndBy(service_->running(), entry.get());
  const absl::Status status =
      service_->Run(result->statement(), Embedder(), run, &sink, &result->outcome_);
  if (!status.ok()) return status;
  return result;
}

absl::StatusOr<std::unique_ptr<EmbeddedTransaction>> EmbeddedGraph::Begin(
    const StatementOptions& options) {
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckOpen());
  cypher::RunOptions run;
  run.timeout_nanos = options.timeout_nanos;
  run.read_only = options.read_only;
  run.serializable = options.serializable;
  PULSE_ASSIGN_OR_RETURN(auto transaction, service_->Begin(Embedder(), run));
  std::unique_ptr<EmbeddedTransaction> made(
      new EmbeddedTransaction(shared_from_this(), std::move(transaction)));
  const std::lock_guard<std::mutex> list(transactions_mu_);
  transactions_.insert(made.get());
  return made;
}

absl::Status EmbeddedGraph::Checkpoint() {
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckWritable());
  return store_->Checkpoint();
}

absl::Status EmbeddedGraph::Close() {
  if (closed()) return absl::OkStatus();
  if (Call::IsWithin(this)) {
    Call::Terminate(this, nullptr);
    return Within("the graph cannot be closed");
  }
  if (closing_.exchange(true)) return absl::OkStatus();
  // A statement that begins meanwhile sees `closing_`, or is in this list by the time that the gate
  // is free; what began before is ended now, and again until the gate is free.
  while (!gate_.try_lock()) {
    for (const cypher::RunningFacts& facts : service_->running()->List(Embedder())) {
      service_->running()->Terminate(facts.id, Embedder());
    }
    const timespec wait = {0, 1'000'000};  // until these have seen it
    nanosleep(&wait, nullptr);
  }
  const std::lock_guard<std::shared_mutex> lock(gate_, std::adopt_lock);
  {
    const std::lock_guard<std::mutex> list(transactions_mu_);
    for (EmbeddedTransaction* transaction : transactions_) {
      const std::lock_guard<std::mutex> own(transaction->mu_);
      transaction->EndLocked();
    }
  }
  service_.reset();
  const absl::Status status = options_.store.read_only ? absl::OkStatus() : store_->Close();
  store_.reset();
  return status;
}

StoreStats EmbeddedGraph::stats() {
  const Call call(this);
  return closed() ? StoreStats() : store_->stats();
}

std::vector<cypher::IndexDefinition> EmbeddedGraph::Indexes() {
  const Call call(this);
  return closed() ? std::vector<cypher::IndexDefinition>() : store_->Indexes();
}

cypher::DatabaseNames EmbeddedGraph::Names() {
  const Call call(this);
  return closed() ? cypher::DatabaseNames() : store_->Names();
}

uint64_t EmbeddedGraph::sequence() {
  const Call call(this);
  return closed() ? 0 : store_->sequence();
}

thread_local EmbeddedGraph::Call* EmbeddedGraph::Call::innermost_ = nullptr;

EmbeddedGraph::Call::Call(EmbeddedGraph* graph, const EmbeddedTransaction* transaction)
    : graph_(graph), transaction_(transaction), outer_(innermost_) {
  // A thread must not take the gate twice: Close() of another might come between.
  if (!IsWithin(graph)) lock_ = std::shared_lock<std::shared_mutex>(graph->gate_);
  innermost_ = this;
}

EmbeddedGraph::Call::~Call() { innermost_ = outer_; }

bool EmbeddedGraph::Call::IsWithin(const EmbeddedGraph* graph) {
  const Call* call = innermost_;
  while (call != nullptr && call->graph_ != graph) call = call->outer_;
  return call != nullptr;
}

bool EmbeddedGraph::Call::IsWithin(const EmbeddedTransaction* transaction) {
  const Call* call = innermost_;
  while (call != nullptr && call->transaction_ != transaction) call = call->outer_;
  return call != nullptr;
}

void EmbeddedGraph::Call::Terminate(const EmbeddedGraph* graph,
                                    const EmbeddedTransaction* transaction) {
  for (const Call* call = innermost_; call != nullptr; call = call->outer_) {
    if (call->graph_ != graph || call->entry_ == nullptr) continue;
    if (transaction != nullptr && call->transaction_ != transaction) continue;
    call->graph_->service_->running()->Terminate(call->entry_->id(), Embedder());
  }
}

EmbeddedTransaction::EmbeddedTransaction(std::shared_ptr<EmbeddedGraph> graph,
                                         std::unique_ptr<cypher::Transaction> transaction)
    : graph_(std::move(graph)), transaction_(std::move(transaction)) {}

EmbeddedTransaction::~EmbeddedTransaction() {
  const EmbeddedGraph::Call call(graph_.get());
  const std::lock_guard<std::mutex> list(graph_->transactions_mu_);
  graph_->transactions_.erase(this);
  transaction_.reset();
}

void EmbeddedTransaction::EndLocked() {
  open_.store(false, std::memory_order_release);
  transaction_.reset();
}

absl::StatusOr<ResultTable> EmbeddedTransaction::Execute(std::string_view text,
                                                         const cypher::ValueMap* parameters,
                                                         const StatementOptions& options) {
  if (EmbeddedGraph::Call::IsWithin(this)) return Within("a transaction cannot be used");
  EmbeddedGraph::Call call(graph_.get(), this);
  PULSE_RETURN_IF_ERROR(graph_->CheckOpen());
  const std::lock_guard<std::mutex> lock(mu_);
  if (transaction_ == nullptr) return Over();
  call.set_entry(transaction_->entry());
  PULSE_ASSIGN_OR_RETURN(auto statement, transaction_->Prepare(text, options.interrupted));
  SetDoing(options, *statement);
  absl::StatusOr<ResultTable> result{ResultTable(std::move(statement))};
  TableSink sink(&*result, graph_->options_.service.query_memory_bytes);
  sink.EndBy(graph_->service_->running(), transaction_->entry());
  const absl::Status status = transaction_->Run(result->statement(), parameters, &sink,
                                                &result->outcome_, options.interrupted);
  if (!status.ok()) return status;
  return result;
}

absl::Status EmbeddedTransaction::Commit() {
  if (EmbeddedGraph::Call::IsWithin(this)) return Within("a transaction cannot be committed");
  const EmbeddedGraph::Call call(graph_.get(), this);
  PULSE_RETURN_IF_ERROR(graph_->CheckOpen());
  const std::lock_guard<std::mutex> lock(mu_);
  if (transaction_ == nullptr) return Over();
  uint64_t sequence = 0;
  const absl::Status status = transaction_->Commit(&sequence);
  EndLocked();
  return status;
}

absl::Status EmbeddedTransaction::Rollback() {
  if (EmbeddedGraph::Call::IsWithin(this)) {
    EmbeddedGraph::Call::Terminate(graph_.get(), this);
    return Within("a transaction cannot be rolled back");
  }
  const std::lock_guard<std::mutex> lock(mu_);
  EndLocked();
  return absl::OkStatus();
}

}  // namespace pulse::graph
