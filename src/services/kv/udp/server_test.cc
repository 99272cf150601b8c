// The server by its sockets.
#include "services/kv/udp/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/kv/udp/test_udp.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

// A client by hand.
class RawUdp {
 public:
  explicit RawUdp(uint16_t port) {
    auto address = net::ParseAddress("127.0.0.1:" + std::to_string(port));
    socket_ = *ConnectUdp(*address);
  }
  void Send(const std::vector<std::string>& datagrams) {
    for (const std::string& d : datagrams) sender_.Add(&none_, d.data(), d.size());
    EXPECT_EQ(sender_.Send(socket_.get()), 0u);
  }
  // Of what comes: `count` datagrams.
  std::vector<std::string> Receive(size_t count) {
    std::vector<std::string> all;
    testing_util::Eventually([&] {
      while (receiver_.Receive(socket_.get()) > 0) {
        const UdpPeer* peer = nullptr;
        std::string_view datagram;
        while (receiver_.Next(&peer, &datagram)) all.emplace_back(datagram);
      }
      return all.size() >= count;
    });
    EXPECT_EQ(all.size(), count);
    return all;
  }
  std::string Ask(const std::string& datagram) {
    Send({datagram});
    return Receive(1).at(0);
  }
  UdpWelcome Greet() {
    const std::string welcome = Ask(HelloOf(7, HeaderOf(Ask(HelloOf(7, 0))).session));
    session_ = HeaderOf(welcome).session;
    UdpWelcome facts{};
    EXPECT_EQ(HeaderOf(welcome).type, UdpType::kWelcome);
    EXPECT_TRUE(ReadUdpBody(welcome, &facts));
    return facts;
  }
  uint64_t session() const { return session_; }

 private:
  UniqueFd socket_;
  UdpPeer none_;
  UdpSender sender_;
  UdpReceiver receiver_;
  uint64_t session_ = 0;
};

class UdpServerTest : public testing::Test {
 protected:
  void Open(int partitions = 1, uint32_t threads = 1) {
    KvStoreOptions options;
    options.memory_bytes = uint64_t{64} << 20;
    options.partitions = partitions;
    store_ = *KvStore::Open(options);
    auto server = UdpServer::Open(store_.get(), {.port = 0, .threads = threads});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<KvStore> store_;
  std::unique_ptr<UdpServer> server_;
};

TEST_F(UdpServerTest, Endpoints_OfAllPartitions_ServeAllKeys) {
  Open(3, 2);
  ASSERT_EQ(server_->ports().size(), 3u);
  std::vector<UdpCommand> sets;
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("key" + std::to_string(i));
  for (const auto& key : keys) sets.push_back(SetOf(key, key));
  for (size_t p = 0; p < 3; ++p) {
    RawUdp client(server_->ports()[p]);
    const UdpWelcome facts = client.Greet();
    EXPECT_EQ(facts.partition, p);
    EXPECT_EQ(facts.partitions, 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(facts.ports[i], server_->ports()[i]);
    const std::string answer = client.Ask(RequestsOf(client.session(), 1, sets, 8000));
    EXPECT_EQ(HeaderOf(answer).count, 100);
  }
  EXPECT_EQ(store_->numbers().items, 100u);
  EXPECT_EQ(server_->numbers().Get(UdpStats::kRequests), 300u);
  std::string info;
  server_->AddInfo(&info);
  EXPECT_THAT(info, HasSubstr("udp_requests:300\r\n"));
}

// Many at once: sent as segments of few messages, and received so.
TEST_F(UdpServerTest, Datagrams_OfOneSize_AreAnsweredEachByItself) {
  Open();
  RawUdp client(server_->ports()[0]);
  client.Greet();
  std::vector<std::string> datagrams;
  for (uint64_t i = 1; i <= 20; ++i) {
    datagrams.push_back(RequestsOf(client.session(), i, {SetOf("key", "value")}, 512, 1));
  }
  client.Send(datagrams);
  std::vector<bool> seen(21);
  for (const std::string& answer : client.Receive(20)) {
    const UdpHeader h = HeaderOf(answer);
    EXPECT_EQ(h.stamp, static_cast<int64_t>(h.sequence) * 1000);
    EXPECT_FALSE(seen.at(h.sequence));
    seen[h.sequence] = true;
  }
}

TEST_F(UdpServerTest, Flood_OfNonsense_LeavesOthersServed) {
  Open();
  RawUdp hostile(server_->ports()[0]);
  RawUdp client(server_->ports()[0]);
  client.Greet();
  const std::vector<std::string> nonsense(64, std::string(100, 'x'));
  for (uint64_t i = 1; i <= 50; ++i) {
    for (int k = 0; k < 20; ++k) hostile.Send(nonsense);
    // A datagram may be lost in the full socket, as any: it is sent again.
    bool answered = false;
    for (int tries = 0; tries < 1000 && !answered; ++tries) {
      client.Send({RequestsOf(client.session(), i, {SetOf("k", "v")})});
      pollfd none{-1, 0, 0};
      poll(&none, 1, 1);
      answered = server_->numbers().Get(UdpStats::kDatagrams) >= i;
    }
    ASSERT_TRUE(answered);
  }
  EXPECT_GT(server_->numbers().Get(UdpStats::kIgnored), 0u);
}

TEST_F(UdpServerTest, Options_ThatMakeNoSense_AreRefused) {
  EXPECT_FALSE(UdpServer::Check({.port = -1}, 1).ok());
  EXPECT_FALSE(UdpServer::Check({.port = 65'535}, 2).ok());
  EXPECT_FALSE(UdpServer::Check({.port = 0, .threads = 0}, 2).ok());
  EXPECT_FALSE(UdpServer::Check({.port = 0, .clients = 0}, 2).ok());
  EXPECT_FALSE(UdpServer::Check({.port = 0, .clients = 5000}, 2).ok());
  EXPECT_TRUE(UdpServer::Check({.port = 65'534}, 2).ok());
  Open();
  EXPECT_THAT(UdpServer::Open(store_.get(), {.port = server_->ports()[0]}).status().message(),
              HasSubstr("another program has this port"));
}

}  // namespace
}  // namespace pulse::kv
