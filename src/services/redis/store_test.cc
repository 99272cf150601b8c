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
  Play(store, {{"GET a", "$-1"},
               {"SET a 1", "+OK"},
               {"GET a", "$1 1"},
               {"SET a '' ", "+OK"},
               {"GET a", "$0 "},
               {"SET a x NX", "$-1"},
               {"SET b x XX", "$-1"},
               {"SET b x NX", "+OK"},
               {"SET b y XX GET", "$1 x"},
               {"SET b z NX GET", "$1 y"},
               {"GET b", "$1 y"},
               {"SET c z NX GET", "$-1"},
               {"GET c", "$1 z"},
               {"SET a 1 NX XX", "-ERR syntax error"},
               {"SET a 1 EX", "-ERR syntax error"},
               {"SET a 1 EX 1 PX 1", "-ERR syntax error"},
               {"SET a 1 EX 1 KEEPTTL", "-ERR syntax error"},
               {"SET a 1 EX 0", "-ERR invalid expire time in 'set' command"},
               {"SET a 1 EX x", "-ERR value is not an integer or out of range"},
               {"SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"},
               {"SETNX a 1", ":0"},
               {"SETNX d 1", ":1"},
               {"GETSET d 2", "$1 1"},
               {"GETSET e 2", "$-1"},
               {"GETDEL e", "$1 2"},
               {"GETDEL e", "$-1"},
               {"MSET a 1 b 2 a 3", "+OK"},
               {"MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"},
               {"MGET a b nope a", "*4 $1 3 $1 2 $-1 $1 3"},
               {"MSETNX n 1 a 2", ":0"},
               {"MSETNX n 1 m 2 n 3", ":1"},
               {"GET n", "$1 3"},
               {"STRLEN n", ":1"},
               {"STRLEN nope", ":0"},
               {"APPEND n 45", ":3"},
               {"APPEND q 1", ":1"},
               {"GETRANGE n 0 -1", "$3 345"},
               {"GETRANGE n -2 -1", "$2 45"},
               {"GETRANGE n 1 1", "$1 4"},
               {"GETRANGE n 5 9", "$0 "},
               {"GETRANGE n 2 1", "$0 "},
               {"GETRANGE n -100 0", "$1 3"},
               {"GETRANGE n -100 -200", "$0 "},
               {"GETRANGE n -200 -100", "$1 3"},
               {"GETRANGE n -1 -2", "$0 "},
               {"SUBSTR n 0 0", "$1 3"},
               {"SETRANGE n 1 xx", ":3"},
               {"GET n", "$3 3xx"},
               {"SETRANGE w 0 ''", ":0"},
               {"EXISTS w", ":0"},
               {"SETRANGE w -1 a", "-ERR offset is out of range"},
               {"SETRANGE w 99999999999 a",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"}});
  EXPECT_EQ(store("GET nope", 3), "_");
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
  EXPECT_EQ(TestStore::Plain(out), error);
  EXPECT_EQ(counts.errors, 1u);
  for (int i = 0; i < 20; ++i) store("SET key" + std::to_string(i) + " 1");
  EXPECT_EQ(store("KEYS *"), "-ERR too many keys for one reply; use SCAN");
}

TEST(StoreTest, NumberCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  Play(store, {{"INCR a", ":1"},
               {"INCRBY a 41", ":42"},
               {"DECR a", ":41"},
               {"DECRBY a 50", ":-9"},
               {"GET a", "$2 -9"},
               {"INCRBY a x", "-ERR value is not an integer or out of range"},
               {"SET a 9223372036854775807", "+OK"},
               {"INCR a", "-ERR increment or decrement would overflow"},
               {"DECRBY a -9223372036854775808", "-ERR decrement would overflow"},
               {"SET a ' 1'", "+OK"},
               {"INCR a", "-ERR value is not an integer or out of range"},
               {"SET f 10.50", "+OK"},
               {"INCRBYFLOAT f 0.1", "$4 10.6"},
               {"INCRBYFLOAT f -5", "$3 5.6"},
               {"SET f 5.0e3", "+OK"},
               {"INCRBYFLOAT f 2.0e2", "$4 5200"},
               {"INCRBYFLOAT f abc", "-ERR value is not a valid float"},
               {"INCRBYFLOAT f nan", "-ERR value is not a valid float"},
               {"INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"}});
  // What it has written, it reads.
  EXPECT_THAT(store("INCRBYFLOAT long 1e300"), StartsWith("$301 1000000000000000"));
  EXPECT_THAT(store("INCRBYFLOAT long 1"), StartsWith("$301 1000000000000000"));
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
      EXPECT_THAT(TestStore::Plain(out), StartsWith("$1000 " + value));
    }
  }
}

