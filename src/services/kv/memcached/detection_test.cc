// Redis's and memcached's clients on one port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "services/kv/memcached/flow.h"
#include "services/redis/test_server.h"

namespace pulse::kv::memcached {
namespace {

using ::testing::HasSubstr;

// A client of memcached's protocol, whose replies are lines.
class LineClient {
 public:
  explicit LineClient(uint16_t port) : client_(port) {}
  // All that comes until the server closes the connection.
  std::string SendAndRead(const std::string& bytes) {
    client_.Send(bytes);
    client_.ShutDown();
    return client_.ReadAll();
  }

 private:
  redis::BlockingClient client_;
};

class DetectionTest : public testing::Test {
 protected:
  void Open() {
    options_.keyspace = [this](const redis::KeyspaceLimits& limits)
        -> absl::StatusOr<std::unique_ptr<redis::Keyspace>> {
      KvStoreOptions store;
      store.memory_bytes = uint64_t{32} << 20;
      store.limits = limits;
      auto opened = KvStore::Open(store);
      if (!opened.ok()) return opened.status();
      executor_ = std::make_unique<Executor>(opened->get(), &counters_, ExecutorOptions());
      return opened;
    };
    options_.other.is_it = &LooksLikeMemcached;
    options_.other.make = [this](net::Connection* connection, redis::WorkerPool* workers) {
      return std::make_unique<MemcachedFlow>(executor_.get(), workers, nullptr, connection);
    };
    auto server = redis::Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~DetectionTest() override {
    if (server_ != nullptr) {
      EXPECT_TRUE(server_->Stop().ok());
    }
  }

  redis::ServeOptions options_;
  Counters counters_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<redis::Server> server_;
};

TEST_F(DetectionTest, Port_ClientsOfBothProtocols_ShareTheKeys) {
  Open();
  redis::BlockingClient redis_client(server_->port());
  EXPECT_EQ(LineClient(server_->port()).SendAndRead("set a 5 0 2\r\nhi\r\ngets a\r\n"),
            "STORED\r\nVALUE a 5 2 1\r\nhi\r\nEND\r\n");
  EXPECT_EQ(redis_client.Ask("GET a"), "$2\r\nhi\r\n");
  EXPECT_EQ(redis_client.Ask("SET b 1"), "+OK\r\n");
  EXPECT_EQ(LineClient(server_->port()).SendAndRead("get b\r\nmg b v\r\n"),
            "VALUE b 0 1\r\n1\r\nEND\r\nVA 1\r\n1\r\n");
  // Redis's own form, a word of its own, and one that comes in pieces.
  EXPECT_EQ(redis_client.Ask("*2\r\n$3\r\nGET\r\n$1\r\nb"), "$1\r\n1\r\n");
  EXPECT_EQ(redis::BlockingClient(server_->port()).Ask("PING"), "+PONG\r\n");
  redis::BlockingClient slow(server_->port());
  slow.Send("PI");
  EXPECT_EQ(redis_client.Ask("PING"), "+PONG\r\n");
  EXPECT_EQ(slow.Ask("NG"), "+PONG\r\n");
}

TEST_F(DetectionTest, Password_ForMemcachedClients_CannotBeGoneAround) {
  options_.password = "secret";
  Open();
  const std::string reply = LineClient(server_->port()).SendAndRead("get a\r\n");
  EXPECT_THAT(reply, HasSubstr("-NOAUTH"));
}

}  // namespace
}  // namespace pulse::kv::memcached
