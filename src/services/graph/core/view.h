// A snapshot of the graph store, as the query engine reads it: everything that was committed up to
// one sequence, and nothing later. No call takes a lock that a writer waits for, but that of one
// part of an index or of the table of new relationships, for one look-up.
//
// Ownership: keeps its layers; the store outlives it. Threads: any, at the same time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "services/graph/core/edge_versions.h"
#include "services/graph/core/layers.h"
#include "services/graph/core/names.h"
#include "services/graph/model/graph.h"
#include "services/graph/nodes/index.h"
#include "services/graph/nodes/node_table.h"

namespace pulse::graph {

// NotFound, of a node or relationship.
absl::Status NoSuch(std::string_view what, uint64_t id);

using cypher::Column;
using cypher::Direction;
using cypher::ExpandPosition;
using cypher::NeighbourBatch;

// What a database has in memory and its views share.
struct Tables {
  NameTable names;
  NodeTable nodes;
  EdgeVersions edges;
  IndexSet indexes;
  // Of the newest commit; estimates for the planner.
  std::atomic<int64_t> node_count{0};
  std::atomic<int64_t> edge_count{0};
  RadixTable<std::atomic<int64_t>, 12, 10> label_counts, type_counts;
  // The tables hold this many labels and types.
  static constexpr Token kMaxTokens = 1 << 22;
};

class View : public cypher::GraphView {
 public:
  // `release` is called at the end.
  View(const Tables* tables, std::shared_ptr<const Layers> layers, uint64_t sequence,
       std::function<void()> release)
      : tables_(tables),
        layers_(std::move(layers)),
        sequence_(sequence),
        release_(std::move(release)) {}
  ~View() override {
    if (release_) release_();
  }

  uint64_t sequence() const { return sequence_; }
  const Layers& layers() const { return *layers_; }
  const NodeVersion* FindNode(NodeId node) const { return tables_->nodes.Find(node, sequence_); }
  bool HasNode(NodeId node) const { return tables_->nodes.Exists(node, sequence_); }
  // The properties as bytes; false where there is no such relationship.
  absl::StatusOr<bool> EdgeBytes(const EdgeRef& edge, std::string* bytes) const;

  std::optional<Token> FindLabel(std::string_view name) const override {
    return tables_->names.Find(NameKind::kLabel, name);
  }
  std::optional<Token> FindType(std::string_view name) const override {
    return tables_->names.Find(NameKind::kType, name);
  }
  std::optional<Token> FindKey(std::string_view name) const override {
    return tables_->names.Find(NameKind::kKey, name);
  }
  std::string LabelName(Token label) const override {
    return tables_->names.NameOf(NameKind::kLabel, label);
  }
  std::string TypeName(Token type) const override {
    return tables_->names.NameOf(NameKind::kType, type);
  }
  std::string KeyName(Token key) const override {
    return tables_->names.NameOf(NameKind::kKey, key);
  }
  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override;
  absl::StatusOr<size_t> ScanEdges(std::span<const Token> types, uint64_t* position,
                                   std::span<EdgeRef> out) const override;
  absl::StatusOr<size_t> ScanEdgeProperty(std::span<const Token> types, Token key,
                                          uint64_t* position, size_t limit,
                                          Column* out) const override;
  size_t SkipEdges(std::span<const Token> types, std::span<const cypher::PropertyBound> bounds,
                   uint64_t* position) const override;
  absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                      std::span<const Token> types, size_t limit, ExpandPosition* position,
                      NeighbourBatch* out) const override;
  absl::Status Degrees(std::span<const NodeId> nodes, Direction direction,
                       std::span<const Token> types, std::span<uint64_t> degrees) const override;
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                Column* out) const override;
  absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                Column* out) const override;
  absl::Status ReadNodeProperties(NodeId node, Properties* out) const override;
  absl::Status ReadEdgeProperties(const EdgeRef& edge, Properties* out) const override;
  absl::Status ReadLabels(NodeId node, std::vector<Token>* out) const override;
  absl::Status HasLabel(Token label, std::span<const NodeId> nodes,
                        std::span<uint8_t> out) const override;
  bool EveryNodeHas(Token label) const override { return tables_->nodes.EveryVersionHas(label); }
  absl::StatusOr<bool> NodeExists(NodeId node) const override { return HasNode(node); }
  absl::StatusOr<bool> EdgeExists(const EdgeRef& edge) const override;
  bool HasIndex(Token label, std::span<const Token> keys) const override {
    return tables_->indexes.FindFor(label, keys) != nullptr;
  }
  std::vector<std::vector<Token>> WideIndexes(Token label) const override {
    return tables_->indexes.WideFor(label);
  }
  absl::Status Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                    std::vector<NodeId>* out) const override;
  absl::StatusOr<bool> SeekRange(Token label, Token key, std::span<const cypher::Bound> bounds,
                                 size_t most, std::vector<NodeId>* out) const override;
  uint64_t NodeCount(Token label) const override;
  absl::StatusOr<size_t> SampleNodes(Token label, std::span<NodeId> out) const override;
  uint64_t EdgeCount(Token type) const override;

 private:
  // Of a scan of relationships: which of a batch lies where in a run. Checked against the batch
  // when its properties are read, so that a wrong one costs time only.
  struct BatchHint {
    struct Range {
      uint32_t slot;
      uint32_t count;
      const RunReader* run;  // null: in a chunk
      uint64_t position;
    };
    std::vector<EdgeId> ids;
    std::vector<Range> ranges;
  };
  class EdgeScan;

  // Whether all records of a run of outgoing relationships, and nothing else, are what it shows.
  bool PlainRun(size_t level) const;
  // The run that a scan of columns is in, and how many of its records it has *given; null: no such
  // run is next.
  const RunReader* RunOfColumns(std::span<const Token> types, uint64_t* position,
                                uint64_t* given) const;
  absl::Status ReadPositions(const RunReader& run, Token key, uint64_t position, size_t count,
                             Column* out) const;
  class SideExpander;
  absl::Status DegreesOfSide(std::span<const NodeId> nodes, Side side, bool skip_loops,
                             std::span<const Token> types, std::span<uint64_t> degrees) const;
  bool ReadHinted(Token key, std::span<const EdgeRef> edges, Column* out,
                  absl::Status* status) const;

  const Tables* const tables_;
  const std::shared_ptr<const Layers> layers_;
  const uint64_t sequence_;
  const std::function<void()> release_;

  mutable std::mutex scans_mu_;
  mutable std::vector<std::shared_ptr<EdgeScan>> scans_;   // between calls
  mutable std::vector<std::shared_ptr<BatchHint>> hints_;  // of the last batches
};

}  // namespace pulse::graph
