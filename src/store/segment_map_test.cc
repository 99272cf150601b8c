#include "store/segment_map.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/testing.h"

namespace pulse::store {
namespace {

TEST(SegmentMapTest, Map_RandomOperations_AgreesWithASet) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (const uint64_t segments : {2u, 64u, 65u, 4096u, 4097u, 300'000u}) {
    const uint64_t reserved = 1 + random() % (segments / 2);
    SegmentMap map(segments, reserved);
    std::set<uint64_t> free;
    for (uint64_t s = reserved; s < segments; ++s) free.insert(s);
    std::vector<store::Run> taken;
    for (int i = 0; i < 400; ++i) {
      if (random() % 2 == 0 || taken.empty()) {
        const uint64_t count = 1 + random() % (segments / 8 + 1);
        std::vector<store::Run> runs;
        const bool ok = map.Allocate(count, random() % segments, &runs);
        ASSERT_EQ(ok, count <= free.size());
        uint64_t got = 0;
        for (const store::Run& run : runs) {
          got += run.count;
          for (uint32_t s = run.first; s < run.first + run.count; ++s) ASSERT_EQ(free.erase(s), 1u);
          taken.push_back(run);
        }
        ASSERT_EQ(got, ok ? count : 0);
      } else {
        const size_t k = random() % taken.size();
        map.Release(taken[k]);
        for (uint32_t s = 0; s < taken[k].count; ++s) free.insert(taken[k].first + s);
        taken.erase(taken.begin() + static_cast<long>(k));
      }
      ASSERT_EQ(map.free(), free.size());
      const uint64_t from = random() % segments;
      const auto next = free.lower_bound(from);
      ASSERT_EQ(map.Next(from), next == free.end() ? SegmentMap::kNone : *next);
      ASSERT_EQ(map.IsFree(from), free.count(from) == 1);
    }
  }
}

TEST(SegmentMapTest, Take_PartNotFree_TakesNothing) {
  SegmentMap map(100, 10);
  EXPECT_FALSE(map.Take({5, 10}));
  EXPECT_FALSE(map.Take({95, 10}));
  EXPECT_TRUE(map.Take({20, 10}));
  EXPECT_FALSE(map.Take({15, 10}));
  EXPECT_EQ(map.free(), 80u);
  EXPECT_TRUE(map.IsFree(15));
  EXPECT_FALSE(map.IsFree(100));
}

TEST(SegmentMapTest, Allocate_OneRunLongEnough_PrefersItToPieces) {
  SegmentMap map(1000, 0);
  EXPECT_TRUE(map.Take({0, 1000}));
  map.Release({10, 2});
  map.Release({20, 3});
  map.Release({500, 8});
  std::vector<store::Run> runs;
  ASSERT_TRUE(map.Allocate(5, SegmentMap::kNone, &runs));
  EXPECT_EQ(runs, (std::vector<store::Run>{{500, 5}}));
  runs.clear();
  ASSERT_TRUE(map.Allocate(2, 21, &runs));  // right after the file's last
  EXPECT_EQ(runs, (std::vector<store::Run>{{21, 2}}));
  runs.clear();
  ASSERT_TRUE(map.Allocate(6, SegmentMap::kNone, &runs));  // no run is long enough
  EXPECT_EQ(map.free(), 0u);
}

}  // namespace
}  // namespace pulse::store
