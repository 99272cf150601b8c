// What memcached's commands do to one key, in the words of both of its protocols. Each runs with
// the key's partition held, and is atomic. Every write gives the item a new version (cas).
//
// Threads: thread-safe. Blocking: only if `may_block`; otherwise kWouldBlock, and nothing was done.
// Ownership: keys and data are views that must not lie in the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "services/kv/store.h"

namespace pulse::kv::memcached {

enum class Outcome {
  kDone,
  kNotStored,  // add, replace, append, prepend: their condition is not met
  kExists,     // another version than the one asked for
  kNotFound,
  kNotANumber,
  kTooLarge,
  kNoMemory,
  kWouldBlock,
};

enum class StoreMode { kSet, kAdd, kReplace, kAppend, kPrepend };

struct StoreOperation {
  StoreMode mode = StoreMode::kSet;
  std::string_view key;
  std::string_view data;
  bool too_large = false;           // without data
  uint64_t max_value = 0;           // bytes
  ItemFacts facts;                  // without cas; append and prepend keep the item's
  std::optional<uint64_t> compare;  // the version to replace; 0 is none
  uint64_t new_cas = 0;             // 0: the store's next one
  // One that is to replace an older version than there is becomes a stale item.
  bool may_be_stale = false;
  // As memcached's ms: data that has no room drops what was there in any mode.
  bool always_drops = false;
};
// `cas`: the item's new one. A set that fails drops what was there, so that nobody takes it for
// current.
Outcome Store(KvStore* store, const StoreOperation& op, bool may_block, uint64_t* cas);

struct DeltaOperation {
  std::string_view key;
  bool increment = true;
  uint64_t delta = 1;
  std::optional<uint64_t> compare;    // 0 is as none
  std::optional<int64_t> expires_ms;  // of an item that there is
  uint64_t new_cas = 0;
  bool create = false;  // where there is none
  uint64_t initial = 0;
  int64_t created_expires_ms = kNoExpiry;
};
struct DeltaResult {
  uint64_t value = 0;
  uint64_t cas = 0;
  int64_t old_expires_ms = kNoExpiry;
  int64_t now_ms = 0;
  bool created = false;
};
// Increments wrap around; decrements stop at 0.
Outcome Delta(KvStore* store, const DeltaOperation& op, bool may_block, DeltaResult* result);

Outcome Delete(KvStore* store, std::string_view key, std::optional<uint64_t> compare,
               bool may_block);
// Marks the item as stale, and gives it a new version; whoever reads it next is told to make it
// anew.
struct InvalidateOperation {
  std::string_view key;
  std::optional<uint64_t> compare;
  std::optional<int64_t> expires_ms;
  uint64_t new_cas = 0;  // 0: the store's next one
};
Outcome Invalidate(KvStore* store, const InvalidateOperation& op, bool may_block);
Outcome Touch(KvStore* store, std::string_view key, int64_t expires_ms, bool may_block);

// Gives the item that there is other facts. To be called within WithPartition. kDone or kNoMemory.
Outcome ChangeFacts(Partition* partition, std::string_view key, uint64_t hash,
                    const ItemFacts& facts);

// The same, where facts.cas is the item's first version: without memory for that it stays without
// one, and whoever was told it has a version that no item has. `changes`: the facts have more that
// is new.
Outcome GiveVersion(Partition* partition, std::string_view key, uint64_t hash, ItemFacts facts,
                    bool changes);

// An item without a value, where there is none. To be called within WithPartition.
Outcome AddEmpty(Partition* partition, std::string_view key, uint64_t hash, const ItemFacts& facts);

// An expiry as clients give it: 0 is never, up to 30 days are relative, more is a time, and less is
// over.
int64_t ExpiryOf(int64_t exptime, int64_t now_ms);
// Seconds; -1: for ever.
int64_t SecondsLeft(int64_t expires_ms, int64_t now_ms);

}  // namespace pulse::kv::memcached
