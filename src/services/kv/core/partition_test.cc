#include "services/kv/core/partition.h"

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "base/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pulse::kv {
namespace {

using Result = Partition::Result;

std::unique_ptr<Partition> OpenPartition(uint64_t mib, Policy policy = Policy::kNoEviction) {
  PartitionOptions options;
  options.memory_bytes = mib << 20;
  options.policy = policy;
  auto partition = Partition::Open(options);
  EXPECT_TRUE(partition.ok()) << partition.status();
  (*partition)->SetNow(1'000'000);
  return *std::move(partition);
}

Result Put(Partition* p, std::string_view key, std::string_view value,
           const ItemFacts& facts = {}) {
  Item* item = nullptr;
  const Result result = p->Put(key, HashKey(key), value.size(), facts, &item);
  if (result == Result::kStored) std::memcpy(item->value_bytes(), value.data(), value.size());
  return result;
}

std::string Get(Partition* p, std::string_view key) {
  const Item* item = p->Find(key, HashKey(key));
  return item == nullptr ? "(none)" : std::string(item->value());
}

std::string KeyOf(uint64_t n) { return "key:" + std::to_string(n); }

TEST(PartitionTest, Put_AnyKeyAndValue_IsFound) {
  auto p = OpenPartition(16);
  const std::string long_key(kMaxKeyBytes, 'k');
  const std::string binary("\0\r\n\xff", 4);
  EXPECT_EQ(Put(p.get(), "", "empty key"), Result::kStored);
  EXPECT_EQ(Put(p.get(), "empty value", ""), Result::kStored);
  EXPECT_EQ(Put(p.get(), long_key, "long"), Result::kStored);
  EXPECT_EQ(Put(p.get(), binary, binary), Result::kStored);
  EXPECT_EQ(Get(p.get(), ""), "empty key");
  EXPECT_EQ(Get(p.get(), "empty value"), "");
  EXPECT_EQ(Get(p.get(), long_key), "long");
  EXPECT_EQ(Get(p.get(), binary), binary);
  EXPECT_EQ(Get(p.get(), "other"), "(none)");
  EXPECT_EQ(Put(p.get(), long_key + "k", "too long"), Result::kTooLarge);
  EXPECT_EQ(p->numbers().items, 4u);
}

TEST(PartitionTest, Put_AgainWithAnySize_Replaces) {
  auto p = OpenPartition(16);
  for (const size_t size : {1, 8, 9, 100, 5, 100'000, 3'000'000, 0, 2'000'000, 7}) {
    const std::string value(size, static_cast<char>('a' + size % 26));
    ASSERT_EQ(Put(p.get(), "key", value), Result::kStored) << size;
    ASSERT_EQ(Get(p.get(), "key"), value);
  }
  EXPECT_EQ(p->numbers().items, 1u);
  EXPECT_TRUE(p->Erase("key", HashKey("key")));
  EXPECT_FALSE(p->Erase("key", HashKey("key")));
  EXPECT_EQ(p->numbers().item_bytes, 0u);
}

TEST(PartitionTest, FullStore_ExpiryOfManyKeysAndThenDeletion_MakesRoom) {
  auto p = OpenPartition(32);
  const std::string value(1000, 'v');
  uint64_t keys = 0;
  while (Put(p.get(), KeyOf(keys), value) == Result::kStored) ++keys;
  // Each item moves, and leaves its bytes dead among those of others.
  const ItemFacts facts{1'000'000 + 100'000'000};
  for (uint64_t i = 0; i < keys; i += keys / 2500) {
    bool found = false;
    const std::string key = KeyOf(i);
    ASSERT_EQ(p->SetFacts(key, HashKey(key), facts, &found), Result::kStored) << i;
    ASSERT_TRUE(found);
  }
  for (uint64_t i = 0; i < keys; i += 2) {
    ASSERT_TRUE(p->Erase(KeyOf(i), HashKey(KeyOf(i))));
  }
  for (uint64_t i = 0; i < keys / 3; ++i) {
    ASSERT_EQ(Put(p.get(), "new:" + KeyOf(i), value), Result::kStored) << i << " of " << keys;
  }
  for (uint64_t i = 1; i < keys; i += 2) ASSERT_EQ(Get(p.get(), KeyOf(i)), value);
}

// As few segments are open at a time, items of all classes share them.
// Other writes must not fill what the cleaner moves items to, or it cannot move the rest, and what
// is dead stays.
TEST(PartitionTest, FullStore_ExpiriesOfAllKindsForEachItem_FindRoom) {
  auto p = OpenPartition(32);
  const std::string value(100, 'v');
  uint64_t keys = 0;
  while (Put(p.get(), KeyOf(keys), value) == Result::kStored) ++keys;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < keys; ++i) {
      const std::string key = KeyOf(i);
      ItemFacts facts;
      if (round != 1) facts.expires_ms = p->now_ms() + 1'000'000 + static_cast<int64_t>(i) * 1000;
      bool found = false;
      ASSERT_EQ(p->SetFacts(key, HashKey(key), facts, &found), Result::kStored)
          << round << " " << i;
      ASSERT_TRUE(found) << i;
    }
  }
  for (uint64_t i = 0; i < keys; ++i) ASSERT_EQ(Get(p.get(), KeyOf(i)), value) << i;
  // Of many keys that go, almost all of the room is there for others.
  for (uint64_t i = 0; i < keys; i += 8) p->Erase(KeyOf(i), HashKey(KeyOf(i)));
  uint64_t fit = 0;
  while (Put(p.get(), "new" + KeyOf(fit), value) == Result::kStored) ++fit;
  EXPECT_GT(fit, keys / 8 / 2);
}

