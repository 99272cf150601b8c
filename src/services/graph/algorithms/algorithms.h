// Algorithms on a snapshot of a graph, which queries call as procedures (graph/session). All are
// deterministic: the result does not depend on the number of threads.
//
// Results have an entry for each node of the scope, by its index. Any thread; they block on the
// view's I/O. Errors: those of scope.h and adjacency.h.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/algorithms/adjacency.h"
#include "services/graph/algorithms/scope.h"
#include "services/graph/model/value.h"

namespace pulse::graph::algorithms {

// --- Traversal, along the scope's direction (traversal.cc).

// Steps from a node, level by level. Lists are expanded from the view as the search meets them:
// nodes that are out of reach cost 8 bytes and no read.
struct BfsResult {
  std::vector<Index> distance;  // kNone: out of reach, or farther than `most_depth`
  std::vector<Index> parent;    // of several the one of the least index; kNone: the source
};
absl::StatusOr<BfsResult> Bfs(const Scope& scope, Index source, Index most_depth, Memory* memory);

// The least sum of weights from a node to each (Dijkstra).
inline constexpr double kFar = std::numeric_limits<double>::infinity();
struct DistanceResult {
  std::vector<double> distance;  // kFar: out of reach
  std::vector<Index> parent;
};
absl::StatusOr<DistanceResult> Distances(const Scope& scope, Index source,
                                         const std::string& weight, Memory* memory);

// A path of least weight between two nodes. Memory and reads are of the nodes that are nearer than
// the target. Nothing: there is none.
struct PathResult {
  bool found = false;
  double distance = 0;
  cypher::Path path;
};
absl::StatusOr<PathResult> ShortestPath(const Scope& scope, Index source, Index target,
                                        const std::string& weight, Memory* memory);

// --- Ranking (page_rank.cc).

struct PageRankOptions {
  double damping = 0.85;
  uint32_t most_iterations = 100;
  double tolerance = 1e-6;  // of the mean change of a node's score
  std::string weight = {};  // property; empty: each relationship counts 1
};
struct PageRankResult {
  std::vector<double> score;  // the sum is 1
  uint32_t iterations = 0;
  bool converged = false;
};
// Nodes without relationships to go on by give their score to all.
absl::StatusOr<PageRankResult> PageRank(const Scope& scope, const PageRankOptions& options,
                                        Memory* memory);

// --- Components and communities, whatever the direction of relationships (communities.cc).

// The least index of each node's weakly connected component.
absl::StatusOr<std::vector<Index>> Components(const Scope& scope, Memory* memory);

struct TriangleResult {
  std::vector<uint64_t> triangles;  // that a node is a corner of; loops and repetitions left out
  std::vector<double> coefficient;  // of all pairs of its neighbours, which share are neighbours
};
absl::StatusOr<TriangleResult> Triangles(const Scope& scope, Memory* memory);

// Label propagation, semi-synchronous: nodes of one colour of a greedy colouring, which are no
// neighbours, take at once the label that most of their neighbours have; of several the one that
// they have, else the greatest.
struct LabelResult {
  std::vector<Index> label;
  uint32_t iterations = 0;
  bool converged = false;
};
absl::StatusOr<LabelResult> PropagateLabels(const Scope& scope, uint32_t most_iterations,
                                            Memory* memory);

}  // namespace pulse::graph::algorithms
