// The hash of a key, and which of its bits decide what: the low 40 the bucket, the top 16 the tag,
// those between the partition. Its seed is drawn when the process starts, so that nobody can choose
// keys that all belong to one bucket. Clients that share memory with the store know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace pulse::kv {

// Drawn at random unless it is set, which has to be before any key is hashed.
extern uint64_t hash_seed;
inline uint64_t HashSeed() { return hash_seed; }
inline void SetHashSeed(uint64_t seed) { hash_seed = seed; }

inline uint64_t HashKey(std::string_view key, uint64_t seed) {
  // Of a size that the compiler knows it is a few instructions.
  if (key.size() == 8) return XXH3_64bits_withSeed(key.data(), 8, seed);
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}
inline uint64_t HashKey(std::string_view key) { return HashKey(key, hash_seed); }

inline uint64_t TagOf(uint64_t hash) {
  const uint64_t tag = hash >> 48;
  return tag == 0 ? 1 : tag;  // so that no slot in use is 0
}

// Of `partitions`, at most 256.
inline uint32_t PartitionOf(uint64_t hash, uint32_t partitions) {
  return static_cast<uint32_t>(((hash >> 40) & 0xff) * partitions >> 8);
}

}  // namespace pulse::kv
