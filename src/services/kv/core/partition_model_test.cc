// Random programs of calls, with a clock that jumps, against a map. Under eviction an item may be
// gone, but must never be wrong.
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/testing.h"
#include "gtest/gtest.h"
#include "services/kv/core/partition.h"

namespace pulse::kv {
namespace {

using testing_util::TestSeed;

struct Kept {
  std::string value;
  ItemFacts facts;
};

class Model {
 public:
  // `moves`: its memory goes to the agent and back meanwhile, page by page.
  Model(uint64_t seed, Policy policy, uint64_t mib, bool moves = false)
      : random_(seed), policy_(policy), moves_(moves) {
    PartitionOptions options;
    options.memory_bytes = mib << 20;
    options.policy = policy;
    limit_ = options.memory_bytes;
    auto opened = Partition::Open(options);
    EXPECT_TRUE(opened.ok());
    partition_ = *std::move(opened);
    partition_->SetNow(now_);
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      SCOPED_TRACE(step);
      Step();
      if (step % 5000 == 4999) CheckExpiries();
    }
    EXPECT_GT(expiring_seen_, 0u);
    std::vector<std::string> keys;
    for (const auto& [key, kept] : items_) keys.push_back(key);
    for (const std::string& key : keys) Check(key);
    uint64_t live = 0;
    uint64_t cursor = 0;
    do {
      cursor = partition_->Scan(cursor, [&](const Item& item) {
        ++live;
        EXPECT_TRUE(items_.contains(std::string(item.key())));
      });
    } while (cursor != 0);
    if (policy_ == Policy::kNoEviction) {
      EXPECT_EQ(live, LiveItems());
    } else {
      EXPECT_LE(live, LiveItems());
    }
    CheckExpiries();
    if (moves_) {
      EXPECT_GT(turns_, 3);
    }
  }

