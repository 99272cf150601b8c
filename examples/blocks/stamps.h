// What the load generator writes, so that each block that is read tells whether it is whole, of its
// place, and no older than it may be: {place, version}, then words made from both. A block of zeros
// is version 0: nothing was written. Any thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

namespace pulse::blocks {

inline constexpr uint32_t kMinBlock = 32;  // and a multiple of 16

inline uint64_t StampWord(uint64_t place, uint64_t version) {
  uint64_t x = place * 0x9E3779B97F4A7C15u ^ version;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return x ^ x >> 32;
}

inline void Stamp(char* block, uint32_t bytes, uint64_t place, uint64_t version) {
  const uint64_t head[2] = {place, version};
  std::memcpy(block, head, sizeof(head));
  uint64_t word = StampWord(place, version);
  for (uint32_t at = 16; at < bytes; at += 8, word += 0x9E3779B97F4A7C15u) {
    std::memcpy(block + at, &word, 8);
  }
}

// The version of a whole block of this place.
inline std::optional<uint64_t> VersionOf(const char* block, uint32_t bytes, uint64_t place) {
  uint64_t head[2];
  std::memcpy(head, block, sizeof(head));
  const bool zeros = head[0] == 0 && head[1] == 0;
  if (!zeros && (head[0] != place || head[1] == 0)) return std::nullopt;
  uint64_t word = zeros ? 0 : StampWord(place, head[1]);
  uint64_t wrong = 0;
  for (uint32_t at = 16; at < bytes; at += 8) {
    uint64_t seen;
    std::memcpy(&seen, block + at, 8);
    wrong |= seen ^ word;
    word += zeros ? 0 : 0x9E3779B97F4A7C15u;
  }
  if (wrong != 0) return std::nullopt;
  return head[1];
}

}  // namespace pulse::blocks
