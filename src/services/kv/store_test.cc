#include "services/kv/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

class TestKvStore {
 public:
  explicit TestKvStore(int partitions, uint64_t mib = 64, Policy policy = Policy::kNoEviction,
                       uint64_t max_reply = redis::KeyspaceLimits().max_reply) {
    KvStoreOptions options;
    options.limits.max_reply = max_reply;
    options.partitions = partitions;
    options.memory_bytes = mib << 20;
    options.policy = policy;
    options.clock = [this] { return now_ms.load(); };
    options.ticks = false;
    options.seed = 1;
    auto store = KvStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  std::string operator()(std::string_view line, int protocol = 2) {
    return redis::RunLine(store_.get(), line, protocol);
  }
  KvStore* operator->() { return store_.get(); }
  KvStore* get() { return store_.get(); }
  std::atomic<int64_t> now_ms{1'700'000'000'000};

 private:
  std::unique_ptr<KvStore> store_;
};

class KvStoreTest : public testing::TestWithParam<int> {
 protected:
  TestKvStore store{GetParam()};
};

TEST_P(KvStoreTest, StringCommands_EachForm_ReplyAsRedis) { redis::PlayStringCommands(store); }
TEST_P(KvStoreTest, BitCommands_EachForm_ReplyAsRedis) { redis::PlayBitCommands(store); }
TEST_P(KvStoreTest, NumberCommands_EachForm_ReplyAsRedis) { redis::PlayNumberCommands(store); }
TEST_P(KvStoreTest, KeyCommands_EachForm_ReplyAsRedis) { redis::PlayKeyCommands(store); }
TEST_P(KvStoreTest, DumpCommands_EachForm_ReplyAsRedis) { redis::PlayDumpCommands(store); }
TEST_P(KvStoreTest, ExpiryCommands_EachForm_ReplyAsRedis) { redis::PlayExpiryCommands(store); }
TEST_P(KvStoreTest, KeyThatIsTooLong_ErrorTellsTheLimit) {
  const std::string key(65'536, 'k');
  const std::string error = "-ERR the key has 65536 bytes, and may have 65535";
  EXPECT_EQ(store("SET " + key + " 1"), error);
  EXPECT_EQ(store("MSET a 1 " + key + " 1"), error);
  EXPECT_EQ(store("GET a"), "$-1");
  EXPECT_EQ(store("SET " + key.substr(1) + " 1"), "+OK");
}

TEST_P(KvStoreTest, LargestValue_OfEachWayToStoreOne_IsNoLessThanIt) {
  EXPECT_EQ(store->largest_value(), 0u);
  store("SET a " + std::string(100, 'v'));
  const uint64_t first = store->largest_value();
  EXPECT_GE(first, 100u);
  EXPECT_LT(first, 200u);
  store("SET b v");
  EXPECT_EQ(store->largest_value(), first);
  store("APPEND b " + std::string(1000, 'v'));
  EXPECT_GE(store->largest_value(), 1001u);
  store("SETRANGE b 2000 v");
  EXPECT_GE(store->largest_value(), 2001u);
  store("SETBIT b 24000 1");
  EXPECT_GE(store->largest_value(), 3001u);
  const uint64_t last = store->largest_value();
  EXPECT_LT(last, 3200u);
  store("FLUSHALL");
  EXPECT_EQ(store->largest_value(), last);
}

// What would have to be taken back, if a later key had no room, is kept beside --memory.
TEST(KvStoreLimitsTest, Mset_OverMoreValuesThanAreKept_IsRefusedAndChangesNothing) {
  TestKvStore store(2, 64, Policy::kNoEviction, /*max_reply=*/3000);
  const std::string value(900, 'v');
  for (const char* key : {"a", "b", "c", "d"}) store("SET " + std::string(key) + " " + value);
  EXPECT_EQ(store("MSET x 1 a 1 b 1 c 1 d 1"),
            "-ERR the values that this command replaces have more than 3000 bytes in all; use "
            "several commands");
  EXPECT_EQ(store("MGET x a"), "*2 $-1 $900 " + value);
  EXPECT_EQ(store("STRLEN c"), ":900");
  EXPECT_EQ(store("MSET a 1 b 1"), "+OK");
  EXPECT_EQ(store("MSET a " + value + " b " + value), "+OK");  // new ones count for nothing
  // Of two keys, any values.
  const std::string large(4000, 'l');
  store("SET a " + large);
  store("SET b " + large);
  EXPECT_EQ(store("RENAME a b"), "+OK");
  EXPECT_EQ(store("MSET b 1 c 1"), "+OK");
}

TEST(KvStoreLimitsTest, Mget_OfMoreValuesThanAReplyMayHave_IsRefusedHoweverManyKeysAreBetween) {
  TestKvStore store(2, 64, Policy::kNoEviction, /*max_reply=*/1000);
  store("SET a " + std::string(600, 'a'));
  store("SET large " + std::string(1001, 'l'));
  std::string gap;
  for (int i = 0; i < 1500; ++i) gap += " none";
  EXPECT_THAT(store("MGET a" + gap + " b"), testing::StartsWith("*1502 $600 aaa"));
  const std::string error = "-ERR too many values for one reply; ask for fewer keys";
  EXPECT_EQ(store("MGET a a"), error);
  EXPECT_EQ(store("MGET a" + gap + " a"), error);
  EXPECT_EQ(store("MGET" + gap + " large"), error);
  EXPECT_THAT(store("MGET large"), testing::StartsWith("*1 $1001 lll"));
}

TEST_P(KvStoreTest, Watch_KeyChanged_ExecFails) { redis::PlayWatch(store); }
TEST_P(KvStoreTest, Flushall_WatchedKeyThatIsNotThere_HasNotChanged) {
  redis::WatchTable::Set none(store->watch_table());
  redis::WatchTable::Set some(store->watch_table());
  const std::string_view keys[] = {"none", "some"};
  std::string error;
  EXPECT_EQ(store("SET some 1"), "+OK");
  ASSERT_TRUE(store->Watch(&keys[0], 1, true, &none, &error));
  ASSERT_TRUE(store->Watch(&keys[1], 1, true, &some, &error));
  EXPECT_EQ(store("FLUSHALL"), "+OK");
  EXPECT_EQ(redis::RunExec(store.get(), {"SET a 1"}, &none), "*1 +OK");
  EXPECT_EQ(redis::RunExec(store.get(), {"SET a 1"}, &some), "*-1");
}

TEST_P(KvStoreTest, ResetCounters_WhatExpiredBefore_IsNotCounted) {
  const auto expired = [&] {
    std::string info;
    store->AddInfo("stats", &info);
    return info.substr(0, info.find('\r'));
  };
  store("SET a 1 PX 5");
  store.now_ms += 10;
  EXPECT_EQ(store("GET a"), "$-1");
  EXPECT_EQ(expired(), "expired_keys:1");
  store->ResetCounters();
  EXPECT_EQ(expired(), "expired_keys:0");
}

TEST_P(KvStoreTest, Watch_ConcurrentCounters_LoseNoUpdate) { redis::PlayWatchedCounters(store); }

TEST_P(KvStoreTest, Scan_WhileOthersWrite_MeetsEachStableKey) {
  for (int i = 0; i < 5000; ++i) store("SET stable" + std::to_string(i) + " 1");
  std::set<std::string> met;
  std::string cursor = "0";
  int added = 0;
  do {
    const std::string reply = store("SCAN " + cursor + " COUNT 37");
    // *2 $n cursor *m $k key ...
    std::vector<std::string> words;
    size_t at = 0;
    while (at < reply.size()) {
      const size_t end = std::min(reply.find(' ', at), reply.size());
      words.push_back(reply.substr(at, end - at));
      at = end + 1;
    }
    ASSERT_GE(words.size(), 4u) << reply;
    cursor = words[2];
    for (size_t i = 5; i < words.size(); i += 2) met.insert(words[i]);
    for (int i = 0; i < 50; ++i) store("SET other" + std::to_string(added++) + " 1");
  } while (cursor != "0");
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(met.contains("stable" + std::to_string(i))) << i;
  // As in Redis, any number is a cursor.
  EXPECT_EQ(store("SCAN 18446744073709551615"), "*2 $1 0 *0");
  EXPECT_EQ(store("SCAN -1"), "*2 $1 0 *0");
}

TEST_P(KvStoreTest, RandomKey_OfTwo_ReturnsBoth) {
  store("MSET a 1 b 2");
  std::set<std::string> drawn;
  for (int i = 0; i < 200; ++i) drawn.insert(store("RANDOMKEY"));
  EXPECT_EQ(drawn.size(), 2u);
}

TEST_P(KvStoreTest, GetsAndSets_Together_ReplyInOrder) {
  std::mt19937_64 random(20261125);
  std::map<std::string, std::string> model;
  for (int round = 0; round < 500; ++round) {
    const size_t count = 1 + random() % 64;
    std::vector<redis::Request> requests(count);
    std::vector<std::string> lines(count);
    const bool sets = random() % 2 == 0;
    std::string expected;
    for (size_t i = 0; i < count; ++i) {
      const std::string key = "k" + std::to_string(random() % 500);
      if (sets) {
        const std::string value(1 + random() % 50, static_cast<char>('a' + random() % 26));
        lines[i] = "SET " + key + " " + value + "\r\n";
        model[key] = value;
      } else {
        lines[i] = "GET " + key + "\r\n";
        const auto it = model.find(key);
        expected += it == model.end()
                        ? "$-1\r\n"
                        : "$" + std::to_string(it->second.size()) + "\r\n" + it->second + "\r\n";
      }
      ASSERT_TRUE(requests[i].Parse(lines[i]).ok());
    }
    if (sets) {
      std::vector<const redis::Request*> all;
      for (const auto& request : requests) all.push_back(&request);
      std::vector<std::string> errors(count);
      ASSERT_EQ(store->RunSets(all, false, absl::MakeSpan(errors)),
                redis::Keyspace::RunResult::kDone);
      for (const std::string& error : errors) ASSERT_EQ(error, "");
      continue;
    }
    std::string out;
    redis::ReplyWriter reply(&out, 2);
    std::vector<size_t> ends;
    redis::CommandCounts counts;
    ASSERT_EQ(store->RunGets(requests.data(), count, UINT64_MAX, false, &reply, &ends, &counts),
              redis::Keyspace::RunResult::kDone);
    ASSERT_EQ(out, expected);
    ASSERT_EQ(ends.size(), count);
  }
}

// Money moves between accounts in transactions; whoever reads all of them together sees its sum.
TEST_P(KvStoreTest, Transactions_OverPartitions_AreIsolated) {
  constexpr int kAccounts = 8;
  std::string all = "MGET";
  for (int i = 0; i < kAccounts; ++i) {
    store("SET account" + std::to_string(i) + " 100");
    all += " account" + std::to_string(i);
  }
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 3000; ++i) {
        const std::string from = "account" + std::to_string(random() % kAccounts);
        const std::string to = "account" + std::to_string(random() % kAccounts);
        redis::RunExec(store.get(), {"DECRBY " + from + " 7", "INCRBY " + to + " 7"});
      }
      done = true;
    });
  }
  while (!done) {
    const std::string reply = store(all);
    int64_t sum = 0;
    for (size_t at = reply.find(' '); at != std::string::npos; at = reply.find(' ', at + 1)) {
      if (reply[at + 1] != '$') sum += std::stoll(reply.substr(at + 1));
    }
    ASSERT_EQ(sum, kAccounts * 100) << reply;
  }
  for (auto& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Partitions, KvStoreTest, testing::Values(1, 3));

