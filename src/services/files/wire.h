// What the file library and the file service say to each other inside the rings of a message group
// (channel/group_wire.h). docs/reference/protocol.md has the same in prose; a change here raises
// kServiceVersion. DDS 4.2, 4.3.
//
// A request is a message whose kind is an Operation of pulse/files.h: a Request, then its names one
// behind the other, or the data of a write. The peer is untrusted: what is used was copied once and
// checked.
#pragma once

#include <cstdint>
#include <type_traits>

#include "channel/group_wire.h"
#include "pulse/files.h"

namespace pulse::files {

inline constexpr uint32_t kServiceId = 1;
inline constexpr uint32_t kServiceVersion = 1;

// All I/O is of whole blocks. The response of a read has the blocks around what was asked for, so
// its data begin at offset % kBlock.
inline constexpr uint64_t kBlock = 4096;

// The kind of the message that carries it.
inline uint16_t KindOf(Operation operation) { return static_cast<uint16_t>(operation); }

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
