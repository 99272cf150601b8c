// BulkLoad: takes a graph from LoadCsv (load/load.h) into a store as whole runs. What it was given
// is seen by nobody and is on no disk's manifest before Commit(), which makes all of it visible and
// durable at once; destroyed without it, it leaves nothing behind.
//
// The nodes pass by the log: Commit() writes a checkpoint with them. Snapshots of commits before
// the load cannot be taken after it. While one lives, no index is made or dropped.
//
// Ownership: the store outlives it. Threads: one, but for the two runs. Blocks on I/O.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/graph/core/operations.h"
#include "services/graph/core/store.h"
#include "services/graph/load/load.h"
#include "services/graph/load/sink.h"

namespace pulse::graph {

// What a load adds to a database. Frames are operations (operations.h), names first.
struct LoadedGraph {
  std::vector<std::string> frames;
  std::string files[2];  // of the runs, by Side; empty: none, or the store's
  bool has_edges = false;
  uint64_t node_memory = 0;  // reserved of StoreOptions::node_memory
};

class BulkLoad : public LoadSink {
 public:
  // FailedPrecondition: open for reading only; or there is a constraint, which each node would have
  // to be checked for: load by a transaction then (load/transaction_sink.h).
  static absl::StatusOr<std::unique_ptr<BulkLoad>> Begin(GraphStore* store);
  ~BulkLoad() override;

  absl::Status Commit();

  absl::StatusOr<Token> Label(std::string_view name) override {
    return Name(NameKind::kLabel, name);
  }
  absl::StatusOr<Token> Type(std::string_view name) override { return Name(NameKind::kType, name); }
  absl::StatusOr<Token> Key(std::string_view name) override { return Name(NameKind::kKey, name); }
  absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) override;
  bool TakesRuns() const override { return true; }
  absl::StatusOr<EdgeId> ReserveEdgeIds(uint64_t count) override;
  absl::StatusOr<RunSink*> StartRun(Side side) override;
  absl::Status AdoptRuns(const RunInfo& out, const RunInfo& in) override;
  absl::Status AddEdges(const EdgeBatch& batch) override;

 private:
  class Output;
  explicit BulkLoad(StoreImpl* store);
  absl::StatusOr<Token> Name(NameKind kind, std::string_view name);
  void EndFrame();

  StoreImpl* const store_;
  LoadedGraph graph_;
  OperationWriter names_, nodes_;
  std::vector<std::pair<NameKind, Token>> logged_;
  std::unique_ptr<Output> outputs_[2];
  bool tried_ = false, committed_ = false;
};

// Loads CSV and commits: whole runs; where a constraint has to hold for each node, a transaction.
absl::StatusOr<LoadReport> LoadCsvInto(GraphStore* store, const LoadOptions& options);

}  // namespace pulse::graph
