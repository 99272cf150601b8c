#include "bench/macro/graph/rmat.h"

#include <algorithm>
#include <random>

namespace pulse::bench {

std::vector<RmatEdge> MakeRmat(const RmatOptions& options) {
  std::mt19937_64 random(options.seed);
  // Thresholds of 16 bits, so that a number of 64 bits is four draws.
  const auto threshold = [](double p) { return static_cast<uint64_t>(p * 65536); };
  const uint64_t a = threshold(options.a), ab = threshold(options.a + options.b),
                 abc = threshold(options.a + options.b + options.c);
  std::vector<RmatEdge> edges(options.edges);
  for (RmatEdge& edge : edges) {
    uint64_t bits = 0;
    for (int level = 0; level < options.scale; ++level) {
      bits = level % 4 == 0 ? random() : bits >> 16;
      const uint64_t draw = bits & 0xFFFF;
      edge.source = edge.source << 1 | (draw >= ab ? 1 : 0);
      edge.target = edge.target << 1 | ((draw >= a && draw < ab) || draw >= abc ? 1 : 0);
    }
  }
  return edges;
}

std::vector<RmatEdge> SortedRmat(const RmatOptions& options) {
  std::vector<RmatEdge> edges = MakeRmat(options);
  std::sort(edges.begin(), edges.end(), [](const RmatEdge& x, const RmatEdge& y) {
    return x.source != y.source ? x.source < y.source : x.target < y.target;
  });
  return edges;
}

}  // namespace pulse::bench
