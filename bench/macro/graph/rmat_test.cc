// R-MAT's graphs are what their options say, and the adjacency list keeps what it was given.
#include "bench/macro/graph/rmat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/testing.h"
#include "bench/macro/graph/adjacency.h"

namespace pulse::bench {
namespace {

using testing_util::TestSeed;

TEST(RmatTest, Edges_OfOneSeed_AreTheSameAndInRange) {
  const RmatOptions options = {.scale = 10, .edges = 5000, .seed = TestSeed()};
  const auto edges = MakeRmat(options);
  ASSERT_EQ(edges.size(), 5000u);
  for (const RmatEdge& edge : edges) {
    ASSERT_LT(edge.source, 1024u);
    ASSERT_LT(edge.target, 1024u);
  }
  EXPECT_EQ(edges, MakeRmat(options));
  auto other = options;
  ++other.seed;
  EXPECT_NE(edges, MakeRmat(other));
  auto sorted = SortedRmat(options);
  EXPECT_TRUE(std::is_permutation(sorted.begin(), sorted.end(), edges.begin()));
  for (size_t i = 1; i < sorted.size(); ++i) ASSERT_LE(sorted[i - 1].source, sorted[i].source);
}

TEST(RmatTest, Degrees_WithUnevenQuarters_AreSkewed) {
  RmatOptions options = {.scale = 10, .edges = 20'000, .seed = TestSeed()};
  const auto most = [](const std::vector<RmatEdge>& edges) {
    std::map<uint64_t, int> degrees;
    for (const RmatEdge& edge : edges) ++degrees[edge.source];
    int largest = 0;
    for (const auto& [node, degree] : degrees) largest = std::max(largest, degree);
    return largest;
  };
  const int skewed = most(MakeRmat(options));
  options.a = options.b = options.c = 0.25;
  const int even = most(MakeRmat(options));
  // 20 on average; of even quarters hardly above 50.
  EXPECT_GT(skewed, 200);
  EXPECT_LT(even, 100);
}

TEST(AdjacencyListTest, Insert_AtBothPlaces_KeepsAllDegrees) {
  const auto edges = MakeRmat({.scale = 6, .edges = 2000, .seed = TestSeed()});
  std::map<uint64_t, uint64_t> out, in;
  AdjacencyList back(64, AdjacencyList::Place::kBack), front(64, AdjacencyList::Place::kFront);
  for (const RmatEdge& edge : edges) {
    back.Insert(edge.source, edge.target, 1);
    front.Insert(edge.source, edge.target, 1);
    ++out[edge.source];
    ++in[edge.target];
  }
  for (uint64_t node = 0; node < 64; ++node) {
    EXPECT_EQ(back.Degree(node), out[node]);
    EXPECT_EQ(front.Degree(node), out[node]);
    EXPECT_EQ(back.InDegree(node), in[node]);
    EXPECT_EQ(front.InDegree(node), in[node]);
  }
}

}  // namespace
}  // namespace pulse::bench
