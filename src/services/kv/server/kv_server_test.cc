// The served store inside a program (pulse/kv_server.h): its calls beside clients of its port.
#include "pulse/kv_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/own_threads.h"
#include "base/testing.h"
#include "services/redis/test_server.h"

namespace pulse {
namespace {

using redis::BlockingClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_util::Text;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::unique_ptr<KvServer> Started(const KvServerOptions& options) {
  auto server = KvServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string Refusal(const KvServerOptions& options) {
  const auto server = KvServer::Start(options);
  EXPECT_FALSE(server.ok());
  return Text(server.status());
}

class KvServerCallsTest : public testing::Test {
 protected:
  std::string Value(std::string_view key) {
    std::string value;
    const absl::Status status = server_->Get(key, &value);
    return status.ok() ? value : absl::IsNotFound(status) ? "(none)" : Text(status);
  }
  const std::unique_ptr<KvServer> server_ =
      Started({.memory_bytes = 128 * kMiB, .threads = 2, .partitions = 4});
};

TEST_F(KvServerCallsTest, Items_OfProgramAndClients_AreTheSame) {
  BlockingClient client(server_->port());
  EXPECT_TRUE(server_->Set("a", "of the program").ok());
  EXPECT_EQ(client.Ask("GET a"), "$14\r\nof the program\r\n");
  EXPECT_EQ(client.Ask("set b client"), "+OK\r\n");
  EXPECT_EQ(Value("b"), "client");
  EXPECT_TRUE(server_->Delete("b").ok());
  EXPECT_TRUE(absl::IsNotFound(server_->Delete("b")));
  EXPECT_EQ(client.Ask("GET b"), "$-1\r\n");

  EXPECT_TRUE(server_->Set("c", "1", {.ttl_ms = 100'000}).ok());
  EXPECT_EQ(client.Ask("ttl c"), ":100\r\n");
  EXPECT_EQ(*server_->Increment("c", 4), 5);
  EXPECT_EQ(client.Ask("ttl c"), ":100\r\n");
  EXPECT_TRUE(server_->Set("c", "gone", {.expires_ms = 1}).ok());
  EXPECT_EQ(client.Ask("exists c"), ":0\r\n");

  BlockingClient memcached(server_->port());
  memcached.Send("set d 7 0 1\r\n3\r\nget a d\r\n");
  EXPECT_EQ(memcached.ReadUntil("END\r\n"),
            "STORED\r\nVALUE a 0 14\r\nof the program\r\nVALUE d 7 1\r\n3\r\nEND\r\n");
  EXPECT_EQ(*server_->Increment("d"), 4);
  memcached.Send("get d\r\n");
  EXPECT_EQ(memcached.ReadUntil("END\r\n"), "VALUE d 7 1\r\n4\r\nEND\r\n");
}

TEST_F(KvServerCallsTest, Watch_OfAKeyThatTheProgramWrites_FailsExec) {
  BlockingClient client(server_->port());
  const std::vector<std::string_view> keys = {"k"};
  const std::vector<KvPair> pairs = {{"k", "1"}};
  std::string value;
  const std::vector<std::pair<bool, std::function<absl::Status()>>> calls = {
      {true, [&] { return server_->Set("k", "1"); }},
      {true, [&] { return server_->Increment("k").status(); }},
      {true, [&] { return server_->SetBatch(pairs); }},
      {true, [&] { return server_->Delete("k"); }},
      {true, [&] { return server_->SetBatch(pairs); }},
      {false, [&] { return server_->Get("k", &value); }},
      {false, [&] { return server_->GetBatch(keys, [](size_t, auto) {}); }},
      {false, [&] { return server_->Set("other", "1"); }},
      {true, [&] { return server_->DeleteBatch(keys); }},
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(client.Ask("watch k"), "+OK\r\n");
    EXPECT_TRUE(calls[i].second().ok()) << i;
    EXPECT_EQ(client.Ask("multi"), "+OK\r\n");
    EXPECT_EQ(client.Ask("exists none"), "+QUEUED\r\n");
    EXPECT_EQ(client.Ask("exec"), calls[i].first ? "*-1\r\n" : "*1\r\n:0\r\n") << i;
  }
}

TEST_F(KvServerCallsTest, TrackedKey_ThatTheProgramWrites_IsInvalidated) {
  BlockingClient client(server_->port());
  client.Ask("hello 3");
  EXPECT_EQ(client.Ask("client tracking on"), "+OK\r\n");
  client.Ask("GET k");
  EXPECT_TRUE(server_->Set("k", "new").ok());
  EXPECT_EQ(client.Receive(), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
}

TEST_F(KvServerCallsTest, Batches_OfOneGroupAndOfSeveral_KeepTheirOrder) {
  BlockingClient client(server_->port());
  for (const size_t count : {size_t{1}, size_t{32}, size_t{128}, size_t{300}}) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back("key" + std::to_string(i));
    std::vector<KvPair> pairs;
    for (const std::string& name : names) pairs.push_back({name, name});
    pairs.push_back({names[0], "again"});
    ASSERT_TRUE(server_->SetBatch(pairs).ok());
    EXPECT_EQ(client.Ask("GET key0"), "$5\r\nagain\r\n");

    std::vector<std::string_view> keys(names.begin(), names.end());
    keys.push_back("none");
    size_t visited = 0;
    ASSERT_TRUE(server_
                    ->GetBatch(keys,
                               [&](size_t i, std::optional<std::string_view> value) {
                                 EXPECT_EQ(i, visited++);
                                 EXPECT_EQ(value.value_or("(none)"), i == 0       ? "again"
                                                                     : i == count ? "(none)"
                                                                                  : keys[i]);
                               })
                    .ok());
    EXPECT_EQ(visited, count + 1);
    std::vector<absl::StatusCode> codes(keys.size());
    ASSERT_TRUE(server_->DeleteBatch(keys, absl::MakeSpan(codes)).ok());
    for (size_t i = 0; i < codes.size(); ++i) {
      EXPECT_EQ(codes[i], i == count ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
    }
    EXPECT_EQ(client.Ask("dbsize"), ":0\r\n");
  }
  EXPECT_TRUE(server_->GetBatch({}, [](size_t, auto) {}).ok());
}

TEST_F(KvServerCallsTest, Calls_ThatCannotBe_SayWhy) {
  EXPECT_TRUE(server_->Set("k", "text").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(server_->Increment("k").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(server_->Set("k", "v", {.ttl_ms = -1})));
  EXPECT_TRUE(absl::IsAlreadyExists(server_->Set("k", "v", {.only_if_absent = true})));
  const std::string large(16 * kMiB, 'x');
  EXPECT_THAT(Text(server_->Set("k", large)), HasSubstr("is too large"));
  const std::vector<KvPair> pairs = {{"a", "1"}, {"k", large}, {"b", "2"}};
  std::vector<absl::StatusCode> codes(3);
  EXPECT_THAT(Text(server_->SetBatch(pairs, {}, absl::MakeSpan(codes))),
              AllOf(HasSubstr("number 1 of a batch"), HasSubstr("key 'k'")));
  EXPECT_EQ(codes[1], absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Value("k") + Value("a") + Value("b"), "text12");
  const std::vector<std::string_view> keys = {"k"};
  EXPECT_TRUE(server_
                  ->GetBatch(keys,
                             [&](size_t, auto) {
                               EXPECT_TRUE(absl::IsFailedPrecondition(server_->Delete("k")));
                               EXPECT_TRUE(absl::IsFailedPrecondition(server_->DeleteBatch(keys)));
                             })
                  .ok());
}

// Each increment counts once, and each key is made once, whoever makes it.
TEST_F(KvServerCallsTest, ConcurrentLoad_OfProgramAndClients_LosesNothing) {
  constexpr int kRounds = 2'000;
  std::atomic<int> made{0};
  const auto of_program = [&] {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(server_->Increment("counter").ok());
      const std::string key = "once" + std::to_string(i);
      const std::vector<KvPair> pairs = {{key, "program"}};
      std::vector<absl::StatusCode> codes(1);
      EXPECT_TRUE(server_->SetBatch(pairs, {.only_if_absent = true}, absl::MakeSpan(codes)).ok());
      if (codes[0] == absl::StatusCode::kOk) ++made;
    }
  };
  const auto of_client = [&] {
    BlockingClient client(server_->port());
    for (int i = 0; i < kRounds; ++i) {
      client.Send("INCR counter\r\nSET once" + std::to_string(i) + " client nx\r\n");
      EXPECT_EQ(client.Receive().front(), ':');
      if (client.Receive() == "+OK\r\n") ++made;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(of_program);
    threads.emplace_back(of_client);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Value("counter"), std::to_string(4 * kRounds));
  EXPECT_EQ(made, kRounds);
}

TEST(KvServerTest, End_WithConnectedClients_DisconnectsThem) {
  auto server = Started({.memory_bytes = 64 * kMiB});
  BlockingClient idle(server->port());
  BlockingClient busy(server->port());
  EXPECT_EQ(busy.Ask("ping"), "+PONG\r\n");
  EXPECT_EQ(busy.Ask("multi"), "+OK\r\n");
  server.reset();
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_EQ(busy.ReadAll(), "");
}

TEST(KvServerTest, Start_OfSeveral_KeepsThemApart) {
  const auto one = Started({.memory_bytes = 64 * kMiB});
  const auto other = Started({.memory_bytes = 64 * kMiB});
  EXPECT_TRUE(one->Set("k", "one").ok());
  EXPECT_EQ(BlockingClient(one->port()).Ask("GET k"), "$3\r\none\r\n");
  EXPECT_EQ(BlockingClient(other->port()).Ask("GET k"), "$-1\r\n");
  // What a callback of one does in the other is its own affair.
  const std::vector<std::string_view> keys = {"k"};
  EXPECT_TRUE(one->GetBatch(keys,
                            [&](size_t, std::optional<std::string_view> value) {
                              EXPECT_TRUE(other->Set("k", *value).ok());
                            })
                  .ok());
  EXPECT_EQ(BlockingClient(other->port()).Ask("GET k"), "$3\r\none\r\n");
}

TEST(KvServerTest, Start_ThatCannotBe_NamesTheOption) {
  const auto server = Started({.memory_bytes = 64 * kMiB});
  EXPECT_THAT(
      Refusal({.memory_bytes = 64 * kMiB, .port = server->port()}),
      AllOf(HasSubstr("127.0.0.1:" + std::to_string(server->port())), HasSubstr("with port")));
  EXPECT_THAT(Refusal({.memory_bytes = 64 * kMiB, .bind = "0.0.0.0"}),
              AllOf(HasSubstr("bind 0.0.0.0 is reached by other machines"),
                    HasSubstr("requirepass"), HasSubstr("insecure"), Not(HasSubstr("--"))));
  EXPECT_THAT(Refusal({.memory_bytes = 47 * kMiB}),
              AllOf(HasSubstr("memory_bytes"), HasSubstr(std::to_string(48 * kMiB))));
  EXPECT_THAT(Refusal({.threads = 0}), HasSubstr("threads"));
  EXPECT_THAT(Refusal({.partitions = 65}), HasSubstr("partitions"));
  EXPECT_THAT(Refusal({.max_value = 1024 * kMiB}), HasSubstr("max_value"));
}

TEST(KvServerTest, Clients_WherePasswordIsNeeded_GiveIt) {
  const auto server = Started({.memory_bytes = 64 * kMiB, .requirepass = "secret"});
  EXPECT_TRUE(server->Set("k", "v").ok());
  BlockingClient client(server->port());
  EXPECT_THAT(client.Ask("GET k"), HasSubstr("NOAUTH"));
  EXPECT_EQ(client.Ask("auth secret"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET k"), "$1\r\nv\r\n");
}

TEST(KvServerTest, Process_BesideTheServer_StaysAsItWas) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const std::vector<pid_t> threads = OwnThreads();
  const auto server = Started({.memory_bytes = 64 * kMiB});
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
  rlimit files_after{};
  getrlimit(RLIMIT_NOFILE, &files_after);
  EXPECT_EQ(files_after.rlim_cur, files.rlim_cur);

  size_t of_server = 0;
  for (const pid_t thread : OwnThreads()) {
    if (std::find(threads.begin(), threads.end(), thread) != threads.end()) continue;
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
      EXPECT_NE(blocked >> (SIGTERM - 1) & 1, 0u);
      ++of_server;
    }
  }
  EXPECT_GT(of_server, 0u);
}

}  // namespace
}  // namespace pulse
