// R-MAT: random graphs whose degrees are skewed, as those of many real graphs are. An edge falls
// into one of four quarters of the adjacency matrix again and again, with a probability each.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace pulse::bench {

struct RmatOptions {
  int scale = 17;  // 2^scale nodes
  uint64_t edges = 0;
  // Of the quarters: low source and low target, low and high, high and low; the rest is the fourth.
  double a = 0.57, b = 0.19, c = 0.19;
  uint64_t seed = 1;
};

struct RmatEdge {
  uint64_t source = 0, target = 0;
  bool operator==(const RmatEdge&) const = default;
};

// In the order in which they were drawn. The same options give the same edges.
std::vector<RmatEdge> MakeRmat(const RmatOptions& options);

// Sorted by source, then target.
std::vector<RmatEdge> SortedRmat(const RmatOptions& options);

}  // namespace pulse::bench
