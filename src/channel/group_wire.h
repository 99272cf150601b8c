// The layout of a message group: requests from host to agent and responses back, by messages of any
// length, for services whose requests do not fit into a descriptor. DDS 4.2, 4.3.
//
// A group's region: one page with GroupHeader, the request ring (message_ring.h), the response
// buffer (response_buffer.h). Kinds and contents of messages belong to the service. Both sides
// compute all offsets from the shape; a change here raises wire::kProtocolVersion. The peer is
// untrusted: what is used was copied once and checked.
//
// A group lives until its session ends, or until the host gives it back: by MessageType::kService
// {group}, answered by kServiceAck. Once what was under way has ended, the agent lets go of the
// region, which it says by hanging up the group's doorbell.
#pragma once

#include <algorithm>
#include <cstdint>

#include "channel/message_ring.h"
#include "channel/response_buffer.h"
#include "channel/wire.h"

namespace pulse {

inline constexpr uint64_t kMinGroupRing = uint64_t{64} << 10;
inline constexpr uint64_t kMaxGroupRing = uint64_t{256} << 20;
inline constexpr uint32_t kMaxGroupRequests = 32768;

struct GroupHeader {
  // Written once by the host before the region is offered.
  alignas(wire::kCacheLine) uint64_t magic;
  uint32_t version;
  uint32_t group;
  uint64_t request_bytes;
  uint64_t response_bytes;
  uint32_t requests;
  uint32_t reserved;
  wire::Line<uint32_t> host_waiting;  // host sets, agent clears and notifies
};
static_assert(sizeof(GroupHeader) == 2 * wire::kCacheLine && sizeof(GroupHeader) <= wire::kPage);

struct GroupShape {
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
  uint32_t requests = 0;
};
inline bool Valid(const GroupShape& s) {
  const auto ring = [](uint64_t n) {
    return n >= kMinGroupRing && n <= kMaxGroupRing && (n & (n - 1)) == 0;
  };
  return ring(s.request_bytes) && ring(s.response_bytes) && s.requests > 0 &&
         s.requests <= kMaxGroupRequests && (s.requests & (s.requests - 1)) == 0;
}
inline uint64_t RequestOffset() { return wire::kPage; }
inline uint64_t ResponseOffset(const GroupShape& s) { return 2 * wire::kPage + s.request_bytes; }
// A slow read holds four times as many responses as there may be requests, before the agent waits.
inline ResponseShape ResponsesOf(const GroupShape& s) {
  return {s.response_bytes, std::min<uint64_t>(s.response_bytes / 8, uint64_t{64} << 10),
          std::max<uint32_t>(1024, 4 * s.requests)};
}
inline uint64_t GroupBytes(const GroupShape& s) {
  return ResponseOffset(s) + ResponseBytes(ResponsesOf(s));
}

}  // namespace pulse
