// The KV queue pair: what host and agent say to each other, one contiguous transfer for a batch and
// direction (section 4.2 of the DPU-KV paper, whose one-byte count does not hold its own bursts of
// 256):
//
//   u16 count | 6 bytes of zeros | count descriptors | payload
//
// A request's descriptor has 32 bytes, a response's 16. Responses stand in the order of their
// requests; where they do not all fit, a transfer has the first of them, and the next one goes on.
// Keys and values of at most 8 bytes lie in the descriptor itself; longer ones in the payload, the
// key first. Little-endian; offsets are from the beginning of the transfer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pulse::kv {

inline constexpr size_t kMostInBatch = 1024;

struct BatchHeader {
  uint16_t count;
  uint16_t zero[3];
};
static_assert(sizeof(BatchHeader) == 8);

enum class WireOp : uint8_t { kGet = 1, kSet = 2, kDelete = 3 };
enum WireFlags : uint8_t {
  kInline = 1,  // key and value are in the descriptor
  kTtl = 2,     // of a request that is not kInline: `value` is a time to live instead of an expiry
  // The value is in memory of the client's (shm/wire.h), from its beginning; never with kInline. A
  // GET that has it says by `value_size` how much fits there, and is answered with it where the
  // value fits into no buffer.
  kFar = 64,
};

struct RequestDescriptor {
  uint64_t hash;   // of the key; the host computes it again unless it trusts its agent
  uint64_t key;    // kInline: its bytes; else the offset of key and value, kFar: of the key alone
  uint64_t value;  // kInline: its bytes; else the expiry in milliseconds since 1970, or 0
  uint32_t value_size;
  uint16_t key_size;
  WireOp op;
  uint8_t flags;
};
static_assert(sizeof(RequestDescriptor) == 32);
static_assert(offsetof(RequestDescriptor, value_size) == 24);

enum class WireStatus : uint8_t {
  kOk = 0,
  kNotFound = 1,
  kNoMemory = 2,
  kTooLarge = 3,  // to store; or, of a GET, to send: then an inline value of 8 bytes is its size
  kMalformed = 4,
};

struct ResponseDescriptor {
  uint64_t value;  // kInline: its bytes; kFar: 0; else its offset
  uint32_t value_size;
  WireStatus status;
  uint8_t flags;
  uint16_t session;  // 0, but for agents (agent/wire.h)
};
static_assert(sizeof(ResponseDescriptor) == 16);

// The last 8 bytes of a descriptor, as one number.
static_assert(std::endian::native == std::endian::little);
constexpr uint64_t DescriptorWord(size_t value_size, size_t key_size, WireOp op, uint8_t flags) {
  return uint64_t{static_cast<uint32_t>(value_size)} |
         uint64_t{static_cast<uint16_t>(key_size)} << 32 |
         uint64_t{static_cast<uint8_t>(op)} << 48 | uint64_t{flags} << 56;
}
constexpr uint64_t DescriptorWord(size_t value_size, WireStatus status, uint8_t flags,
                                  uint16_t session = 0) {
  return uint64_t{static_cast<uint32_t>(value_size)} |
         uint64_t{static_cast<uint8_t>(status)} << 32 | uint64_t{flags} << 40 |
         uint64_t{session} << 48;
}

// Writes a descriptor, each word by a store of its own. Made on the stack and copied, it would be
// loaded in more bytes than it was stored in at once, and wait for these stores.
template <class... Words>
void WriteDescriptor(char* at, const Words&... words) {
  static_assert(((sizeof(Words) == 8) && ...));
  ((std::memcpy(at, &words, 8), at += 8), ...);
}

// A key or value of at most 8 bytes, as it lies in a descriptor.
inline uint64_t InlineWord(std::string_view bytes) {
  uint64_t word = 0;
  if (bytes.size() == 8) {
    std::memcpy(&word, bytes.data(), 8);
  } else if (!bytes.empty()) {  // which may be nowhere
    std::memcpy(&word, bytes.data(), bytes.size());
  }
  return word;
}

}  // namespace pulse::kv
