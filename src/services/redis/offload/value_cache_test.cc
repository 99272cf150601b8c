// What is known of keys: its bounds, and that it is never what a key does not hold, with threads
// whose history the checker judges.
#include "services/redis/offload/value_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
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

// A cache of keys, which it hashes itself.
class Cache {
 public:
  explicit Cache(size_t bytes = 1 << 20) : cache_(ValueCache::Open(bytes).value()) {}
  bool Find(std::string_view key, const Version& version, std::string* value) {
    return cache_->Find(kv::HashKey(key), key, version, value);
  }
  bool Holds(std::string_view key) { return cache_->Holds(kv::HashKey(key), key); }
  void Put(std::string_view key, const Version& version, std::string_view value) {
    cache_->Put(kv::HashKey(key), key, version, value);
  }
  void Update(std::string_view key, const Version& version, std::string_view value) {
    cache_->Update(kv::HashKey(key), key, version, value);
  }
  void Want(std::string_view key) { cache_->Want(kv::HashKey(key), key); }
  size_t bytes() const { return cache_->bytes(); }

 private:
  std::unique_ptr<ValueCache> cache_;
};

TEST(ValueCacheTest, Find_OtherVersion_NotKnown) {
  Cache cache;
  std::string value;
  EXPECT_FALSE(cache.Find("a", At(0), &value));
  cache.Put("a", At(3), "three");
  EXPECT_TRUE(cache.Find("a", At(3), &value));
  EXPECT_EQ(value, "three");
  EXPECT_FALSE(cache.Find("a", At(4), &value));
  EXPECT_FALSE(cache.Find("a", At(3, 1), &value));
  EXPECT_FALSE(cache.Find("a", At(3, 0, 1), &value));
  EXPECT_FALSE(cache.Find("a", Version(), &value));
  EXPECT_FALSE(cache.Find("b", At(3), &value));
  // Who comes late with what he has read before does no harm.
  cache.Put("a", At(2), "two");
  EXPECT_TRUE(cache.Find("a", At(3), &value));
  EXPECT_EQ(value, "three");
  // Of the same size, and of others; as what a write leaves, too.
  cache.Put("a", At(4), "four.");
  EXPECT_FALSE(cache.Find("a", At(3), &value));
  EXPECT_TRUE(cache.Find("a", At(4), &value));
  EXPECT_EQ(value, "four.");
  cache.Update("a", At(6), std::string(1000, 'x'));
  cache.Update("a", At(5), "late");
  EXPECT_TRUE(cache.Find("a", At(6), &value));
  EXPECT_EQ(value, std::string(1000, 'x'));
  cache.Put("a", At(7), "");
  EXPECT_TRUE(cache.Find("a", At(7), &value));
  EXPECT_EQ(value, "");
  cache.Update("b", At(0), "nobody has asked for it");
  EXPECT_FALSE(cache.Holds("b"));
}

// Bytes that a key or a value may have, whatever they mean elsewhere.
TEST(ValueCacheTest, Find_AnyBytes_AreThoseThatWerePut) {
  Cache cache;
  std::string value;
  const std::string zeros(17, '\0');
  cache.Put("", At(1), zeros);
  cache.Put(zeros, At(2), std::string(24, '\xff'));  // as the version that is not known
  cache.Put(std::string(20'000, 'k'), At(3), std::string(40'000, 'v'));
  EXPECT_TRUE(cache.Find("", At(1), &value));
  EXPECT_EQ(value, zeros);
  EXPECT_TRUE(cache.Find(zeros, At(2), &value));
  EXPECT_EQ(value, std::string(24, '\xff'));
  EXPECT_TRUE(cache.Find(std::string(20'000, 'k'), At(3), &value));
  EXPECT_EQ(value.size(), 40'000u);
}

TEST(ValueCacheTest, Want_UntilPut_IsHeldButNotKnown) {
  Cache cache;
  std::string value;
  cache.Want("a");
  EXPECT_TRUE(cache.Holds("a"));
  EXPECT_FALSE(cache.Find("a", At(0), &value));
  EXPECT_FALSE(cache.Find("a", Version(), &value));
  cache.Put("a", At(0), "zero");
  EXPECT_TRUE(cache.Find("a", At(0), &value));
  cache.Want("a");
  EXPECT_TRUE(cache.Find("a", At(0), &value));
}

TEST(ValueCacheTest, Put_MoreThanFits_DropsWhatIsUsedLeast) {
  for (const size_t bytes : {size_t{16} << 20, size_t{64} << 20}) {
    Cache cache(bytes);
    std::string value;
    std::mt19937_64 random(testing_util::TestSeed());
    cache.Put("favourite", At(0), "x");
    const int keys = static_cast<int>(bytes >> 9);  // twice what fits
    for (int i = 0; i < keys; ++i) {
      cache.Put("key " + std::to_string(i), At(0), std::string(random() % 2000, 'v'));
      ASSERT_TRUE(cache.Find("favourite", At(0), &value)) << i;
      if (i % 100 == 0) {
        ASSERT_LE(cache.bytes(), bytes);
      }
    }
    EXPECT_GT(cache.bytes(), bytes / 2);
    int known = 0;
    for (int i = 0; i < keys; ++i) {
      known += cache.Find("key " + std::to_string(i), At(0), &value) ? 1 : 0;
    }
    EXPECT_GT(known, keys / 8);
    EXPECT_LT(known, keys);
    // The same key many times, of all sizes.
    for (int i = 0; i < 10'000; ++i) {
      cache.Put("one", At(static_cast<uint64_t>(i)), std::string(random() % 5000, 'v'));
    }
    EXPECT_LE(cache.bytes(), bytes);
    // Larger than what is kept: what was known is not true as of that version, and stays.
    cache.Put("large", At(0), std::string(ValueCache::kMostBytes + 1, 'v'));
    EXPECT_FALSE(cache.Holds("large"));
  }
}

TEST(ValueCacheTest, NoMemory_KnowsNothing) {
  Cache cache(0);
  std::string value;
  cache.Put("a", At(0), "x");
  cache.Want("b");
  EXPECT_FALSE(cache.Find("a", At(0), &value));
  EXPECT_FALSE(cache.Holds("b"));
  EXPECT_EQ(cache.bytes(), 0u);
}

// Writers of one key at a host, which keep what they have written when they were alone, and
// readers, of what is known and of the host. `forgetful`: writers believe themselves alone.
linear::Verdict Race(uint64_t seed, bool forgetful, uint64_t* known) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1, 1);
  Cache cache;
  constexpr std::string_view kKey = "key";
  const auto slot = table.SlotOf(kKey);
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
        if (alone.slot != Version::kUnknown) cache.Put(kKey, alone, op.argument);
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
        bool read = cache.Find(kKey, version, &value);
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

TEST(ValueCacheTest, Race_WritersAlone_NothingStaleIsKnown) {
  const uint64_t seed = testing_util::TestSeed();
  uint64_t known = 0;
  for (uint64_t round = 0; round < 8; ++round) {
    const auto verdict = Race(seed + round * 10, false, &known);
    ASSERT_TRUE(verdict.ok()) << verdict.report;
  }
  EXPECT_GT(known, 0u);
}

// The test above can fail.
TEST(ValueCacheTest, Race_WriterThatIsNotAlone_IsFoundOut) {
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
