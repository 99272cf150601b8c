#include "services/redis/offload/value_cache.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/errors.h"

namespace pulse::redis {
namespace {

using Version = DirtyTable::Version;

// An item's value: the version, and what the key holds.
static_assert(std::is_trivially_copyable_v<Version>);

Version VersionOf(const kv::Item& item) {
  Version version;
  std::memcpy(&version, item.value_bytes(), sizeof(version));
  return version;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ValueCache>> ValueCache::Open(size_t bytes) {
  auto cache = std::make_unique<ValueCache>();
  if (bytes == 0) return cache;
  cache->count_ =
      static_cast<uint32_t>(std::clamp<size_t>(bytes / kv::kLeastMemory, 1, kMostShards));
  for (uint32_t i = 0; i < cache->count_; ++i) {
    kv::PartitionOptions options;
    options.memory_bytes = std::max(kv::kLeastMemory, bytes / cache->count_);
    options.policy = kv::Policy::kLfu;
    PULSE_ASSIGN_OR_RETURN(cache->shards_[i].partition, kv::Partition::Open(options));
  }
  return cache;
}

bool ValueCache::Find(uint64_t hash, std::string_view key, const Version& version,
                      std::string* stored) {
  Shard* const shard = ShardOf(hash, key);
  if (shard == nullptr || !version.known()) return false;
  const std::lock_guard lock(shard->mu);
  const kv::Item* item = shard->partition->Find(key, hash);
  if (item == nullptr || VersionOf(*item) != version) return false;
  stored->assign(item->value().substr(sizeof(version)));
  return true;
}

bool ValueCache::Holds(uint64_t hash, std::string_view key) {
  Shard* const shard = ShardOf(hash, key);
  if (shard == nullptr) return false;
  const std::lock_guard lock(shard->mu);
  return shard->partition->Peek(key, hash) != nullptr;
}

void ValueCache::Put(uint64_t hash, std::string_view key, const Version& version,
                     std::string_view stored) {
  Shard* const shard = ShardOf(hash, key);
  if (shard == nullptr || key.size() + stored.size() > kMostBytes) return;
  const std::lock_guard lock(shard->mu);
  Write(shard->partition.get(), shard->partition->Find(key, hash), hash, key, version, stored);
}

void ValueCache::Update(uint64_t hash, std::string_view key, const Version& version,
                        std::string_view stored) {
  Shard* const shard = ShardOf(hash, key);
  if (shard == nullptr || key.size() + stored.size() > kMostBytes) return;
  const std::lock_guard lock(shard->mu);
  kv::Item* const old = shard->partition->Peek(key, hash);
  if (old != nullptr) Write(shard->partition.get(), old, hash, key, version, stored);
}

void ValueCache::Write(kv::Partition* partition, kv::Item* old, uint64_t hash, std::string_view key,
                       const Version& version, std::string_view stored) {
  if (old != nullptr && VersionOf(*old).NewerThan(version)) return;
  const size_t size = sizeof(version) + stored.size();
  kv::Item* item = old;
  if (old != nullptr && old->size() == kv::Item::SizeOf(key.size(), size, 0)) {
    old->set_value_size(size);
  } else if (partition->Put(key, hash, size, {}, &item) != kv::Partition::Result::kStored) {
    // No room: what was there is of an older version, and is not found any more.
    return;
  }
  std::memcpy(item->value_bytes(), &version, sizeof(version));
  std::memcpy(item->value_bytes() + sizeof(version), stored.data(), stored.size());
}

void ValueCache::Want(uint64_t hash, std::string_view key) {
  Shard* const shard = ShardOf(hash, key);
  if (shard == nullptr || key.size() > kMostBytes - sizeof(Version)) return;
  const std::lock_guard lock(shard->mu);
  if (shard->partition->Find(key, hash) != nullptr) return;
  Write(shard->partition.get(), nullptr, hash, key, Version(), "");
}

size_t ValueCache::bytes() const {
  size_t sum = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const std::lock_guard lock(shards_[i].mu);
    sum += shards_[i].partition->numbers().used_bytes;
  }
  return sum;
}

}  // namespace pulse::redis