// Another client comes as soon as EXEC has read the clock, and drops the key if that is over.
TEST(KvStoreClockTest, Exec_WatchedKeyExpiresAtThatTime_FailsOrSeesTheKey) {
  std::atomic<int64_t> now_ms{1'700'000'000'000};
  std::atomic<bool> comes{false};
  std::unique_ptr<KvStore> store;
  KvStoreOptions options;
  options.memory_bytes = uint64_t{32} << 20;
  options.ticks = false;
  options.clock = [&]() -> int64_t {
    const int64_t now = now_ms;
    if (!comes.exchange(false)) return now;
    now_ms += 10;
    std::thread([&] {
      store->WithPartition("watched", /*may_block=*/false, [](Partition& partition, uint64_t hash) {
        partition.Find("watched", hash);
      });
    }).join();
    return now;
  };
  auto opened = KvStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  store = *std::move(opened);
  EXPECT_EQ(redis::RunLine(store.get(), "SET watched 1 PX 5"), "+OK");
  redis::WatchTable::Set watches(store->watch_table());
  redis::WatchKey(store.get(), &watches, "watched");
  comes = true;
  EXPECT_THAT(redis::RunExec(store.get(), {"EXISTS watched"}, &watches),
              testing::AnyOf("*-1", "*1 :1"));
  EXPECT_FALSE(comes);
  EXPECT_EQ(redis::RunExec(store.get(), {"EXISTS watched"}, &watches), "*-1");
}

