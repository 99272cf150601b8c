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
  std::string Exec(const std::vector<std::string>& lines) { return RunExec(store.get(), lines); }
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

TEST_F(TransactionTest, Watch_KeyChanged_ExecFails) { PlayWatch(store); }

// The classical use: a counter that is read, and written if nobody else has.
TEST_F(TransactionTest, Watch_ConcurrentCounters_LoseNoUpdate) { PlayWatchedCounters(store); }

}  // namespace
}  // namespace pulse::redis
