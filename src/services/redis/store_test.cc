#include "services/redis/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "services/redis/test_store.h"

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(StoreTest, StringCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  PlayStringCommands(store);
}

TEST(StoreTest, ManyValues_BeyondReplyLimit_Error) {
  TestStore store;
  store.options().limits.max_reply = 100;
  store.Reopen();
  const std::string value(40, 'v');
  Play(store, {{"MSET a 1 b 2", "+OK"}, {"KEYS *", "*2 $1 a $1 b"}});
  for (const char* key : {"a", "b"}) store("SET " + std::string(key) + " " + value);
  const std::string error = "-ERR too many values for one reply; ask for fewer keys";
  const std::string one = " $40 " + value;
  // From memory, and from files.
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(store("MGET a b"), "*2" + one + one);
    EXPECT_EQ(store("MGET a b a"), error);
    EXPECT_EQ(store("MGET a a a a a a a a nope"), error);
    EXPECT_EQ(store("EXISTS a b a nope"), ":3");
    ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());
  }
  EXPECT_EQ(store("MGET a b"), "*2" + one + one);  // on the loop, too
  Request request;
  ASSERT_TRUE(request.Parse("MGET a b a\r\n").ok());
  std::string out;
  ReplyWriter reply(&out, 2);
  CommandCounts counts;
  ASSERT_EQ(store->Run(*FindCommand("mget"), request.arguments(), false, &reply, &counts),
            Store::RunResult::kDone);
  EXPECT_EQ(PlainReply(out), error);
  for (int i = 0; i < 20; ++i) store("SET key" + std::to_string(i) + " 1");
  EXPECT_EQ(store("KEYS *"), "-ERR too many keys for one reply; use SCAN");
}

TEST(StoreTest, BitCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  PlayBitCommands(store);
}

TEST(StoreTest, NumberCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  PlayNumberCommands(store);
}

// More keys than are read together, in memory and in files, some of them not there.
TEST(StoreTest, ManyKeyCommands_AnyNumberOfKeys_ReplyAsRedis) {
  TestStore store;
  std::string get = "MGET";
  std::string exist = "EXISTS";
  std::string expected = "*50";
  for (int i = 0; i < 50; ++i) {
    const std::string key = "k" + std::to_string(i);
    get += " " + key;
    exist += " " + key + " " + key;
    if (i % 7 == 0) {
      expected += " $-1";
      continue;
    }
    store("SET " + key + " v" + std::to_string(i));
    expected += (i < 10 ? " $2 v" : " $3 v") + std::to_string(i);
    if (i == 25) {
      ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());
    }
  }
  EXPECT_EQ(store(get), expected);
  EXPECT_EQ(store(exist), ":84");
}

// GETs that follow each other are answered as far as their values have room; one always is.
TEST(StoreTest, RunGets_BeyondByteLimit_AnswersAPrefix) {
  TestStore store;
  const std::string value(1000, 'v');
  for (const char* key : {"a", "b", "c"}) store("SET " + std::string(key) + " " + value);
  std::vector<Request> requests(4);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(requests[i].Parse("GET " + std::string(1, "axbc"[i]) + "\r\n").ok());
  }
  for (const bool may_block : {false, true}) {
    for (const auto& [most, answered] : {std::pair<uint64_t, size_t>{1, 1}, {2500, 3}, {5000, 4}}) {
      std::string out;
      ReplyWriter reply(&out, 2);
      std::vector<size_t> ends;
      CommandCounts counts;
      ASSERT_EQ(
          store->RunGets(requests.data(), requests.size(), most, may_block, &reply, &ends, &counts),
          Store::RunResult::kDone);
      EXPECT_EQ(ends.size(), answered) << most;
      EXPECT_EQ(counts.commands, answered) << most;
      EXPECT_THAT(PlainReply(out), StartsWith("$1000 " + value));
    }
  }
}

TEST(StoreTest, KeyCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  PlayKeyCommands(store);
  // In the order of their bytes.
  Play(store, {{"MSET g 1 f 1 e 1", "+OK"},
               {"KEYS *", "*3 $1 e $1 f $1 g"},
               {"KEYS [e-f]", "*2 $1 e $1 f"}});
}

TEST(StoreTest, DumpCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  PlayDumpCommands(store);
}

