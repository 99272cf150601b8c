// Plain GETs and SETs of several clients, which a thread of the host carries out together: as if
// each had gone alone, whatever is between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/kv/test_executor.h"
#include "services/kv/test_server.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

// What one executor says of each request alone, and another of all that go together.
TEST(PlainBatchTest, RandomRequests_AreAnsweredAsEachAlone) {
  std::mt19937_64 random(testing_util::TestSeed());
  TestExecutor alone;
  TestExecutor together;
  for (int round = 0; round < 300; ++round) {
    redis::PlainBatch plain;
    std::vector<std::string> expected;
    const size_t count = 1 + random() % 200;
    while (plain.entries.size() < count) {
      const std::string key = absl::StrCat("key", random() % 40);
      const bool is_set = random() % 3 == 0;
      const size_t sizes[] = {0, random() % 100, random() % 20'000};
      const std::string value(is_set ? sizes[random() % 3] : 0,
                              static_cast<char>('a' + round % 26));
      if (!together.executor.AddPlain(together.session, is_set, key, value, &plain)) {
        ASSERT_TRUE(value.size() > redis::PlainBatch::kMostValue ||
                    !plain.HasRoom(key.size(), value.size()));
        if (!plain.entries.empty()) break;
        continue;
      }
      alone.batch.Clear();
      alone.batch.Add(1, is_set ? absl::StrCat("*3\r\n$3\r\nSET\r\n$", key.size(), "\r\n", key,
                                               "\r\n$", value.size(), "\r\n", value, "\r\n")
                                : absl::StrCat("GET ", key, "\r\n"));
      ASSERT_EQ(alone.Run(), redis::Executor::Stop::kEnd);
      expected.push_back(alone.batch.out);
    }
    together.executor.RunPlain(&plain);
    size_t bytes = 0;
    for (size_t i = 0; i < plain.done(); ++i) {
      ASSERT_EQ(plain.ReplyOf(i), expected[i]) << round << ", " << i;
      bytes += expected[i].size();
    }
    // What was left out is behind a reply that was too many.
    if (plain.done() < plain.entries.size()) {
      EXPECT_GT(bytes, redis::PlainBatch::kMostBytes);
    }
    for (size_t i = plain.done(); i < plain.entries.size(); ++i) {
      const auto& entry = plain.entries[i];
      if (!entry.is_set) continue;
      together.batch.Clear();
      together.batch.Add(1, absl::StrCat("*3\r\n$3\r\nSET\r\n$", entry.key_size, "\r\n",
                                         std::string(plain.KeyOf(entry)), "\r\n$", entry.value_size,
                                         "\r\n", std::string(plain.ValueOf(entry)), "\r\n"));
      ASSERT_EQ(together.Run(), redis::Executor::Stop::kEnd);
    }
  }
  EXPECT_EQ(together.store->numbers().items, alone.store->numbers().items);
}

TEST(PlainBatchTest, LongValue_AndWhatIsBehindIt_IsLeftOut) {
  TestExecutor test;
  test.batch.Add(1, absl::StrCat("SET long ", std::string(20'000, 'x'), "\r\n"));
  test.batch.Add(2, "SET short y\r\n");
  ASSERT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  redis::PlainBatch plain;
  for (const char* key : {"short", "none", "long", "short"}) {
    ASSERT_TRUE(test.executor.AddPlain(test.session, false, key, "", &plain));
  }
  test.executor.RunPlain(&plain);
  ASSERT_EQ(plain.done(), 2u);
  EXPECT_EQ(plain.ReplyOf(0), "$1\r\ny\r\n");
  EXPECT_EQ(plain.ReplyOf(1), "$-1\r\n");
}

// Between the loop that collects and the thread that carries out.
TEST(PlainBatchTest, RightsOrClientsChangeMeanwhile_NothingIsCarriedOut) {
  const auto done_after = [](auto change) {
    TestExecutor test;
    redis::PlainBatch plain;
    EXPECT_TRUE(test.executor.AddPlain(test.session, true, "key", "value", &plain));
    change(&test);
    test.executor.RunPlain(&plain);
    return plain.done();
  };
  EXPECT_EQ(done_after([](TestExecutor*) {}), 1u);
  EXPECT_EQ(done_after([](TestExecutor* t) { t->facts.ended.fetch_add(1); }), 0u);
  EXPECT_EQ(done_after([](TestExecutor* t) { t->executor.End(); }), 0u);
  EXPECT_EQ(done_after([](TestExecutor* t) {
              EXPECT_TRUE(t->facts.pause.Begin(1'000'000, /*writes_only=*/true).ok());
            }),
            0u);
  EXPECT_EQ(done_after([](TestExecutor* t) {
              t->batch.Add(1, "ACL SETUSER other on nopass ~* +@all\r\n");
              EXPECT_EQ(t->Run(), redis::Executor::Stop::kEnd);
            }),
            0u);
}

TEST(PlainBatchTest, Cleared_KeepsLittleMemory) {
  TestExecutor test;
  redis::PlainBatch plain;
  const std::string value(16'000, 'x');
  while (test.executor.AddPlain(test.session, true, "key", value, &plain)) {
  }
  test.executor.RunPlain(&plain);
  EXPECT_GT(plain.bytes.capacity(), 200'000u);
  plain.Clear();
  EXPECT_LE(plain.bytes.capacity() + plain.out.capacity(), 128u << 10);
}

TEST(PlainBatchTest, SessionsWithAStateOfTheirOwn_DoNotJoin) {
  TestExecutor test;
  redis::PlainBatch plain;
  test.session.in_multi = true;
  EXPECT_FALSE(test.executor.AddPlain(test.session, false, "key", "", &plain));
  test.session.in_multi = false;
  test.session.replies_off = true;
  EXPECT_FALSE(test.executor.AddPlain(test.session, false, "key", "", &plain));
  test.session.replies_off = false;
  test.session.facts.subscribed = true;
  EXPECT_FALSE(test.executor.AddPlain(test.session, false, "key", "", &plain));
  test.session.facts.subscribed = false;
  EXPECT_TRUE(test.executor.AddPlain(test.session, false, "key", "", &plain));
  test.session.ended = true;
  EXPECT_FALSE(test.executor.AddPlain(test.session, false, "key", "", &plain));
}

// The agent has a CPU for itself, where there are two: its loops look instead of sleeping, and hold
// requests back until all clients have asked.
class PlainRequestsTest : public KvServerTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    OpenApart(2);
    ASSERT_TRUE(designs_->Set(GetParam()).ok());
  }
};

TEST_P(PlainRequestsTest, ManyClients_AreAnsweredInTheirOrder) {
  std::mt19937_64 random(testing_util::TestSeed());
  std::vector<std::unique_ptr<redis::BlockingClient>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<redis::BlockingClient>(port()));
  std::vector<std::string> values(clients.size(), "first");
  for (size_t c = 0; c < clients.size(); ++c) {
    ASSERT_EQ(clients[c]->Ask(absl::StrCat("set ", 100 + c, " first")), "+OK\r\n");
  }
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<std::string>> expected(clients.size());
    for (size_t c = 0; c < clients.size(); ++c) {
      std::string requests;
      for (size_t i = random() % 8; i > 0; --i) {
        const size_t kind = random() % 8;
        if (kind < 3) {
          values[c].assign(random() % (kind == 0 ? 30'000 : 50), static_cast<char>('a' + c));
          absl::StrAppend(&requests, "*3\r\n$3\r\nset\r\n$3\r\n", 100 + c, "\r\n$",
                          values[c].size(), "\r\n", values[c], "\r\n");
          expected[c].push_back("+OK\r\n");
        } else if (kind < 7) {
          absl::StrAppend(&requests, "GET ", 100 + c, "\r\n");
          expected[c].push_back(absl::StrCat("$", values[c].size(), "\r\n", values[c], "\r\n"));
        } else {
          absl::StrAppend(&requests, "strlen ", 100 + c, "\r\n");
          expected[c].push_back(absl::StrCat(":", values[c].size(), "\r\n"));
        }
      }
      clients[c]->Send(requests);
    }
    for (size_t c = 0; c < clients.size(); ++c) {
      for (const std::string& reply : expected[c]) {
        ASSERT_EQ(clients[c]->Receive(), reply) << round << ", client " << c;
      }
    }
  }
}

TEST_P(PlainRequestsTest, Statistics_CountThem) {
  redis::BlockingClient client(port());
  ASSERT_EQ(client.Ask("config set slowlog-log-slower-than 0"), "+OK\r\n");
  ASSERT_EQ(client.Ask("config resetstat"), "+OK\r\n");
  ASSERT_EQ(client.Ask("SET key value"), "+OK\r\n");
  ASSERT_EQ(client.Ask("GET key"), "$5\r\nvalue\r\n");
  ASSERT_EQ(client.Ask("GET none"), "$-1\r\n");
  EXPECT_THAT(client.Ask("client list"), HasSubstr("cmd=client"));
  const std::string stats = client.Ask("info commandstats");
  EXPECT_THAT(stats, HasSubstr("cmdstat_get:calls=2,"));
  EXPECT_THAT(stats, HasSubstr("cmdstat_set:calls=1,"));
  const std::string numbers = client.Ask("info stats");
  EXPECT_THAT(numbers, HasSubstr("keyspace_hits:1\r\n"));
  EXPECT_THAT(numbers, HasSubstr("keyspace_misses:1\r\n"));
  const std::string slow = client.Ask("slowlog get 20");
  EXPECT_THAT(slow, HasSubstr("$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"));
  EXPECT_THAT(slow, HasSubstr("$3\r\nGET\r\n$4\r\nnone\r\n"));
  ASSERT_EQ(client.Ask("config set slowlog-log-slower-than 10000"), "+OK\r\n");
}

// One that goes with others, and one that is too long for that.
TEST_P(PlainRequestsTest, PartOfAPipeline_IsCountedToo) {
  redis::BlockingClient client(port());
  const std::string value(20'000, 'x');
  ASSERT_EQ(client.Ask("set long " + value), "+OK\r\n");
  ASSERT_EQ(client.Ask("set short y"), "+OK\r\n");
  ASSERT_EQ(client.Ask("config resetstat"), "+OK\r\n");
  client.Send("get short\r\nget long\r\nget none\r\n");
  EXPECT_EQ(client.Receive(), "$1\r\ny\r\n");
  EXPECT_EQ(client.Receive(), absl::StrCat("$20000\r\n", value, "\r\n"));
  EXPECT_EQ(client.Receive(), "$-1\r\n");
  EXPECT_THAT(client.Ask("info commandstats"), HasSubstr("cmdstat_get:calls=3,"));
  EXPECT_THAT(client.Ask("info stats"), HasSubstr("keyspace_hits:2\r\n"));
}

TEST_P(PlainRequestsTest, StoreIsFull_SetsAreRefusedAndCounted) {
  redis::BlockingClient client(port());
  const std::string value(10'000, 'x');
  std::string reply = "+OK\r\n";
  for (int i = 0; reply == "+OK\r\n" && i < 20'000; ++i) {
    reply = client.Ask(absl::StrCat("set key", i, " ", value));
  }
  EXPECT_THAT(reply, HasSubstr("-OOM"));
  EXPECT_THAT(client.Ask("info errorstats"), HasSubstr("errorstat_OOM:count=1\r\n"));
  EXPECT_THAT(client.Ask("info commandstats"), HasSubstr("failed_calls=1"));
}

INSTANTIATE_TEST_SUITE_P(Designs, PlainRequestsTest, testing::Values("cpu", "lat", "sav", "dual"));

}  // namespace
}  // namespace pulse::kv