TEST(KvStoreLimitsTest, FullStore_RefusesWritesAndAnswersReads) {
  TestKvStore store(1, 16);
  int stored = 0;
  const std::string value(1000, 'v');
  while (store("SET k" + std::to_string(stored) + " " + value) == "+OK") ++stored;
  EXPECT_GT(stored, 5000);
  const std::string oom = "-OOM command not allowed when used memory > 'maxmemory'.";
  EXPECT_EQ(store("SET new " + value), oom);
  EXPECT_EQ(store("APPEND k1 " + std::string(300'000, 'w')), oom);
  EXPECT_EQ(store("STRLEN k1"), ":1000");
  EXPECT_EQ(redis::RunExec(store.get(), {"SET new " + value, "STRLEN k2"}), "*2 " + oom + " :1000");
  EXPECT_EQ(store->Configure("maxmemory-policy", "allkeys-lru"), "");
  EXPECT_EQ(store("SET new " + value), "+OK");
  EXPECT_LE(store->numbers().used_bytes, uint64_t{16} << 20);
}

// With a store that takes nothing more, what adds nothing is still done, and what fails is not
// half done.
TEST(KvStoreLimitsTest, FullStore_CommandsOfSeveralWrites_AreWholeOrNothing) {
  TestKvStore store(1, 16);
  store("MSET victim precious m1 old m2 old");
  int stored = 0;
  for (const size_t size : {1000, 100, 1}) {
    const std::string value(size, 'v');
    while (store("SET k" + std::to_string(stored) + " " + value) == "+OK") ++stored;
  }
  EXPECT_EQ(store("RENAME victim a-name-that-is-longer-than-the-old-one"), "+OK");
  EXPECT_EQ(store("GET a-name-that-is-longer-than-the-old-one"), "$8 precious");
  EXPECT_EQ(store("EXPIRE k5 1000"), ":1");
  EXPECT_EQ(store("TTL k5"), ":1000");
  EXPECT_EQ(store("PERSIST k5"), ":1");
  const std::string large(3'000'000, 'l');
  EXPECT_THAT(store("MSET m1 new n1 new m2 " + large), HasSubstr("-OOM"));
  EXPECT_EQ(store("MGET m1 n1 m2"), "*3 $3 old $-1 $3 old");
  EXPECT_THAT(store("MSETNX n1 new n2 " + large), HasSubstr("-OOM"));
  EXPECT_EQ(store("EXISTS n1 n2"), ":0");
  EXPECT_EQ(store("GETEX k6 EX 100"), "$1000 " + std::string(1000, 'v'));
}

TEST(KvStoreLimitsTest, Scan_WithSmallReplies_MeetsEachKey) {
  KvStoreOptions options;
  options.memory_bytes = uint64_t{32} << 20;
  options.limits.max_reply = 500;
  options.ticks = false;
  auto store = KvStore::Open(options);
  ASSERT_TRUE(store.ok());
  for (int i = 0; i < 3000; ++i) redis::RunLine(store->get(), "SET key" + std::to_string(i) + " 1");
  std::set<std::string> met;
  std::string cursor = "0";
  do {
    const std::string reply = redis::RunLine(store->get(), "SCAN " + cursor + " COUNT 100000");
    std::vector<std::string> words;
    for (size_t at = 0; at < reply.size();) {
      const size_t end = std::min(reply.find(' ', at), reply.size());
      words.push_back(reply.substr(at, end - at));
      at = end + 1;
    }
    cursor = words[2];
    for (size_t i = 5; i < words.size(); i += 2) met.insert(words[i]);
  } while (cursor != "0");
  EXPECT_EQ(met.size(), 3000u);
}

TEST(KvStoreLimitsTest, Watch_KeyEvicted_ExecFails) {
  TestKvStore store(1, 16, Policy::kRandom);
  store("SET watched 1");
  redis::WatchTable::Set watches(store->watch_table());
  redis::WatchKey(store.get(), &watches, "watched");
  const std::string value(1000, 'v');
  for (int i = 0; store("EXISTS watched") == ":1"; ++i) {
    store("SET k" + std::to_string(i) + " " + value);
  }
  EXPECT_EQ(redis::RunExec(store.get(), {"GET watched"}, &watches), "*-1");
}

// Which moves items, and drops others.
TEST(KvStoreLimitsTest, CopyAndRename_WhileRoomIsMade_KeepTheValue) {
  TestKvStore store(1, 16, Policy::kLru);
  const auto value = [](int i) { return std::string(20'000, static_cast<char>('a' + i % 26)); };
  int copied = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(i);
    ASSERT_EQ(store("SET a" + number + " " + value(i)), "+OK");
    if (i < 250) continue;
    const int before = i - (i % 2 == 0 ? 100 : 250);
    const std::string old = "a" + std::to_string(before);
    if (store("COPY " + old + " copy" + number) == ":1") {
      ++copied;
      ASSERT_EQ(store("GET copy" + number), "$20000 " + value(before));
    }
    // It may have gone, but no other value come.
    if (store("RENAME " + old + " a-longer-name" + number) == "+OK") {
      ASSERT_EQ(store("GET a-longer-name" + number), "$20000 " + value(before));
    }
  }
  EXPECT_GT(copied, 100);
  EXPECT_GT(store->numbers().evicted, 0u);
}

TEST(KvStoreLimitsTest, RandomKey_BesideExpiredOnes_FindsTheLiveOne) {
  TestKvStore store(2);
  for (int i = 0; i < 1000; ++i) store("SET k" + std::to_string(i) + " v PX 10");
  store("SET live 1");
  store.now_ms += 10;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(store("RANDOMKEY"), "$4 live");
}

TEST(KvStoreLimitsTest, Look_WithoutUse_CountsNoUse) {
  TestKvStore store(1, 16, Policy::kLfu);
  store("SET a 1");
  for (int i = 0; i < 5; ++i) {
    store("EXISTS a");
    store("TTL a");
    store("TYPE a");
    EXPECT_EQ(store("OBJECT FREQ a"), ":0");
  }
  store("GET a");
  EXPECT_EQ(store("OBJECT FREQ a"), ":1");
}

TEST(KvStoreLimitsTest, Configure_UnknownValues_KeepsTheOldOnes) {
  TestKvStore store(1);
  EXPECT_THAT(store->Configure("maxmemory-policy", "volatile-lru"), HasSubstr("allkeys-lfu"));
  EXPECT_THAT(store->Configure("maxmemory", "1g"), HasSubstr("--memory"));
  EXPECT_THAT(store->Configure("design", "shrd"), HasSubstr("stays in force"));
  EXPECT_EQ(store->Configure("design", "cpu"), "");
  EXPECT_THAT(store->Configure("save", "1"), HasSubstr("ERR Unknown option"));
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : store->Settings()) settings[std::string(name)] = value;
  EXPECT_EQ(settings["maxmemory-policy"], "noeviction");
  EXPECT_EQ(settings["design"], "cpu");
}

TEST(KvStoreLimitsTest, Keyspace_KeysThatExpire_AreCounted_WithTheirMeanTimeToLive) {
  TestKvStore store(2);
  const auto keyspace = [&] {
    std::string lines;
    store->AddInfo("keyspace", &lines);
    return lines;
  };
  EXPECT_EQ(keyspace(), "");
  store("SET a 1");
  EXPECT_EQ(keyspace(), "db0:keys=1,expires=0,avg_ttl=0\r\n");
  store("SET b 1 EX 100");
  store("SET c 1");
  store("EXPIRE c 300");
  EXPECT_EQ(keyspace(), "db0:keys=3,expires=2,avg_ttl=200000\r\n");
  store.now_ms += 50'000;
  EXPECT_EQ(keyspace(), "db0:keys=3,expires=2,avg_ttl=150000\r\n");
  store("EXPIRE b 450");
  EXPECT_EQ(keyspace(), "db0:keys=3,expires=2,avg_ttl=350000\r\n");
  store("PERSIST b");
  EXPECT_EQ(keyspace(), "db0:keys=3,expires=1,avg_ttl=250000\r\n");
  store("SET c 2");
  EXPECT_EQ(keyspace(), "db0:keys=3,expires=0,avg_ttl=0\r\n");
  // The furthest that there is; the mean does not overflow.
  store("PEXPIREAT a 9223372036854775806");
  EXPECT_THAT(keyspace(), HasSubstr("expires=1,avg_ttl=6889934542000"));
  store("FLUSHALL");
  store("SET a 1");
  EXPECT_EQ(keyspace(), "db0:keys=1,expires=0,avg_ttl=0\r\n");
}

TEST(KvStoreLimitsTest, Maxmemory_OfAProcess_IsItsLimit_AndThePartitionsHaveTheirOwn) {
  KvStoreOptions options;
  options.memory_bytes = uint64_t{64} << 20;
  options.told_memory_bytes = uint64_t{100} << 20;
  options.ticks = false;
  const auto store = KvStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  std::string lines;
  (*store)->AddInfo("memory", &lines);
  EXPECT_THAT(lines, HasSubstr("maxmemory:104857600\r\n"));
  EXPECT_THAT(lines, HasSubstr("partition_limit:67108864\r\n"));
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : (*store)->Settings()) settings[std::string(name)] = value;
  EXPECT_EQ(settings["maxmemory"], "104857600");
  for (const char* same : {"104857600", "100mb", "100MB", "102400kb", "104857600b"}) {
    EXPECT_EQ((*store)->Configure("maxmemory", same), "") << same;
  }
  for (const char* other :
       {"104857601", "100m", "1gb", "0", "", "mb", "100 mb", "-1", "bla", "17592186044516mb"}) {
    EXPECT_THAT((*store)->Configure("maxmemory", other),
                HasSubstr("CONFIG SET failed - maxmemory is fixed at start, by --memory"))
        << other;
  }
  EXPECT_EQ((*store)->Settings()[2].second, "104857600");
}

TEST(KvStoreLimitsTest, Expired_ByTicks_IsGivenBack) {
  TestKvStore store(2);
  for (int i = 0; i < 10'000; ++i) store("SET k" + std::to_string(i) + " v PX 1000");
  EXPECT_EQ(store("DBSIZE"), ":10000");
  store.now_ms += 1001;
  for (int i = 0; i < 20; ++i) store->Tick();
  EXPECT_EQ(store("DBSIZE"), ":0");
  EXPECT_EQ(store->numbers().expired, 10'000u);
}

}  // namespace
}  // namespace pulse::kv
