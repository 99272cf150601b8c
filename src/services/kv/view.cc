#include "services/kv/view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "services/kv/held.h"

namespace pulse::kv {

using redis::Found;

std::string RefusalOf(Partition::Result result, std::string_view key) {
  switch (result) {
    case Partition::Result::kStored:
      return "";
    case Partition::Result::kNoMemory:
      return "OOM command not allowed when used memory > 'maxmemory'.";
    case Partition::Result::kTooLarge:
    case Partition::Result::kNotFilled:  // by PutFilled alone
      break;
  }
  if (key.size() > kMaxKeyBytes) {
    return absl::StrCat("ERR the key has ", key.size(), " bytes, and may have ", kMaxKeyBytes);
  }
  return "ERR the key or value is larger than one partition takes; give more --memory";
}

KvView::KvView(KvStore* store, const KvStore::Place& place, const CommandTraits& traits,
               bool may_block, bool held_all, int64_t now_ms)
    : View(now_ms, store->options().limits),
      store_(store),
      place_(place),
      traits_(traits),
      may_block_(may_block),
      held_all_(held_all) {}

redis::ClusterNode KvView::node() const {
  if (!store_->in_cluster()) return {};
  return {store_->options().cluster, static_cast<int>(place_.begin())};
}

const Item* KvView::ItemOf(std::string_view key) {
  const uint64_t hash = HashKey(key);
  Partition& partition = PartitionFor(hash);
  return traits_.counts_as_use ? partition.Find(key, hash) : partition.Peek(key, hash);
}

const Item* KvView::Look(std::string_view key, Found* found) {
  const Item* item = ItemOf(key);
  found->exists = item != nullptr;
  if (item == nullptr) return nullptr;
  const int64_t expires_ms = item->expires_ms();
  found->value.expires_ms = expires_ms == kNoExpiry ? redis::kNever : expires_ms;
  const bool has_flags = (item->fields() & kHasClientFlags) != 0;
  found->value.client_flags = has_flags ? item->facts().client_flags : 0;
  return item;
}

bool KvView::Get(std::string_view key, Found* found) {
  const Item* item = Look(key, found);
  if (item == nullptr) return true;
  found->value.data = item->value();
  return true;
}

bool KvView::GetExpiry(std::string_view key, Found* found) {
  Look(key, found);
  return true;
}

bool KvView::GetMany(const std::string_view* keys, size_t count, std::vector<Found>* found,
                     uint64_t most_bytes) {
  found->clear();
  found->resize(count);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    Get(keys[i], &(*found)[i]);
    if ((*found)[i].exists) bytes += (*found)[i].value.data.size();
    if (bytes > most_bytes && i > 0) {
      found->resize(i);
      return true;
    }
  }
  return true;
}

bool KvView::CountExisting(const std::string_view* keys, size_t count, size_t* existing) {
  *existing = 0;
  for (size_t i = 0; i < count; ++i) *existing += ItemOf(keys[i]) != nullptr ? 1 : 0;
  return true;
}

// Of a command that puts one value, nothing has to be taken back. What is remembered is beside the
// store's memory, so it has a bound; but of two keys, any values.
bool KvView::Remember(std::string_view key, uint64_t hash) {
  constexpr size_t kAlways = 2;
  const Item* item = PartitionFor(hash).Peek(key, hash);
  const uint64_t value_size = item == nullptr ? 0 : item->value_size();
  before_bytes_ += sizeof(Before) + key.size() + value_size;
  if (before_.size() >= kAlways && before_bytes_ > limits().max_reply) {
    error_ = absl::StrCat("ERR the values that this command replaces have more than ",
                          limits().max_reply, " bytes in all; use several commands");
    return false;
  }
  Before& before = before_.emplace_back();
  before.key = key;
  before.existed = item != nullptr;
  if (item == nullptr) return true;
  before.value = item->value();
  before.facts = item->facts();
  return true;
}

void KvView::Put(std::string_view key, std::string_view data, int64_t expires_ms) {
  PutWith({.expires_ms = ItemExpiry(expires_ms)}, key, data);
}