TEST(StoreTest, KeyCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  Play(store, {{"MSET a 1 b 2 c 3", "+OK"},
               {"EXISTS a b a nope", ":3"},
               {"TOUCH a nope", ":1"},
               {"DEL a a nope", ":1"},
               {"UNLINK b", ":1"},
               {"UNLINK b", ":0"},
               {"TYPE c", "+string"},
               {"TYPE a", "+none"},
               {"OBJECT ENCODING c", "$3 int"},
               {"OBJECT REFCOUNT c", ":1"},
               {"OBJECT ENCODING a", "$-1"},
               {"RENAME a b", "-ERR no such key"},
               {"RENAME c c", "+OK"},
               {"RENAME c d", "+OK"},
               {"MGET c d", "*2 $-1 $1 3"},
               {"RENAMENX d d", ":0"},
               {"SET e 1", "+OK"},
               {"RENAMENX d e", ":0"},
               {"RENAMENX d f", ":1"},
               {"GET f", "$1 3"},
               {"COPY f f", "-ERR source and destination objects are the same"},
               {"COPY f e", ":0"},
               {"COPY f e REPLACE", ":1"},
               {"COPY f g DB 1", "-ERR DB index is out of range"},
               {"COPY nope g", ":0"},
               {"COPY f g", ":1"},
               {"MGET e f g", "*3 $1 3 $1 3 $1 3"},
               {"DBSIZE", ":3"},
               {"KEYS *", "*3 $1 e $1 f $1 g"},
               {"KEYS [e-f]", "*2 $1 e $1 f"},
               {"FLUSHALL SOON", "-ERR syntax error"},
               {"FLUSHALL ASYNC", "+OK"},
               {"DBSIZE", ":0"},
               {"RANDOMKEY", "$-1"},
               {"SET '' empty", "+OK"},
               {"GET ''", "$5 empty"},
               {"RANDOMKEY", "$0 "},
               {"SCAN 0", "*2 $1 0 *1 $0 "},
               {"FLUSHDB", "+OK"},
               {"EXISTS ''", ":0"}});
}

TEST(StoreTest, ExpiryCommands_EachForm_ReplyAsRedis) {
  TestStore store;
  const auto after = [&](int64_t ms) { store.now_ms += ms; };
  Play(store, {{"TTL a", ":-2"},
               {"SET a 1", "+OK"},
               {"PTTL a", ":-1"},
               {"EXPIRETIME a", ":-1"},
               {"EXPIRE a 100", ":1"},
               {"TTL a", ":100"},
               {"EXPIRE a 50 GT", ":0"},
               {"EXPIRE a 50 NX", ":0"},
               {"EXPIRE a 50 LT", ":1"},
               {"EXPIRE a 60 XX", ":1"},
               {"EXPIRE a 60 NX GT",
                "-ERR NX and XX, GT or LT options at the same time are not compatible"},
               {"EXPIRE a 60 LT GT", "-ERR GT and LT options at the same time are not compatible"},
               {"EXPIRE a 60 EVER", "-ERR Unsupported option EVER"},
               {"EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"},
               {"PEXPIRE a 1500", ":1"},
               {"EXPIRETIME a", ":1700000002"},
               {"PEXPIRETIME a", ":1700000001500"},
               {"PERSIST a", ":1"},
               {"PERSIST a", ":0"},
               {"EXPIREAT a 1700000010", ":1"},
               {"PTTL a", ":10000"},
               {"INCR a", ":2"},
               {"APPEND a 0", ":2"},
               {"TTL a", ":10"},
               {"SET a 1 KEEPTTL", "+OK"},
               {"TTL a", ":10"},
               {"COPY a b", ":1"},
               {"RENAME b c", "+OK"},
               {"TTL c", ":10"}});
  after(9999);
  EXPECT_EQ(store("EXISTS a c"), ":2");
  after(1);
  Play(store, {{"GET a", "$-1"},
               {"MGET a c", "*2 $-1 $-1"},
               {"EXISTS a", ":0"},
               {"TTL a", ":-2"},
               {"EXPIRE a 5", ":0"},
               {"DEL a", ":0"},
               {"KEYS *", "*0"},
               {"DBSIZE", ":0"},
               {"SET a 2 NX", "+OK"},
               {"TTL a", ":-1"},
               {"SETEX a 5 v", "+OK"},
               {"PSETEX b 5000 v", "+OK"},
               {"SETEX a 0 v", "-ERR invalid expire time in 'setex' command"},
               {"GETEX a EX 100", "$1 v"},
               {"TTL a", ":100"},
               {"GETEX a PERSIST", "$1 v"},
               {"TTL a", ":-1"},
               {"GETEX a PERSIST EX 1", "-ERR syntax error"},
               {"SET a 1 PXAT 1", "+OK"},
               {"EXISTS a", ":0"},
               {"PEXPIRE b -1", ":1"},
               {"EXISTS b", ":0"},
               {"SET a 1 EX 5", "+OK"},
               {"SET a 1", "+OK"},
               {"TTL a", ":-1"}});
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
    EXPECT_EQ(TestStore::Plain(out.substr(ends[0])), "$1 1");
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
    return ran == Store::RunResult::kDone ? TestStore::Plain(out) : out + "would block";
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
