#include "services/redis/offload/value_cache.h"

namespace pulse::redis {

bool ValueCache::Find(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
                      std::string* stored) {
  Shard& shard = ShardOf(hash);
  std::lock_guard lock(shard.mu);
  const auto found = shard.by_name.find({hash, key});
  if (found == shard.by_name.end() || !version.known() || found->second->version != version) {
    return false;
  }
  shard.used.splice(shard.used.begin(), shard.used, found->second);
  stored->assign(found->second->stored);
  return true;
}

bool ValueCache::Holds(uint64_t hash, std::string_view key) {
  Shard& shard = ShardOf(hash);
  std::lock_guard lock(shard.mu);
  return shard.by_name.contains({hash, key});
}

void ValueCache::Put(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
                     std::string_view stored) {
  if (bytes_per_shard_ == 0 || key.size() + stored.size() > kMostBytes) return;
  Shard& shard = ShardOf(hash);
  std::lock_guard lock(shard.mu);
  Replace(&shard, &Touch(&shard, hash, key), version, stored);
}

void ValueCache::Update(uint64_t hash, std::string_view key, const DirtyTable::Version& version,
                        std::string_view stored) {
  if (key.size() + stored.size() > kMostBytes) return;
  Shard& shard = ShardOf(hash);
  std::lock_guard lock(shard.mu);
  const auto found = shard.by_name.find({hash, key});
  if (found != shard.by_name.end()) Replace(&shard, &*found->second, version, stored);
}

void ValueCache::Replace(Shard* shard, Entry* entry, const DirtyTable::Version& version,
                         std::string_view stored) {
  if (entry->version.NewerThan(version)) return;
  shard->bytes -= entry->charge();
  entry->version = version;
  // A buffer that was much larger is not kept for a small value.
  if (entry->stored.capacity() / 2 > stored.size()) std::string().swap(entry->stored);
  entry->stored.assign(stored);
  shard->bytes += entry->charge();
  Shrink(shard);
}

void ValueCache::Want(uint64_t hash, std::string_view key) {
  if (bytes_per_shard_ == 0 || key.size() > kMostBytes) return;
  Shard& shard = ShardOf(hash);
  std::lock_guard lock(shard.mu);
  Touch(&shard, hash, key);
  Shrink(&shard);
}

ValueCache::Entry& ValueCache::Touch(Shard* shard, uint64_t hash, std::string_view key) {
  const auto found = shard->by_name.find({hash, key});
  if (found != shard->by_name.end()) {
    shard->used.splice(shard->used.begin(), shard->used, found->second);
    return *found->second;
  }
  Entry& made = shard->used.emplace_front();
  made.hash = hash;
  made.key = key;
  shard->by_name.emplace(Name{hash, made.key}, shard->used.begin());
  shard->bytes += made.charge();
  return made;
}

void ValueCache::Shrink(Shard* shard) {
  while (shard->bytes > bytes_per_shard_ && !shard->used.empty()) {
    const Entry& last = shard->used.back();
    shard->bytes -= last.charge();
    shard->by_name.erase({last.hash, last.key});
    shard->used.pop_back();
  }
}

size_t ValueCache::bytes() const {
  size_t sum = 0;
  for (const Shard& shard : shards_) {
    std::lock_guard lock(shard.mu);
    sum += shard.bytes;
  }
  return sum;
}

}  // namespace pulse::redis
