// ValueCache: what the agent knows keys to hold, so that it need not ask the secondary. DDS section
// 6.1 (cache-on-write, and the reads that need no storage). An entry carries the version of its key
// (DirtyTable::VersionOf) as of which it is true; it is true for as long as that is the key's
// version, and nobody has to remove it. src/offload/cache_table.h has items of one size and one
// writer, and forgets what does not fit; values here have any size, and the least used one goes.
//
// It may also know of a key only that it was asked for in vain (Want): what is written there next
// is worth keeping.
//
// Threads: any; a lock for each of some shards is held for the time of one copy, and now and then
// until a shard's table has grown. Memory: `bytes`, with keys and an estimate of overheads. No
// errors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "services/redis/offload/dirty_table.h"

namespace pulse::redis {

class ValueCache {
 public:
  // Larger values are not kept.
  static constexpr size_t kMostBytes = size_t{64} << 10;

  explicit ValueCache(size_t bytes) : bytes_per_shard_(bytes / kShards) {
    // A bucket's further entries are as many misses of the CPU's caches.
    for (Shard& shard : shards_) shard.by_name.max_load_factor(0.5F);
  }

  // Whether it is known, as of `version`, what the key holds: then `*stored` is that (value.h), or
  // empty if there is no such key. `hash` is DirtyTable::Hash(key), here and below.
  bool Find(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
            std::string* stored);
  // Whether there is any entry of the key.
  bool Holds(uint64_t hash, std::string_view key);
  // Unless what it has is newer. Update: of a write; does nothing for a key without an entry, and
  // makes it no more used than it was.
  void Put(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
           std::string_view stored);
  void Update(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
              std::string_view stored);
  void Want(uint64_t hash, std::string_view key);

  size_t bytes() const;

 private:
  static constexpr size_t kShards = 16;
  // What an entry takes beside its bytes: two nodes, two buckets, and what malloc adds.
  static constexpr size_t kOverhead = 256;

  struct Entry {
    uint64_t hash = 0;
    std::string key;
    std::string stored;
    DirtyTable::Version version;  // unknown: only wanted
    size_t charge() const { return kOverhead + key.size() + stored.capacity(); }
  };
  struct Name {
    uint64_t hash;
    std::string_view key;
    bool operator==(const Name& other) const { return hash == other.hash && key == other.key; }
  };
  struct HashOf {
    size_t operator()(const Name& name) const { return name.hash; }
  };
  using Entries = std::list<Entry>;
  struct Shard {
    mutable std::mutex mu;
    Entries used;  // the latest first
    std::unordered_map<Name, Entries::iterator, HashOf> by_name;
    size_t bytes = 0;
  };

  // The low bits choose the table's slot, and the bucket.
  Shard& ShardOf(uint64_t hash) { return shards_[hash >> 60]; }
  // The entry, made if it is missing; the first of `used`.
  Entry& Touch(Shard* shard, uint64_t hash, std::string_view key);
  void Replace(Shard* shard, Entry* entry, const DirtyTable::Version& version,
               std::string_view stored);
  void Shrink(Shard* shard);

  const size_t bytes_per_shard_;
  std::array<Shard, kShards> shards_;
};

}  // namespace pulse::redis
