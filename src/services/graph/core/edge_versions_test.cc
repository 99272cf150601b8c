// Versions of relationships that no run has, against a map of all of them; the table of nodes.
#include "services/graph/core/edge_versions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "base/testing.h"
#include "services/graph/core/node_table.h"

namespace pulse::graph {
namespace {

TEST(EdgeVersionsTest, RandomVersionsAndCuts_AreReadAsAMapHasThem) {
  std::mt19937_64 random(testing_util::TestSeed());
  EdgeVersions versions;
  struct Expected {
    bool deleted;
    std::string properties;
  };
  std::map<EdgeId, std::map<uint64_t, Expected>> expected;
  uint64_t sequence = 0, oldest = 0, cut = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 500; ++i) {
      // In their order, and at random; some with more than a block's bytes.
      const EdgeId edge =
          random() % 3 == 0 ? random() % 5000 : static_cast<EdgeId>(round * 500 + i);
      const size_t bytes = random() % 100 == 0 ? random() % 40'000 : random() % 60;
      const Expected version{random() % 10 == 0,
                             std::string(bytes, static_cast<char>('a' + random() % 26))};
      versions.Add(edge, ++sequence, version.deleted, version.properties, oldest);
      expected[edge][sequence] = version;
    }
    EXPECT_FALSE(versions.empty());
    oldest = std::max(oldest, sequence - std::min<uint64_t>(sequence, random() % 800));
    if (round % 5 == 4) {
      cut = std::max(cut, oldest - std::min<uint64_t>(oldest, random() % 100));
      versions.Cut(cut);
    }
    for (int i = 0; i < 2000; ++i) {
      const EdgeId edge = random() % 20'000;
      const uint64_t at = oldest + random() % (sequence - oldest + 1);
      const Expected* version = nullptr;
      if (const auto it = expected.find(edge); it != expected.end()) {
        const auto after = it->second.upper_bound(at);
        if (after != it->second.begin()) version = &std::prev(after)->second;
        // What was cut is in runs.
        if (version != nullptr && std::prev(after)->first <= cut) version = nullptr;
      }
      std::string properties;
      const auto found =
          versions.Read(edge, at, [&](std::string_view bytes) { properties = bytes; });
      ASSERT_EQ(found, version == nullptr ? EdgeVersions::Found::kNone
                       : version->deleted ? EdgeVersions::Found::kDeleted
                                          : EdgeVersions::Found::kVersion)
          << edge << " at " << at;
      ASSERT_EQ(properties, version == nullptr || version->deleted ? "" : version->properties);
    }
  }
  versions.Cut(sequence);
  EXPECT_TRUE(versions.empty());
  EXPECT_EQ(versions.memory(), 0u);
}

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

// Nodes come, change and go, in several groups of them; any snapshot sees them as its versions say.
TEST(NodeTableTest, Exists_AtAnySnapshot_IsWhatFindFinds) {
  std::mt19937_64 random(testing_util::TestSeed());
  NodeTable nodes;
  constexpr NodeId kNodes = 10'000;
  uint64_t sequence = 0;
  for (int round = 0; round < 50; ++round) {
    // Most rounds touch one group only, and snapshots of before still read the others by their
    // bits.
    const NodeId base = random() % kNodes, spread = 1 + random() % 2000;
    for (int i = 0; i < 100; ++i) {
      const NodeId node = (base + random() % spread) % kNodes;
      const bool gone = random() % 3 == 0;
      nodes.Install(node, NodeVersion::Make(++sequence, {}, "", gone));
      if (random() % 4 == 0) nodes.Prune(node, sequence, nullptr);
    }
    for (int i = 0; i < 5000; ++i) {
      const NodeId node = random() % (kNodes + 5000);
      const uint64_t at = sequence - std::min(sequence, random() % 300);
      const bool found = nodes.Find(node, at) != nullptr;
      ASSERT_EQ(nodes.Exists(node, at), found) << node << " at " << at;
      const uint64_t word = nodes.ExistingWord(node / 64 * 64, at);
      ASSERT_EQ(word >> (node % 64) & 1, found ? 1 : 0) << node << " at " << at;
    }
  }
}

// What a snapshot sees stays while nodes beside come and go: the bits of a group are believed only
// where nothing of it is newer.
TEST(NodeTableTest, Exists_WhileAnotherThreadInstalls_StaysOfItsSnapshot) {
  NodeTable nodes;
  for (NodeId node = 0; node < 64; node += 2) nodes.Install(node, NodeVersion::Make(1, {}, ""));
  std::atomic<bool> end{false};
  std::thread writer([&] {
    for (uint64_t sequence = 2; sequence < 20'000 || !end.load(); ++sequence) {
      nodes.Install(sequence % 64, NodeVersion::Make(sequence, {}, "", sequence / 64 % 2 == 0));
      if (sequence > 1'000'000) break;
    }
  });
  for (int i = 0; i < 100'000; ++i) {
    const NodeId node = static_cast<NodeId>(i % 64);
    EXPECT_EQ(nodes.Exists(node, 1), node % 2 == 0) << node;
  }
  end = true;
  writer.join();
}

}  // namespace
}  // namespace pulse::graph
