// What EmbeddedGraph loads: files, and columns that a program has in memory.
#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/errors.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/library/embedded.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/load/transaction_sink.h"
#include "services/graph/model/text.h"
#include "services/graph/session/statement.h"
#include "services/graph/syntax/error.h"

namespace pulse::graph {
namespace {

using cypher::Column;
using cypher::Concat;
using cypher::GraphView;

// From so many nodes on they go to the checkpoint, and not through the log.
constexpr uint64_t kBulkNodes = 50'000;
// From so many relationships on they are moved to runs before a load returns: reads of so many that
// are in chunks still take several times as long.
constexpr uint64_t kFlushedEdges = 100'000;
constexpr uint64_t kBatch = 8192;

struct HashValue {
  size_t operator()(const Value& value) const { return static_cast<size_t>(cypher::Hash(value)); }
};
struct SameValue {
  bool operator()(const Value& a, const Value& b) const { return cypher::Order(a, b) == 0; }
};
constexpr NodeId kSeveral = ~NodeId{0};
using NodesByKey = absl::flat_hash_map<Value, NodeId, HashValue, SameValue>;

bool HasConstraint(const GraphStore& store) {
  const auto indexes = store.Indexes();
  return std::any_of(indexes.begin(), indexes.end(), [](const auto& i) { return i.constraint; });
}

bool IsThere(const GraphStore& store, const cypher::IndexDefinition& wanted) {
  const auto indexes = store.Indexes();
  return std::any_of(indexes.begin(), indexes.end(),
                     [&wanted](const auto& index) { return index.Excludes(wanted); });
}

// The index that nodes of a label are to have by a key; none where there is one, or no label.
// AlreadyExists where another has its name: before anything is loaded.
absl::StatusOr<std::optional<cypher::IndexDefinition>> IndexOf(const GraphStore& store,
                                                               const std::string& label,
                                                               const std::string& key) {
  cypher::IndexDefinition wanted;
  wanted.label = label;
  wanted.keys = {key};
  wanted.name = cypher::MadeIndexName(wanted);
  if (label.empty() || IsThere(store, wanted)) return std::nullopt;
  for (const auto& index : store.Indexes()) {
    if (index.name != wanted.name) continue;
    return absl::AlreadyExistsError(Concat("the index of ", label, " by ", key, " would be named ",
                                           wanted.name, ", as is one of ", index.label,
                                           ": make it by CREATE INDEX, with another name"));
  }
  return wanted;
}

absl::Status CheckProperties(const std::string& name, const Column& column) {
  for (size_t row = 0; row < column.values.size(); ++row) {
    const Value& value = column.values[row];
    if (cypher::IsPropertyValue(value)) continue;
    return absl::InvalidArgumentError(
        Concat("column ", name, ", row ", row, ": a property cannot be a ",
               cypher::TypeName(value.type()), value.is_list() ? " of these" : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(const NamedColumns& columns, uint64_t rows) {
  std::set<std::string_view> names;
  for (const auto& [name, column] : columns) {
    if (RowsOf(column) != rows) {
      return absl::InvalidArgumentError(
          Concat("column ", name, " has ", RowsOf(column), " rows, others have ", rows));
    }
    PULSE_RETURN_IF_ERROR(CheckProperties(name, column));
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(Concat("two columns have the same name: ", name));
    }
  }
  return absl::OkStatus();
}

std::string Shown(const Value& value, const GraphView& view) {
  return cypher::ValueText(value, view);
}

// Nodes by the value of a key; those without one are left out.
absl::StatusOr<NodesByKey> FindKeys(const GraphView& view, const std::string& label,
                                    const std::string& key, const Interrupted* interrupted) {
  NodesByKey nodes;
  const auto label_token = label.empty() ? cypher::kNoToken : view.FindLabel(label);
  const auto key_token = view.FindKey(key);
  if (!label_token || !key_token) return nodes;
  nodes.reserve(view.NodeCount(*label_token));
  std::vector<NodeId> ids(kBatch);
  Column column;
  for (uint64_t position = 0;;) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted));
    PULSE_ASSIGN_OR_RETURN(const size_t n, view.ScanNodes(*label_token, &position, ids));
    if (n == 0) return nodes;
    PULSE_RETURN_IF_ERROR(view.ReadNodeProperty(*key_token, {ids.data(), n}, &column));
    for (size_t i = 0; i < n; ++i) {
      Value value = ValueAt(column, i);
      if (value.is_null()) continue;
      const auto [at, is_new] = nodes.try_emplace(std::move(value), ids[i]);
      if (!is_new) at->second = kSeveral;
    }
  }
}

// The nodes that the rows of a column name.
absl::Status FindEnds(const GraphView& view, const EmbeddedGraph::EdgeEnds& ends,
                      std::string_view what, const NodesByKey& nodes,
                      const Interrupted* interrupted, std::vector<NodeId>* out) {
  const uint64_t rows = RowsOf(ends.column);
  out->resize(rows);
  for (uint64_t row = 0; row < rows; ++row) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted, row));
    const Value key = ValueAt(ends.column, row);
    const auto found = key.is_null() ? nodes.end() : nodes.find(key);
    if (found == nodes.end() || found->second == kSeveral) {
      const std::string message =
          Concat("row ", row, ": ", found == nodes.end() ? "no node" : "more than one node",
                 ends.label.empty() ? "" : " of ", ends.label, " has ", ends.key, " = ",
                 Shown(key, view), ", which is the key of the ", what);
      if (found == nodes.end()) return absl::NotFoundError(message);
      return absl::InvalidArgumentError(message);
    }
    (*out)[row] = found->second;
  }
  return absl::OkStatus();
}

