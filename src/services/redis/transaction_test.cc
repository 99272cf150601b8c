// Transactions of a store: what they read and write, their limits, and WATCH.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "services/redis/test_store.h"

namespace pulse::redis {
namespace {

class TransactionTest : public ::testing::Test {
 protected:
  std::string Exec(std::vector<std::string> lines, const WatchTable::Set* watches = nullptr) {
    std::vector<Request> requests(lines.size());
    std::vector<Store::Queued> queued;
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_TRUE(requests[i].Parse(lines[i]).ok());
      queued.push_back({FindCommand(requests[i][0]), &requests[i].arguments()});
    }
    WatchTable::Set none(store->watch_table());
    std::string out;
    ReplyWriter reply(&out, 2);
    CommandCounts counts;
    store->RunTransaction(
        queued, watches == nullptr ? none : *watches,
        [](const Store::Queued&, ReplyWriter* r) { r->Simple("other"); }, &reply, &counts);
    return TestStore::Plain(out);
  }
  void Watch(WatchTable::Set* watches, std::string_view key) {
    std::string error;
    ASSERT_TRUE(store->Watch(&key, 1, true, watches, &error));
    ASSERT_EQ(error, "");
  }
  TestStore store;
};

TEST_F(TransactionTest, Exec_OwnWrites_AreSeenAndCommitted) {
  store("MSET a 1 z 26");
  EXPECT_EQ(Exec({"SET b 2", "INCR a", "GET a", "DEL z", "EXISTS z a b", "PING", "KEYS *",
                  "INCRBY a x", "MGET a z", "DBSIZE"}),
            "*10 +OK :2 $1 2 :1 :2 +other *2 $1 a $1 b -ERR value is not an integer or out of "
            "range *2 $1 2 $-1 :2");
  EXPECT_EQ(store("MGET a b z"), "*3 $1 2 $1 2 $-1");
}

// What is counted is stored, written here, or not there; one read after the other.
TEST_F(TransactionTest, Exists_StoredAndBufferedKeys_CountsBoth) {
  store("MSET a 1 c 3");
  ASSERT_TRUE(store->db()->Flush(rocksdb::FlushOptions()).ok());
  store("MGET a c");
  EXPECT_EQ(Exec({"SET b x", "DEL c", "EXISTS a b c nope a b", "MGET a b c a"}),
            "*4 +OK :1 :4 *4 $1 1 $1 x $-1 $1 1");
}

TEST_F(TransactionTest, FlushAll_WithinTransaction_HidesEarlierKeys) {
  store("MSET a 1 b 2");
  EXPECT_EQ(Exec({"SET c 3", "FLUSHALL", "EXISTS a c", "SET b 4", "KEYS *", "DBSIZE"}),
            "*6 +OK +OK :0 +OK *1 $1 b :1");
  EXPECT_EQ(store("KEYS *"), "*1 $1 b");
}

// Beyond the limit commands are answered by errors, but what they write is written.
TEST_F(TransactionTest, Exec_LargeReplies_ErrorsButWritesCommitted) {
  store.options().limits.max_reply = 1000;
  store.Reopen();
  const std::string value(400, 'v');
  store("SET a " + value);
  const std::string one = " $400 " + value;
  EXPECT_EQ(Exec({"GET a", "GET a", "GET a", "GET a", "SET b 1", "GETSET a 2", "STRLEN a"}),
            "*7" + one + one +
                " -ERR too many values for one reply; ask for fewer keys"
                " -ERR too many values for one reply; ask for fewer keys"
                " +OK"
                " -ERR too many values for one reply; this command was carried out"
                " -ERR too many values for one reply; ask for fewer keys");
  EXPECT_EQ(store("MGET a b"), "*2 $1 2 $1 1");
}

// A short transaction can write much; too much of it is none.
TEST_F(TransactionTest, Exec_TooManyBytesWritten_NothingCommitted) {
  store.options().max_transaction = 2000;
  store.Reopen();
  store("SET k before");
  const std::string error =
      "-ERR the transaction would write more than 2000 bytes; nothing was written: make it "
      "smaller";
  EXPECT_EQ(Exec({"SET k after", "SETRANGE a 900 x", "SETRANGE b 900 x", "SETRANGE c 900 x"}),
            error);
  EXPECT_EQ(store("MGET k a b c"), "*4 $6 before $-1 $-1 $-1");
  // What is written twice counts once.
  EXPECT_EQ(Exec({"SETRANGE a 900 x", "SETRANGE a 901 x", "SETRANGE a 902 x", "DEL a", "SET k x"}),
            "*5 :901 :902 :903 :1 +OK");
}

TEST_F(TransactionTest, Watch_KeyChanged_ExecFails) {
  store("SET a 1");
  WatchTable::Set watches(store->watch_table());
  Watch(&watches, "a");
  EXPECT_EQ(Exec({"SET a 2"}, &watches), "*1 +OK");
  EXPECT_TRUE(watches.Broken(store.now_ms));  // by its own write; EXEC ends the watch
  watches.Clear();
  Watch(&watches, "a");
  store("SET other 1");
  store("SET a 3 NX");  // changes nothing
  store("DEL nope");
  EXPECT_EQ(Exec({"GET a"}, &watches), "*1 $1 2");
  for (const char* change : {"SET a 2", "DEL a", "INCR a", "EXPIRE a 100", "MSET b 1 a 2",
                             "RENAME a b", "COPY other a", "FLUSHALL", "GETSET a 5"}) {
    watches.Clear();
    Watch(&watches, "a");
    EXPECT_EQ(Exec({"PING"}, &watches), "*1 +other");
    store(change);
    EXPECT_EQ(Exec({"SET a bad"}, &watches), "*-1") << change;
  }
  watches.Clear();
  store("SET a 1 PX 100");
  Watch(&watches, "a");
  EXPECT_EQ(Exec({"PING"}, &watches), "*1 +other");
  store.now_ms += 100;
  EXPECT_EQ(Exec({"SET a bad"}, &watches), "*-1");
  watches.Clear();
  EXPECT_EQ(store->watch_table()->watches(), 0u);
}

// The classical use: a counter that is read, and written if nobody else has.
TEST_F(TransactionTest, Watch_ConcurrentCounters_LoseNoUpdate) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  store("SET n 0");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      WatchTable::Set watches(store->watch_table());
      for (int done = 0; done < kEach;) {
        watches.Clear();
        Watch(&watches, "n");
        const std::string seen = store("GET n");
        const int next = std::stoi(seen.substr(seen.find(' ') + 1)) + 1;
        done += Exec({"SET n " + std::to_string(next)}, &watches) == "*1 +OK";
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store("GET n"), "$3 800");
}

}  // namespace
}  // namespace pulse::redis
