// Packets of the memory network of `pulse bench kv`: Ethernet, IPv4, UDP, and one request or
// response of a key-value store. They are parsed, checked and built as a NIC's driver in user space
// would have to, and replayed from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "services/kv/wire.h"

namespace pulse::bench {

#pragma pack(push, 1)
struct PacketHead {
  uint8_t to[6];
  uint8_t from[6];
  uint16_t ether_type;  // 0x0800, big-endian, as all of the IP and UDP headers
  uint8_t version;      // 0x45
  uint8_t tos;
  uint16_t ip_bytes;
  uint16_t ip_id;
  uint16_t fragment;
  uint8_t ttl;
  uint8_t protocol;  // 17
  uint16_t ip_checksum;
  uint32_t ip_from;
  uint32_t ip_to;
  uint16_t port_from;
  uint16_t port_to;
  uint16_t udp_bytes;
  uint16_t udp_checksum;  // 0: none
  uint64_t stamp;         // the client's, echoed (section 5 of the paper)
  kv::WireOp op;          // a kv::WireStatus in a response
  uint8_t zero;
  uint16_t key_bytes;
  uint32_t value_bytes;
};
#pragma pack(pop)
static_assert(sizeof(PacketHead) == 58);
inline constexpr size_t kIpAt = 14;
inline constexpr size_t kUdpAt = 34;

inline uint16_t Swap16(size_t v) { return __builtin_bswap16(static_cast<uint16_t>(v)); }

// Of a sum of 16-bit words.
inline uint16_t FoldChecksum(uint64_t sum) {
  for (int i = 0; i < 3; ++i) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

inline uint16_t IpChecksum(const PacketHead& head) {
  const char* ip = reinterpret_cast<const char*>(&head) + kIpAt;
  uint64_t a;
  uint64_t b;
  uint32_t c;
  std::memcpy(&a, ip, 8);
  std::memcpy(&b, ip + 8, 8);
  std::memcpy(&c, ip + 16, 4);
  uint64_t sum = (a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + c;
  return FoldChecksum((sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32));
}

// Sets lengths and checksum; returns the packet's bytes. The sum is IpChecksum's, field by field as
// a response's are stored just before: loads that are wider would wait for the stores.
inline size_t SetLengths(PacketHead* head) {
  const size_t data = sizeof(*head) + head->key_bytes + head->value_bytes;
  head->ip_bytes = Swap16(data - kIpAt);
  head->udp_bytes = Swap16(data - kUdpAt);
  const uint64_t bytes = head->version + head->ttl + (uint64_t{head->tos} + head->protocol) * 256;
  head->ip_checksum = FoldChecksum(bytes + head->ip_bytes + head->ip_id + head->fragment +
                                   head->ip_from + head->ip_to);
  return data;
}

struct PacketRequest {
  kv::WireOp op;
  std::string_view key;
  std::string_view value;
};

// False: no request of ours; it is dropped.
inline bool ParsePacket(const char* packet, size_t size, PacketRequest* request) {
  if (size < sizeof(PacketHead)) return false;
  const auto* head = reinterpret_cast<const PacketHead*>(packet);
  const size_t data = sizeof(*head) + head->key_bytes + size_t{head->value_bytes};
  if (head->ether_type != Swap16(0x0800) || head->version != 0x45 || head->protocol != 17 ||
      data > size || head->ip_bytes != Swap16(data - kIpAt) ||
      head->udp_bytes != Swap16(data - kUdpAt) || IpChecksum(*head) != 0) {
    return false;
  }
  request->op = head->op;
  request->key = {packet + sizeof(*head), head->key_bytes};
  request->value = {packet + sizeof(*head) + head->key_bytes, head->value_bytes};
  return true;
}

// What of a response is known before the store has answered: addresses, ports, stamp.
inline void PrepareResponse(const char* request, char* response) {
  const auto* in = reinterpret_cast<const PacketHead*>(request);
  auto* out = reinterpret_cast<PacketHead*>(response);
  *out = *in;
  std::memcpy(out->to, in->from, 6);
  std::memcpy(out->from, in->to, 6);
  out->ip_from = in->ip_to;
  out->ip_to = in->ip_from;
  out->port_from = in->port_to;
  out->port_to = in->port_from;
  out->ttl = 64;
  out->key_bytes = 0;
}

// The rest; returns the packet's bytes.
inline size_t FinishResponse(char* response, kv::WireStatus status, std::string_view value) {
  auto* out = reinterpret_cast<PacketHead*>(response);
  out->op = static_cast<kv::WireOp>(status);
  out->value_bytes = static_cast<uint32_t>(value.size());
  if (value.size() == 8) {
    std::memcpy(response + sizeof(*out), value.data(), 8);
  } else {
    std::memcpy(response + sizeof(*out), value.data(), value.size());
  }
  return SetLengths(out);
}

}  // namespace pulse::bench
