// ValueCache: what the agent knows keys to hold, so that it need not ask the secondary. DDS section
// 6.1 (cache-on-write, and the reads that need no storage). An entry carries the version of its key
// (DirtyTable::VersionOf) as of which it is true; it is true for as long as that is the key's
// version, and nobody has to remove it. Entries are items of the in-memory store's engine
// (services/kv/core), as those of the server's hot tier are; what is used least goes.
//
// It may also know of a key only that it was asked for in vain (Want): what is written there next
// is worth keeping.
//
// Threads: any; one lock for each partition is held for the time of one copy, and now and then
// until the engine has made room. Memory: `bytes`, and kv::kLeastMemory at least; taken as it is
// needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "services/kv/core/partition.h"
#include "services/redis/offload/dirty_table.h"

namespace pulse::redis {

class ValueCache {
 public:
  // Larger values are not kept.
  static constexpr size_t kMostBytes = size_t{64} << 10;

  // 0 bytes: it keeps nothing.
  static absl::StatusOr<std::unique_ptr<ValueCache>> Open(size_t bytes);

  // Whether it is known, as of `version`, what the key holds: then `*stored` is that (value.h), or
  // empty if there is no such key. `hash` is kv::HashKey(key), here and below.
  bool Find(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
            std::string* stored);
  // Whether there is any entry of the key.
  bool Holds(uint64_t hash, std::string_view key);
  // Unless what it has is newer. Update: of a write; does nothing for a key without an entry, and
  // makes it no more used than it was, but where it has to move.
  void Put(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
           std::string_view stored);
  void Update(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
              std::string_view stored);
  void Want(uint64_t hash, std::string_view key);

  // Taken, the engine's index included.
  size_t bytes() const;

 private:
  static constexpr size_t kMostShards = 4;

  struct Shard {
    mutable std::mutex mu;
    std::unique_ptr<kv::Partition> partition;
  };
  // Null where nothing is kept.
  Shard* ShardOf(uint64_t hash, std::string_view key) {
    PULSE_DCHECK(hash == kv::HashKey(key));
    return count_ == 0 ? nullptr : &shards_[kv::PartitionOf(hash, count_)];
  }
  // `old`: the key's entry, or null.
  static void Write(kv::Partition* partition, kv::Item* old, uint64_t hash, std::string_view key,
                    const DirtyTable::Version& version, std::string_view stored);

  uint32_t count_ = 0;
  std::array<Shard, kMostShards> shards_;
};

}  // namespace pulse::redis
