#include "services/kv/memcached/flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "net/director.h"

namespace pulse::kv::memcached {
namespace {

using testing_util::Eventually;

constexpr uint64_t kLargest = 1000'000;

// A server of its own on a port of the kernel's choice.
class MemcachedFlowTest : public testing::Test {
 protected:
  MemcachedFlowTest() {
    KvStoreOptions options;
    options.partitions = 2;
    options.memory_bytes = uint64_t{64} << 20;
    store_ = *KvStore::Open(options);
    executor_ = std::make_unique<Executor>(store_.get(), &counters_, ExecutorOptions{kLargest, 0});
    application_ = std::make_unique<MemcachedApplication>(executor_.get(), &pool_);
    net::DirectorOptions director;
    director.application = application_.get();
    director.limits.max_message = kLargest + kMessageOverhead;
    director_ = *net::Director::Open(director);
  }

  std::unique_ptr<KvStore> store_;
  Counters counters_;
  std::unique_ptr<Executor> executor_;
  WorkerPool pool_{1, "mc-test", {}};  // what it still runs uses those above
  std::unique_ptr<MemcachedApplication> application_;
  std::unique_ptr<net::Director> director_;
};

// A blocking client.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(fd_); }
  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // So many bytes, or fewer where the stream ends.
  std::string Receive(size_t size) const {
    std::string bytes(size, '\0');
    size_t have = 0;
    while (have < size) {
      const ssize_t got = recv(fd_, bytes.data() + have, size - have, 0);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    bytes.resize(have);
    return bytes;
  }
  // The replies that are expected, and those that came.
  void Expect(std::string_view request, const std::string& reply) const {
    Send(request);
    EXPECT_EQ(Receive(reply.size()), reply);
  }

 private:
  const int fd_;
};

TEST_F(MemcachedFlowTest, Pipeline_IsAnsweredInOrder) {
  const Client client(director_->port());
  std::string requests;
  std::string replies;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&requests, "set k", i, " 0 0 1\r\nx\r\nget k", i, "\r\nstats items\r\nmg k", i,
                    " q\r\nincr none 1 noreply\r\n");
    absl::StrAppend(&replies, "STORED\r\nVALUE k", i, " 0 1\r\nx\r\nEND\r\nEND\r\nHD\r\n");
  }
  client.Expect(requests, replies);
  EXPECT_EQ(counters_.hits.total(), 2000u);
}

TEST_F(MemcachedFlowTest, HeldPartition_WaitsOnThePoolAndKeepsTheOrder) {
  const Client client(director_->port());
  client.Expect("set k 0 0 1\r\n1\r\n", "STORED\r\n");
  std::atomic<bool> held{false};
  std::atomic<bool> go_on{false};
  std::thread holder([&] {
    store_->WithPartition("k", true, [&](Partition&, uint64_t) {
      held = true;
      while (!go_on) std::this_thread::yield();
    });
  });
  EXPECT_TRUE(Eventually([&] { return held.load(); }));
  client.Send("mn\r\nincr k 1\r\nversion\r\n");
  EXPECT_EQ(client.Receive(4), "MN\r\n");
  client.Send("get k\r\nmn\r\n");  // behind them
  go_on = true;
  holder.join();
  client.Expect("", "2\r\nVERSION 1.6.18\r\nVALUE k 0 1\r\n2\r\nEND\r\nMN\r\n");
}

TEST_F(MemcachedFlowTest, SlowClient_NoMoreRepliesAreMade) {
  const Client client(director_->port());
  const std::string value(100'000, 'v');
  client.Expect("set k 0 0 100000\r\n" + value + "\r\n", "STORED\r\n");
  constexpr int kRequests = 1000;  // 100 MB
  std::string requests;
  for (int i = 0; i < kRequests; ++i) requests += "get k\r\n";
  client.Send(requests);
  EXPECT_TRUE(Eventually([&] { return counters_.hits.total() > 0; }));
  EXPECT_LT(testing_util::SettledValue([&] { return counters_.hits.total(); }, 50),
            kRequests * 3u / 4);
  const std::string reply = "VALUE k 0 100000\r\n" + value + "\r\nEND\r\n";
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(client.Receive(reply.size()), reply) << i;
}

TEST_F(MemcachedFlowTest, TooLargeValue_IsThrownAway) {
  const Client client(director_->port());
  std::string value;
  value.resize(50'000'000, 'x');
  client.Expect("set k 0 0 50000000\r\n" + value + "\r\nmn\r\n",
                "SERVER_ERROR object too large for cache\r\nMN\r\n");
  const std::string largest(kLargest, 'y');
  client.Expect(absl::StrCat("set k 0 0 ", kLargest, "\r\n", largest, "\r\n"), "STORED\r\n");
}

TEST_F(MemcachedFlowTest, Quit_EndsTheConnectionAfterWhatWasAnswered) {
  for (const char* end : {"quit\r\n", "POST / HTTP/1.1\r\n"}) {
    const Client client(director_->port());
    client.Send(absl::StrCat("mn\r\n", end, "mn\r\n"));
    EXPECT_EQ(client.Receive(100), "MN\r\n");
  }
}

TEST_F(MemcachedFlowTest, LongLine_EndsTheConnection) {
  const Client client(director_->port());
  client.Send("mn\r\n" + std::string(3000, 'x'));
  EXPECT_EQ(client.Receive(100), "MN\r\nCLIENT_ERROR line too long\r\n");
}

TEST_F(MemcachedFlowTest, ConnectionLost_WhileOnThePool_IsForgotten) {
  std::atomic<bool> held{false};
  std::atomic<bool> go_on{false};
  std::thread holder([&] {
    store_->WithPartition("k", true, [&](Partition&, uint64_t) {
      held = true;
      while (!go_on) std::this_thread::yield();
    });
  });
  EXPECT_TRUE(Eventually([&] { return held.load(); }));
  {
    const Client client(director_->port());
    client.Send("mn\r\nset k 0 0 1\r\nx\r\n");
    EXPECT_EQ(client.Receive(4), "MN\r\n");
  }
  go_on = true;
  holder.join();
  EXPECT_TRUE(Eventually([&] { return director_->stats().connections == 0; }));
  EXPECT_TRUE(Eventually([&] { return counters_.stores.total() == 1; }));
}

}  // namespace
}  // namespace pulse::kv::memcached
