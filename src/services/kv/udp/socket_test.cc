#include "services/kv/udp/socket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"

namespace pulse::kv {
namespace {

net::Address Loopback(uint16_t port = 0) {
  return *net::ParseAddress(absl::StrCat("127.0.0.1:", port));
}

UdpPeer PeerAt(int socket) {
  const net::Address address = net::LocalAddress(socket);
  UdpPeer peer;
  peer.size = address.size;
  std::memcpy(&peer.address, address.get(), address.size);
  return peer;
}

// Runs of one size, which leave as segments of one message, and others between them.
TEST(UdpSocketTest, Datagrams_OfAnySizesToSeveralPeers_ArriveAsTheyWereSent) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::array<UniqueFd, 2> receivers = {*BindUdp(Loopback()), *BindUdp(Loopback())};
  const std::array<UdpPeer, 2> peers = {PeerAt(receivers[0].get()), PeerAt(receivers[1].get())};
  const UniqueFd from = *BindUdp(Loopback());
  const UdpPeer sender_peer = PeerAt(from.get());
  UdpSender sender;
  UdpReceiver receiver;
  for (int round = 0; round < 100; ++round) {
    // Some lie one behind the other, as answers do.
    std::string together(100'000, '\0');
    std::ranges::generate(together, [&] { return static_cast<char>(random()); });
    std::array<std::vector<std::string>, 2> sent;
    size_t at = 0;
    while (at < 60'000) {
      const size_t size = 1 + random() % 1400;
      const size_t to = random() % 2;
      for (uint64_t left = 1 + random() % 80; left > 0 && at < 60'000; --left) {
        sender.Add(&peers[to], &together[at], size);
        sent[to].push_back(together.substr(at, size));
        at += size + (random() % 4 == 0 ? 1 : 0);
      }
    }
    EXPECT_EQ(sender.Send(from.get()), 0u);
    for (size_t to = 0; to < 2; ++to) {
      std::vector<std::string> got;
      testing_util::Eventually([&] {
        while (receiver.Receive(receivers[to].get()) > 0) {
          const UdpPeer* peer = nullptr;
          std::string_view datagram;
          while (receiver.Next(&peer, &datagram)) {
            EXPECT_EQ(*peer, sender_peer);
            got.emplace_back(datagram);
          }
        }
        return got.size() >= sent[to].size();
      });
      ASSERT_EQ(got, sent[to]) << "round " << round;
    }
  }
}

// Several messages of one size in one call, the largest that there are, and an empty one.
TEST(UdpSocketTest, Datagrams_OfTheLargestAndLeastSize_Arrive) {
  const UniqueFd to = *BindUdp(Loopback());
  const UniqueFd from = *ConnectUdp(net::LocalAddress(to.get()));
  const UdpPeer none;
  UdpSender sender;
  UdpReceiver receiver;
  const std::string large(65'507, 'x');
  sender.Add(&none, large.data(), large.size());
  sender.Add(&none, large.data(), 0);
  sender.Add(&none, large.data(), 1);
  EXPECT_EQ(sender.Send(from.get()), 0u);
  std::vector<size_t> sizes;
  testing_util::Eventually([&] {
    while (receiver.Receive(to.get()) > 0) {
      const UdpPeer* peer = nullptr;
      std::string_view datagram;
      while (receiver.Next(&peer, &datagram)) sizes.push_back(datagram.size());
    }
    return sizes.size() >= 2;
  });
  EXPECT_EQ(sizes, (std::vector<size_t>{65'507, 1}));  // an empty one is nobody's
}

// As a server on all addresses has them; the clients take answers from the address they asked
// alone.
TEST(UdpSocketTest, Bind_ToAllAddresses_ServesIpv4_FromTheAddressThatWasAsked) {
  const auto to = BindUdp(*net::ParseAddress("[::]:0"));
  if (!to.ok()) GTEST_SKIP() << to.status();
  const uint16_t port = net::LocalAddress(to->get()).port();
  UdpReceiver receiver;
  const std::string bytes(100, 'x');
  for (const char* ip : {"127.0.0.1", "127.0.0.2"}) {
    const UniqueFd from = *ConnectUdp(*net::ParseAddress(absl::StrCat(ip, ":", port)));
    const UdpPeer none;
    UdpSender sender;
    sender.Add(&none, bytes.data(), bytes.size());
    ASSERT_EQ(sender.Send(from.get()), 0u);
    ASSERT_TRUE(testing_util::Eventually([&] { return receiver.Receive(to->get()) > 0; })) << ip;
    const UdpPeer* peer = nullptr;
    std::string_view datagram;
    ASSERT_TRUE(receiver.Next(&peer, &datagram));
    sender.Add(peer, bytes.data(), bytes.size());
    sender.Add(peer, bytes.data(), bytes.size());
    EXPECT_EQ(sender.Send(to->get()), 0u);
    EXPECT_TRUE(testing_util::Eventually([&] { return receiver.Receive(from.get()) > 0; })) << ip;
  }
}

TEST(UdpSocketTest, Send_WhereNobodyListens_NeitherWaitsNorFailsForGood) {
  UniqueFd to = *BindUdp(Loopback());
  const net::Address address = net::LocalAddress(to.get());
  const UniqueFd from = *ConnectUdp(address);
  to.reset();
  const UdpPeer none;
  UdpSender sender;
  const std::string bytes(100, 'x');
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 3; ++k) sender.Add(&none, bytes.data(), bytes.size());
    sender.Send(from.get());
  }
  to = *BindUdp(address);
  UdpReceiver receiver;
  EXPECT_TRUE(testing_util::Eventually([&] {
    sender.Add(&none, bytes.data(), bytes.size());
    sender.Send(from.get());
    return receiver.Receive(to.get()) > 0;
  }));
}

}  // namespace
}  // namespace pulse::kv