void KvView::PutFrom(const Found& before, std::string_view key, std::string_view data) {
  ItemFacts facts;
  if (before.exists) {
    facts.expires_ms = ItemExpiry(before.value.expires_ms);
    facts.client_flags = before.value.client_flags;
  }
  // RENAME and COPY put what lies in the store, where it may move when room is made.
  std::string copy;
  if (before.exists && data.data() == before.value.data.data()) data = copy = data;
  PutWith(facts, key, data);
}

void KvView::PutWith(const ItemFacts& facts, std::string_view key, std::string_view data) {
  if (!error_.empty()) return;
  const uint64_t hash = HashKey(key);
  if (traits_.many && !Remember(key, hash)) return;
  Item* item = nullptr;
  Partition& partition = PartitionFor(hash);
  const auto result = partition.Put(key, hash, data.size(), facts, &item, traits_.urgent);
  if (result == Partition::Result::kStored) {
    CopyValue(item->value_bytes(), data);
  } else if (traits_.many) {
    before_.pop_back();  // it is as it was
  }
  Written(key, &partition, result);
}

void KvView::Written(std::string_view key, Partition* partition, Partition::Result result) {
  if (result != Partition::Result::kStored) {
    error_ = RefusalOf(result, key);
    return;
  }
  // It is complete before another partition is changed: of RENAME the source is not gone before.
  partition->Settle();
  if (store_->watch_table()->active()) store_->watch_table()->Touch(key);
}

void KvView::SetExpiry(std::string_view key, const Found&, int64_t expires_ms) {
  if (!error_.empty()) return;
  const uint64_t hash = HashKey(key);
  Partition& partition = PartitionFor(hash);
  const Item* item = partition.Peek(key, hash);
  if (item == nullptr) return;  // it has expired meanwhile
  ItemFacts facts = item->facts();
  facts.expires_ms = ItemExpiry(expires_ms);
  bool found = false;
  Written(key, &partition, partition.SetFacts(key, hash, facts, &found));
}

void KvView::Undo() {
  for (auto it = before_.rbegin(); it != before_.rend(); ++it) {
    const uint64_t hash = HashKey(it->key);
    Partition& partition = PartitionFor(hash);
    if (!it->existed) {
      partition.Erase(it->key, hash);
      continue;
    }
    // There was room for it before.
    Item* item = nullptr;
    if (partition.Put(it->key, hash, it->value.size(), it->facts, &item, true) ==
        Partition::Result::kStored) {
      CopyValue(item->value_bytes(), it->value);
    } else {
      // Of a command that was refused, no value may stay.
      partition.Erase(it->key, hash);
      Log(LogLevel::kError, absl::StrCat("the store had no room to put a value of ",
                                         it->value.size(), " bytes back; its key is dropped"));
    }
    partition.Settle();
  }
  before_.clear();
}

void KvView::Delete(std::string_view key) {
  if (!error_.empty()) return;
  const uint64_t hash = HashKey(key);
  const bool deleted = PartitionFor(hash).Erase(key, hash);
  if (deleted && store_->watch_table()->active()) store_->watch_table()->Touch(key);
}

template <class Use>
bool KvView::WithEach(const Use& use) {
  for (uint32_t shard = place_.begin(); shard < place_.end(); ++shard) {
    KvStore::Held held(store_);
    if (!held_all_ && !held.Take(uint64_t{1} << shard, may_block_)) {
      blocked_ = true;
      return false;
    }
    if (!use(store_->partition(shard))) return true;
  }
  return true;
}

bool KvView::Clear() {
  // A thread that may wait; and, as the caller holds all of them, at one point in time.
  if (!held_all_) {
    blocked_ = true;
    return false;
  }
  // A watched key that is not there does not change. Nobody sees a key before all are gone.
  if (store_->watch_table()->active()) {
    store_->watch_table()->TouchAll([this](std::string_view key) {
      const uint64_t hash = HashKey(key);
      const uint32_t shard = store_->ShardOf(key, hash);
      return shard >= place_.begin() && shard < place_.end() &&
             store_->partition(shard).Peek(key, hash) != nullptr;
    });
  }
  for (uint32_t shard = place_.begin(); shard < place_.end(); ++shard)
    store_->partition(shard).Clear();
  return true;
}