TEST(PartitionTest, SmallPartition_ItemsThatExpireBesideOthers_MakeRoom) {
  auto p = OpenPartition(16);
  const std::string value(1000, 'v');
  int64_t now = 1'000'000;
  ASSERT_EQ(Put(p.get(), "a", value), Result::kStored);
  ASSERT_EQ(Put(p.get(), "b", value, ItemFacts{now + 100'000'000}), Result::kStored);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 3000; ++i) {
      const std::string key =
          "t:" + KeyOf(static_cast<uint64_t>(round) * 3000 + static_cast<uint64_t>(i));
      ASSERT_EQ(Put(p.get(), key, value, ItemFacts{now + 5000}), Result::kStored) << round;
    }
    ASSERT_EQ(Put(p.get(), "p:" + KeyOf(static_cast<uint64_t>(round)), value), Result::kStored);
    now += 6000;
    p->SetNow(now);
    while (p->Tick()) {
    }
  }
  for (uint64_t round = 0; round < 40; ++round) EXPECT_EQ(Get(p.get(), "p:" + KeyOf(round)), value);
}

TEST(PartitionTest, Facts_OfAnItem_AreKept) {
  auto p = OpenPartition(16);
  const ItemFacts facts{2'000'000, 77, 0xdeadbeef};
  ASSERT_EQ(Put(p.get(), "key", "value", facts), Result::kStored);
  const Item* item = p->Find("key", HashKey("key"));
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->facts().expires_ms, 2'000'000);
  EXPECT_EQ(item->facts().cas, 77u);
  EXPECT_EQ(item->facts().client_flags, 0xdeadbeefu);
  EXPECT_EQ(item->value(), "value");
  // Fewer, more, and others of the same kind.
  for (const ItemFacts& other : {ItemFacts{}, ItemFacts{kNoExpiry, 5, 0},
                                 ItemFacts{3'000'000, 0, 1}, ItemFacts{1'500'000'000, 0, 2}}) {
    bool found = false;
    ASSERT_EQ(p->SetFacts("key", HashKey("key"), other, &found), Result::kStored);
    ASSERT_TRUE(found);
    item = p->Find("key", HashKey("key"));
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->value(), "value");
    EXPECT_EQ(item->facts().expires_ms, other.expires_ms);
    EXPECT_EQ(item->facts().cas, other.cas);
    EXPECT_EQ(item->facts().client_flags, other.client_flags);
  }
}

