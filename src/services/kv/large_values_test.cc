// Large values of several clients at once, where they all together need more room than connections
// have: they wait for each other, and nobody is cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/testing.h"
#include "services/kv/test_executor.h"
#include "services/kv/test_server.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

class KvLargeValuesTest : public KvServerTest, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr size_t kValue = size_t{16} << 20;
  static constexpr int kClients = 10;
  // What connections may hold: two values, and the value and the reply of one beyond that.
  static constexpr size_t kBound = 4 * kValue + (size_t{2} << 20);

  void OpenForLargeValues() {
    options_.limits.max_bulk = kValue;
    options_.buffer_bytes = 4 * kValue;  // half of them for these
    options_.patience_ms = 600'000;
    memory_bytes_ = uint64_t{256} << 20;
    Open(2);
    ASSERT_TRUE(designs_->Set(GetParam()).ok());
  }
  static std::string SetOf(std::string_view key, std::string_view value) {
    std::string request;
    redis::AppendRequest({"SET", key, value}, &request);
    return request;
  }
  uint64_t Held() const { return server_->numbers().held_bytes; }
  // Clients with parts of `k` that they do not read: more than half of what connections may hold,
  // less than all of it.
  std::vector<std::unique_ptr<redis::BlockingClient>> KeepMuch() {
    std::vector<std::unique_ptr<redis::BlockingClient>> silent;
    while (Held() <= kValue + kValue / 2) {
      EXPECT_LT(silent.size(), 16u) << "the kernel keeps what they do not read";
      if (silent.size() >= 16) break;
      silent.push_back(std::make_unique<redis::BlockingClient>(port()));
      silent.back()->TakeLittle();
      silent.back()->Send("GETRANGE k 0 8388607\r\n");
      // Its reply is counted before the next one is asked for: who comes when there is no room for
      // a reply is first in line, and has two minutes to take it.
      silent.back()->AwaitBytes();
      testing_util::SettledValue([&] { return Held(); });
    }
    return silent;
  }
};

TEST_P(KvLargeValuesTest, Sets_OfSeveralClients_AllSucceed) {
  OpenForLargeValues();
  std::vector<std::thread> threads;
  for (int t = 0; t < kClients; ++t) {
    threads.emplace_back([&, t] {
      redis::BlockingClient client(port());
      const std::string value(kValue, static_cast<char>('a' + t));
      client.Send(SetOf(absl::StrCat("k", t % 4), value));
      EXPECT_EQ(client.Receive(), "+OK\r\n");
    });
  }
  for (auto& thread : threads) thread.join();
  redis::BlockingClient client(port());
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(client.Ask(absl::StrCat("STRLEN k", k)), absl::StrCat(":", kValue, "\r\n"));
  }
}

TEST_P(KvLargeValuesTest, Gets_OfClientsThatDoNotRead_TakeNoMoreThanTheyMay) {
  OpenForLargeValues();
  const std::string value(kValue, 'v');
  redis::BlockingClient writer(port());
  writer.Send(SetOf("k", value));
  ASSERT_EQ(writer.Receive(), "+OK\r\n");
  std::vector<std::unique_ptr<redis::BlockingClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<redis::BlockingClient>(port()));
    clients.back()->TakeLittle();
    // memcached's, too, and such as read several values at once.
    clients.back()->Send(i % 3 == 0   ? "get k\r\n"
                         : i % 3 == 1 ? "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
                                      : "MULTI\r\nGETRANGE k 0 -1\r\nEXEC\r\n");
  }
  EXPECT_LE(testing_util::SettledValue([&] { return Held(); }), kBound);
  // Which others' small requests do not wait for.
  EXPECT_EQ(writer.Ask("SET other 1"), "+OK\r\n");
  EXPECT_EQ(writer.Ask("GET other"), "$1\r\n1\r\n");
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      if (i % 3 == 0) {
        EXPECT_EQ(clients[i]->ReadUntil("END\r\n"),
                  absl::StrCat("VALUE k 0 ", kValue, "\r\n", value, "\r\nEND\r\n"));
        return;
      }
      const std::string bulk = absl::StrCat("$", kValue, "\r\n", value, "\r\n");
      if (i % 3 == 2) {
        EXPECT_EQ(clients[i]->Receive(), "+OK\r\n");
        EXPECT_EQ(clients[i]->Receive(), "+QUEUED\r\n");
      }
      EXPECT_EQ(clients[i]->Receive(), i % 3 == 1 ? bulk : absl::StrCat("*1\r\n", bulk));
    });
  }
  for (auto& thread : threads) thread.join();
}

