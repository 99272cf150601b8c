#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "services/graph/algorithms/algorithms.h"

namespace pulse::graph::algorithms {
namespace {

constexpr uint64_t kFrontierBlock = 512;
// Settled nodes between two looks at the budget.
constexpr uint64_t kSettled = 1024;

using cypher::EdgeRef;
using cypher::NeighbourBatch;

// Nodes in the order of their distance; of equal ones by index, so that the order is one.
using Queued = std::pair<double, Index>;
using NodeQueue = std::priority_queue<Queued, std::vector<Queued>, std::greater<>>;

}  // namespace

absl::StatusOr<BfsResult> Bfs(const Scope& scope, Index source, Index most_depth, Memory* memory) {
  PULSE_RETURN_IF_ERROR(memory->Take(scope.size(), 4 * sizeof(Index)));  // with the frontiers
  BfsResult result;
  result.distance.assign(scope.size(), kNone);
  result.parent.assign(scope.size(), kNone);
  result.distance[source] = 0;
  std::vector<Index> frontier = {source};
  for (Index depth = 0; depth < most_depth && !frontier.empty(); ++depth) {
    std::mutex mutex;
    std::vector<Index> next;
    const auto visit = [&](uint64_t begin, uint64_t end) -> absl::Status {
      std::vector<NodeId> nodes;
      for (uint64_t i = begin; i < end; ++i) nodes.push_back(scope.node(frontier[i]));
      std::vector<Index> found;
      PULSE_RETURN_IF_ERROR(scope.Expand(
          nodes, scope.direction(), true, [&](const NeighbourBatch& batch) -> absl::Status {
            for (size_t i = 0; i < batch.size(); ++i) {
              const Index node = scope.IndexOf(batch.node[i]);
              if (node == kNone) continue;
              std::atomic_ref<Index> distance(result.distance[node]);
              Index was = kNone;
              if (distance.compare_exchange_strong(was, depth + 1, std::memory_order_relaxed)) {
                found.push_back(node);
              } else if (was != depth + 1) {
                continue;
              }
              // Of several parents the least, whichever thread comes first.
              const Index mine = frontier[begin + batch.origin[i]];
              std::atomic_ref<Index> parent(result.parent[node]);
              Index other = parent.load(std::memory_order_relaxed);
              while (mine < other &&
                     !parent.compare_exchange_weak(other, mine, std::memory_order_relaxed)) {
              }
            }
            return absl::OkStatus();
          }));
      const std::lock_guard lock(mutex);
      next.insert(next.end(), found.begin(), found.end());
      return absl::OkStatus();
    };
    PULSE_RETURN_IF_ERROR(scope.ForBlocks(frontier.size(), kFrontierBlock, visit));
    // In order, lists are read as they lie.
    std::sort(next.begin(), next.end());
    frontier = std::move(next);
  }
  return result;
}

absl::StatusOr<DistanceResult> Distances(const Scope& scope, Index source,
                                         const std::string& weight, Memory* memory) {
  PULSE_ASSIGN_OR_RETURN(const Adjacency adjacency,
                         Adjacency::Make(scope, scope.direction(), weight, memory));
  PULSE_RETURN_IF_ERROR(memory->Take(scope.size(), sizeof(double) + sizeof(Index)));
  // At most one entry for each relationship.
  PULSE_RETURN_IF_ERROR(memory->Take(adjacency.edges() + 1, sizeof(Queued)));
  DistanceResult result;
  result.distance.assign(scope.size(), kFar);
  result.parent.assign(scope.size(), kNone);
  result.distance[source] = 0;
  NodeQueue queue;
  queue.emplace(0, source);
  uint64_t settled = 0;
  while (!queue.empty()) {
    const auto [distance, node] = queue.top();
    queue.pop();
    if (distance > result.distance[node]) continue;
    if (++settled % kSettled == 0 && !scope.budget()->Continue()) return scope.budget()->status();
    const auto ends = adjacency.Of(node);
    for (size_t i = 0; i < ends.size(); ++i) {
      const double there = distance + (adjacency.weighted() ? adjacency.WeightsOf(node)[i] : 1.0);
      if (there >= result.distance[ends[i]]) continue;
      result.distance[ends[i]] = there;
      result.parent[ends[i]] = node;
      queue.emplace(there, ends[i]);
    }
  }
  return result;
}

absl::StatusOr<PathResult> ShortestPath(const Scope& scope, Index source, Index target,
                                        const std::string& weight, Memory* memory) {
  struct Reached {
    double distance = kFar;
    Index parent = kNone;
    EdgeRef edge;
    bool settled = false;
  };
  constexpr uint64_t kReachedBytes = 2 * (sizeof(Reached) + sizeof(Index)) + sizeof(Queued);
  const Token key =
      weight.empty() ? cypher::kNoToken : scope.view().FindKey(weight).value_or(cypher::kNoToken);
  absl::flat_hash_map<Index, Reached> reached;
  reached[source].distance = 0;
  NodeQueue queue;
  queue.emplace(0, source);
  std::vector<double> weights;
  uint64_t settled = 0, charged = 0;
  while (!queue.empty()) {
    const auto [distance, node] = queue.top();
    queue.pop();
    Reached& here = reached.at(node);
    if (here.settled) continue;
    here.settled = true;
    if (node == target) break;
    if (++settled % kSettled == 0 && !scope.budget()->Continue()) return scope.budget()->status();
    const NodeId id = scope.node(node);
    const Index from = node;
    const double so_far = distance;
    const auto relax = [&](const NeighbourBatch& batch) -> absl::Status {
      PULSE_RETURN_IF_ERROR(ReadWeights(scope.view(), key, {&id, 1}, batch, &weights));
      for (size_t i = 0; i < batch.size(); ++i) {
        const Index end = scope.IndexOf(batch.node[i]);
        if (end == kNone) continue;
        const double sum = so_far + weights[i];
        // As far as what is out of reach: a node that is `reached` has a parent.
        if (std::isinf(sum)) continue;
        Reached& there = reached[end];
        if (there.settled || sum >= there.distance) continue;
        const bool incoming = batch.incoming[i] != 0;
        there.distance = sum;
        there.parent = from;
        there.edge = {batch.edge[i], incoming ? batch.node[i] : id, incoming ? id : batch.node[i],
                      batch.type[i]};
        queue.emplace(sum, end);
      }
      return absl::OkStatus();
    };
    PULSE_RETURN_IF_ERROR(scope.Expand({&id, 1}, scope.direction(), false, relax));
    if (reached.size() > charged) {
      PULSE_RETURN_IF_ERROR(memory->Take(reached.size() - charged, kReachedBytes));
      charged = reached.size();
    }
  }
  PathResult result;
  const auto last = reached.find(target);
  if (last == reached.end()) return result;
  result.found = true;
  result.distance = last->second.distance;
  result.path.nodes.push_back(scope.node(target));
  for (Index node = target; node != source;) {
    const Reached& step = reached.at(node);
    result.path.edges.push_back(step.edge);
    node = step.parent;
    result.path.nodes.push_back(scope.node(node));
  }
  std::reverse(result.path.nodes.begin(), result.path.nodes.end());
  std::reverse(result.path.edges.begin(), result.path.edges.end());
  return result;
}

}  // namespace pulse::graph::algorithms