// The value of an item with the same expiry stays where it is, so that a full store refuses no
// mark.
TEST(PartitionTest, SetFacts_MarkOfALargeItemOnAFullStoreLater_NeedsNoRoom) {
  auto p = OpenPartition(16);
  const std::string large(6'000'000, 'l');
  ItemFacts facts{1'300'000, 7};
  ASSERT_EQ(Put(p.get(), "large", large, facts), Result::kStored);
  uint64_t keys = 0;
  while (Put(p.get(), KeyOf(keys), std::string(1000, 'v')) == Result::kStored) ++keys;
  const PartitionNumbers before = p->numbers();
  for (const int64_t now : {1'100'000, 1'250'000, 1'299'999}) {
    p->SetNow(now);
    facts.stale = !facts.stale;
    ++facts.cas;
    bool found = false;
    ASSERT_EQ(p->SetFacts("large", HashKey("large"), facts, &found), Result::kStored) << now;
    ASSERT_TRUE(found);
    const Item* item = p->Peek("large", HashKey("large"));
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->facts().stale, facts.stale);
    EXPECT_EQ(item->facts().cas, facts.cas);
    EXPECT_EQ(item->value(), large);
  }
  EXPECT_EQ(p->numbers().dead_bytes, before.dead_bytes);
  EXPECT_EQ(p->numbers().evicted, 0u);
}

// A run has one item, whose class it takes.
TEST(PartitionTest, SetFacts_OtherExpiryOfALargeItemOnAFullStore_NeedsNoRoom) {
  auto p = OpenPartition(16);
  const std::string large(6'000'000, 'l');
  ASSERT_EQ(Put(p.get(), "large", large, {100'000'000}), Result::kStored);
  uint64_t keys = 0;
  while (Put(p.get(), KeyOf(keys), std::string(1000, 'v')) == Result::kStored) ++keys;
  const PartitionNumbers before = p->numbers();
  for (const int64_t expiry : {1'002'000, 900'000'000, 1'500'000}) {
    bool found = false;
    ASSERT_EQ(p->SetFacts("large", HashKey("large"), {expiry}, &found), Result::kStored) << expiry;
    const Item* item = p->Peek("large", HashKey("large"));
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->expires_ms(), expiry);
    EXPECT_EQ(item->value(), large);
  }
  EXPECT_EQ(p->numbers().dead_bytes, before.dead_bytes);
  EXPECT_EQ(p->numbers().evicted, 0u);
  // Its room comes back at the last time that it was given.
  p->SetNow(1'499'999);
  p->Tick(1000);
  EXPECT_NE(p->Peek("large", HashKey("large")), nullptr);
  p->SetNow(1'500'000);
  p->Tick(1000);
  EXPECT_EQ(p->Peek("large", HashKey("large")), nullptr);
  EXPECT_EQ(Put(p.get(), "again", large), Result::kStored);
}

TEST(PartitionTest, Item_AtItsExpiry_IsGone) {
  auto p = OpenPartition(16);
  ASSERT_EQ(Put(p.get(), "key", "value", {1'000'500}), Result::kStored);
  p->SetNow(1'000'499);
  EXPECT_EQ(Get(p.get(), "key"), "value");
  p->SetNow(1'000'500);
  EXPECT_EQ(p->Peek("key", HashKey("key")), nullptr);
  EXPECT_EQ(Get(p.get(), "key"), "(none)");
  EXPECT_EQ(p->numbers().items, 0u);
  EXPECT_EQ(p->numbers().expired, 1u);
}

TEST(PartitionTest, Tick_AfterExpiry_GivesAllSpaceBackUnasked) {
  auto p = OpenPartition(64);
  const std::string value(100, 'v');
  uint64_t n = 0;
  for (; n < 200'000; ++n) {
    ASSERT_EQ(Put(p.get(), KeyOf(n), value, {1'010'000 + static_cast<int64_t>(n % 5000)}),
              Result::kStored);
  }
  ASSERT_EQ(Put(p.get(), "stays", value), Result::kStored);
  p->SetNow(1'015'000);
  for (int i = 0; i < 200; ++i) p->Tick();
  const PartitionNumbers numbers = p->numbers();
  EXPECT_EQ(numbers.items, 1u);
  EXPECT_EQ(numbers.expired, n);
  EXPECT_EQ(numbers.item_bytes, Item::SizeOf(5, 100, 0));
  EXPECT_EQ(Get(p.get(), "stays"), value);
}

