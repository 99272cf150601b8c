// Components, triangles, communities.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "services/graph/algorithms/algorithms.h"

namespace pulse::graph::algorithms {
namespace {

using cypher::NeighbourBatch;

constexpr uint64_t kExpandBlock = 2048;
constexpr uint64_t kNodeBlock = 4096;
constexpr uint64_t kTriangleBlock = 64;  // hubs are much work each

// The root of a node's tree, as far as this thread sees. Parents have smaller indexes.
Index Root(std::vector<Index>& parents, Index node) {
  for (;;) {
    const Index parent = std::atomic_ref<Index>(parents[node]).load(std::memory_order_relaxed);
    if (parent == node) return node;
    node = parent;
  }
}

// Joins two trees: the root of greater index goes below the other, unless another thread has moved
// it meanwhile.
void Join(std::vector<Index>& parents, Index a, Index b) {
  for (;;) {
    a = Root(parents, a);
    b = Root(parents, b);
    if (a == b) return;
    if (a < b) std::swap(a, b);
    Index expected = a;
    if (std::atomic_ref<Index>(parents[a])
            .compare_exchange_strong(expected, b, std::memory_order_relaxed)) {
      return;
    }
  }
}

// Short ways to the roots, for the joins that follow; a parent only ever moves up its own tree.
void Shorten(std::vector<Index>& parents, uint64_t begin, uint64_t end) {
  for (uint64_t node = begin; node < end; ++node) {
    const Index root = Root(parents, static_cast<Index>(node));
    std::atomic_ref<Index> parent(parents[node]);
    Index was = parent.load(std::memory_order_relaxed);
    while (root < was && !parent.compare_exchange_weak(was, root, std::memory_order_relaxed)) {
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<Index>> Components(const Scope& scope, Memory* memory) {
  PULSE_RETURN_IF_ERROR(memory->Take(scope.size(), sizeof(Index)));
  std::vector<Index> parents(scope.size());
  std::iota(parents.begin(), parents.end(), Index{0});
  const auto join = [&](uint64_t begin, uint64_t end) -> absl::Status {
    PULSE_RETURN_IF_ERROR(
        scope.Expand(scope.nodes().subspan(begin, end - begin), Direction::kOut, true,
                     [&](const NeighbourBatch& batch) -> absl::Status {
                       for (size_t i = 0; i < batch.size(); ++i) {
                         const Index other = scope.IndexOf(batch.node[i]);
                         if (other != kNone)
                           Join(parents, static_cast<Index>(begin + batch.origin[i]), other);
                       }
                       return absl::OkStatus();
                     }));
    Shorten(parents, begin, end);
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(scope.ForBlocks(scope.size(), kExpandBlock, join));
  PULSE_RETURN_IF_ERROR(
      scope.ForBlocks(scope.size(), kNodeBlock, [&](uint64_t begin, uint64_t end) {
        Shorten(parents, begin, end);
        return absl::OkStatus();
      }));
  return parents;
}

absl::StatusOr<TriangleResult> Triangles(const Scope& scope, Memory* memory) {
  PULSE_ASSIGN_OR_RETURN(Adjacency adjacency, Adjacency::Make(scope, Direction::kBoth, "", memory));
  PULSE_RETURN_IF_ERROR(adjacency.Simplify(scope, false));
  const Index n = scope.size();
  PULSE_RETURN_IF_ERROR(memory->Take(n, 2 * sizeof(double) + sizeof(Index)));
  TriangleResult result;
  result.triangles.assign(n, 0);
  result.coefficient.assign(n, 0);
  std::vector<Index> degree(n);
  Pace pace(scope.budget());
  for (Index node = 0; node < n; ++node) {
    if (!pace.Go()) return scope.budget()->status();
    degree[node] = static_cast<Index>(adjacency.Of(node).size());
  }
  // Each pair once, from the end of lower degree: no list is longer than the root of twice the
  // pairs, and each triangle is found from one corner.
  PULSE_RETURN_IF_ERROR(adjacency.Filter(scope, [&](Index a, Index b) {
    return degree[a] < degree[b] || (degree[a] == degree[b] && a < b);
  }));
  PULSE_RETURN_IF_ERROR(scope.ForBlocks(n, kTriangleBlock, [&](uint64_t begin, uint64_t end) {
    const auto add = [&](Index node, uint64_t by) {
      std::atomic_ref<uint64_t>(result.triangles[node]).fetch_add(by, std::memory_order_relaxed);
    };
    for (uint64_t a = begin; a < end; ++a) {
      const auto of_a = adjacency.Of(static_cast<Index>(a));
      uint64_t total = 0;
      for (const Index b : of_a) {
        const auto of_b = adjacency.Of(b);
        uint64_t common = 0;
        for (size_t i = 0, k = 0; i < of_a.size() && k < of_b.size();) {
          if (of_a[i] < of_b[k]) {
            ++i;
          } else if (of_b[k] < of_a[i]) {
            ++k;
          } else {
            add(of_a[i], 1);
            ++common;
            ++i;
            ++k;
          }
        }
        if (common > 0) add(b, common);
        total += common;
      }
      if (total > 0) add(static_cast<Index>(a), total);
    }
    return absl::OkStatus();
  }));
  for (Index node = 0; node < n; ++node) {
    if (!pace.Go()) return scope.budget()->status();
    const double pairs = 0.5 * degree[node] * (static_cast<double>(degree[node]) - 1);
    if (pairs > 0) result.coefficient[node] = static_cast<double>(result.triangles[node]) / pairs;
  }
  return result;
}

namespace {

// Greedy, nodes of many neighbours first; nodes by colour, ascending.
struct Colouring {
  std::vector<Index> nodes;
  std::vector<uint64_t> begins;  // of each colour, and the end
};

absl::StatusOr<Colouring> Colour(const Scope& scope, const Adjacency& adjacency) {
  const Index n = scope.size();
  Pace pace(scope.budget());
  const auto ended = [&] { return scope.budget()->status(); };
  // As NetworkX counts it, so that its order is ours: a loop is two.
  std::vector<Index> degree(n), order(n), colour(n, kNone);
  std::vector<Index> begins;  // of each degree
  for (Index node = 0; node < n; ++node) {
    if (!pace.Go()) return ended();
    const auto ends = adjacency.Of(node);
    degree[node] = static_cast<Index>(ends.size()) +
                   (std::binary_search(ends.begin(), ends.end(), node) ? 1 : 0);
    if (degree[node] >= begins.size()) begins.resize(degree[node] + 1);
    ++begins[degree[node]];
  }
  Index before = 0;
  for (auto count = begins.rbegin(); count != begins.rend(); ++count) {
    before += std::exchange(*count, before);
  }
  for (Index node = 0; node < n; ++node) {
    if (!pace.Go()) return ended();
    order[begins[degree[node]]++] = node;
  }
  std::vector<Index> used;  // by colour: the node that met it last
  for (const Index node : order) {
    if (!pace.Go(1 + adjacency.Of(node).size())) return ended();
    for (const Index end : adjacency.Of(node)) {
      if (colour[end] != kNone) used[colour[end]] = node;
    }
    Index free = 0;
    while (free < used.size() && used[free] == node) ++free;
    if (free == used.size()) used.push_back(kNone);
    colour[node] = free;
  }
  Colouring result;
  result.begins.assign(used.size() + 1, 0);
  for (const Index of : colour) ++result.begins[of + 1];
  for (size_t i = 1; i < result.begins.size(); ++i) result.begins[i] += result.begins[i - 1];
  result.nodes.resize(n);
  std::vector<uint64_t> at = result.begins;
  for (Index node = 0; node < n; ++node) {
    if (!pace.Go()) return ended();
    result.nodes[at[colour[node]]++] = node;
  }
  return result;
}

// The label that the node takes; `labels` is room of the calling thread's.
Index BestLabel(const Adjacency& adjacency, const std::vector<Index>& label, Index node,
                std::vector<Index>* labels, bool* is_best) {
  labels->clear();
  for (const Index end : adjacency.Of(node)) labels->push_back(label[end]);
  std::sort(labels->begin(), labels->end());
  size_t most = 0;
  Index best = label[node];
  bool has_own = labels->empty();
  for (size_t i = 0; i < labels->size();) {
    const Index one = (*labels)[i];
    size_t end = i;
    while (end < labels->size() && (*labels)[end] == one) ++end;
    if (end - i > most) {
      most = end - i;
      has_own = false;
    }
    if (end - i == most) {
      best = one;  // they ascend
      has_own = has_own || one == label[node];
    }
    i = end;
  }
  *is_best = has_own;
  return has_own ? label[node] : best;
}

}  // namespace

absl::StatusOr<LabelResult> PropagateLabels(const Scope& scope, uint32_t most_iterations,
                                            Memory* memory) {
  PULSE_ASSIGN_OR_RETURN(Adjacency adjacency, Adjacency::Make(scope, Direction::kBoth, "", memory));
  PULSE_RETURN_IF_ERROR(adjacency.Simplify(scope, true));
  const Index n = scope.size();
  PULSE_RETURN_IF_ERROR(memory->Take(n, 6 * sizeof(Index)));
  LabelResult result;
  result.label.resize(n);
  std::iota(result.label.begin(), result.label.end(), Index{0});
  PULSE_ASSIGN_OR_RETURN(const Colouring colouring, Colour(scope, adjacency));
  for (;;) {
    std::atomic<bool> complete{true};
    PULSE_RETURN_IF_ERROR(scope.ForBlocks(n, kNodeBlock, [&](uint64_t begin, uint64_t end) {
      std::vector<Index> labels;
      for (uint64_t node = begin; node < end && complete.load(std::memory_order_relaxed); ++node) {
        bool is_best = false;
        BestLabel(adjacency, result.label, static_cast<Index>(node), &labels, &is_best);
        if (!is_best) complete.store(false, std::memory_order_relaxed);
      }
      return absl::OkStatus();
    }));
    result.converged = complete;
    if (result.converged || result.iterations >= most_iterations) return result;
    ++result.iterations;
    for (size_t colour = 0; colour + 1 < colouring.begins.size(); ++colour) {
      const uint64_t first = colouring.begins[colour];
      const auto update = [&](uint64_t begin, uint64_t end) {
        std::vector<Index> labels;
        for (uint64_t i = first + begin; i < first + end; ++i) {
          const Index node = colouring.nodes[i];
          bool is_best = false;
          // No neighbour has this colour, so that nobody else reads or writes it meanwhile.
          result.label[node] = BestLabel(adjacency, result.label, node, &labels, &is_best);
        }
        return absl::OkStatus();
      };
      PULSE_RETURN_IF_ERROR(
          scope.ForBlocks(colouring.begins[colour + 1] - first, kNodeBlock, update));
    }
  }
}

}  // namespace pulse::graph::algorithms