// Whoever is first in line goes on beyond the limit, and is not stopped again where its command has
// to go to a thread that may wait.
TEST_P(KvLargeValuesTest, Exec_WhileOthersKeepTheRoom_IsCarriedOut) {
  OpenForLargeValues();
  redis::BlockingClient writer(port());
  const std::string value(kValue, 'v');
  writer.Send(SetOf("k", value));
  ASSERT_EQ(writer.Receive(), "+OK\r\n");
  const auto silent = KeepMuch();
  const std::string bulk = absl::StrCat("$", kValue, "\r\n", value, "\r\n");
  redis::BlockingClient client(port());
  client.Send("MULTI\r\nGET k\r\nEXEC\r\n");
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  EXPECT_EQ(client.Receive(), "+QUEUED\r\n");
  EXPECT_TRUE(client.Receive() == absl::StrCat("*1\r\n", bulk));
  client.Send("GET k\r\n");
  EXPECT_TRUE(client.Receive() == bulk);
  redis::BlockingClient memcached(port());
  memcached.Send("get k\r\n");
  EXPECT_EQ(memcached.ReadUntil("END\r\n").size(), value.size() + 27);
}

// Of small replies: a few are made at a time, and none is forgotten.
TEST_P(KvLargeValuesTest, Pipeline_WhileOthersKeepTheRoom_IsAnsweredToItsEnd) {
  OpenForLargeValues();
  redis::BlockingClient writer(port());
  writer.Send(SetOf("k", std::string(kValue, 'v')));
  ASSERT_EQ(writer.Receive(), "+OK\r\n");
  const auto silent = KeepMuch();
  const std::string value(2000, 's');
  ASSERT_EQ(writer.Ask("SET small " + value), "+OK\r\n");
  constexpr int kRequests = 3000;  // 6 MB of replies
  std::string requests;
  for (int i = 0; i < kRequests; ++i) requests += "GET small\r\n";
  redis::BlockingClient client(port());
  client.TakeLittle();
  EXPECT_EQ(client.Ask("PING"), "+PONG\r\n");
  client.Send(requests);
  const std::string reply = absl::StrCat("$2000\r\n", value, "\r\n");
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(client.Receive(), reply) << i;
  redis::BlockingClient memcached(port());
  memcached.TakeLittle();
  requests.clear();
  for (int i = 0; i < kRequests; ++i) requests += "get small\r\n";
  memcached.Send(requests + "mn\r\n");
  const std::string all = memcached.ReadUntil("MN\r\n");
  EXPECT_EQ(all.size(),
            kRequests * absl::StrCat("VALUE small 0 2000\r\n", value, "\r\nEND\r\n").size() + 4);
}

// What was delivered leaves at once, and then nothing more happens to the connection.
TEST_P(KvLargeValuesTest, LargeReplyBehindSmallOne_WhileOthersKeepTheRoom_Comes) {
  OpenForLargeValues();
  const std::string value(kValue, 'v');
  const std::string small(16 << 10, 's');
  redis::BlockingClient writer(port());
  writer.Send(SetOf("k", value));
  ASSERT_EQ(writer.Receive(), "+OK\r\n");
  ASSERT_EQ(writer.Ask("SET small " + small), "+OK\r\n");
  const auto silent = KeepMuch();
  redis::BlockingClient memcached(port());
  memcached.Send("get small\r\nget k\r\nmn\r\n");
  EXPECT_GT(memcached.ReadUntil("MN\r\n").size(), value.size() + small.size());
  redis::BlockingClient client(port());
  client.Send("GET small\r\nGET k\r\n");
  EXPECT_EQ(client.Receive().size(), small.size() + 10);
  EXPECT_EQ(client.Receive().size(), value.size() + 13);
}

