// What is known of keys: its bounds, and that it is never what a key does not hold, with threads
// whose history the checker judges.
#include "services/redis/offload/value_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "tests/linear/checker.h"

namespace pulse::redis {
namespace {

using linear::Kind;
using linear::Operation;
using Version = DirtyTable::Version;

Version At(uint64_t slot, uint64_t everything = 0, uint64_t generation = 0) {
  Version v;
  v.slot = slot;
  v.everything = everything;
  v.generation = generation;
  return v;
}

TEST(ValueCacheTest, KnowsWhatHoldsAsOfAVersion) {
  ValueCache cache(1 << 20);
  std::string value;
  EXPECT_FALSE(cache.Find(1, "a", At(0), &value));
  cache.Put(1, "a", At(3), "three");
  EXPECT_TRUE(cache.Find(1, "a", At(3), &value));
  EXPECT_EQ(value, "three");
  EXPECT_FALSE(cache.Find(1, "a", At(4), &value));
  EXPECT_FALSE(cache.Find(1, "a", At(3, 1), &value));
  EXPECT_FALSE(cache.Find(1, "a", At(3, 0, 1), &value));
  // Another key of the same hash.
  EXPECT_FALSE(cache.Find(1, "b", At(3), &value));
  // Who comes late with what he has read before does no harm.
  cache.Put(1, "a", At(2), "two");
  EXPECT_TRUE(cache.Find(1, "a", At(3), &value));
  cache.Put(1, "a", At(4), "");
  EXPECT_TRUE(cache.Find(1, "a", At(4), &value));
  EXPECT_EQ(value, "");
}

TEST(ValueCacheTest, WhatIsOnlyWantedIsNotKnown) {
  ValueCache cache(1 << 20);
  std::string value;
  cache.Want(1, "a");
  EXPECT_TRUE(cache.Holds(1, "a"));
  EXPECT_FALSE(cache.Find(1, "a", At(0), &value));
  cache.Put(1, "a", At(0), "zero");
  EXPECT_TRUE(cache.Find(1, "a", At(0), &value));
  cache.Want(1, "a");
  EXPECT_TRUE(cache.Find(1, "a", At(0), &value));
}

TEST(ValueCacheTest, WhatWasUsedLeastGoes) {
  constexpr size_t kBytes = 1 << 20;
  ValueCache cache(kBytes);
  std::string value;
  std::mt19937_64 random(testing_util::TestSeed());
  const uint64_t favourite = random();
  cache.Put(favourite, "favourite", At(0), "x");
  for (int i = 0; i < 20'000; ++i) {
    cache.Put(random(), "key " + std::to_string(i), At(0), std::string(random() % 2000, 'v'));
    ASSERT_TRUE(cache.Find(favourite, "favourite", At(0), &value)) << i;
    ASSERT_LE(cache.bytes(), kBytes);
  }
  EXPECT_GT(cache.bytes(), kBytes / 2);
  // The same key many times, of all sizes.
  for (int i = 0; i < 10'000; ++i) {
    cache.Put(7, "one", At(static_cast<uint64_t>(i)), std::string(random() % 5000, 'v'));
    ASSERT_LE(cache.bytes(), kBytes);
  }
  // Larger than what is kept: what was known is not true as of that version, and stays.
  cache.Put(8, "large", At(0), std::string(ValueCache::kMostBytes + 1, 'v'));
  EXPECT_FALSE(cache.Holds(8, "large"));
}

TEST(ValueCacheTest, WithoutMemoryItKnowsNothing) {
  ValueCache cache(0);
  std::string value;
  cache.Put(1, "a", At(0), "x");
  cache.Want(1, "b");
  EXPECT_FALSE(cache.Find(1, "a", At(0), &value));
  EXPECT_FALSE(cache.Holds(1, "b"));
  EXPECT_EQ(cache.bytes(), 0u);
}

// Writers of one key at a host, which keep what they have written when they were alone, and
// readers, of what is known and of the host. `forgetful`: writers believe themselves alone.
linear::Verdict Race(uint64_t seed, bool forgetful, uint64_t* known) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1, 1);
  ValueCache cache(1 << 20);
  constexpr std::string_view kKey = "key";
  const uint64_t hash = table.Hash(kKey);
  const auto slot = table.SlotOfHash(hash);
  std::mutex host_mu;
  std::string host;
  std::atomic<int64_t> now{0};
  std::mutex history_mu;
  linear::History history;
  std::atomic<int> writing{3};
  std::atomic<uint64_t> hits{0};
  const auto add = [&](std::vector<Operation> operations) {
    std::lock_guard lock(history_mu);
    auto& all = history[std::string(kKey)];
    all.insert(all.end(), operations.begin(), operations.end());
  };
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(seed + w);
      std::vector<Operation> mine;
      for (int i = 0; i < 400; ++i) {
        Operation op;
        op.client = w;
        op.kind = Kind::kSet;
        op.argument = std::to_string(w) + "." + std::to_string(i);
        op.begin = ++now;
        // Some may write any key, and keep nothing; some of those the host refuses.
        const bool any = w == 2 && i % 4 == 2;
        const auto marked = any ? table.everything() : slot;
        Version alone;
        ASSERT_TRUE(table.Mark(marked, any ? nullptr : &alone));
        if (any && i % 8 == 6) {
          std::this_thread::yield();
          table.Refuse(marked);
          continue;
        }
        if (forgetful && !any) alone = table.VersionOf(slot);
        for (uint64_t n = random() % 4; n > 0; --n) std::this_thread::yield();
        {
          std::lock_guard lock(host_mu);
          host = op.argument;
        }
        for (uint64_t n = random() % 4; n > 0; --n) std::this_thread::yield();
        if (alone.slot != Version::kUnknown) cache.Put(hash, kKey, alone, op.argument);
        table.Settle(marked);
        op.end = ++now;
        mine.push_back(op);
        for (uint64_t n = random() % 16; n > 0; --n) std::this_thread::yield();
      }
      add(std::move(mine));
      --writing;
    });
  }
  for (uint32_t r = 3; r < 5; ++r) {
    threads.emplace_back([&, r] {
      std::vector<Operation> mine;
      std::string value;
      while (writing > 0) {
        Operation op;
        op.client = r;
        op.begin = ++now;
        const Version version = table.VersionOf(slot);
        bool read = cache.Find(hash, kKey, version, &value);
        hits += read ? 1 : 0;
        if (!read || r == 4) {
          std::lock_guard lock(host_mu);
          value = host;
          read = !value.empty();
        }
        if (read) {
          op.result = value;
          op.end = ++now;
          if (mine.size() < 3000) mine.push_back(op);
        }
        std::this_thread::yield();
      }
      add(std::move(mine));
    });
  }
  for (auto& thread : threads) thread.join();
  *known += hits;
  return linear::Check(history);
}

TEST(ValueCacheTest, WhatIsKnownIsWhatTheHostHolds) {
  const uint64_t seed = testing_util::TestSeed();
  uint64_t known = 0;
  for (uint64_t round = 0; round < 8; ++round) {
    const auto verdict = Race(seed + round * 10, false, &known);
    ASSERT_TRUE(verdict.ok()) << verdict.report;
  }
  EXPECT_GT(known, 0u);
}

// The test above can fail.
TEST(ValueCacheTest, AWriterWhoIsNotAloneIsFoundOut) {
  const uint64_t seed = testing_util::TestSeed();
  uint64_t known = 0;
  int found = 0;
  for (uint64_t round = 0; round < 50 && found == 0; ++round) {
    found += Race(seed + round * 10, true, &known).outcome == linear::Verdict::Outcome::kViolation;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace pulse::redis
