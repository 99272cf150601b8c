// What an agent in a process of its own (`pulse agent --serve-kv`) and `pulse kv --agent-socket`
// share. DPU-KV paper, sections 4.2 and 4.3. The handshake is that of clients that share memory
// (shm/wire.h), with another service and version, and one doorbell of the server's.
//
// A lane is one loop of the agent and one thread of the host: [LaneHeader: one page] and two queue
// pairs that go one way (queue_pair.h), requests and replies. A transfer of requests has
// RequestDescriptors, one of replies ResponseDescriptors (kv/wire.h), with these meanings:
//
//   request  hash: the session, a number below kMostSessions that the agent chooses; op: a LaneOp;
//            flags: LaneFlags; key and value lie where kInline says
//   reply    session; status: a LaneStatus; flags: LaneFlags; the value is the reply's bytes
//
// A session is a connection of a client. Its requests are carried out in their order, and each has
// one reply, in that order, which may be empty; replies of several sessions come in any order. What
// is longer than kFragment crosses in pieces, between which other sessions' requests and replies
// go.
//
// A reply with kPush answers no request: it is a message to the session's client, behind the
// replies that were made before. It may be in pieces.
//
// kOpen begins a session. Either side ends it, the agent by kClose and the host by kClosed, and
// answers the other's end by its own; then the number is free.
//
// Back-pressure: a reply with kPaused is the last one until the agent has sent kResume, but for
// replies to requests that were taken before. Between two kResume there are at most kMostPushed
// bytes of messages. Neither side publishes a transfer without a free buffer. One that waits for a
// buffer sets its flag in the header, and the other side then rings its doorbell when it has given
// one back.
//
// Each side treats the other as untrusted.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "channel/wire.h"
#include "services/kv/queue_pair.h"
#include "services/kv/wire.h"

namespace pulse::kv {

inline constexpr uint64_t kLaneMagic = 0x3130454e414c5650;  // "PVLANE01", little-endian
inline constexpr uint32_t kLaneService = 5;                 // in the hello; see services.cc
inline constexpr uint32_t kLaneVersion = 4;
inline constexpr uint32_t kMostSessions = 65535;
inline constexpr uint32_t kMostLaneSlots = 64;
inline constexpr uint32_t kMostLaneBuffer = 16 << 20;
inline constexpr size_t kFragment = 16 << 10;
inline constexpr size_t kMostPushed = 4 << 20;
inline constexpr size_t kMostAddress = 128;  // bytes of kOpen's key, and of its value

enum class LaneOp : uint8_t {
  kGet = 1,        // key
  kSet = 2,        // key, value; without options
  kDelete = 3,     // key
  kCommand = 4,    // value: a request of Redis's protocol, its arguments found (redis::AppendSplit)
  kMemcached = 5,  // value: a request of memcached's protocol
  kOpen = 6,       // key: the client's address; value: the agent's, that it has connected to
  kClose = 7,
  kResume = 8,
};
enum LaneFlags : uint8_t {  // beside kInline
  kMore = 4,                // the next one of the session goes on
  kPaused = 8,              // of a reply
  kOtherProtocol = 16,      // of kOpen: memcached's
  kPush = 32,               // of a reply: it answers no request
};
enum class LaneStatus : uint8_t { kReply = 0, kClosed = 1 };

struct LaneFacts {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint32_t batch;
  uint32_t buffer_bytes;
  uint64_t max_bulk;    // of an argument
  uint32_t wants_auth;  // 1: a client that has not said who it is may not read
  uint32_t zero;

  QueuePairOptions queue() const { return {slots, batch, buffer_bytes, true}; }
  size_t bytes() const { return wire::kPage + 2 * QueuePair::BytesFor(queue()); }
  bool Valid() const {
    return magic == kLaneMagic && version == kLaneVersion && std::has_single_bit(slots) &&
           slots <= kMostLaneSlots && batch >= 1 && batch <= kMostInBatch &&
           buffer_bytes % wire::kPage == 0 && buffer_bytes <= kMostLaneBuffer &&
           buffer_bytes >= RequestWriter::PayloadBegin(batch) + 2 * kFragment;
  }
};
static_assert(sizeof(LaneFacts) == 40);

struct LaneHeader {
  alignas(wire::kCacheLine) LaneFacts facts;
  wire::Line<uint32_t> agent_sleeping;
  wire::Line<uint32_t> host_sleeping;
  wire::Line<uint32_t> agent_waits;  // for a buffer of requests
  wire::Line<uint32_t> host_waits;   // ... of replies
};
static_assert(sizeof(LaneHeader) <= wire::kPage);

inline size_t LaneRequests() { return wire::kPage; }
inline size_t LaneReplies(const LaneFacts& facts) {
  return wire::kPage + QueuePair::BytesFor(facts.queue());
}

}  // namespace pulse::kv
