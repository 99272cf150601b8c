// What the file library and the file service say to each other inside the rings of a poll group.
// docs/reference/protocol.md has the same in prose; a change here raises kProtocolVersion.
// DDS 4.2, 4.3.
//
// A group's region: one page with GroupHeader, the request ring (message_ring.h), the response
// buffer (response_buffer.h). A request is a message whose kind is an Operation of pulse/files.h: a
// Request, then its names one behind the other, or the data of a write. The peer is untrusted: what
// is used was copied once and checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "channel/message_ring.h"
#include "channel/response_buffer.h"
#include "channel/wire.h"
#include "pulse/files.h"

namespace pulse::files {

inline constexpr uint64_t kServiceNumber = 1;  // in the hello; 0 is the LSM service

inline constexpr uint64_t kMinRingBytes = uint64_t{64} << 10;
inline constexpr uint64_t kMaxRingBytes = uint64_t{256} << 20;
inline constexpr uint32_t kMaxRequests = 32768;
// All I/O is of whole blocks. The response of a read has the blocks around what was asked for, so
// its data begin at offset % kBlock.
inline constexpr uint64_t kBlock = 4096;

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
    return n >= kMinRingBytes && n <= kMaxRingBytes && (n & (n - 1)) == 0;
  };
  return ring(s.request_bytes) && ring(s.response_bytes) && s.requests > 0 &&
         s.requests <= kMaxRequests && (s.requests & (s.requests - 1)) == 0;
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

struct Request {
  uint64_t id;      // comes back in the response
  uint64_t file;    // handle, where the operation has one
  uint64_t offset;  // of a read or write; new size; bytes to reserve
  uint64_t length;  // of a read or write
  uint16_t names[4];
  uint64_t reserved;
};
static_assert(sizeof(Request) == 48 && std::is_trivially_copyable_v<Request>);

// Data of a response. Failed: a text for people. A read: the data. A listing: ListHeader, then per
// entry an EntryHeader and the name, padded to 8 bytes.
struct WireAttributes {
  uint64_t size;
  uint64_t allocated;
  int64_t modified_ns;
  uint64_t id;  // of the store
};
struct OpenedFile {
  uint64_t file;
  WireAttributes attributes;
};
struct ListHeader {
  uint32_t entries;
  uint32_t more;
};
struct EntryHeader {
  uint64_t size;
  int64_t modified_ns;
  uint32_t name_bytes;
  uint32_t reserved;
};
static_assert(sizeof(WireAttributes) == 32 && sizeof(OpenedFile) == 40);
static_assert(sizeof(ListHeader) == 8 && sizeof(EntryHeader) == 24);

// The most that a write of `block` alignment may carry, and a read, of a group.
inline constexpr uint64_t kMaxAlign = wire::kPage;

}  // namespace pulse::files
