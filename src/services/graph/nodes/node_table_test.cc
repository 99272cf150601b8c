// The table of nodes: counts of labels, and which nodes there are, against their versions.
#include "services/graph/nodes/node_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

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

TEST(NodeTableTest, Memory_OfUnusedIdentifiers_IsNone) {
  NodeTable nodes;
  nodes.Install(0, NodeVersion::Make(1, {}, ""));
  const uint64_t one = nodes.memory();
  EXPECT_EQ(one, NodeTable::kSlotBytes + NodeVersion::MemoryOf(0, 0));
  nodes.Install(1'000'000, NodeVersion::Make(1, {}, ""));
  EXPECT_EQ(nodes.memory(), 2 * one);
  nodes.Install(0, NodeVersion::Make(2, {}, "", true));
  nodes.Prune(0, 2, nullptr);
  EXPECT_EQ(nodes.memory(), 2 * one);
}

// What bits tell of a node is what its versions say.
void CheckBits(const NodeTable& nodes, NodeId node, uint64_t at) {
  const NodeVersion* version = nodes.Find(node, at);
  const NodeId first = node / 64 * 64, bit = node % 64;
  ASSERT_EQ(nodes.Exists(node, at), version != nullptr) << node << " at " << at;
  ASSERT_EQ(nodes.Word(kNoToken, first, at) >> bit & 1, version != nullptr ? 1 : 0)
      << node << " at " << at;
  for (const Token label : {Token{3}, Token{4}, Token{5}}) {
    const bool has = version != nullptr && version->HasLabel(label);
    ASSERT_EQ(nodes.Word(label, first, at) >> bit & 1, has ? 1 : 0) << node << " at " << at;
    const NodeTable::Known known = nodes.HasLabel(label, node, at);
    ASSERT_NE(known, has ? NodeTable::Known::kNo : NodeTable::Known::kYes) << node << " at " << at;
  }
}

// Nodes come, change and go, in several groups of them, of which some lose labels; any snapshot
// from the oldest one on sees them as their versions say.
TEST(NodeTableTest, Bits_AtAnySnapshot_TellWhatVersionsSay) {
  std::mt19937_64 random(testing_util::TestSeed());
  NodeTable nodes;
  constexpr NodeId kNodes = 20'000;
  const std::vector<Token> labels[] = {{}, {3}, {4}, {3, 4}};
  uint64_t sequence = 0, oldest = 0;
  for (int round = 0; round < 50; ++round) {
    // Most rounds touch one group only, and older snapshots still read the others by their bits.
    const NodeId base = random() % kNodes, spread = 1 + random() % 2000;
    for (int i = 0; i < 100; ++i) {
      const NodeId node = (base + random() % spread) % kNodes;
      // In some groups they only come, and get labels.
      const bool grows = node / 4096 % 2 == 0;
      const bool gone = !grows && random() % 3 == 0;
      nodes.Install(node, NodeVersion::Make(++sequence,
                                            labels[gone    ? 0
                                                   : grows ? 3
                                                           : random() % 4],
                                            "", gone));
      if (random() % 4 == 0) nodes.Prune(node, oldest, nullptr);
    }
    for (int i = 0; i < 5000; ++i) {
      const NodeId node = random() % (kNodes + 5000);
      const uint64_t at = oldest + random() % (sequence - oldest + 1);
      CheckBits(nodes, node, at);
      if (testing::Test::HasFatalFailure()) return;
    }
    oldest = std::max(oldest, sequence - std::min<uint64_t>(sequence, random() % 400));
  }
}

TEST(NodeTableTest, HasLabel_WhereNoneWasLost_IsKnown) {
  NodeTable nodes;
  const Token label[] = {3};
  nodes.Install(1, NodeVersion::Make(1, label, ""));
  EXPECT_EQ(nodes.HasLabel(3, 1, 1), NodeTable::Known::kYes);
  EXPECT_EQ(nodes.HasLabel(3, 2, 1), NodeTable::Known::kNo);
  nodes.Install(1, NodeVersion::Make(2, label, "properties"));
  EXPECT_EQ(nodes.HasLabel(3, 1, 1), NodeTable::Known::kYes);
  nodes.Install(2, NodeVersion::Make(3, label, ""));
  EXPECT_EQ(nodes.HasLabel(3, 1, 2), NodeTable::Known::kAskItsVersion);
  EXPECT_EQ(nodes.HasLabel(3, 1, 3), NodeTable::Known::kYes);
  nodes.Install(2, NodeVersion::Make(4, {}, ""));
  EXPECT_EQ(nodes.HasLabel(3, 1, 4), NodeTable::Known::kAskItsVersion);
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