absl::Status CheckKeys(const GraphView& view, const std::string& label, const std::string& key,
                       const Column& column, const Interrupted* interrupted) {
  PULSE_ASSIGN_OR_RETURN(NodesByKey nodes, FindKeys(view, label, key, interrupted));
  const uint64_t rows = RowsOf(column);
  nodes.reserve(nodes.size() + rows);
  for (uint64_t row = 0; row < rows; ++row) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted, row));
    Value value = ValueAt(column, row);
    if (value.is_null()) {
      return absl::InvalidArgumentError(Concat("row ", row, ": the key ", key, " is null"));
    }
    const std::string text = nodes.contains(value) ? Shown(value, view) : "";
    if (!nodes.try_emplace(std::move(value), 0).second) {
      return absl::InvalidArgumentError(Concat("row ", row, ": a node of ", label, " with ", key,
                                               " = ", text, " is there already"));
    }
  }
  return absl::OkStatus();
}

absl::Status AddNodes(const std::string& label, NamedColumns* columns, uint64_t rows,
                      LoadSink* sink) {
  NodeBatch batch;
  batch.count = rows;
  batch.label_sets.emplace_back();
  if (!label.empty()) {
    PULSE_ASSIGN_OR_RETURN(batch.label_sets[0].emplace_back(), sink->Label(label));
  }
  for (auto& [name, column] : *columns) {
    PULSE_ASSIGN_OR_RETURN(const Token key, sink->Key(name));
    batch.columns.emplace_back(key, std::move(column));
  }
  std::vector<NodeId> ids;
  return sink->AddNodes(batch, &ids);
}

}  // namespace

Interrupted EmbeddedGraph::EndsBy(const Interrupted* caller) const {
  return [this, caller] { return (caller != nullptr && (*caller)()) || closed(); };
}

absl::StatusOr<LoadReport> EmbeddedGraph::LoadFiles(const LoadOptions& options) {
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckWritable());
  const Interrupted ends = EndsBy(options.interrupted);
  LoadOptions own = options;
  own.interrupted = &ends;
  return LoadCsvInto(store_.get(), own);
}

absl::Status EmbeddedGraph::CheckNodes(const std::string& label, const NamedColumns& columns,
                                       uint64_t rows, const std::string& key) {
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckWritable());
  PULSE_RETURN_IF_ERROR(CheckColumns(columns, rows));
  if (key.empty()) return absl::OkStatus();
  if (std::none_of(columns.begin(), columns.end(), [&](const auto& c) { return c.first == key; })) {
    return absl::InvalidArgumentError(Concat("there is no column ", key, ", which is the key"));
  }
  return IndexOf(*store_, label, key).status();
}

