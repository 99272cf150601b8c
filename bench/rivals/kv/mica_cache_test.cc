// The baseline store against a map that knows the log's and the index's rules: each hit is the last
// value, and a key is missing only when it was evicted, displaced, deleted, or has expired.
#include "bench/rivals/kv/mica_cache.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "gtest/gtest.h"

namespace pulse::kv {
namespace {

using testing_util::TestSeed;

constexpr uint64_t kSweep = uint64_t{1} << 46;

std::unique_ptr<MicaCache> OpenCache(const MicaOptions& options) {
  auto opened = MicaCache::Open(options);
  EXPECT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetNow(1);
  return *std::move(opened);
}

bool Store(MicaCache* cache, const std::string& key, const std::string& value,
           const ItemFacts& facts = {}) {
  Item* item = nullptr;
  if (cache->Put(key, HashKey(key), value.size(), facts, &item) != MicaCache::Result::kStored) {
    return false;
  }
  std::memcpy(item->value_bytes(), value.data(), value.size());
  return true;
}

std::optional<std::string> Load(MicaCache* cache, const std::string& key) {
  const Item* item = cache->Find(key, HashKey(key));
  if (item == nullptr) return std::nullopt;
  return std::string(item->value());
}

class MicaModel {
 public:
  MicaModel(uint64_t seed, const MicaOptions& options, uint64_t keys)
      : random_(seed), keys_(keys), cache_(OpenCache(options)) {
    cache_->SetNow(now_);
    cache_->set_on_displace([this](std::string_view key) {
      const auto it = items_.find(std::string(key));
      // What the log had evicted before is not lost by the index.
      ASSERT_TRUE(it != items_.end() && IsInLog(it->second)) << key;
      items_.erase(it);
      ++displaced_;
    });
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      SCOPED_TRACE(step);
      Step();
    }
    uint64_t live = 0;
    for (uint64_t number = 0; number < keys_; ++number) {
      const std::string key = KeyOf(number);
      live += Expected(key).has_value() ? 1 : 0;
      Check(key);
    }
    EXPECT_EQ(cache_->displaced(), displaced_);
    EXPECT_GE(cache_->CountSlots().live, live);  // and expired ones
  }
  uint64_t displaced() const { return displaced_; }
  uint64_t evicted() const { return evicted_; }
  MicaCache& cache() { return *cache_; }

 private:
  struct Kept {
    std::string value;
    uint64_t position;
    size_t bytes;
    uint8_t fields;
    int64_t expires_ms;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }
  std::string KeyOf(uint64_t number) const {
    std::string key = "k" + std::to_string(number);
    if (number % 50 == 0) key.append(number % 700, 'l');
    return key;
  }
  bool IsInLog(const Kept& kept) const {
    return cache_->tail() - kept.position <= cache_->log_units();
  }
  std::optional<std::string> Expected(const std::string& key) {
    const auto it = items_.find(key);
    if (it == items_.end()) return std::nullopt;
    if (!IsInLog(it->second)) {
      ++evicted_;
      items_.erase(it);
      return std::nullopt;
    }
    if (it->second.expires_ms <= now_) {
      items_.erase(it);
      return std::nullopt;
    }
    return it->second.value;
  }
  void Check(const std::string& key) {
    const auto expected = Expected(key);
    ASSERT_EQ(Load(cache_.get(), key), expected) << key;
  }

  void Set(const std::string& key) {
    const std::string value(Draw(Draw(30) == 0 ? 9000 : 100), static_cast<char>('a' + Draw(26)));
    ItemFacts facts;
    if (Draw(4) == 0) facts.expires_ms = now_ + 1 + static_cast<int64_t>(Draw(500));
    if (Draw(5) == 0) facts.client_flags = 7;
    const size_t bytes = Item::SizeOf(key.size(), value.size(), facts.fields());
    const auto it = items_.find(key);
    const bool was_there = it != items_.end() && IsInLog(it->second);
    const bool in_place =
        was_there && it->second.fields == facts.fields() && bytes <= it->second.bytes;
    const Kept before = was_there ? it->second : Kept{};
    const uint64_t tail = cache_->tail();
    ASSERT_TRUE(Store(cache_.get(), key, value, facts));
    if (in_place) {
      ASSERT_EQ(cache_->tail(), tail);
    } else {
      ASSERT_GE(cache_->tail(), tail + bytes / 8);
    }
    items_[key] = {value, in_place ? before.position : cache_->tail() - bytes / 8, bytes,
                   facts.fields(), facts.expires_ms};
  }

  void Step() {
    const std::string key = KeyOf(Draw(keys_));
    const uint64_t draw = Draw(100);
    if (draw < 50) {
      Set(key);
    } else if (draw < 90) {
      Check(key);
    } else if (draw < 97) {
      const bool exists = Expected(key).has_value();
      ASSERT_EQ(cache_->Erase(key, HashKey(key)), exists) << key;
      items_.erase(key);
    } else {
      now_ += static_cast<int64_t>(Draw(5));
      cache_->SetNow(now_);
    }
  }

