// The in-memory store behind the server of Redis's protocol, by its sockets, in each design.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "services/kv/store.h"
#include "services/redis/designs.h"
#include "services/redis/test_server.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

class KvServerTest : public testing::Test {
 protected:
  void Open(int threads, bool agent = true) {
    const std::vector<int> cpus = MyCpus();
    options_.threads = threads;
    designs_ = std::make_unique<redis::Designs>(threads, cpus, agent ? cpus : std::vector<int>());
    options_.designs = designs_.get();
    options_.keyspace = [this, threads](const redis::KeyspaceLimits& limits)
        -> absl::StatusOr<std::unique_ptr<redis::Keyspace>> {
      KvStoreOptions store;
      store.memory_bytes = uint64_t{64} << 20;
      store.partitions = threads;
      store.limits = limits;
      store.designs = designs_.get();
      return KvStore::Open(store);
    };
    auto server = redis::Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~KvServerTest() override {
    if (server_ != nullptr) {
      EXPECT_TRUE(server_->Stop().ok());
    }
  }

  redis::ServeOptions options_;
  std::unique_ptr<redis::Designs> designs_;  // outlives the server
  std::unique_ptr<redis::Server> server_;
};

// A counter for each client: its pipelines of commands are answered in order, while the design
// changes all the time.
TEST_F(KvServerTest, Designs_ChangedUnderLoad_LoseAndReorderNothing) {
  Open(2);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      redis::BlockingClient client(server_->port());
      const std::string key = "counter" + std::to_string(t);
      int64_t value = 0;
      for (int round = 0; round < 400; ++round) {
        std::string requests;
        std::vector<std::string> expected;
        for (int i = 0; i < 10; ++i) {
          requests += "incr " + key + "\r\n";
          expected.push_back(":" + std::to_string(++value) + "\r\n");
        }
        requests += "multi\r\nincr " + key + "\r\nexec\r\nget " + key + "\r\n";
        const std::string text = std::to_string(++value);
        expected.insert(expected.end(),
                        {"+OK\r\n", "+QUEUED\r\n", "*1\r\n:" + text + "\r\n",
                         "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"});
        client.Send(requests);
        for (const std::string& reply : expected) ASSERT_EQ(client.Receive(), reply);
      }
    });
  }
  std::thread switcher([&] {
    redis::BlockingClient client(server_->port());
    for (size_t i = 0; !done; ++i) {
      const char* designs[] = {"lat", "cpu", "sav", "dpu"};
      ASSERT_EQ(client.Ask(std::string("config set design ") + designs[i % 4]), "+OK\r\n");
      ASSERT_THAT(client.Ask("config get design"), HasSubstr(designs[i % 4]));
    }
  });
  for (auto& thread : threads) thread.join();
  done = true;
  switcher.join();
}

// Which ask for the partitions that the transaction has.
TEST_F(KvServerTest, Exec_WithInfoAndConfig_IsAnswered) {
  Open(2);
  redis::BlockingClient client(server_->port());
  client.Send(
      "multi\r\nset a 1\r\ninfo\r\nconfig set maxmemory-policy allkeys-lru\r\nget a\r\nexec\r\n");
  for (const char* reply :
       {"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n"}) {
    ASSERT_EQ(client.Receive(), reply);
  }
  const std::string replies = client.Receive();
  EXPECT_THAT(replies, HasSubstr("keyspace_hits"));
  EXPECT_THAT(replies, HasSubstr("+OK\r\n$1\r\n1\r\n"));
  EXPECT_THAT(client.Ask("config get maxmemory-policy"), HasSubstr("allkeys-lru"));
}

TEST_F(KvServerTest, Lat_WithClientsThatLeave_ServesTheOthers) {
  Open(1);
  ASSERT_TRUE(designs_->Set("lat").ok());
  redis::BlockingClient stays(server_->port());
  for (int i = 0; i < 100; ++i) {
    redis::BlockingClient leaves(server_->port());
    leaves.Send("set a 1\r\nget a\r\nkeys *\r\n");
    leaves.Close();
    ASSERT_EQ(stays.Ask("set b " + std::to_string(i)), "+OK\r\n");
  }
  EXPECT_EQ(stays.Ask("get b"), "$2\r\n99\r\n");
}

TEST_F(KvServerTest, Design_ThatCannotRun_IsRefusedAndTheOldOneStays) {
  Open(1, false);
  redis::BlockingClient client(server_->port());
  EXPECT_THAT(client.Ask("config set design lat"), HasSubstr("--agent-cpus"));
  EXPECT_THAT(client.Ask("config set design shrd"), HasSubstr("not built yet"));
  EXPECT_THAT(client.Ask("config set design fast"), HasSubstr("is none"));
  EXPECT_THAT(client.Ask("config get design"), HasSubstr("cpu"));
  EXPECT_THAT(client.Ask("info kv"), HasSubstr("design:cpu"));
}

}  // namespace
}  // namespace pulse::kv