// Beside the store's memory: replies, and values that are made of others.
TEST(KvRoomTest, Commands_WaitForTheRoomThatTheyTake_AndNoMore) {
  TestExecutor test;
  constexpr uint64_t kSize = uint64_t{2} << 20;
  ASSERT_EQ(redis::RunLine(test.store.get(), "SET k " + std::string(kSize, 'v')), "+OK");
  ASSERT_EQ(redis::RunLine(test.store.get(), "SET small v"), "+OK");
  test.session.buffers = std::make_shared<net::ByteBudget>(kSize / 2);
  const auto lacks = [&](const std::string& line) {
    test.batch.Clear();
    test.batch.Add(1, line + "\r\n");
    const bool full = test.Run() == redis::Executor::Stop::kFull;
    EXPECT_EQ(full, test.batch.lacks > 0) << line;
    return test.batch.lacks;
  };
  for (const char* line :
       {"get k", "getrange k 0 -1", "getrange k -2097152 -1", "getrange k 0 99999999",
        "set k v nx get", "append k x", "setrange k 5 x", "setbit k 7 1", "bitfield k set u8 0 1",
        "bitop or d k small k", "rename k d", "renamenx k d", "copy k d"}) {
    EXPECT_EQ(lacks(line), kSize) << line;
  }
  for (const char* line :
       {"getrange k -2 -1", "getrange k -99999999 3", "getrange k 5 4", "getrange k 2097152 -1",
        "strlen k", "set k v nx", "setnx k v", "append small x", "getbit k 7", "bitcount k"}) {
    EXPECT_EQ(lacks(line), 0u) << line;
  }
}

// What each may have at the most, on a loop and while nothing is held.
TEST(KvRoomTest, Lists_OfKeysAndClients_WaitForTheRoomThatTheyMayTake) {
  TestExecutor test;
  test.session.buffers = std::make_shared<net::ByteBudget>(uint64_t{1} << 20);
  const auto lacks = [&](const std::string& line) {
    test.batch.Clear();
    test.batch.Add(1, line + "\r\n");
    const bool full = test.Run(/*may_block=*/false) == redis::Executor::Stop::kFull;
    EXPECT_EQ(full, test.batch.lacks > 0) << line;
    return test.batch.lacks;
  };
  const uint64_t most = test.store->limits().max_reply;
  std::string unsubscribe = "unsubscribe";
  for (int i = 0; i < 30'000; ++i) unsubscribe += " c";
  EXPECT_EQ(lacks("keys none*"), most);
  EXPECT_EQ(lacks("scan 0 match none* count 1000000"), most);
  EXPECT_EQ(lacks("scan 0 count 2000"), uint64_t{2000} << 10);
  EXPECT_EQ(lacks("cluster getkeysinslot 1 1000000"), most);
  EXPECT_GT(lacks(unsubscribe), uint64_t{1} << 20);
  for (const char* line : {"scan 0", "scan 0 count x", "client list", "client id", "cluster info",
                           "cluster countkeysinslot 1", "unsubscribe"}) {
    EXPECT_EQ(lacks(line), 0u) << line;
  }
  redis::ClientFacts facts;
  facts.name = std::string(1000, 'n');
  std::vector<uint64_t> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(test.facts.clients.Add(facts, nullptr, nullptr));
  EXPECT_GT(lacks("client list"), uint64_t{1000} * 1000);
  for (const uint64_t id : ids) test.facts.clients.Remove(id);
  EXPECT_EQ(lacks("client list"), 0u);
  EXPECT_EQ(test.facts.clients.list_bytes(), 0u);
}

TEST(KvRoomTest, Values_ThatEndWhereTheArgumentsSay_WaitForTheRoomThatTheyTake) {
  TestExecutor test;
  constexpr uint64_t kSize = uint64_t{2} << 20;
  test.session.buffers = std::make_shared<net::ByteBudget>(kSize / 2);
  const auto lacks = [&](const std::vector<std::string_view>& words) {
    std::string bytes;
    redis::AppendRequest(words, &bytes);
    test.batch.Clear();
    test.batch.Add(1, bytes);
    const bool full = test.Run(/*may_block=*/false) == redis::Executor::Stop::kFull;
    EXPECT_EQ(full, test.batch.lacks > 0) << words[0];
    return test.batch.lacks;
  };
  const std::string value(kSize, 'v');
  // Packed, 8000 bytes that become as many; its sum is not looked at before there is room.
  const std::string packed = std::string("\x00\xC3\x5F\x40\x80\x00\x20\x00\x00", 9) +
                             std::string(8000, 'p') + std::string(10, '\0');
  for (const std::vector<std::string_view>& words :
       std::vector<std::vector<std::string_view>>{{"SETRANGE", "new", "2097150", "xy"},
                                                  {"SETBIT", "new", "16777215", "1"},
                                                  {"BITFIELD", "new", "SET", "u8", "#2097151", "1"},
                                                  {"BITFIELD", "new", "GET", "u8", "0", "OVERFLOW",
                                                   "SAT", "INCRBY", "i16", "16777200", "1"},
                                                  {"APPEND", "new", value},
                                                  {"RESTORE", "new", "0", packed}}) {
    EXPECT_EQ(lacks(words), kSize) << words[0];
  }
  for (const std::vector<std::string_view>& words :
       std::vector<std::vector<std::string_view>>{{"SETRANGE", "new", "99999999999", "xy"},
                                                  {"SETRANGE", "new", "2097150", ""},
                                                  {"SETRANGE", "new", "-1", "xy"},
                                                  {"SETBIT", "new", "99999999999", "1"},
                                                  {"SETBIT", "new", "7", "1"},
                                                  {"BITFIELD", "new", "GET", "u8", "#2097151"},
                                                  {"BITFIELD", "new", "SET", "u8", "x", "1"},
                                                  {"BITFIELD", "new", "SET", "u8"},
                                                  {"RESTORE", "new", "0", "no dump"}}) {
    EXPECT_EQ(lacks(words), 0u) << words[0];
  }
}

TEST(KvRoomTest, ListOfKeys_OfWhomItIsTheTurn_IsAnswered) {
  TestExecutor test;
  ASSERT_EQ(redis::RunLine(test.store.get(), "SET k v"), "+OK");
  test.session.buffers = std::make_shared<net::ByteBudget>(uint64_t{1} << 20);
  for (const char* line : {"multi\r\n", "keys *\r\n", "exec\r\n"}) test.batch.Add(1, line);
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kFull);
  EXPECT_EQ(test.batch.lacks, test.store->limits().max_reply);
  test.batch.lacks = 0;
  test.batch.may_exceed = true;
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  EXPECT_THAT(test.batch.out, testing::EndsWith("*1\r\n*1\r\n$1\r\nk\r\n"));
  EXPECT_EQ(test.session.buffers->held(), 0u);
}

