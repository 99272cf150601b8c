// LoadSink: where bulk load puts a graph. A store implements it and takes whole runs; any
// transaction can be one (transaction_sink.h).
//
// Threads: one, but for the two runs, each of which is written by a thread of its own. Calls may
// block. What was given becomes visible when the caller of LoadCsv commits, in whatever way the
// sink has, and not before: an error of LoadCsv leaves the graph as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/model/database.h"
#include "services/graph/model/graph.h"
#include "services/graph/runs/run_builder.h"

namespace pulse::graph {

// Each with a value for each row.
using LoadColumns = std::vector<std::pair<Token, cypher::Column>>;
using NamedColumns = std::vector<std::pair<std::string, cypher::Column>>;

struct NodeBatch {
  uint64_t count = 0;
  std::vector<std::vector<Token>> label_sets;
  std::vector<uint32_t> label_set;  // of each node; empty: the first set for all
  LoadColumns columns;
};

struct EdgeBatch {
  std::vector<NodeId> sources, targets;
  Token type = kNoToken;
  LoadColumns columns;
};

// Asked now and then by the thread that loads; true: the load is to end. Null: nobody asks.
using Interrupted = std::function<bool()>;
inline absl::Status LoadInterrupted() {
  return absl::CancelledError("the load was interrupted, and has written nothing");
}
inline absl::Status CheckInterrupted(const Interrupted* interrupted) {
  return interrupted != nullptr && (*interrupted)() ? LoadInterrupted() : absl::OkStatus();
}
// The same, in a loop over rows.
inline absl::Status CheckInterrupted(const Interrupted* interrupted, uint64_t row) {
  return row % 1024 == 0 ? CheckInterrupted(interrupted) : absl::OkStatus();
}

class LoadSink {
 public:
  virtual ~LoadSink() = default;
  void set_interrupted(const Interrupted* interrupted) { interrupted_ = interrupted; }

  // Names, made known where they are not.
  virtual absl::StatusOr<Token> Label(std::string_view name) = 0;
  virtual absl::StatusOr<Token> Type(std::string_view name) = 0;
  virtual absl::StatusOr<Token> Key(std::string_view name) = 0;

  // Creates nodes and appends their numbers to *ids. For a sink that takes runs they ascend, over
  // all calls, and no node had one of them before: relationships are numbered within their sources
  // (record.h, LocalEdgeId).
  virtual absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) = 0;

  // Whether relationships come as two runs, one for each direction; else by AddEdges.
  virtual bool TakesRuns() const { return false; }
  // The first of `count` identifiers of relationships that nobody else gets, below 2^52.
  virtual absl::StatusOr<EdgeId> ReserveEdgeIds(uint64_t count) {
    return absl::UnimplementedError("this sink takes no runs");
  }
  // Once for each direction, before either is written.
  virtual absl::StatusOr<RunSink*> StartRun(Side side) {
    return absl::UnimplementedError("this sink takes no runs");
  }
  // Both were written wholly.
  virtual absl::Status AdoptRuns(const RunInfo& out, const RunInfo& in) {
    return absl::UnimplementedError("this sink takes no runs");
  }

  virtual absl::Status AddEdges(const EdgeBatch& batch) = 0;

  // Constraints, which a load checks line by line before it gives anything to the sink.
  virtual std::vector<cypher::IndexDefinition> Constraints() const { return {}; }
  // Whether a node that was there before the load has these values of a unique constraint.
  virtual absl::StatusOr<bool> HasNode(const cypher::IndexDefinition& constraint,
                                       std::span<const cypher::Value> values) {
    return absl::UnimplementedError("this sink has no constraints");
  }

 protected:
  const Interrupted* interrupted_ = nullptr;
};

}  // namespace pulse::graph