 private:
  void Move() {
    const auto moved = partition_->MoveNext(to_agent_);
    ASSERT_TRUE(moved.ok()) << moved.status();
    if (*moved) return;
    EXPECT_EQ(partition_->side(), to_agent_ ? Side::kAgent : Side::kHost);
    if (!to_agent_) {
      EXPECT_EQ(partition_->agent_bytes(), 0u);
    }
    to_agent_ = !to_agent_;
    ++turns_;
  }
  // As of a time when nothing had expired, so that those are met that nobody has noticed yet.
  void CheckExpiries() {
    partition_->SetNow(0);
    uint64_t expiring = 0;
    uint64_t seconds = 0;
    uint64_t cursor = 0;
    do {
      cursor = partition_->Scan(cursor, [&](const Item& item) {
        if (item.expires_ms() == kNoExpiry) return;
        ++expiring;
        seconds += static_cast<uint64_t>(item.expires_ms() / 1000);
      });
    } while (cursor != 0);
    partition_->SetNow(now_);
    EXPECT_EQ(partition_->numbers().expiring, expiring);
    EXPECT_EQ(partition_->numbers().expiry_seconds, seconds);
    expiring_seen_ += expiring;
  }
  std::string RandomKey() {
    std::string key = "k" + std::to_string(Draw(20'000));
    if (Draw(50) == 0) key.append(Draw(3000), 'l');
    return key;
  }
  uint64_t Draw(uint64_t below) { return random_() % below; }
  size_t RandomSize() {
    switch (Draw(500)) {
      case 0:
        return Draw(3'000'000);  // runs, too
      case 1:
      case 2:
      case 3:
        return Draw(700'000);
      default:
        return Draw(Draw(20) == 0 ? 5000 : 200);
    }
  }
  ItemFacts RandomFacts() {
    ItemFacts facts;
    if (Draw(3) == 0) {
      facts.expires_ms = now_ + 1 + static_cast<int64_t>(Draw(Draw(2) == 0 ? 2000 : 100'000));
    }
    if (Draw(4) == 0) facts.cas = 1 + Draw(1000);
    if (Draw(4) == 0) facts.client_flags = static_cast<uint32_t>(Draw(1000));
    return facts;
  }
  uint64_t LiveItems() const {
    uint64_t live = 0;
    for (const auto& [key, kept] : items_) live += kept.facts.expires_ms > now_ ? 1 : 0;
    return live;
  }

  void Check(const std::string& key) {
    const auto it = items_.find(key);
    const bool exists = it != items_.end() && it->second.facts.expires_ms > now_;
    const Item* item = partition_->Find(key, HashKey(key));
    if (item == nullptr) {
      // Evicted, or never there.
      if (policy_ == Policy::kNoEviction) {
        ASSERT_FALSE(exists) << key;
      }
      if (exists) items_.erase(it);
      return;
    }
    ASSERT_TRUE(exists) << key;
    ASSERT_EQ(item->key(), key);
    ASSERT_TRUE(item->value() == it->second.value) << key;
    const ItemFacts facts = item->facts();
    ASSERT_EQ(facts.expires_ms, it->second.facts.expires_ms);
    ASSERT_EQ(facts.cas, it->second.facts.cas);
    ASSERT_EQ(facts.client_flags, it->second.facts.client_flags);
  }

  void Step() {
    const std::string key = RandomKey();
    const uint64_t hash = HashKey(key);
    const uint64_t draw = Draw(100);
    if (draw < 45) {
      std::string value(RandomSize(), static_cast<char>('a' + Draw(26)));
      const ItemFacts facts = RandomFacts();
      Item* item = nullptr;
      const auto result = partition_->Put(key, hash, value.size(), facts, &item);
      if (result == Partition::Result::kStored) {
        std::memcpy(item->value_bytes(), value.data(), value.size());
        items_[key] = {std::move(value), facts};
      } else {
        ASSERT_EQ(result, Partition::Result::kNoMemory);
        ASSERT_EQ(policy_, Policy::kNoEviction);
        Check(key);
      }
    } else if (draw < 80) {
      Check(key);
    } else if (draw < 88) {
      const auto it = items_.find(key);
      const bool exists = it != items_.end() && it->second.facts.expires_ms > now_;
      const bool erased = partition_->Erase(key, hash);
      if (policy_ == Policy::kNoEviction) {
        ASSERT_EQ(erased, exists);
      }
      if (erased) {
        ASSERT_TRUE(exists);
      }
      items_.erase(key);
    } else if (draw < 93) {
      bool found = false;
      const ItemFacts facts = RandomFacts();
      const auto result = partition_->SetFacts(key, hash, facts, &found);
      if (found && result == Partition::Result::kStored) {
        ASSERT_TRUE(items_.contains(key));
        items_[key].facts = facts;
      }
      Check(key);
    } else if (draw < 97) {
      now_ += static_cast<int64_t>(Draw(50));
      partition_->SetNow(now_);
    } else {
      partition_->Tick();
    }
    if (Draw(20'000) == 0) {
      now_ += 50'000;
      partition_->SetNow(now_);
    }
    if (Draw(30'000) == 0) {
      partition_->Clear();
      items_.clear();
    }
    ASSERT_LE(partition_->numbers().used_bytes, limit_);
    ASSERT_LE(partition_->agent_bytes(), partition_->numbers().used_bytes);
    if (moves_ && Draw(50) == 0) Move();
  }

  std::mt19937_64 random_;
  const Policy policy_;
  const bool moves_;
  bool to_agent_ = true;
  int turns_ = 0;
  uint64_t expiring_seen_ = 0;
  uint64_t limit_ = 0;
  int64_t now_ = 1'000'000;
  std::unique_ptr<Partition> partition_;
  std::map<std::string, Kept> items_;
};

class PartitionModelTest : public testing::TestWithParam<std::tuple<Policy, int>> {};

TEST_P(PartitionModelTest, RandomCalls_AgreeWithAMap) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  const auto [policy, mib] = GetParam();
  Model(seed, policy, static_cast<uint64_t>(mib)).Run(100'000);
}

TEST_P(PartitionModelTest, RandomCallsWhileMemoryMoves_AgreeWithAMap) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  const auto [policy, mib] = GetParam();
  Model(seed, policy, static_cast<uint64_t>(mib), true).Run(50'000);
}

INSTANTIATE_TEST_SUITE_P(All, PartitionModelTest,
                         testing::Combine(testing::Values(Policy::kNoEviction, Policy::kLfu,
                                                          Policy::kLru, Policy::kRandom),
                                          testing::Values(16, 48)));

}  // namespace
}  // namespace pulse::kv
