#include "services/graph/core/bulk_load.h"

#include <algorithm>

#include "base/errors.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/load/transaction_sink.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

constexpr size_t kLoadFrameBytes = size_t{1} << 20;

}  // namespace

class BulkLoad::Output : public RunSink {
 public:
  explicit Output(std::unique_ptr<File> file) : file_(std::move(file)) {}
  absl::Status Append(absl::string_view bytes) override {
    PULSE_RETURN_IF_ERROR(file_->WriteAt({bytes.data(), bytes.size()}, size_));
    size_ += bytes.size();
    return absl::OkStatus();
  }
  absl::Status Sync() { return file_->Sync(); }

 private:
  std::unique_ptr<File> file_;
  uint64_t size_ = 0;
};

BulkLoad::BulkLoad(StoreImpl* store) : store_(store) {}

absl::StatusOr<std::unique_ptr<BulkLoad>> BulkLoad::Begin(GraphStore* store) {
  StoreImpl* const impl = store->impl_.get();
  PULSE_RETURN_IF_ERROR(impl->BeginLoad());
  return std::unique_ptr<BulkLoad>(new BulkLoad(impl));
}

BulkLoad::~BulkLoad() {
  outputs_[0].reset();
  outputs_[1].reset();
  const LoadedGraph none;
  store_->EndLoad(committed_ ? none : std::as_const(graph_));  // which may be as large as the load
}

absl::StatusOr<Token> BulkLoad::Name(NameKind kind, std::string_view name) {
  bool durable;
  PULSE_ASSIGN_OR_RETURN(const Token token, store_->AddName(kind, name, &durable));
  const auto entry = std::make_pair(kind, token);
  if (!durable && std::find(logged_.begin(), logged_.end(), entry) == logged_.end()) {
    logged_.push_back(entry);
    names_.Name(kind, token, name);
  }
  return token;
}

void BulkLoad::EndFrame() {
  if (!nodes_.bytes().empty()) graph_.frames.push_back(nodes_.Take());
  nodes_ = OperationWriter();
}

absl::Status BulkLoad::AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) {
  PULSE_ASSIGN_OR_RETURN(NodeId id, store_->ReserveNodeIds(batch.count));
  Properties properties;
  const std::vector<Token> none;
  uint64_t node_memory = 0;
  for (size_t i = 0; i < batch.count; ++i, ++id) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted_, i));
    properties.clear();
    for (const auto& [key, column] : batch.columns) {
      Value value = ValueAt(column, i);
      if (!value.is_null()) properties.emplace_back(key, std::move(value));
    }
    const std::string bytes = EncodeProperties(properties);
    if (bytes.size() > NodeTable::kMaxProperties) {
      return absl::ResourceExhaustedError("a node's properties are too large");
    }
    const auto& labels = batch.label_sets.empty()
                             ? none
                             : batch.label_sets[batch.label_set.empty() ? 0 : batch.label_set[i]];
    nodes_.CreateNode(id, labels, bytes);
    ids->push_back(id);
    if (store_->LimitsNodes()) node_memory += store_->MemoryOfNewNode(labels, bytes);
    if (nodes_.bytes().size() < kLoadFrameBytes) continue;
    EndFrame();
    PULSE_RETURN_IF_ERROR(store_->ReserveNodeMemory(std::exchange(node_memory, 0), &graph_));
  }
  return store_->ReserveNodeMemory(node_memory, &graph_);
}

absl::StatusOr<EdgeId> BulkLoad::ReserveEdgeIds(uint64_t count) {
  return store_->ReserveEdgeIds(count);
}

absl::StatusOr<RunSink*> BulkLoad::StartRun(Side side) {
  const auto at = static_cast<size_t>(side);
  PULSE_ASSIGN_OR_RETURN(auto file, store_->CreateLoadFile(&graph_.files[at]));
  outputs_[at] = std::make_unique<Output>(std::move(file));
  return outputs_[at].get();
}

absl::Status BulkLoad::AdoptRuns(const RunInfo& out, const RunInfo& in) {
  if (out.records != in.records) {
    return absl::InternalError("the runs of a load differ in their relationships");
  }
  for (const auto& output : outputs_) PULSE_RETURN_IF_ERROR(output->Sync());
  return absl::OkStatus();
}

absl::Status BulkLoad::AddEdges(const EdgeBatch&) {
  return absl::UnimplementedError("relationships of a bulk load come as runs");
}

absl::Status BulkLoad::Commit() {
  if (std::exchange(tried_, true)) return absl::FailedPreconditionError("the load is over");
  EndFrame();
  if (!names_.bytes().empty()) {
    graph_.frames.insert(graph_.frames.begin(), names_.Take());
    names_ = OperationWriter();
  }
  outputs_[0].reset();
  outputs_[1].reset();
  PULSE_RETURN_IF_ERROR(store_->CommitLoad(&graph_));
  committed_ = true;
  return absl::OkStatus();
}

// --- The store's part ---

absl::Status StoreImpl::BeginLoad() {
  if (options_.read_only) {
    return absl::FailedPreconditionError("the database is open for reading only");
  }
  std::unique_lock lock(commit_mu_);
  do {
    // What it brings would not be looked at.
    commit_cv_.wait(lock, [this] { return edge_checks_.empty(); });
    WaitForQuiet(&lock);
  } while (!edge_checks_.empty());
  for (const auto& index : tables_.indexes.list()) {
    if (!index->definition().Refuses()) continue;
    return absl::FailedPreconditionError(cypher::Concat(
        "constraint ", index->definition().name,
        " has to be checked for each node or relationship: load by transactions, or drop it"));
  }
  ++loads_;
  return absl::OkStatus();
}