TEST(PartitionTest, NoEviction_WhenFull_RefusesAndLosesNothing) {
  auto p = OpenPartition(16);
  const std::string value(1000, 'v');
  uint64_t stored = 0;
  while (Put(p.get(), KeyOf(stored), value) == Result::kStored) ++stored;
  EXPECT_GT(stored * 1024, uint64_t{9} << 20);
  for (uint64_t n = 0; n < stored; ++n) ASSERT_EQ(Get(p.get(), KeyOf(n)), value) << n;
  // Not even an old value, when the new one does not fit.
  EXPECT_EQ(Put(p.get(), KeyOf(0), std::string(500'000, 'x')), Result::kNoMemory);
  EXPECT_EQ(Get(p.get(), KeyOf(0)), value);
  // One of the same size does.
  EXPECT_EQ(Put(p.get(), KeyOf(0), std::string(1000, 'w')), Result::kStored);
  EXPECT_LE(p->numbers().used_bytes, uint64_t{16} << 20);
  // What is deleted makes room for others.
  for (uint64_t n = 0; n < stored; n += 2) ASSERT_TRUE(p->Erase(KeyOf(n), HashKey(KeyOf(n))));
  uint64_t more = 0;
  while (Put(p.get(), "more" + KeyOf(more), value) == Result::kStored) ++more;
  EXPECT_GT(more, stored / 3);
  for (uint64_t n = 1; n < stored; n += 2) ASSERT_EQ(Get(p.get(), KeyOf(n)), value) << n;
  for (uint64_t n = 0; n < more; ++n) ASSERT_EQ(Get(p.get(), "more" + KeyOf(n)), value) << n;
  EXPECT_GT(p->numbers().moved_bytes, 0u);
}

TEST(PartitionTest, NoEviction_ManySmallItems_RefusesAndStaysWithinTheLimit) {
  auto p = OpenPartition(16);
  uint64_t stored = 0;
  while (Put(p.get(), KeyOf(stored), "v") == Result::kStored) ++stored;
  EXPECT_LE(p->numbers().used_bytes, uint64_t{16} << 20);
  EXPECT_GT(stored, 200'000u);
  for (uint64_t n = 0; n < stored; ++n) ASSERT_EQ(Get(p.get(), KeyOf(n)), "v") << n;
}

class EvictionTest : public testing::TestWithParam<Policy> {};

TEST_P(EvictionTest, FullStore_TakesEverythingWithinTheLimit) {
  auto p = OpenPartition(16, GetParam());
  const std::string value(500, 'v');
  for (uint64_t n = 0; n < 200'000; ++n) {
    ASSERT_EQ(Put(p.get(), KeyOf(n), value), Result::kStored) << n;
    ASSERT_EQ(Get(p.get(), KeyOf(n)), value);
  }
  const PartitionNumbers numbers = p->numbers();
  EXPECT_LE(numbers.used_bytes, uint64_t{16} << 20);
  EXPECT_EQ(numbers.items + numbers.evicted, 200'000u);
  EXPECT_GT(numbers.items * 520, uint64_t{6} << 20);
  // Large ones beside small ones.
  for (uint64_t n = 0; n < 200; ++n) {
    const std::string large((n % 5) * 1'100'000 + 1, 'l');
    ASSERT_EQ(Put(p.get(), "large" + KeyOf(n), large), Result::kStored) << n;
    ASSERT_EQ(Get(p.get(), "large" + KeyOf(n)), large);
    ASSERT_EQ(Put(p.get(), KeyOf(n), value), Result::kStored) << n;
  }
  EXPECT_LE(p->numbers().used_bytes, uint64_t{16} << 20);
}

INSTANTIATE_TEST_SUITE_P(All, EvictionTest,
                         testing::Values(Policy::kLfu, Policy::kLru, Policy::kRandom));

// How often hot keys are found while ten times the memory is written once each.
double HotHitRatio(Policy policy) {
  auto p = OpenPartition(32, policy);
  const std::string value(500, 'v');
  constexpr uint64_t kHot = 5000;
  constexpr uint64_t kRounds = 600'000;
  uint64_t hits = 0;
  for (uint64_t n = 0; n < kRounds; ++n) {
    EXPECT_EQ(Put(p.get(), KeyOf(1'000'000 + n), value), Result::kStored);
    const std::string hot = KeyOf(n * 7 % kHot);
    if (Get(p.get(), hot) == value) {
      ++hits;
    } else {
      EXPECT_EQ(Put(p.get(), hot, value), Result::kStored);
    }
  }
  return static_cast<double>(hits) / kRounds;
}

TEST(PartitionTest, LfuAndLru_UnderAScan_KeepWhatIsUsed) {
  EXPECT_GT(HotHitRatio(Policy::kLfu), 0.98);
  EXPECT_GT(HotHitRatio(Policy::kLru), 0.98);
  EXPECT_LT(HotHitRatio(Policy::kRandom), 0.95);
}

TEST(PartitionTest, UseOf_CountsUses) {
  auto p = OpenPartition(16, Policy::kLfu);
  ASSERT_EQ(Put(p.get(), "a", "v"), Result::kStored);
  ASSERT_EQ(Put(p.get(), "b", "v"), Result::kStored);
  for (int i = 0; i < 10; ++i) Get(p.get(), "a");
  EXPECT_EQ(p->UseOf("a", HashKey("a")), 10);
  EXPECT_EQ(p->UseOf("b", HashKey("b")), 0);
  EXPECT_EQ(p->UseOf("c", HashKey("c")), -1);
  for (int i = 0; i < 100'000; ++i) Get(p.get(), "a");
  EXPECT_GT(p->UseOf("a", HashKey("a")), 100);
  EXPECT_LE(p->UseOf("a", HashKey("a")), 255);
}

TEST(PartitionTest, Scan_WhileTheIndexGrows_MeetsEachOldItem) {
  auto p = OpenPartition(64);
  constexpr uint64_t kOld = 100'000;
  for (uint64_t n = 0; n < kOld; ++n) ASSERT_EQ(Put(p.get(), KeyOf(n), "v"), Result::kStored);
  std::set<std::string> met;
  uint64_t cursor = 0;
  uint64_t added = kOld;
  do {
    cursor = p->Scan(cursor, [&](const Item& item) { met.insert(std::string(item.key())); });
    for (int i = 0; i < 10; ++i) ASSERT_EQ(Put(p.get(), KeyOf(added++), "v"), Result::kStored);
  } while (cursor != 0);
  for (uint64_t n = 0; n < kOld; ++n) ASSERT_TRUE(met.contains(KeyOf(n))) << n;
}

TEST(PartitionTest, Random_OfFewAndOfMany_GivesEachAChance) {
  auto p = OpenPartition(64);
  EXPECT_EQ(p->Random(1), nullptr);
  std::set<std::string> drawn;
  ASSERT_EQ(Put(p.get(), "a", "v"), Result::kStored);
  ASSERT_EQ(Put(p.get(), "b", "v"), Result::kStored);
  for (uint64_t i = 0; i < 100; ++i) drawn.insert(std::string(p->Random(i * 977)->key()));
  EXPECT_EQ(drawn.size(), 2u);
  drawn.clear();
  for (uint64_t n = 0; n < 300'000; ++n) ASSERT_EQ(Put(p.get(), KeyOf(n), "v"), Result::kStored);
  for (uint64_t i = 0; i < 20'000; ++i) drawn.insert(std::string(p->Random(i * 977)->key()));
  EXPECT_GT(drawn.size(), 18'500u);  // with equal chances 19,350
}

// Keys come and go, and their number stays: so does the index.
TEST(PartitionTest, Churn_OfKeys_LeavesTheIndexAsItIs) {
  auto p = OpenPartition(64);
  constexpr uint64_t kLive = 200'000;
  const auto rounds = static_cast<uint64_t>(testing_util::Rounds(20));
  for (uint64_t n = 0; n < kLive; ++n) ASSERT_EQ(Put(p.get(), KeyOf(n), "v"), Result::kStored);
  const uint64_t before = p->numbers().index_bytes;
  for (uint64_t n = kLive; n < rounds * kLive; ++n) {
    ASSERT_TRUE(p->Erase(KeyOf(n - kLive), HashKey(KeyOf(n - kLive))));
    ASSERT_EQ(Put(p.get(), KeyOf(n), "v"), Result::kStored);
  }
  EXPECT_LE(p->numbers().index_bytes, before + kPageBytes);
  for (uint64_t n = (rounds - 1) * kLive; n < rounds * kLive; ++n)
    ASSERT_EQ(Get(p.get(), KeyOf(n)), "v") << n;
}

TEST(PartitionTest, SmallMemory_KeysOfAllTimesToLive_FindRoom) {
  auto p = OpenPartition(16);
  for (int octave = 0; octave < 30; ++octave) {
    ASSERT_EQ(Put(p.get(), KeyOf(static_cast<uint64_t>(octave)), "v",
                  {1'000'000 + (int64_t{1000} << octave)}),
              Result::kStored)
        << octave;
  }
  EXPECT_EQ(p->numbers().items, 30u);
}

TEST(PartitionTest, Tick_WithATrickleOfShortLives_GivesThemBack) {
  auto p = OpenPartition(32);
  int64_t now = 1'000'000;
  for (uint64_t n = 0; n < 5000; ++n, now += 100) {
    p->SetNow(now);
    ASSERT_EQ(Put(p.get(), KeyOf(n), "v", {now + 1000}), Result::kStored);
    p->Tick();
  }
  // Ten are alive; others are there until the last one of their segment has expired.
  EXPECT_LE(p->numbers().items, 40u);
}

TEST(PartitionTest, SetPolicy_ToNoEviction_EvictsNothingMore) {
  auto p = OpenPartition(16, Policy::kLru);
  const std::string value(500, 'v');
  uint64_t n = 0;
  while (p->numbers().evicted == 0) ASSERT_EQ(Put(p.get(), KeyOf(n++), value), Result::kStored);
  const uint64_t evicted = p->numbers().evicted;
  p->set_policy(Policy::kNoEviction);
  for (int i = 0; i < 50'000; ++i) Put(p.get(), KeyOf(n++), value);
  EXPECT_EQ(p->numbers().evicted, evicted);
}

// Random sizes and hot keys: whatever the cleaner is at, an item finds room.
TEST(PartitionTest, Eviction_UnderRandomLoads_NeverRefuses) {
  const uint64_t seed = testing_util::TestSeed();
  for (int run = 0; run < testing_util::Rounds(12); ++run) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(run));
    auto p = OpenPartition(20 + 2 * (random() % 12), run % 2 == 0 ? Policy::kLru : Policy::kLfu);
    for (int i = 0; i < 40'000; ++i) {
      const size_t size = random() % 100 == 0 ? random() % 900'000 : random() % 2000;
      ItemFacts facts;
      if (random() % 4 == 0)
        facts.expires_ms = 1'000'000 + static_cast<int64_t>(random() % 100'000);
      ASSERT_EQ(Put(p.get(), KeyOf(random() % 100'000), std::string(size, 'v'), facts),
                Result::kStored)
          << "run " << run << ", step " << i;
      Get(p.get(), KeyOf(random() % 1000));
      if (i % 100 == 0) p->SetNow(1'000'000 + i);
    }
  }
}

TEST(PartitionTest, Clear_GivesMemoryBack) {
  auto p = OpenPartition(64);
  const uint64_t empty = p->numbers().used_bytes;
  for (uint64_t n = 0; n < 300'000; ++n) ASSERT_EQ(Put(p.get(), KeyOf(n), "v"), Result::kStored);
  ASSERT_EQ(Put(p.get(), "large", std::string(5'000'000, 'l')), Result::kStored);
  p->Clear();
  EXPECT_EQ(p->numbers().items, 0u);
  EXPECT_EQ(p->numbers().used_bytes, empty);
  EXPECT_EQ(p->numbers().item_bytes, 0u);
  EXPECT_EQ(p->numbers().dead_bytes, 0u);
  EXPECT_EQ(Get(p.get(), KeyOf(1)), "(none)");
  EXPECT_EQ(Put(p.get(), KeyOf(1), "again"), Result::kStored);
  EXPECT_EQ(Get(p.get(), KeyOf(1)), "again");
}

TEST(PartitionTest, Open_WithTooLittleMemory_SaysWhat) {
  PartitionOptions options;
  options.memory_bytes = kLeastMemory - 1;
  const auto partition = Partition::Open(options);
  ASSERT_FALSE(partition.ok());
  EXPECT_THAT(std::string(partition.status().message()), testing::HasSubstr("16 MiB"));
}

TEST(TtlClassTest, EachClass_HoldsHalfAnOctave) {
  EXPECT_EQ(TtlClassOf(kNoExpiry, 5), 0);
  int last = 0;
  for (int64_t seconds = 0; seconds < 100'000; ++seconds) {
    const int ttl_class = TtlClassOf(seconds * 1000, 0);
    EXPECT_GE(ttl_class, std::max(1, last));
    EXPECT_LE(ttl_class, last + 2);
    last = ttl_class;
  }
  EXPECT_EQ(TtlClassOf(INT64_MAX - 1, 0), kTtlClasses - 1);
  EXPECT_EQ(TtlClassOf(-5, 10), 1);
}

absl::Status MoveAll(Partition* p, bool to_agent) {
  while (true) {
    const auto moved = p->MoveNext(to_agent);
    if (!moved.ok() || !*moved) return moved.status();
  }
}

// Of the agent's memory, what this process has resident. The process's own number would count the
// shadow memory of a sanitizer, which goes as pages are mapped anew.
uint64_t AgentBytesResident() {
  std::ifstream mappings("/proc/self/smaps");
  std::string line;
  bool of_agent = false;
  uint64_t kib = 0;
  while (std::getline(mappings, line)) {
    // A mapping begins with its addresses; its numbers follow, each by name.
    if (line.find(':') > line.find(' ')) of_agent = line.find("pulse-kv-agent") != line.npos;
    if (of_agent && line.starts_with("Rss:")) kib += std::stoull(line.substr(4));
  }
  return kib * 1024;
}

constexpr uint64_t kMoved = 200;  // items, of 100,000 bytes each
void PutForMove(Partition* p) {
  for (uint64_t i = 0; i < kMoved; ++i) {
    ASSERT_EQ(Put(p, KeyOf(i), std::string(100'000, static_cast<char>('a' + i % 26))),
              Result::kStored);
  }
}
void CheckMoved(Partition* p) {
  for (uint64_t i = 0; i < kMoved; ++i) {
    ASSERT_TRUE(Get(p, KeyOf(i)) == std::string(100'000, static_cast<char>('a' + i % 26))) << i;
  }
}

TEST(PartitionMoveTest, ThereAndBack_ItemsStay_AndTheAgentsMemoryIsGivenBack) {
  auto p = OpenPartition(64);
  PutForMove(p.get());
  const Item* const item = p->Find(KeyOf(0), HashKey(KeyOf(0)));
  EXPECT_EQ(p->side(), Side::kHost);
  EXPECT_EQ(p->agent_bytes(), 0u);
  EXPECT_EQ(AgentBytesResident(), 0u);
  ASSERT_TRUE(MoveAll(p.get(), true).ok());
  EXPECT_GE(AgentBytesResident(), kMoved * 100'000) << "what was moved still counts";
  EXPECT_EQ(p->side(), Side::kAgent);
  EXPECT_EQ(p->agent_bytes(), p->numbers().used_bytes);
  EXPECT_EQ(p->Find(KeyOf(0), HashKey(KeyOf(0))), item) << "pointers stay";
  CheckMoved(p.get());
  ASSERT_TRUE(MoveAll(p.get(), false).ok());
  EXPECT_EQ(p->side(), Side::kHost);
  EXPECT_EQ(p->agent_bytes(), 0u);
  CheckMoved(p.get());
}

// Of pages that were moved, and of those that were taken on the agent.
TEST(PartitionMoveTest, OnTheAgent_WhatIsCleared_IsGivenBack) {
  auto p = OpenPartition(64);
  ASSERT_TRUE(Put(p.get(), "before", std::string(5'000'000, 'b')) == Result::kStored);
  ASSERT_TRUE(MoveAll(p.get(), true).ok());
  PutForMove(p.get());
  EXPECT_EQ(p->agent_bytes(), p->numbers().used_bytes);
  EXPECT_GT(p->agent_bytes(), uint64_t{20} << 20);
  p->Clear();
  EXPECT_EQ(p->agent_bytes(), p->numbers().used_bytes);
  EXPECT_LE(p->agent_bytes(), kPageBytes) << "of the index";
  PutForMove(p.get());
  CheckMoved(p.get());
}

// A limit of file sizes stands for memory that the kernel does not give.
TEST(PartitionMoveTest, RefusedHalfWay_StaysConsistent_AndGoesOnLater) {
  auto p = OpenPartition(64);
  PutForMove(p.get());
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(*p->MoveNext(true));
  ASSERT_EQ(p->side(), Side::kBoth);
  const uint64_t there = p->agent_bytes();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status refused = MoveAll(p.get(), true);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(p->side(), Side::kBoth);
  EXPECT_EQ(p->agent_bytes(), there);
  CheckMoved(p.get());
  ASSERT_EQ(Put(p.get(), "more", "value"), Result::kStored);
  ASSERT_TRUE(MoveAll(p.get(), true).ok());
  CheckMoved(p.get());
  EXPECT_EQ(Get(p.get(), "more"), "value");
}

}  // namespace
}  // namespace pulse::kv