bool KvView::ForEachKey(std::string_view prefix, const UseKey& use) {
  if (!may_block_) {
    blocked_ = true;
    return false;
  }
  // So many buckets at a time, so that others get a partition meanwhile.
  constexpr int kBuckets = 1024;
  bool more = true;
  for (uint32_t shard = place_.begin(); shard < place_.end() && more; ++shard) {
    uint64_t cursor = 0;
    do {
      KvStore::Held held(store_);
      if (!held_all_) held.Take(uint64_t{1} << shard, true);
      int left = kBuckets;
      do {
        cursor = store_->partition(shard).Scan(cursor, [&](const Item& item) {
          const std::string_view key = item.key();
          if (more && key.compare(0, prefix.size(), prefix) == 0) more = use(key);
        });
      } while (more && cursor != 0 && --left > 0);
    } while (more && cursor != 0);
  }
  return true;
}

bool KvView::ScanStep(uint64_t cursor, std::string_view prefix, int64_t count, const UseKey& use,
                      uint64_t* next, bool* known) {
  // The partition, and the cursor within it. Below 2^63, as clients may read it as signed.
  constexpr int kShardBit = 48;
  uint64_t shard = place_.begin() + (cursor >> kShardBit);
  uint64_t within = cursor & ((uint64_t{1} << kShardBit) - 1);
  // Any number is one, as for Redis: beyond the last partition is the end.
  *known = true;
  *next = 0;
  if (shard >= place_.end()) return true;
  bool room = true;
  int64_t left = count;
  // A small store in a large index is passed in one step, too.
  int buckets = 100'000;
  while (shard < place_.end() && room && left > 0 && buckets > 0) {
    KvStore::Held held(store_);
    if (!held_all_ && !held.Take(uint64_t{1} << shard, may_block_)) {
      blocked_ = true;
      return false;
    }
    // Whole buckets.
    do {
      within = store_->partition(static_cast<uint32_t>(shard)).Scan(within, [&](const Item& item) {
        --left;
        const std::string_view key = item.key();
        if (key.compare(0, prefix.size(), prefix) == 0) room &= use(key);
      });
    } while (within != 0 && left > 0 && --buckets > 0 && room);
    if (within == 0) ++shard;
  }
  const bool ended = within == 0 && shard == place_.end();
  *next = ended ? 0 : (shard - place_.begin()) << kShardBit | within;
  return true;
}

bool KvView::CountKeys(uint64_t* count) {
  *count = 0;
  return WithEach([&](Partition& partition) {
    *count += partition.numbers().items;
    return true;
  });
}

bool KvView::ChooseKey(std::optional<std::string>* key) {
  // A partition by its share of the items.
  uint64_t items = 0;
  if (!CountKeys(&items)) return false;
  if (items == 0) return true;
  uint64_t draw = store_->NextRandom() % items;
  const auto choose = [&](Partition& partition) {
    if (const Item* item = partition.Random(store_->NextRandom()); item != nullptr) {
      *key = std::string(item->key());
    }
  };
  if (!WithEach([&](Partition& partition) {
        const uint64_t mine = partition.numbers().items;
        if (draw >= mine) {
          draw -= mine;
          return true;
        }
        choose(partition);
        return false;
      })) {
    return false;
  }
  if (key->has_value()) return true;
  // All of that one's had expired.
  return WithEach([&](Partition& partition) {
    choose(partition);
    return !key->has_value();
  });
}

std::optional<int> KvView::UseOf(std::string_view key) {
  const uint64_t hash = HashKey(key);
  Partition& partition = PartitionFor(hash);
  if (partition.policy() != Policy::kLfu) return std::nullopt;
  return partition.UseOf(key, hash);
}

std::optional<uint64_t> KvView::MemoryOf(std::string_view key) {
  const Item* item = ItemOf(key);
  return (item == nullptr ? 0 : item->size()) + sizeof(uint64_t);
}

}  // namespace pulse::kv
