// Versions of relationships that no run has: against a map of all of them.
#include "services/graph/core/edge_versions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "base/testing.h"

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

}  // namespace
}  // namespace pulse::graph