TEST(StoreTest, ExpiryCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  PlayExpiryCommands(store);
}

TEST(StoreTest, Compaction_ExpiredValues_Dropped) {
  TestStore store;
  store("SETEX a 1 v");
  store("SETEX b 100 v");
  store("SET c v");
  store.now_ms += 5000;
  ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());
  ASSERT_TRUE(store->db()->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(store->expired_dropped(), 1u);
  std::unique_ptr<rocksdb::Iterator> it(store->db()->NewIterator(rocksdb::ReadOptions()));
  std::string keys;
  for (it->SeekToFirst(); it->Valid(); it->Next()) keys += it->key().ToString();
  EXPECT_EQ(keys, "bc");
}

TEST(StoreTest, Open_OwnOrForeignDatabase_KeepsOrRefuses) {
  TestStore store;
  store("SET a 1 EX 100");
  store.Reopen();
  EXPECT_EQ(store("TTL a"), ":100");
  EXPECT_EQ(store("GET a"), "$1 1");

  const auto locked = Store::Open(store.options());
  EXPECT_THAT(locked.status().message(), HasSubstr("in use by another process"));
  StoreOptions nowhere;
  nowhere.path = store.path() + "/no/such";
  EXPECT_THAT(Store::Open(nowhere).status().message(), HasSubstr("expected a directory"));

  ASSERT_TRUE(store->db()->Put(rocksdb::WriteOptions(), "A", "text").ok());
  EXPECT_THAT(store("GET A"), HasSubstr("-ERR the database says: Corruption"));
  {
    // One bad value does not spoil the others of a pipeline.
    std::vector<Request> requests(2);
    ASSERT_TRUE(requests[0].Parse("GET A").ok() && requests[1].Parse("GET a").ok());
    std::string out;
    ReplyWriter reply(&out, 2);
    std::vector<size_t> ends;
    CommandCounts counts;
    ASSERT_EQ(store->RunGets(requests.data(), 2, UINT64_MAX, true, &reply, &ends, &counts),
              Store::RunResult::kDone);
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(PlainReply(out.substr(ends[0])), "$1 1");
  }
  ASSERT_TRUE(store->Close().ok());
  EXPECT_THAT(Store::Open(store.options()).status().message(),
              HasSubstr("a database of another program"));
}

// What the loops rely on: without leave to block, a command answers from memory, or does nothing.
TEST(StoreTest, Run_WithoutLeaveToBlock_NeverWaits) {
  TestStore store;
  store("MSET a 1 b 2");
  ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());
  store.Reopen();  // nothing is cached
  const auto run = [&](const char* line) {
    Request request;
    EXPECT_TRUE(request.Parse(line).ok());
    std::string out;
    ReplyWriter reply(&out, 2);
    CommandCounts counts;
    const auto ran =
        store->Run(*FindCommand(request[0]), request.arguments(), false, &reply, &counts);
    return ran == Store::RunResult::kDone ? PlainReply(out) : out + "would block";
  };
  EXPECT_EQ(run("GET a"), "would block");
  EXPECT_EQ(run("INCR a"), "would block");
  EXPECT_EQ(run("MGET a b"), "would block");
  EXPECT_EQ(run("SCAN 0"), "would block");
  EXPECT_EQ(run("FLUSHALL"), "would block");
  EXPECT_EQ(run("SET c 1"), "+OK");
  EXPECT_EQ(run("GET c"), "$1 1");
  EXPECT_EQ(store("GET a"), "$1 1");
  EXPECT_EQ(run("GET a"), "$1 1");
  EXPECT_EQ(run("INCR a"), ":2");
}

TEST(StoreTest, Writes_ManyThreads_LoseNoUpdate) {
  if (testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "RocksDB's flush reads what its writers wrote, unseen by the sanitizer";
  }
  TestStore store;
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        store(i % 2 == 0 ? "INCR n" : "INCRBY n 1");
        store("APPEND s x");
        if (i % 50 == 0 && t == 0) store("FLUSHALL");  // takes every lock
        if (i % 50 == 0) store("MSETNX x 1 y 2 z 3");
        if (i % 50 == 25) store("DEL z y x");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  store("SET n 0");
  threads.clear();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) store("INCR n");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store("GET n"), "$4 8000");
}

}  // namespace
}  // namespace pulse::redis
