#include "services/offload/cache_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"

namespace pulse::offload {
namespace {

std::unique_ptr<CacheTable> Make(uint32_t key, uint32_t item, uint64_t capacity) {
  auto table = CacheTable::Create({key, item, capacity});
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

std::string KeyOf(uint64_t n, uint32_t size) {
  std::string key(size, '\0');
  std::memcpy(key.data(), &n, std::min<size_t>(size, 8));
  if (size > 8) key.back() = static_cast<char>(n * 7);
  return key;
}

TEST(CacheTableTest, Create_ImpossibleSizes_IsRefused) {
  EXPECT_FALSE(CacheTable::Create({0, 8, 10}).ok());
  EXPECT_FALSE(CacheTable::Create({kMaxKeyBytes + 1, 8, 10}).ok());
  EXPECT_FALSE(CacheTable::Create({8, kMaxItemBytes + 1, 10}).ok());
  EXPECT_FALSE(CacheTable::Create({8, 8, uint64_t{1} << 40}).ok());
  const auto vast = CacheTable::Create({64, 256, uint64_t{1} << 30});
  ASSERT_FALSE(vast.ok());
  EXPECT_EQ(vast.status().code(), absl::StatusCode::kResourceExhausted) << vast.status();
}

// Against a map: what is found is what was put last; and nothing is missing while there is room.
TEST(CacheTableTest, Table_RandomOperations_MatchesAMap) {
  std::mt19937_64 random(testing_util::TestSeed());
  struct Shape {
    uint32_t key, item;
    uint64_t capacity;
  };
  for (const Shape s : {Shape{8, 8, 2000}, Shape{8, 24, 2000}, Shape{1, 3, 200}, Shape{13, 1, 2000},
                        Shape{64, 256, 500}, Shape{16, 0, 2000}}) {
    auto table = Make(s.key, s.item, s.capacity);
    std::map<std::string, std::string> model;
    const uint64_t keys = std::min<uint64_t>(s.key == 1 ? 200 : ~uint64_t{0}, s.capacity);
    for (int i = 0; i < 40000; ++i) {
      const std::string key = KeyOf(random() % keys, s.key);
      const uint64_t what = random() % 10;
      if (what < 4) {
        std::string item(s.item, static_cast<char>(random()));
        if (s.item > 0) item.back() = static_cast<char>(random());
        table->Put(key.data(), item.data());
        model[key] = item;
      } else if (what < 6) {
        ASSERT_EQ(table->Erase(key.data()), model.erase(key) == 1);
      } else {
        std::string item(s.item, '?');
        const bool found = table->Find(key.data(), item.data());
        const auto expected = model.find(key);
        ASSERT_EQ(found, expected != model.end()) << i;
        if (found) {
          ASSERT_EQ(item, expected->second);
        }
      }
    }
    ASSERT_EQ(table->counts().items, model.size());
    ASSERT_EQ(table->counts().evicted, 0u);
    for (const auto& [key, item] : model) {
      std::string found(s.item, '?');
      ASSERT_TRUE(table->Find(key.data(), found.data()));
      ASSERT_EQ(found, item);
      ASSERT_TRUE(table->Erase(key.data()));
    }
    EXPECT_EQ(table->counts().items, 0u);
  }
}

// Many times what there is room for: bounded, each found item is its key's last, and most of the
// room is used.
TEST(CacheTableTest, Table_MoreThanItHolds_EvictsAndStaysBounded) {
  std::mt19937_64 random(testing_util::TestSeed());
  auto table = Make(8, 8, 1000);
  const uint64_t bytes = table->counts().bytes;
  std::map<uint64_t, uint64_t> model;
  uint64_t erased = 0;
  for (int i = 0; i < 50000; ++i) {
    const uint64_t key = random() % 20000;
    const uint64_t item = random();
    table->Put(&key, &item);
    model[key] = item;
    uint64_t found = 0;
    ASSERT_TRUE(table->Find(&key, &found));  // what was put just now is there
    ASSERT_EQ(found, item);
    if (i % 7 == 0) {
      const uint64_t gone = random() % 20000;
      erased += table->Erase(&gone) ? 1 : 0;
      model.erase(gone);
      ASSERT_FALSE(table->Find(&gone, &found));
    }
  }
  uint64_t there = 0;
  for (uint64_t key = 0; key < 20000; ++key) {
    uint64_t found = 0;
    if (!table->Find(&key, &found)) continue;
    ++there;
    ASSERT_EQ(found, model.at(key));
  }
  EXPECT_EQ(there, table->counts().items);
  EXPECT_GE(there, 1000u);
  EXPECT_GT(table->counts().evicted, 0u);
  EXPECT_EQ(table->counts().inserted, there + erased + table->counts().evicted);
  EXPECT_EQ(table->counts().bytes, bytes);
}

// Readers beside a writer. An item says whose it is, in every word; those of the first keys are
// never erased, only moved and written anew, and so must always be found.
TEST(CacheTableTest, Readers_BesideAWriter_SeeWholeItemsAndMissNone) {
  struct Item {
    uint64_t word[4];
  };
  constexpr uint64_t kStay = 300;
  constexpr uint64_t kAll = 900;
  auto table = Make(8, sizeof(Item), 1000);
  const auto put = [&](uint64_t key, uint64_t turn) {
    const Item item{{key, turn, key * turn, ~turn}};
    table->Put(&key, &item);
  };
  for (uint64_t k = 0; k < kStay; ++k) put(k, 1);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> finds{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937_64 random(static_cast<uint64_t>(r) + 1);
      std::vector<uint64_t> last(kStay, 0);
      while (!stop) {
        const uint64_t key = random() % kAll;
        Item item{};
        const bool found = table->Find(&key, &item);
        if (key < kStay) {
          ASSERT_TRUE(found) << key;
          ASSERT_GE(item.word[1], last[key]);  // never an older one
          last[key] = item.word[1];
        }
        if (!found) continue;
        ASSERT_EQ(item.word[0], key);
        ASSERT_EQ(item.word[2], key * item.word[1]);
        ASSERT_EQ(item.word[3], ~item.word[1]);
        finds.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::mt19937_64 random(testing_util::TestSeed());
  for (uint64_t turn = 2; turn < 60000 || finds.load(std::memory_order_relaxed) < 20000; ++turn) {
    const uint64_t key = random() % kAll;
    if (key >= kStay && turn % 3 == 0) {
      table->Erase(&key);
    } else {
      put(key, turn);
    }
    if (turn == 3000000) break;
  }
  stop = true;
  for (auto& t : readers) t.join();
  EXPECT_EQ(table->counts().evicted, 0u);
}

}  // namespace
}  // namespace pulse::offload
