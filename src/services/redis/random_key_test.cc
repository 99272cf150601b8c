// RANDOMKEY: every key has a chance, whatever the keys look like; and its cost has a limit.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "rocksdb/perf_context.h"
#include "services/redis/test_store.h"

namespace pulse::redis {
namespace {

constexpr char kNil[] = "$-1";

// How often each reply comes in `calls` calls.
std::map<std::string, int> Draw(TestStore& store, int calls) {
  std::map<std::string, int> drawn;
  for (int i = 0; i < calls; ++i) ++drawn[store("RANDOMKEY")];
  return drawn;
}

std::string Reply(const std::string& key) { return absl::StrCat("$", key.size(), " ", key); }

TEST(RandomKeyTest, TwoKeys_ManyCalls_BothEquallyOften) {
  TestStore store;
  store("SET first 1");
  store("SET second 2");
  const auto drawn = Draw(store, 1000);
  EXPECT_EQ(drawn.size(), 2u);
  for (const auto& [reply, count] : drawn) EXPECT_NEAR(count, 500, 100) << reply;
}

TEST(RandomKeyTest, FewKeys_UnequalGapsAndSizes_EquallyOften) {
  TestStore store;
  for (const char* key : {"a", "a1", "a11", "a111", "zz"}) store(absl::StrCat("SET ", key, " 1"));
  store("SETRANGE m 99999 x");
  const auto drawn = Draw(store, 3000);
  EXPECT_EQ(drawn.size(), 6u);
  for (const auto& [reply, count] : drawn) EXPECT_NEAR(count, 500, 120) << reply;
}

// Most keys are neighbours deep below one prefix; few are far from them. In files and in memory.
TEST(RandomKeyTest, ClustersWithLongPrefixes_ManyCalls_NoKeyStarves) {
  TestStore store;
  const std::string prefix(60, 'p');
  constexpr int kClustered = 560;
  for (int i = 0; i < kClustered; ++i) store(absl::StrCat("SET ", prefix, i, " ", i));
  ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());
  for (const char* key : {"a", "b", "z"}) store(absl::StrCat("SET ", key, " 1"));
  const auto drawn = Draw(store, 16'000);
  EXPECT_EQ(drawn.size(), kClustered + 3u);
}

// A call looks at few keys, so that one of many small ones beside a few large values is found by
// going on from where calls before it have been.
TEST(RandomKeyTest, LargeValuesAmongSmallOnes_ManyCalls_NoKeyStarves) {
  TestStore store;
  constexpr int kSmall = 100;
  for (int i = 0; i < kSmall; ++i) store(absl::StrCat("SET s", i, " 1"));
  for (int i = 0; i < 6; ++i) store(absl::StrCat("SETRANGE t", i, " 399999 x"));
  EXPECT_EQ(Draw(store, 5'000).size(), kSmall + 6u);
}

TEST(RandomKeyTest, ManyKeys_FewCalls_AllPartsOfTheDatabaseAreSeen) {
  TestStore store;
  for (int i = 0; i < 20'000; ++i) store(absl::StrCat("SET k", i + 100'000, " ", i));
  for (int round = 0; round < 2; ++round) {
    std::map<std::string, int> parts;  // by the first digit that differs
    for (const auto& [reply, count] : Draw(store, 400)) {
      ASSERT_EQ(reply.size(), 10u) << reply;
      parts[reply.substr(4, 3)] += count;
    }
    EXPECT_GE(parts.size(), 18u) << "of k100 to k119, round " << round;
    ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());  // as a file in the next round
  }
}

TEST(RandomKeyTest, ExpiredAndDeletedKeys_AreNotReturned) {
  TestStore store;
  for (int i = 0; i < 50; ++i) {
    store(absl::StrCat("SET e", i, " 1 PX 100"));
    store(absl::StrCat("SET d", i, " 1"));
    store(absl::StrCat("SET l", i, " 1"));
    store(absl::StrCat("DEL d", i));
  }
  store.now_ms += 100;
  const auto drawn = Draw(store, 2000);
  EXPECT_EQ(drawn.size(), 50u);
  for (const auto& [reply, count] : drawn) EXPECT_EQ(reply[3], 'l') << reply;
}

TEST(RandomKeyTest, NoKeys_Nil) {
  TestStore store;
  EXPECT_EQ(store("RANDOMKEY"), kNil);
  store("SET a 1");
  store("DEL a");
  EXPECT_EQ(store("RANDOMKEY"), kNil);
  store("SET a 1 PX 1");
  store.now_ms += 1;
  EXPECT_EQ(store("RANDOMKEY"), kNil);
}

// One key lives between many that have expired: a call ends before it has looked at all of them,
// and calls that follow find the key.
TEST(RandomKeyTest, NearlyAllExpired_CostHasALimitAndTheLiveKeyIsFound) {
  TestStore store;
  constexpr int kExpired = 60'000;
  for (int i = 0; i < kExpired; ++i) store(absl::StrCat("SET k", i, " 1 PX 10"));
  store("SET k3 1");
  store.now_ms += 10;
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  bool found = false;
  for (int i = 0; i < 60; ++i) {
    rocksdb::get_perf_context()->Reset();
    const std::string reply = store("RANDOMKEY");
    EXPECT_LT(rocksdb::get_perf_context()->internal_key_skipped_count, kExpired / 2u);
    EXPECT_TRUE(reply == kNil || reply == Reply("k3")) << reply;
    found |= reply != kNil;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace pulse::redis
