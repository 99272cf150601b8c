// What `pulse kv --udp-port` and its clients (pulse/kv_udp_client.h) say to each other: batches of
// requests in datagrams. DPU-KV paper, section 5: the server echoes the client's time stamp.
//
//   client  kHello      no session: asks for a cookie, then with the cookie for a session. As long
//                       as the longest answer, so that no answer is longer than what asked for it
//   server  kCookie     a header alone, `session` is the cookie of the client's address
//   server  kWelcome    a header, whose `session` is the client's from now on, and a UdpWelcome
//   client  kRequests   a header, then `count` records, each a UdpRequest, with kUdpTtl 8 bytes of
//                       time to live, key, value, and zeros up to a multiple of 8 bytes
//   server  kResponses  a header, then `count` records, each a UdpResponse, a value, and zeros up
//   to
//                       a multiple of 8. The responses to one datagram may come in several, in any
//                       order; each names its request
//   server  kRefusal    a header alone, `count` is a UdpRefusal; nothing was carried out
//
// A server answers kHello and kRequests only, and anything else with silence: so no two of them can
// be made to talk to each other. Who has no session never gets more bytes than it has sent, and a
// session needs a cookie, which goes to the address that asks: a forged address gets nobody
// traffic.
//
// Repeats. A client numbers its datagrams from 1, and sends one again, with the same number, when
// no answer comes. `floor` is the lowest number that it still waits for. The server remembers what
// came of the writes of the last kUdpWindow numbers: a repeat is answered, and not carried out
// again; and what is below the floor is not carried out at all.
//
// These are not the queue pair's descriptors (services/kv/wire.h), which a DMA engine is to find at
// fixed places and which carry a hash: read front to back, a request of 8-byte key takes 16 bytes
// instead of 32. Operations and statuses are the same. Little-endian. Both sides are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "services/kv/wire.h"

namespace pulse::kv {

inline constexpr uint32_t kUdpMagic = 0x554b5650;  // "PVKU"
inline constexpr uint8_t kUdpVersion = 1;
inline constexpr uint32_t kUdpWindow = 32;           // datagrams under way in a session
inline constexpr uint32_t kUdpMostRequests = 1024;   // of one datagram
inline constexpr uint32_t kUdpLeastDatagram = 512;   // that a client must be able to take
inline constexpr uint32_t kUdpMostDatagram = 65504;  // what IPv4 takes, in whole words
// The responses to one datagram have no more bytes of records than this. A value that finds no room
// is kTooLarge, with its size; alone in a datagram, it fits if a datagram takes it.
inline constexpr uint32_t kUdpMostReply = 64 << 10;
inline constexpr uint32_t kUdpMostPartitions = 64;
// A session that was not used for so long may be given to another client. A client waits for less.
inline constexpr int64_t kUdpIdleNanos = int64_t{60} * 1'000'000'000;
inline constexpr int64_t kUdpMostTimeoutMs = 30'000;

enum class UdpType : uint8_t {
  kHello = 1,
  kCookie = 2,
  kWelcome = 3,
  kRequests = 4,
  kResponses = 5,
  kRefusal = 6,
};

enum class UdpRefusal : uint16_t {
  kVersion = 1,
  kNoSession = 2,  // there is none, or not of this address
  kMalformed = 3,
  kClients = 4,  // there are as many as the server takes
};

struct UdpHeader {
  uint32_t magic;
  uint8_t version;
  UdpType type;
  uint16_t count;
  uint64_t session;
  uint64_t sequence;
  uint64_t floor;        // of requests
  int64_t stamp;         // the client's, whatever it means
  uint32_t reply_bytes;  // the longest datagram that the client takes
  uint32_t zero;
};
static_assert(sizeof(UdpHeader) == 48 && offsetof(UdpHeader, reply_bytes) == 40);

struct UdpHello {
  uint64_t nonce;   // chosen by the client: a repeat is no other client
  uint64_t cookie;  // 0: none yet
};

struct UdpWelcome {
  uint64_t boot;       // another one each time that the server starts
  uint64_t hash_seed;  // of keys; a partition is PartitionOf(HashKey(key, hash_seed), partitions)
  uint32_t partitions;
  uint32_t partition;  // this endpoint's own
  uint32_t window;
  uint32_t most_requests;
  uint16_t ports[kUdpMostPartitions];  // of the endpoints, by partition
};
static_assert(sizeof(UdpWelcome) == 32 + 2 * kUdpMostPartitions);
inline constexpr size_t kUdpHelloBytes = sizeof(UdpHeader) + sizeof(UdpWelcome);

enum UdpFlags : uint8_t { kUdpTtl = 1 };

struct UdpRequest {
  uint32_t value_size;
  uint16_t key_size;
  WireOp op;
  uint8_t flags;
};
static_assert(sizeof(UdpRequest) == 8);

struct UdpResponse {
  uint32_t value_size;
  uint16_t request;  // of the datagram, from 0
  WireStatus status;
  uint8_t zero;
};
static_assert(sizeof(UdpResponse) == 8);

inline constexpr size_t UdpPadded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

}  // namespace pulse::kv
