#include "services/graph/library/embedded.h"

#include <ctime>
#include <utility>

#include "base/errors.h"
#include "services/graph/cypher/error.h"

namespace pulse::graph {
namespace {

// Whoever embeds a graph may do all with it.
const cypher::Caller& Embedder() {
  static const cypher::Caller kEmbedder;
  return kEmbedder;
}

absl::Status Over() { return cypher::RuntimeError("Closed", "Closed", "the transaction is over"); }

void SetDoing(const StatementOptions& options, const cypher::Statement& statement) {
  if (options.doing == nullptr) return;
  *options.doing = statement.schema ? cypher::Doing::kSchema : cypher::Doing::kQuery;
}

}  // namespace

absl::StatusOr<std::shared_ptr<EmbeddedGraph>> EmbeddedGraph::Open(const std::string& path,
                                                                   const EmbeddedOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto store, GraphStore::Open(path, options.store));
  return std::shared_ptr<EmbeddedGraph>(new EmbeddedGraph(std::move(store), options));
}

EmbeddedGraph::EmbeddedGraph(std::unique_ptr<GraphStore> store, const EmbeddedOptions& options)
    : options_(options),
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
  const std::shared_lock<std::shared_mutex> lock(gate_);
  PULSE_RETURN_IF_ERROR(CheckOpen());
  PULSE_ASSIGN_OR_RETURN(auto statement, service_->Prepare(text));
  SetDoing(options, *statement);
  absl::StatusOr<ResultTable> result{ResultTable(std::move(statement))};
  TableSink sink(&*result, options_.service.query_memory_bytes);
  cypher::RunOptions run;
  run.parameters = parameters;
  run.timeout_nanos = options.timeout_nanos;
  run.read_only = options.read_only;
  run.interrupted = options.interrupted;
  run.on_begin = [this, &sink](cypher::RunningEntry* entry) {
    sink.EndBy(service_->running(), entry);
  };
  const absl::Status status =
      service_->Run(result->statement(), Embedder(), run, &sink, &result->outcome_);
  if (!sink.status().ok()) return sink.status();
  if (!status.ok()) return status;
  return result;
}

absl::StatusOr<std::unique_ptr<EmbeddedTransaction>> EmbeddedGraph::Begin(
    const StatementOptions& options) {
  const std::shared_lock<std::shared_mutex> lock(gate_);
  PULSE_RETURN_IF_ERROR(CheckOpen());
  cypher::RunOptions run;
  run.timeout_nanos = options.timeout_nanos;
  run.read_only = options.read_only;
  PULSE_ASSIGN_OR_RETURN(auto transaction, service_->Begin(Embedder(), run));
  std::unique_ptr<EmbeddedTransaction> made(
      new EmbeddedTransaction(shared_from_this(), std::move(transaction)));
  const std::lock_guard<std::mutex> list(transactions_mu_);
  transactions_.insert(made.get());
  return made;
}

absl::Status EmbeddedGraph::Checkpoint() {
  const std::shared_lock<std::shared_mutex> lock(gate_);
  PULSE_RETURN_IF_ERROR(CheckWritable());
  return store_->Checkpoint();
}

absl::Status EmbeddedGraph::Close() {
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
    for (EmbeddedTransaction* transaction : transactions_) transaction->Rollback();
  }
  service_.reset();
  const absl::Status status = options_.store.read_only ? absl::OkStatus() : store_->Close();
  store_.reset();
  return status;
}

StoreStats EmbeddedGraph::stats() {
  const std::shared_lock<std::shared_mutex> lock(gate_);
  return closed() ? StoreStats() : store_->stats();
}

std::vector<cypher::IndexDefinition> EmbeddedGraph::Indexes() {
  const std::shared_lock<std::shared_mutex> lock(gate_);
  return closed() ? std::vector<cypher::IndexDefinition>() : store_->Indexes();
}

cypher::DatabaseNames EmbeddedGraph::Names() {
  const std::shared_lock<std::shared_mutex> lock(gate_);
  return closed() ? cypher::DatabaseNames() : store_->Names();
}

uint64_t EmbeddedGraph::sequence() {
  const std::shared_lock<std::shared_mutex> lock(gate_);
  return closed() ? 0 : store_->sequence();
}

EmbeddedTransaction::EmbeddedTransaction(std::shared_ptr<EmbeddedGraph> graph,
                                         std::unique_ptr<cypher::Transaction> transaction)
    : graph_(std::move(graph)), transaction_(std::move(transaction)) {}

EmbeddedTransaction::~EmbeddedTransaction() {
  const std::shared_lock<std::shared_mutex> lock(graph_->gate_);
  const std::lock_guard<std::mutex> list(graph_->transactions_mu_);
  graph_->transactions_.erase(this);
  transaction_.reset();
}

bool EmbeddedTransaction::open() const {
  const std::lock_guard<std::mutex> lock(mu_);
  return transaction_ != nullptr;
}

absl::StatusOr<ResultTable> EmbeddedTransaction::Execute(std::string_view text,
                                                         const cypher::ValueMap* parameters,
                                                         const StatementOptions& options) {
  const std::shared_lock<std::shared_mutex> gate(graph_->gate_);
  PULSE_RETURN_IF_ERROR(graph_->CheckOpen());
  const std::lock_guard<std::mutex> lock(mu_);
  if (transaction_ == nullptr) return Over();
  PULSE_ASSIGN_OR_RETURN(auto statement, graph_->service_->Prepare(text));
  SetDoing(options, *statement);
  absl::StatusOr<ResultTable> result{ResultTable(std::move(statement))};
  TableSink sink(&*result, graph_->options_.service.query_memory_bytes);
  sink.EndBy(graph_->service_->running(), transaction_->entry());
  const absl::Status status = transaction_->Run(result->statement(), parameters, &sink,
                                                &result->outcome_, options.interrupted);
  if (!sink.status().ok()) return sink.status();
  if (!status.ok()) return status;
  return result;
}

absl::Status EmbeddedTransaction::Commit() {
  const std::shared_lock<std::shared_mutex> gate(graph_->gate_);
  PULSE_RETURN_IF_ERROR(graph_->CheckOpen());
  const std::lock_guard<std::mutex> lock(mu_);
  if (transaction_ == nullptr) return Over();
  uint64_t sequence = 0;
  const absl::Status status = transaction_->Commit(&sequence);
  transaction_.reset();
  return status;
}

void EmbeddedTransaction::Rollback() {
  const std::lock_guard<std::mutex> lock(mu_);
  transaction_.reset();
}

}  // namespace pulse::graph