// So that what it may need is known before it begins.
TEST(KvRoomTest, Scan_OfLongKeys_EndsEarlyAndMeetsAllOfThem) {
  TestExecutor test;
  constexpr size_t kKeys = 200, kKey = 20'000;
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key = absl::StrCat(1000 + i, std::string(kKey, 'k'));
    ASSERT_EQ(redis::RunLine(test.store.get(), absl::StrCat("SET ", key, " v")), "+OK");
  }
  std::set<std::string> met;
  std::string cursor = "0";
  do {
    const std::string reply =
        redis::RunLine(test.store.get(), absl::StrCat("SCAN ", cursor, " COUNT 1000"));
    // Beyond it, what is left of one bucket.
    ASSERT_LT(reply.size(), kKeys * kKey / 2);
    // *2 $n cursor *m $k key ...
    const std::vector<std::string> words = absl::StrSplit(reply, ' ');
    ASSERT_GE(words.size(), 4u);
    cursor = words[2];
    for (size_t i = 5; i < words.size(); i += 2) met.insert(words[i]);
  } while (cursor != "0");
  EXPECT_EQ(met.size(), kKeys);
}

// Several loops may look at the same room: each asks first.
TEST(KvRoomTest, Command_OnALoopWhileNothingIsHeld_WaitsWhereItTakesMoreThanAllRoom) {
  TestExecutor test;
  constexpr uint64_t kSize = uint64_t{2} << 20;
  ASSERT_EQ(redis::RunLine(test.store.get(), "SET k " + std::string(kSize, 'v')), "+OK");
  test.session.buffers = std::make_shared<net::ByteBudget>(kSize / 2);
  for (const char* line : {"get k\r\n", "getrange k 0 -1\r\n", "mget none k\r\n",
                           "bitop or d none k\r\n", "rename k d\r\n", "copy k d\r\n"}) {
    test.batch.Clear();
    test.batch.Add(1, line);
    EXPECT_EQ(test.Run(/*may_block=*/false), redis::Executor::Stop::kFull) << line;
    EXPECT_EQ(test.batch.lacks, kSize) << line;
  }
  test.session.buffers = std::make_shared<net::ByteBudget>(2 * kSize);
  test.batch.Clear();
  test.batch.Add(1, "get k\r\n");
  EXPECT_EQ(test.Run(/*may_block=*/false), redis::Executor::Stop::kEnd);
}