void StoreImpl::EndLoad(const LoadedGraph& unused) {
  RemoveFiles({unused.files[0], unused.files[1]});
  std::lock_guard lock(commit_mu_);
  reserved_nodes_ -= unused.node_memory;
  --loads_;
}

absl::StatusOr<NodeId> StoreImpl::ReserveNodeIds(uint64_t count) {
  const NodeId first = next_node_.fetch_add(count, std::memory_order_relaxed);
  if (first + count <= NodeTable::kCapacity) return first;
  return absl::ResourceExhaustedError("a database has at most 2^32 nodes");
}

absl::StatusOr<EdgeId> StoreImpl::ReserveEdgeIds(uint64_t count) {
  const EdgeId first = next_edge_.fetch_add(count, std::memory_order_relaxed);
  if (first + count <= kLocalEdgeIds) return first;
  return absl::ResourceExhaustedError("a database has at most 2^52 relationships");
}

absl::StatusOr<std::unique_ptr<File>> StoreImpl::CreateLoadFile(std::string* name) {
  std::lock_guard lock(maintenance_mu_);
  *name = NewFile(".run");
  return files_->Create(PathOf(*name));
}

absl::Status StoreImpl::CommitLoad(LoadedGraph* graph) {
  std::lock_guard lock(maintenance_mu_);
  return FlushLocked(true, graph);
}

// Into the layers and counts that come next: its runs are the oldest, since they hold nothing that
// another one has.
absl::Status StoreImpl::AddLoaded(LoadedGraph* graph, Layers* next, Manifest* manifest) {
  constexpr int kLoadedLevel = 3;
  for (const Side side : {Side::kOut, Side::kIn}) {
    const std::string& file = graph->files[static_cast<size_t>(side)];
    if (file.empty()) continue;
    auto& runs = side == Side::kOut ? next->out.runs : next->in.runs;
    const int level = runs.empty() ? kLoadedLevel : std::max(kLoadedLevel, runs.back().level);
    PULSE_ASSIGN_OR_RETURN(Run run, OpenRun({file, side, level}));
    if (run.reader->info().records == 0) continue;
    graph->has_edges = true;
    if (side == Side::kOut) {
      for (const auto& [type, count] : run.reader->info().types) {
        auto& counts = manifest->edge_counts;
        const auto it = std::find_if(counts.begin(), counts.end(),
                                     [t = type](const auto& entry) { return entry.first == t; });
        if (it != counts.end()) {
          it->second += static_cast<int64_t>(count);
        } else {
          counts.emplace_back(type, static_cast<int64_t>(count));
        }
      }
    }
    runs.push_back(std::move(run));
  }
  return absl::OkStatus();
}

// The manifest has it. commit_mu_ is held, and nobody leads.
void StoreImpl::ShowLoaded(LoadedGraph* graph, std::shared_ptr<const Layers> layers) {
  const uint64_t sequence = ++last_sequence_;
  if (!serializable_.empty()) {
    Footprint all;
    all.sequence = sequence;
    all.everything = true;
    KeepFootprint(std::move(all));
  }
  const bool names = !graph->frames.empty() &&
                     graph->frames[0].starts_with(static_cast<char>(Operation::Kind::kName));
  const std::string brought = names ? graph->frames[0] : std::string();
  for (std::string& frame : graph->frames) {
    if (apply_failure_.ok()) KeepApplyFailure(Apply(sequence, frame));
    std::string().swap(frame);  // the tables have it
  }
  reserved_nodes_ -= std::exchange(graph->node_memory, 0);
  if (graph->has_edges && !layers->out.runs.empty()) {
    for (const auto& [type, count] : layers->out.runs.back().reader->info().types) {
      *tables_.type_counts.Make(type) += static_cast<int64_t>(count);
      tables_.edge_count += static_cast<int64_t>(count);
    }
  }
  // For change feeds, a commit with the names only that the load has brought: later commits use
  // them. The manifest has the load already: where this fails, they do not hear of it.
  OperationWriter mark;
  mark.Counters(next_node_, next_edge_);
  const std::string payload = mark.Take() + brought;
  WalEntry entry;
  entry.sequence = sequence;
  entry.payload = payload;
  WalEntry* entries[] = {&entry};
  wal_->Write(entries);
  if (entry.result.ok() && options_.sync) synced_ = sequence;
  WriteCommitted(sequence);
  applied_ = sequence;
  // At once: a snapshot that has its relationships has its nodes.
  std::lock_guard lock(view_mu_);
  layers_ = std::move(layers);
  alive_.push_back(layers_);
  visible_ = sequence;
  history_from_ = sequence;
  UpdateOldest();
}

absl::StatusOr<LoadReport> LoadCsvInto(GraphStore* store, const LoadOptions& options) {
  const auto indexes = store->Indexes();
  for (const auto& index : indexes) {
    if (!index.constraint) continue;
    PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
    TransactionSink sink(transaction.get(), options.memory_bytes);
    sink.CheckConstraints(indexes);
    PULSE_ASSIGN_OR_RETURN(auto report, LoadCsv(options, &sink));
    PULSE_RETURN_IF_ERROR(transaction->Commit());
    return report;
  }
  PULSE_ASSIGN_OR_RETURN(const auto load, BulkLoad::Begin(store));
  PULSE_ASSIGN_OR_RETURN(auto report, LoadCsv(options, load.get()));
  PULSE_RETURN_IF_ERROR(load->Commit());
  return report;
}

}  // namespace pulse::graph
