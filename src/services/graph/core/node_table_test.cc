// The table of nodes: counts of labels, and which nodes there are, against their versions.
#include "services/graph/core/node_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "base/testing.h"

namespace pulse::graph {
namespace {

TEST(NodeTableTest, EveryVersionHas_AsLabelsComeAndGo_CountsKeptVersions) {
  NodeTable nodes;
  const Token p[] = {3}, both[] = {3, 4};
  EXPECT_FALSE(nodes.EveryVersionHas(3));
  nodes.Install(0, NodeVersion::Make(1, p, ""));
  nodes.Install(1, NodeVersion::Make(1, both, ""));
  EXPECT_TRUE(nodes.EveryVersionHas(3));
  EXPECT_FALSE(nodes.EveryVersionHas(4));
  EXPECT_FALSE(nodes.EveryVersionHas(5));
  // A node loses the label; older snapshots still see it with it.
  nodes.Install(0, NodeVersion::Make(2, {}, ""));
  EXPECT_FALSE(nodes.EveryVersionHas(3));
  nodes.Install(0, NodeVersion::Make(3, both, ""));
  EXPECT_FALSE(nodes.EveryVersionHas(3));
  nodes.Prune(0, 3, nullptr);
  EXPECT_TRUE(nodes.EveryVersionHas(3));
  EXPECT_TRUE(nodes.EveryVersionHas(4));
  // A deletion has no labels, and is no node.
  nodes.Install(1, NodeVersion::Make(4, {}, "", true));
  EXPECT_TRUE(nodes.EveryVersionHas(3));
}

// Nodes come, change and go, in several groups of them; any snapshot from the oldest one on sees
// them as their versions say.
TEST(NodeTableTest, Exists_AtAnySnapshot_IsWhatFindFinds) {
  std::mt19937_64 random(testing_util::TestSeed());
  NodeTable nodes;
  constexpr NodeId kNodes = 10'000;
  uint64_t sequence = 0, oldest = 0;
  for (int round = 0; round < 50; ++round) {
    // Most rounds touch one group only, and older snapshots still read the others by their bits.
    const NodeId base = random() % kNodes, spread = 1 + random() % 2000;
    for (int i = 0; i < 100; ++i) {
      const NodeId node = (base + random() % spread) % kNodes;
      const bool gone = random() % 3 == 0;
      nodes.Install(node, NodeVersion::Make(++sequence, {}, "", gone));
      if (random() % 4 == 0) nodes.Prune(node, oldest, nullptr);
    }
    for (int i = 0; i < 5000; ++i) {
      const NodeId node = random() % (kNodes + 5000);
      const uint64_t at = oldest + random() % (sequence - oldest + 1);
      const bool found = nodes.Find(node, at) != nullptr;
      ASSERT_EQ(nodes.Exists(node, at), found) << node << " at " << at;
      const uint64_t word = nodes.ExistingWord(node / 64 * 64, at);
      ASSERT_EQ(word >> (node % 64) & 1, found ? 1 : 0) << node << " at " << at;
    }
    oldest = std::max(oldest, sequence - std::min<uint64_t>(sequence, random() % 400));
  }
}

// A writer adds a node to each group, one commit after the other, and says so; who reads with what
// it said last sees the groups up to there, while the next ones get their first bits.
TEST(NodeTableTest, Exists_WhileAnotherThreadInstalls_IsOfItsSnapshot) {
  NodeTable nodes;
  constexpr uint64_t kGroups = 20'000, kGroup = 4096;
  std::atomic<uint64_t> visible{0};
  std::thread writer([&] {
    for (uint64_t sequence = 1; sequence <= kGroups; ++sequence) {
      nodes.Install((sequence - 1) * kGroup + 7, NodeVersion::Make(sequence, {}, ""));
      visible.store(sequence, std::memory_order_release);
    }
  });
  for (uint64_t at = 0; at < kGroups;) {
    at = visible.load(std::memory_order_acquire);
    for (uint64_t group = at < 2 ? 0 : at - 2; group < at + 2; ++group) {
      ASSERT_EQ(nodes.Exists(group * kGroup + 7, at), group < at) << group << " at " << at;
      ASSERT_FALSE(nodes.Exists(group * kGroup + 8, at));
    }
  }
  writer.join();
}

}  // namespace
}  // namespace pulse::graph
