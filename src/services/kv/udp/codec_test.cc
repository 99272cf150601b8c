#include "services/kv/udp/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing.h"
#include "services/kv/udp/sessions.h"
#include "services/kv/udp/test_udp.h"

namespace pulse::kv {
namespace {

TEST(UdpCodecTest, Requests_Written_AreReadAgain) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> keys(random() % 20);
    std::vector<UdpCommand> commands;
    const std::string value(random() % 300, 'v');
    for (std::string& key : keys) {
      key.assign(random() % 40, static_cast<char>(random()));
      switch (random() % 3) {
        case 0:
          commands.push_back(GetOf(key));
          break;
        case 1:
          commands.push_back(
              SetOf(key, value, random() % 2 == 0 ? 0 : static_cast<int64_t>(random() >> 1 | 1)));
          break;
        default:
          commands.push_back(DeleteOf(key));
      }
    }
    const std::string bytes = RequestsOf(1, 1, commands);
    UdpRequestReader reader(bytes);
    UdpCommand c;
    size_t expected = sizeof(UdpHeader);
    for (const UdpCommand& want : commands) {
      ASSERT_TRUE(reader.Next(&c));
      EXPECT_EQ(c.op, want.op);
      EXPECT_EQ(c.key, want.key);
      EXPECT_EQ(c.value, want.value);
      EXPECT_EQ(c.ttl_ms, want.ttl_ms);
      expected += UdpRequestBytes(want.key, want.value, want.ttl_ms);
    }
    EXPECT_FALSE(reader.Next(&c));
    EXPECT_TRUE(reader.at_end());
    EXPECT_EQ(bytes.size(), expected);
    // A datagram that is cut anywhere has fewer requests, and says so.
    if (commands.empty()) continue;
    const std::string cut = bytes.substr(0, bytes.size() - 1 - random() % 7);
    UdpRequestReader short_reader(cut);
    size_t read = 0;
    while (short_reader.Next(&c)) ++read;
    EXPECT_LT(read, commands.size());
    EXPECT_FALSE(short_reader.at_end());
  }
}

TEST(UdpCodecTest, Requests_ThatMakeNoSense_AreBad) {
  const auto with = [](UdpRequest r, std::string_view rest) {
    std::string bytes = DatagramOf(HeaderOf(UdpType::kRequests));
    bytes.append(reinterpret_cast<const char*>(&r), sizeof(r)).append(rest);
    UdpRequestReader reader(bytes);
    UdpCommand c;
    return !reader.Next(&c) && reader.bad();
  };
  const std::string eight(8, '\1');
  EXPECT_FALSE(with({8, 0, WireOp::kSet, 0}, eight));
  EXPECT_TRUE(with({0, 8, static_cast<WireOp>(0), 0}, eight));
  EXPECT_TRUE(with({0, 8, static_cast<WireOp>(4), 0}, eight));
  EXPECT_TRUE(with({0, 8, WireOp::kGet, 2}, eight));
  EXPECT_TRUE(with({8, 0, WireOp::kGet, 0}, eight));  // a read has no value
  EXPECT_TRUE(with({0, 0, WireOp::kDelete, kUdpTtl}, eight));
  EXPECT_TRUE(with({0, 0, WireOp::kSet, kUdpTtl}, std::string(8, '\0')));    // no time to live
  EXPECT_TRUE(with({0, 0, WireOp::kSet, kUdpTtl}, std::string(8, '\xff')));  // a negative one
  EXPECT_TRUE(with({UINT32_MAX, UINT16_MAX, WireOp::kSet, 0}, eight));
  EXPECT_TRUE(with({9, 0, WireOp::kSet, 0}, eight));
}

TEST(UdpCodecTest, Responses_OfAServerThatMeansHarm_AreBad) {
  const auto with = [](UdpResponse r) {
    std::string bytes = DatagramOf(HeaderOf(UdpType::kResponses));
    bytes.append(reinterpret_cast<const char*>(&r), sizeof(r)).append(8, 'x');
    UdpResponseReader reader(bytes);
    UdpAnswer a;
    return !reader.Next(&a) && reader.bad();
  };
  EXPECT_FALSE(with({8, 5, WireStatus::kOk, 0}));
  EXPECT_TRUE(with({9, 5, WireStatus::kOk, 0}));
  EXPECT_TRUE(with({UINT32_MAX, 5, WireStatus::kOk, 0}));
  EXPECT_TRUE(with({8, 5, static_cast<WireStatus>(5), 0}));
}

// The vector of the authors of SipHash: 15 bytes.
TEST(SipHashTest, KnownInput_GivesKnownHash) {
  std::string bytes;
  for (char c = 0; c < 15; ++c) bytes.push_back(c);
  EXPECT_EQ(SipHash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, bytes), 0xa129ca6149be45e5u);
}

TEST(UdpCookiesTest, Cookie_OfAnotherAddressOrServer_IsAnother) {
  const UdpCookies cookies;
  const UdpPeer peer = PeerOf("10.0.0.1", 1000);
  EXPECT_EQ(cookies.Of(peer), cookies.Of(PeerOf("10.0.0.1", 1000)));
  EXPECT_NE(cookies.Of(peer), cookies.Of(PeerOf("10.0.0.1", 1001)));
  EXPECT_NE(cookies.Of(peer), cookies.Of(PeerOf("10.0.0.2", 1000)));
  EXPECT_NE(cookies.Of(peer), UdpCookies().Of(peer));
}

TEST(UdpSessionsTest, Table_ThatIsFull_TakesAnotherClientWhenOneWasIdle) {
  UdpSessions sessions(2);
  const UdpPeer a = PeerOf("10.0.0.1", 1);
  const UdpPeer b = PeerOf("10.0.0.1", 2);
  const UdpPeer c = PeerOf("10.0.0.1", 3);
  const uint64_t first = sessions.Open(a, 1, 0)->id();
  const uint64_t second = sessions.Open(b, 1, 0)->id();
  EXPECT_EQ(sessions.Open(a, 1, 1)->id(), first);  // a repeat
  EXPECT_EQ(sessions.Open(c, 1, 2), nullptr);
  EXPECT_NE(sessions.Find(first, a, kUdpIdleNanos), nullptr);
  EXPECT_EQ(sessions.Find(first, b, kUdpIdleNanos), nullptr);  // not of this address
  const UdpSession* third = sessions.Open(c, 1, kUdpIdleNanos);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(sessions.Find(second, b, kUdpIdleNanos), nullptr);
  EXPECT_NE(sessions.Find(third->id(), c, kUdpIdleNanos), nullptr);
  EXPECT_NE(sessions.Find(first, a, kUdpIdleNanos), nullptr);
  EXPECT_EQ(sessions.size(), 2u);
  // A client that has begun anew at the same address has no session of before.
  EXPECT_NE(sessions.Open(a, 2, kUdpIdleNanos)->id(), first);
  EXPECT_EQ(sessions.Find(first, a, kUdpIdleNanos), nullptr);
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, uint64_t{77}, ~uint64_t{0}}) {
    EXPECT_EQ(sessions.Find(id, a, kUdpIdleNanos), nullptr);
  }
}

}  // namespace
}  // namespace pulse::kv
