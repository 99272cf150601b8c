// How `pulse serve` lays a string and its expiry down in RocksDB. Keys are the client's bytes as
// they are, in the default column family, in the order of bytes. A value is
//
//   0xF5, the client's bytes                                     never expires
//   0xF6, expiry (8 bytes, little-endian), the client's bytes    expires
//
// with the expiry in milliseconds since 1970, UTC: at that time, and after it, the key does not
// exist, whether or not a compaction has dropped it. Neither first byte occurs in UTF-8 text, so
// that a database that something else wrote is recognised. docs/reference/protocol.md, "The Redis
// protocol".
//
// Views only; no ownership, no state, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pulse::redis {

inline constexpr char kPlainTag = static_cast<char>(0xF5);
inline constexpr char kExpiringTag = static_cast<char>(0xF6);
inline constexpr size_t kExpiringHead = 9;
inline constexpr int64_t kNever = 0;  // as an expiry

// To the nearest one, of any time that is not negative.
constexpr int64_t RoundedSeconds(int64_t ms) { return ms / 1000 + (ms % 1000 >= 500 ? 1 : 0); }

struct Value {
  int64_t expires_ms = kNever;
  std::string_view data;
  uint32_t client_flags = 0;  // memcached's, of a store that has them

  bool ExpiredAt(int64_t now_ms) const { return expires_ms != kNever && expires_ms <= now_ms; }
};

// False when `stored` is not of this format.
inline bool DecodeValue(std::string_view stored, Value* value) {
  if (stored.empty()) return false;
  if (stored[0] == kPlainTag) {
    value->expires_ms = kNever;
    value->data = stored.substr(1);
    return true;
  }
  if (stored[0] != kExpiringTag || stored.size() < kExpiringHead) return false;
  uint64_t expiry = 0;
  for (size_t i = 8; i > 0; --i) expiry = expiry << 8 | static_cast<unsigned char>(stored[i]);
  value->expires_ms = static_cast<int64_t>(expiry);
  value->data = stored.substr(kExpiringHead);
  return value->expires_ms != kNever;
}

// Replaces `*stored`.
inline void EncodeValue(std::string_view data, int64_t expires_ms, std::string* stored) {
  stored->clear();
  if (expires_ms == kNever) {
    stored->push_back(kPlainTag);
  } else {
    stored->push_back(kExpiringTag);
    for (int i = 0; i < 8; ++i) {
      stored->push_back(static_cast<char>(static_cast<uint64_t>(expires_ms) >> (8 * i)));
    }
  }
  stored->append(data);
}

}  // namespace pulse::redis
