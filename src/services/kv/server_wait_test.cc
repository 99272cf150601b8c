// What has to wait for a partition delays nobody else of its loop, in any design, and a server that
// stops does not carry out what nobody waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/kv/test_executor.h"
#include "services/kv/test_server.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

// Has a store's only partition, as a command that takes long, until it ends.
class LongCommand {
 public:
  explicit LongCommand(KvStore* store)
      : thread_([this, store] {
          store->WithPartition("", true, [this](Partition&, uint64_t) {
            begun_.set_value();
            end_.get_future().wait();
          });
        }) {
    begun_.get_future().wait();
  }
  ~LongCommand() { End(); }
  void End() {
    if (!thread_.joinable()) return;
    end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> begun_;
  std::promise<void> end_;
  std::thread thread_;
};

class KvServerWaitTest : public KvServerTest, public testing::WithParamInterface<const char*> {
 protected:
  // What `waiting` is told comes only once the partition is free, and others are answered before.
  void ExpectOthersAnswered(const std::string& request, const std::string& reply) {
    Open();
    ASSERT_TRUE(designs_->Set(GetParam()).ok());
    redis::BlockingClient waiting(port());
    redis::BlockingClient other(port());
    ASSERT_EQ(other.Ask("set a 1"), "+OK\r\n");
    LongCommand command(store_);
    waiting.Send(request);
    waiting.ShutDown();
    auto waits = std::async(std::launch::async, [&] { return waiting.ReadAll(); });
    for (int i = 0; i < 3; ++i) {
      auto answered = std::async(std::launch::async, [&] { return other.Ask("ping"); });
      EXPECT_TRUE(testing_util::Eventually(
          [&] { return answered.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
      if (HasFailure()) command.End();
    }
    EXPECT_TRUE(HasFailure() || testing_util::StaysBlocked(waits));
    command.End();
    EXPECT_THAT(waits.get(), HasSubstr(reply));
  }
};

TEST_P(KvServerWaitTest, Get_OfAPartitionThatIsTaken_DelaysNobodyElse) {
  ExpectOthersAnswered("GET a\r\n", "$1\r\n1\r\n");
}

TEST_P(KvServerWaitTest, Exec_OfAPartitionThatIsTaken_DelaysNobodyElse) {
  ExpectOthersAnswered("multi\r\nget a\r\nexec\r\n", "*1\r\n$1\r\n1\r\n");
}

TEST_P(KvServerWaitTest, Info_OfAPartitionThatIsTaken_DelaysNobodyElse) {
  ExpectOthersAnswered("info keyspace\r\n", "keys=1");
}

TEST_P(KvServerWaitTest, ConfigSet_OfAPartitionThatIsTaken_DelaysNobodyElse) {
  ExpectOthersAnswered("config set maxmemory-policy allkeys-lru\r\n", "+OK\r\n");
}

TEST_P(KvServerWaitTest, MemcachedGet_OfAPartitionThatIsTaken_DelaysNobodyElse) {
  ExpectOthersAnswered("mg a v\r\n", "VA 1\r\n1\r\n");
}

INSTANTIATE_TEST_SUITE_P(Designs, KvServerWaitTest,
                         testing::Values("cpu", "lat", "sav", "dpu", "adaptive"),
                         [](const auto& param) { return std::string(param.param); });

TEST(ExecutorTest, Run_AfterEnd_CarriesOutNoMore) {
  TestExecutor test;
  test.batch.Add(1, "set a 1\r\n");
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  test.batch.Add(2, "set b 1\r\n");
  test.executor.End();
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kClose);
  EXPECT_EQ(test.store->numbers().items, 1u);
}

// So a server that stops does not wait for the batches of clients that are gone.
TEST(WorkerPoolTest, Destruction_WithWorkThatHasNotBegun_DropsIt) {
  std::promise<void> dropped;
  std::atomic<bool> begun{false};
  bool ran = false;
  bool in_time = true;
  {
    WorkerPool pool(1, "test", {});
    pool.Post([&] {
      begun = true;
      // Until the next one is gone; the limit only ends a hang.
      in_time =
          dropped.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    });
    const std::shared_ptr<void> held(nullptr, [&](void*) { dropped.set_value(); });
    pool.Post([held, &ran] { ran = true; });
    ASSERT_TRUE(testing_util::Eventually([&] { return begun.load(); }));
  }
  EXPECT_TRUE(in_time);
  EXPECT_FALSE(ran);
}

// Before its bytes have come: only its length is sent.
TEST_F(KvServerTest, Value_ThatNoPartitionTakes_IsRefusedByItsLength) {
  memory_bytes_ = uint64_t{32} << 20;
  Open();
  redis::BlockingClient client(port());
  const uint64_t most = store_->most_value();
  EXPECT_LT(most, options_.limits.max_bulk);
  EXPECT_EQ(store_->options().limits.max_value, most);
  EXPECT_THAT(client.Ask("CONFIG GET proto-max-bulk-len"),
              HasSubstr(absl::StrCat("\r\n", most, "\r\n")));
  client.Send(absl::StrCat("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$", most + 1, "\r\n"));
  EXPECT_EQ(client.Receive(), "-ERR Protocol error: invalid bulk length\r\n");
  EXPECT_EQ(client.Receive(), "");
  redis::BlockingClient other(port());
  other.Send(absl::StrCat("set k 0 0 ", most + 1, "\r\n"));
  EXPECT_EQ(other.ReadUntil("\r\n"), "SERVER_ERROR object too large for cache\r\n");
}

TEST_F(KvServerTest, Transaction_ThatIsTooLarge_IsToldWhetherOthersAreTheCause) {
  options_.buffer_bytes = uint64_t{1} << 20;  // half of it for transactions
  Open(2);
  redis::BlockingClient one(port());
  redis::BlockingClient other(port());
  const auto begin = [](redis::BlockingClient* client, size_t bytes) {
    EXPECT_EQ(client->Ask("MULTI"), "+OK\r\n");
    std::string set;
    redis::AppendRequest({"SET", "k", std::string(bytes, 'v')}, &set);
    client->Send(set);
    return client->Receive();
  };
  EXPECT_EQ(begin(&one, 600'000),
            "-ERR the transaction is too large: this server keeps 524288 bytes for transactions; "
            "send large values before MULTI, or start the server with more --memory\r\n");
  EXPECT_THAT(one.Ask("EXEC"), ::testing::StartsWith("-EXECABORT"));
  EXPECT_EQ(begin(&one, 400'000), "+QUEUED\r\n");
  EXPECT_EQ(begin(&other, 400'000),
            "-ERR the transactions of all clients hold too many bytes; try again later\r\n");
  EXPECT_THAT(other.Ask("EXEC"), ::testing::StartsWith("-EXECABORT"));
  EXPECT_EQ(one.Ask("EXEC"), "*1\r\n+OK\r\n");
  EXPECT_EQ(begin(&other, 400'000), "+QUEUED\r\n");
  EXPECT_EQ(other.Ask("EXEC"), "*1\r\n+OK\r\n");
}

}  // namespace
}  // namespace pulse::kv
