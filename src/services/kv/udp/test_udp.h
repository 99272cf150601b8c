// What tests of UDP share: a store with a clock of the test's, and datagrams by hand. For tests
// only.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/kv/store.h"
#include "services/kv/udp/batch.h"
#include "services/kv/udp/codec.h"

namespace pulse::kv {

inline UdpPeer PeerOf(const char* ip, uint16_t port) {
  UdpPeer peer;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&peer.address);
  v4->sin_family = AF_INET;
  v4->sin_port = htons(port);
  inet_pton(AF_INET, ip, &v4->sin_addr);
  peer.size = sizeof(*v4);
  return peer;
}

inline UdpCommand GetOf(std::string_view key) { return {WireOp::kGet, key, {}, 0}; }
inline UdpCommand SetOf(std::string_view key, std::string_view value, int64_t ttl_ms = 0) {
  return {WireOp::kSet, key, value, ttl_ms};
}
inline UdpCommand DeleteOf(std::string_view key) { return {WireOp::kDelete, key, {}, 0}; }

inline UdpHeader HeaderOf(UdpType type) {
  UdpHeader h{};
  h.magic = kUdpMagic;
  h.version = kUdpVersion;
  h.type = type;
  h.reply_bytes = 1432;
  return h;
}
inline std::string DatagramOf(const UdpHeader& header, std::string_view body = {}) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)).append(body);
}
inline std::string HelloOf(uint64_t nonce, uint64_t cookie) {
  std::string body(sizeof(UdpWelcome), '\0');
  const UdpHello hello{nonce, cookie};
  std::memcpy(body.data(), &hello, sizeof(hello));
  return DatagramOf(HeaderOf(UdpType::kHello), body);
}
inline std::string RequestsOf(uint64_t session, uint64_t sequence,
                              const std::vector<UdpCommand>& commands, uint32_t reply_bytes = 1432,
                              uint64_t floor = 0) {
  UdpHeader h = HeaderOf(UdpType::kRequests);
  h.count = static_cast<uint16_t>(commands.size());
  h.session = session;
  h.sequence = sequence;
  h.floor = floor == 0 ? sequence : floor;
  h.stamp = static_cast<int64_t>(sequence) * 1000;
  h.reply_bytes = reply_bytes;
  std::string bytes = DatagramOf(h);
  for (const UdpCommand& c : commands) AppendUdpRequest(c, &bytes);
  return bytes;
}
inline UdpHeader HeaderOf(std::string_view datagram) {
  UdpHeader h{};
  EXPECT_TRUE(ReadUdpHeader(datagram, &h));
  return h;
}

// "status value", by request.
using UdpAnswers = std::map<int, std::string>;
inline void AddAnswers(std::string_view datagram, UdpAnswers* answers) {
  UdpResponseReader reader(datagram);
  UdpAnswer a;
  size_t count = 0;
  while (reader.Next(&a)) {
    std::string value(a.value);
    if (a.status == WireStatus::kTooLarge && a.value.size() == 8) {
      uint64_t size;
      std::memcpy(&size, a.value.data(), 8);
      value = std::to_string(size);
    }
    EXPECT_TRUE(
        answers->emplace(a.request, std::to_string(static_cast<int>(a.status)) + " " + value)
            .second);
    ++count;
  }
  EXPECT_FALSE(reader.bad());
  EXPECT_EQ(count, HeaderOf(datagram).count);
}

}  // namespace pulse::kv