TEST(KvRoomTest, Exec_OnALoopWhileNothingIsHeld_WaitsWhereItTakesMoreThanAllRoom) {
  TestExecutor test;
  constexpr uint64_t kSize = uint64_t{2} << 20;
  ASSERT_EQ(redis::RunLine(test.store.get(), "SET k " + std::string(kSize, 'v')), "+OK");
  test.session.buffers = std::make_shared<net::ByteBudget>(kSize / 2);
  for (const char* line : {"multi\r\n", "get k\r\n", "exec\r\n"}) test.batch.Add(1, line);
  EXPECT_EQ(test.Run(/*may_block=*/false), redis::Executor::Stop::kFull);
  EXPECT_EQ(test.batch.next, 2u);
  EXPECT_EQ(test.batch.lacks, kSize);
}

// Alone they wait for nobody: they tell why others wait.
TEST(KvRoomTest, Exec_OfManyThatTellOfTheServer_WaitsForTheRoomThatTheyMayTake) {
  TestExecutor test;
  test.session.buffers = std::make_shared<net::ByteBudget>(uint64_t{1} << 20);
  const auto run = [&](const char* line, int times) {
    test.batch.Clear();
    test.batch.Add(1, "multi\r\n");
    for (int i = 0; i < times; ++i) test.batch.Add(1, line);
    test.batch.Add(1, "exec\r\n");
    return test.Run();
  };
  for (const char* line : {"info\r\n", "command docs\r\n", "config get *\r\n"}) {
    EXPECT_EQ(run(line, 3), redis::Executor::Stop::kEnd) << line;
    EXPECT_EQ(run(line, 1000), redis::Executor::Stop::kFull) << line;
    EXPECT_EQ(test.batch.lacks, 1000u * (16 << 10)) << line;
    test.batch.Clear();
    test.batch.Add(1, "discard\r\n");
    EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
    test.session.buffers->Take(uint64_t{1} << 20);
    test.batch.Clear();
    test.batch.Add(1, line);
    EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd) << line;
    test.session.buffers->Give(uint64_t{1} << 20);
  }
  EXPECT_EQ(run("ping\r\n", 1000), redis::Executor::Stop::kEnd);
}

// Each is small by itself.
TEST(KvRoomTest, Mget_OfManySmallValues_WaitsWhereTheyAreMoreThanAllRoom) {
  TestExecutor test;
  const std::string value(10'000, 'v');
  ASSERT_EQ(redis::RunLine(test.store.get(), "SET k " + value), "+OK");
  test.session.buffers = std::make_shared<net::ByteBudget>(uint64_t{128} << 10);
  const auto run = [&](int keys) {
    std::string line = "mget";
    for (int i = 0; i < keys; ++i) line += " k";
    test.batch.Clear();
    test.batch.Add(1, line + "\r\n");
    return test.Run(/*may_block=*/false);
  };
  EXPECT_EQ(run(6), redis::Executor::Stop::kEnd);
  EXPECT_EQ(run(20), redis::Executor::Stop::kFull);
  EXPECT_EQ(test.batch.lacks, 20 * value.size());
}

TEST_F(KvServerTest, Request_OfBoundedMemory_IsAsLongAsOneLongestValueNeeds) {
  constexpr size_t kValue = size_t{2} << 20;
  options_.limits.max_bulk = kValue;
  options_.buffer_bytes = 4 * kValue;
  Open();
  const std::string value(kValue, 'v');
  std::string one;
  redis::AppendRequest({"MSET", std::string(60'000, 'k'), value}, &one);
  redis::BlockingClient client(port());
  client.Send(one);
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  std::string two;
  redis::AppendRequest({"MSET", "a", value, "b", value}, &two);
  client.Send(two);
  EXPECT_THAT(client.Receive(), testing::HasSubstr("longer than the limit"));
}

INSTANTIATE_TEST_SUITE_P(Designs, KvLargeValuesTest, testing::Values("cpu", "lat"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace pulse::kv
