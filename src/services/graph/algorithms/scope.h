// Scope: the part of a graph that an algorithm works on, its nodes numbered from 0 in the order of
// their identifiers; and how all threads go over it. The adjacency lists are read from the view:
// runs of the store are CSR already, so that what needs each list once copies none.
//
// Threads: a scope is constant; ForBlocks() calls from several threads. Blocks on the view's I/O.
// Errors: the view's, the budget's, and InvalidArgument for labels or types that make no sense.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/algorithms/budget.h"
#include "services/graph/model/graph.h"

namespace pulse::graph::algorithms {

using cypher::Direction;
using cypher::NodeId;
using cypher::Token;
using Index = uint32_t;
inline constexpr Index kNone = ~Index{0};

struct ScopeOptions {
  std::optional<std::vector<std::string>> labels = {};  // nodes of any of these; nullopt: all
  std::optional<std::vector<std::string>> types = {};   // relationships of these; nullopt: all
  Direction direction = Direction::kOut;
  // 1 for a view that one thread may use; 0: as many as there are CPUs.
  int threads = 1;
};

class Scope {
 public:
  static absl::StatusOr<Scope> Make(const cypher::GraphView& view, const ScopeOptions& options,
                                    Budget* budget, Memory* memory);

  const cypher::GraphView& view() const { return *view_; }
  Budget* budget() const { return budget_; }
  int threads() const { return threads_; }
  Direction direction() const { return direction_; }
  // Empty: all, or none where the graph has none of the types asked for (`without_edges`).
  std::span<const Token> types() const { return types_; }
  bool without_edges() const { return without_edges_; }

  Index size() const { return static_cast<Index>(nodes_.size()); }
  NodeId node(Index index) const { return nodes_[index]; }
  std::span<const NodeId> nodes() const { return nodes_; }
  // kNone: it is not in the scope.
  Index IndexOf(NodeId node) const {
    const uint64_t word = node / 64;
    if (word >= bits_.size()) return kNone;
    const uint64_t bit = uint64_t{1} << (node % 64);
    if ((bits_[word] & bit) == 0) return kNone;
    return ranks_[word] + static_cast<Index>(__builtin_popcountll(bits_[word] & (bit - 1)));
  }

  // Calls `body` for [0, count) in blocks of some `block` items, by all threads. Between blocks it
  // looks whether to go on. `body` may be called by several threads at once.
  using Body = std::function<absl::Status(uint64_t begin, uint64_t end)>;
  absl::Status ForBlocks(uint64_t count, uint64_t block, const Body& body) const;
  // The relationships of some nodes, in batches; `batch` has origins counted from the first of
  // `nodes`. For any thread.
  absl::Status Expand(
      std::span<const NodeId> nodes, Direction direction, bool ends_only,
      const std::function<absl::Status(const cypher::NeighbourBatch& batch)>& take) const;

 private:
  Scope() = default;
  absl::Status ScanNodes(const ScopeOptions& options, Memory* memory);
  absl::Status ScanLabel(Token label, Memory* memory);
  absl::Status Number(Memory* memory);

  const cypher::GraphView* view_ = nullptr;
  Budget* budget_ = nullptr;
  int threads_ = 1;
  Direction direction_ = Direction::kOut;
  std::vector<Token> types_;
  bool without_edges_ = false;
  std::vector<NodeId> nodes_;
  // A bit for each identifier, and how many are set before each word.
  std::vector<uint64_t> bits_;
  std::vector<Index> ranks_;
};

}  // namespace pulse::graph::algorithms
