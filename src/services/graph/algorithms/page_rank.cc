#include <cmath>
#include <utility>

#include "base/errors.h"
#include "services/graph/algorithms/algorithms.h"
#include "services/graph/model/text.h"

namespace pulse::graph::algorithms {
namespace {

constexpr uint64_t kRankBlock = 4096;

}  // namespace

absl::StatusOr<PageRankResult> PageRank(const Scope& scope, const PageRankOptions& options,
                                        Memory* memory) {
  const Index n = scope.size();
  PageRankResult result;
  result.converged = true;
  if (n == 0) return result;
  // Each node sums up what comes in, so that no two threads write to one.
  const Direction incoming = cypher::Reversed(scope.direction());
  PULSE_ASSIGN_OR_RETURN(const Adjacency adjacency,
                         Adjacency::Make(scope, incoming, options.weight, memory));
  PULSE_RETURN_IF_ERROR(memory->Take(n, 4 * sizeof(double)));
  // What each node gives to a relationship of weight 1: its score by the weights that go out of it.
  std::vector<double> out(n, 0.0), share(n), next(n);
  Pace pace(scope.budget());
  for (Index node = 0; node < n; ++node) {
    const auto ends = adjacency.Of(node);
    if (!pace.Go(1 + ends.size())) return scope.budget()->status();
    for (size_t i = 0; i < ends.size(); ++i) {
      out[ends[i]] += adjacency.weighted() ? adjacency.WeightsOf(node)[i] : 1.0;
    }
  }
  for (Index node = 0; node < n; ++node) {
    if (!pace.Go()) return scope.budget()->status();
    const double sum = out[node];  // which scores are divided by
    if (sum == 0 || (std::isfinite(sum) && std::isfinite(1 / sum))) continue;
    return absl::InvalidArgumentError(cypher::Concat("the weights of node ", scope.node(node),
                                                     " sum up to ", cypher::FloatText(sum),
                                                     ": PageRank cannot divide by it"));
  }
  const double count = n;
  const uint64_t blocks = (n + kRankBlock - 1) / kRankBlock;
  // One for each block, added up in order: the sum does not depend on the threads.
  std::vector<double> dangling(blocks), change(blocks);
  result.score.assign(n, 1.0 / count);
  result.converged = false;
  while (!result.converged && result.iterations < options.most_iterations) {
    ++result.iterations;
    PULSE_RETURN_IF_ERROR(scope.ForBlocks(n, kRankBlock, [&](uint64_t begin, uint64_t end) {
      double lost = 0;
      for (uint64_t node = begin; node < end; ++node) {
        const double score = result.score[node];
        share[node] = out[node] > 0 ? score / out[node] : 0;
        if (!(out[node] > 0)) lost += score;
      }
      dangling[begin / kRankBlock] = lost;
      return absl::OkStatus();
    }));
    double lost = 0;
    for (const double part : dangling) lost += part;
    const double base = (1 - options.damping) / count + options.damping * lost / count;
    PULSE_RETURN_IF_ERROR(scope.ForBlocks(n, kRankBlock, [&](uint64_t begin, uint64_t end) {
      double moved = 0;
      for (uint64_t node = begin; node < end; ++node) {
        const auto ends = adjacency.Of(static_cast<Index>(node));
        double sum = 0;
        if (adjacency.weighted()) {
          const auto weights = adjacency.WeightsOf(static_cast<Index>(node));
          for (size_t i = 0; i < ends.size(); ++i) sum += share[ends[i]] * weights[i];
        } else {
          for (const Index end_index : ends) sum += share[end_index];
        }
        next[node] = base + options.damping * sum;
        moved += std::abs(next[node] - result.score[node]);
      }
      change[begin / kRankBlock] = moved;
      return absl::OkStatus();
    }));
    result.score.swap(next);
    double moved = 0;
    for (const double part : change) moved += part;
    result.converged = moved < count * options.tolerance;
  }
  return result;
}

}  // namespace pulse::graph::algorithms