absl::Status EmbeddedGraph::CheckEnds(const EdgeEnds& source, const EdgeEnds& target, bool rows) {
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckWritable());
  if (!rows) return absl::OkStatus();
  PULSE_ASSIGN_OR_RETURN(const auto view, store_->Snapshot());
  for (const EdgeEnds* ends : {&source, &target}) {
    const bool labelled = ends->label.empty() || view->FindLabel(ends->label).has_value();
    if (labelled && view->FindKey(ends->key).has_value()) continue;
    return absl::NotFoundError(Concat("no node", ends->label.empty() ? "" : " of ", ends->label,
                                      " has ", ends->key, ", which is the key of the ",
                                      ends == &source ? "source" : "target"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> EmbeddedGraph::LoadNodes(const std::string& label, NamedColumns columns,
                                                  uint64_t rows, const std::string& key,
                                                  const Interrupted* interrupted) {
  const bool within = Call::IsWithin(this);
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckNodes(label, columns, rows, key));
  const Interrupted ends = EndsBy(interrupted);
  interrupted = &ends;
  std::optional<cypher::IndexDefinition> index;  // to be made
  std::unique_lock<std::mutex> keyed(keyed_load_mu_, std::defer_lock);
  if (!key.empty()) {
    // Of two that bring the same key, the second has to see what the first has committed.
    if (!within) {
      keyed.lock();
    } else if (!keyed.try_lock()) {
      return cypher::RuntimeError("Within", "Within",
                                  "a load by key cannot begin within another, on the same thread, "
                                  "as by a signal handler");
    }
    const auto named = std::find_if(columns.begin(), columns.end(),
                                    [&key](const auto& column) { return column.first == key; });
    PULSE_ASSIGN_OR_RETURN(index, IndexOf(*store_, label, key));
    PULSE_ASSIGN_OR_RETURN(const auto view, store_->Snapshot());
    PULSE_RETURN_IF_ERROR(CheckKeys(*view, label, key, named->second, interrupted));
  }
  if (rows < kBulkNodes || HasConstraint(*store_)) {
    PULSE_ASSIGN_OR_RETURN(const auto transaction, store_->Begin());
    TransactionSink sink(transaction.get());
    sink.set_interrupted(interrupted);
    PULSE_RETURN_IF_ERROR(AddNodes(label, &columns, rows, &sink));
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted));
    PULSE_RETURN_IF_ERROR(transaction->Commit());
  } else {
    PULSE_ASSIGN_OR_RETURN(const auto load, BulkLoad::Begin(store_.get()));
    load->set_interrupted(interrupted);
    PULSE_RETURN_IF_ERROR(AddNodes(label, &columns, rows, load.get()));
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted));
    PULSE_RETURN_IF_ERROR(load->Commit());
  }
  if (keyed.owns_lock()) keyed.unlock();
  if (!index) return rows;
  const absl::Status made = store_->CreateIndex(*index);
  service_->plans()->Clear();
  // Another may have made it since.
  if (absl::IsAlreadyExists(made) && IsThere(*store_, *index)) return rows;
  PULSE_RETURN_IF_ERROR(made);
  return rows;
}

absl::StatusOr<uint64_t> EmbeddedGraph::LoadEdges(const std::string& type, EdgeEnds source,
                                                  EdgeEnds target, NamedColumns columns,
                                                  uint64_t rows, const Interrupted* interrupted) {
  const Call call(this);
  PULSE_RETURN_IF_ERROR(CheckWritable());
  const Interrupted ends_by = EndsBy(interrupted);
  interrupted = &ends_by;
  PULSE_RETURN_IF_ERROR(CheckColumns(columns, rows));
  for (const EdgeEnds* ends : {&source, &target}) {
    if (RowsOf(ends->column) != rows) {
      return absl::InvalidArgumentError("the columns have different numbers of rows");
    }
  }
  PULSE_ASSIGN_OR_RETURN(auto transaction, store_->Begin());
  EdgeBatch batch;
  {
    PULSE_ASSIGN_OR_RETURN(const NodesByKey nodes,
                           FindKeys(*transaction, source.label, source.key, interrupted));
    PULSE_RETURN_IF_ERROR(
        FindEnds(*transaction, source, "source", nodes, interrupted, &batch.sources));
    if (source.label == target.label && source.key == target.key) {
      PULSE_RETURN_IF_ERROR(
          FindEnds(*transaction, target, "target", nodes, interrupted, &batch.targets));
    }
  }
  if (batch.targets.size() != rows) {
    PULSE_ASSIGN_OR_RETURN(const NodesByKey nodes,
                           FindKeys(*transaction, target.label, target.key, interrupted));
    PULSE_RETURN_IF_ERROR(
        FindEnds(*transaction, target, "target", nodes, interrupted, &batch.targets));
  }
  TransactionSink sink(transaction.get());
  sink.set_interrupted(interrupted);
  PULSE_ASSIGN_OR_RETURN(batch.type, sink.Type(type));
  for (auto& [name, column] : columns) {
    PULSE_ASSIGN_OR_RETURN(const Token key, sink.Key(name));
    batch.columns.emplace_back(key, std::move(column));
  }
  PULSE_RETURN_IF_ERROR(sink.AddEdges(batch));
  PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted));
  PULSE_RETURN_IF_ERROR(transaction->Commit());
  transaction.reset();  // its snapshot would keep in memory what is flushed
  // They are durable whatever becomes of this. What is wrong is met, and told, by the next flush.
  if (rows >= kFlushedEdges) store_->Flush().IgnoreError();
  return rows;
}

}  // namespace pulse::graph