  std::mt19937_64 random_;
  const uint64_t keys_;
  int64_t now_ = 1000;
  std::map<std::string, Kept> items_;
  uint64_t displaced_ = 0;
  uint64_t evicted_ = 0;
  std::unique_ptr<MicaCache> cache_;
};

// A log that is too small; an index that is too small; both, where positions pass a sweep, and
// where they no longer fit into a slot.
TEST(MicaCacheTest, RandomCalls_AgreeWithAMapThatKnowsTheRules) {
  struct Case {
    uint64_t log_bytes, expected_items, keys, first_position;
    bool evicts, displaces;
  };
  for (const Case& c : {Case{uint64_t{64} << 10, 1 << 16, 2000, 0, true, false},
                        Case{uint64_t{256} << 20, 256, 2000, 0, false, true},
                        Case{uint64_t{256} << 10, 512, 2000, kSweep - 100'000, true, true},
                        Case{uint64_t{64} << 10, 128, 2000, 4 * kSweep - 50'000, true, true}}) {
    const uint64_t seed = TestSeed();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", log " << c.log_bytes);
    MicaOptions options;
    options.log_bytes = c.log_bytes;
    options.expected_items = c.expected_items;
    options.first_position = c.first_position;
    MicaModel model(seed, options, c.keys);
    model.Run(60'000);
    EXPECT_EQ(model.evicted() > 0, c.evicts);
    EXPECT_EQ(model.displaced() > 0, c.displaces);
    if (c.first_position > 0) {
      EXPECT_GT(model.cache().tail() >> 46, c.first_position >> 46);
    }
  }
}

TEST(MicaCacheTest, Sweep_FreesTheSlotsOfWhatTheLogHasEvicted) {
  MicaOptions options;
  options.log_bytes = MicaCache::kLeastLog;
  options.expected_items = 1 << 16;
  options.first_position = kSweep - 60'000;
  auto cache = OpenCache(options);
  for (int i = 0; cache->tail() < kSweep - 10; ++i) {
    ASSERT_TRUE(Store(cache.get(), "key" + std::to_string(i), "value"));
  }
  EXPECT_GT(cache->CountSlots().used, 2 * cache->CountSlots().live);
  ASSERT_TRUE(Store(cache.get(), "long", std::string(1000, 'v')));
  ASSERT_GT(cache->tail(), kSweep);
  EXPECT_EQ(cache->CountSlots().used, cache->CountSlots().live);
  EXPECT_EQ(Load(cache.get(), "long"), std::string(1000, 'v'));
}

TEST(MicaCacheTest, TooLarge_IsRefusedAndChangesNothing) {
  MicaOptions options;
  options.log_bytes = MicaCache::kLeastLog;
  auto cache = OpenCache(options);
  ASSERT_TRUE(Store(cache.get(), "key", "value"));
  const uint64_t tail = cache->tail();
  EXPECT_FALSE(Store(cache.get(), "key", std::string(MicaCache::kLeastLog / 2, 'v')));
  EXPECT_FALSE(Store(cache.get(), std::string(kMaxKeyBytes + 1, 'k'), "value"));
  EXPECT_EQ(cache->tail(), tail);
  EXPECT_EQ(Load(cache.get(), "key"), "value");
}

TEST(MicaCacheTest, Open_OfAnImpossibleSize_IsRefused) {
  MicaOptions options;
  options.log_bytes = MicaCache::kLeastLog - 1;
  EXPECT_EQ(MicaCache::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.log_bytes = MicaCache::kMostLog + 1;
  EXPECT_EQ(MicaCache::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
}

// A batch's replies are those of the same calls one by one, on a cache that evicts and displaces.
TEST(MicaCacheTest, Batches_DoWhatSingleCallsDo) {
  struct MicaReplies {
    std::vector<std::string> texts;
    void Got(size_t, const Item* item) {
      texts.push_back(item == nullptr ? "(none)" : std::string(item->value()));
    }
    void Stored(size_t, MicaCache::Result result) {
      texts.push_back(result == MicaCache::Result::kStored ? "stored" : "refused");
    }
    void Deleted(size_t, bool deleted) { texts.push_back(deleted ? "deleted" : "absent"); }
  };
  MicaOptions options;
  options.log_bytes = MicaCache::kLeastLog;
  options.expected_items = 2048;
  auto together = OpenCache(options);
  auto single = OpenCache(options);
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const size_t count = 1 + random() % 200;
    std::vector<std::string> keys(count);
    std::vector<std::string> values(count);
    std::vector<BatchRequest> requests(count);
    for (size_t i = 0; i < count; ++i) {
      keys[i] = "key" + std::to_string(random() % 4000);
      values[i] = std::string(random() % 60, static_cast<char>('a' + random() % 26));
      requests[i].key = keys[i];
      requests[i].hash = HashKey(keys[i]);
      requests[i].value = values[i];
      const uint64_t draw = random() % 10;
      requests[i].op = draw < 5 ? Op::kGet : draw < 9 ? Op::kSet : Op::kDelete;
    }
    MicaReplies a;
    MicaReplies b;
    ExecuteBatch(together.get(), requests.data(), count, MatchOf(*together), &a);
    for (size_t i = 0; i < count; ++i) {
      ExecuteBatch(single.get(), &requests[i], 1, MatchOf(*single), &b);
    }
    ASSERT_EQ(a.texts, b.texts) << "round " << round;
  }
  EXPECT_GT(together->displaced(), 0u);
}

}  // namespace
}  // namespace pulse::kv
