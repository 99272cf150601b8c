// Who listens is told of each key that expires, once, wherever the store notices it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/kv/store.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Listener final : public redis::KeyListener {
 public:
  bool active() const override { return active_; }
  void OnChange(std::string_view key, bool) override { changed.emplace_back(key); }
  void OnExpiry(std::string_view key) override { expired.emplace_back(key); }
  void OnClear() override {}

  bool active_ = true;
  std::vector<std::string> changed;
  std::vector<std::string> expired;
};

class KvExpiryTest : public testing::Test {
 protected:
  void Open(int partitions = 1, Policy policy = Policy::kNoEviction) {
    KvStoreOptions options;
    options.partitions = partitions;
    options.memory_bytes = uint64_t{64} << 20;
    options.policy = policy;
    options.clock = [this] { return now_ms_.load(); };
    options.ticks = false;
    auto store = KvStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    store_->watch_table()->SetListener(&listener_);
  }
  std::string Run(std::string_view line) { return redis::RunLine(store_.get(), line, 2); }

  Listener listener_;  // outlives the store
  std::atomic<int64_t> now_ms_{1'700'000'000'000};
  std::unique_ptr<KvStore> store_;
};

TEST_F(KvExpiryTest, LookUp_OfAKeyThatHasExpired_TellsOnce) {
  for (const Policy policy : {Policy::kNoEviction, Policy::kLfu}) {
    Open(2, policy);
    for (const char* look :
         {"GET k", "EXISTS k", "TTL k", "TYPE k", "MGET other k", "STRLEN k", "DEL k", "GETDEL k",
          "APPEND k x", "INCR k", "GETEX k", "PERSIST k", "SET k 1 XX", "GETSET k 1"}) {
      SCOPED_TRACE(look);
      listener_.expired.clear();
      EXPECT_EQ(Run("SET k 1 PX 100"), "+OK");
      now_ms_ += 99;
      Run("EXISTS k");
      EXPECT_THAT(listener_.expired, IsEmpty());
      now_ms_ += 1;
      Run(look);
      EXPECT_THAT(listener_.expired, ElementsAre("k"));
      Run("GET k");
      Run("EXISTS k");
      store_->Tick();
      EXPECT_THAT(listener_.expired, ElementsAre("k"));
      Run("DEL k");
    }
  }
}

TEST_F(KvExpiryTest, Tick_ThatGivesSegmentsBack_TellsOfEachKey) {
  Open(2);
  std::multiset<std::string> keys;
  for (int i = 0; i < 5000; ++i) {
    const std::string key = absl::StrCat("key", i);
    Run(absl::StrCat("SET ", key, " 1 PX 1000"));
    keys.insert(key);
  }
  Run("SET kept 1 PX 100000000");
  Run("SET stays 1");
  now_ms_ += 999;
  store_->Tick();
  EXPECT_THAT(listener_.expired, IsEmpty());
  now_ms_ += 1;
  // Few at a time, as there may be many who are told.
  int ticks = 1;
  for (size_t told = 0; store_->Tick(); ++ticks) {
    EXPECT_LE(listener_.expired.size() - told, 1000u);
    told = listener_.expired.size();
    ASSERT_LT(ticks, 1000);
  }
  EXPECT_GT(ticks, 5);
  EXPECT_EQ(std::multiset<std::string>(listener_.expired.begin(), listener_.expired.end()), keys);
  EXPECT_EQ(Run("DBSIZE"), ":2");
}

// Who ticks is told that there are more, so that many are not given back at some thousand a tenth
// of a second.
TEST_F(KvExpiryTest, Tick_OfMoreThanOneLooksAt_SaysSoUntilAllAreGone) {
  Open(1);
  store_->watch_table()->SetListener(nullptr);
  for (int i = 0; i < 3 * Partition::kTickItems; ++i) Run(absl::StrCat("SET key", i, " 1 PX 1000"));
  EXPECT_FALSE(store_->Tick());
  now_ms_ += 1000;
  int ticks = 1;
  while (store_->Tick()) ASSERT_LT(++ticks, 100);
  EXPECT_GT(ticks, 2);
  EXPECT_EQ(Run("DBSIZE"), ":0");
}

// Values of more than a segment have one of their own.
TEST_F(KvExpiryTest, Tick_ThatGivesALargeValueBack_TellsOfItsKey) {
  Open();
  Run("SETRANGE k 5000000 x");
  Run("PEXPIRE k 1000");
  now_ms_ += 1000;
  store_->Tick();
  EXPECT_THAT(listener_.expired, ElementsAre("k"));
}

// Each key that has been written is told of: it was changed, dropped, or has expired.
TEST_F(KvExpiryTest, RandomCommands_TellOfEachKeyThatEnds) {
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  Open(2);
  std::set<std::string> known;  // as a client that tracks would have it
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = absl::StrCat("k", random() % 50);
    switch (random() % 6) {
      case 0:
        Run(absl::StrCat("SET ", key, " 1 PX ", 1 + random() % 3000));
        break;
      case 1:
        Run(absl::StrCat("PEXPIRE ", key, " ", random() % 3000));
        break;
      case 2:
        Run(absl::StrCat("DEL ", key));
        break;
      case 3:
        now_ms_ += static_cast<int64_t>(random() % 100);
        store_->Tick();
        break;
      default:
        break;
    }
    for (const auto* told : {&listener_.changed, &listener_.expired}) {
      for (const std::string& k : *told) known.erase(k);
    }
    listener_.changed.clear();
    listener_.expired.clear();
    const bool exists = Run(absl::StrCat("EXISTS ", key)) == ":1";
    for (const std::string& k : listener_.expired) known.erase(k);
    // What was there, and is not, was told of.
    ASSERT_TRUE(exists || known.count(key) == 0) << key;
    if (exists) known.insert(key);
  }
}

TEST_F(KvExpiryTest, Watch_OfAKeyThatHadExpiredBefore_IsNotBrokenByItsEnd) {
  Open();
  Run("SET k 1 PX 100");
  now_ms_ += 100;
  redis::WatchTable::Set watches(store_->watch_table());
  const std::string_view key = "k";
  std::string error;
  ASSERT_TRUE(store_->Watch(&key, 1, true, &watches, &error));
  Run("GET k");
  store_->Tick();
  EXPECT_FALSE(watches.Broken(now_ms_));
}

TEST_F(KvExpiryTest, NobodyListens_NobodyIsTold) {
  Open();
  listener_.active_ = false;
  Run("SET k 1 PX 100");
  now_ms_ += 100;
  Run("GET k");
  EXPECT_THAT(listener_.expired, IsEmpty());
}

}  // namespace
}  // namespace pulse::kv
