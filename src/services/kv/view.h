// KvView: the View of a KvStore. It reads and writes its partitions directly; whoever made it holds
// them, but for calls on all keys, which take each partition in turn unless `held_all`.
//
// Values that were read are no copies: they lie in the store until the next call that writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/kv/store.h"

namespace pulse::kv {

class KvView final : public redis::View {
 public:
  // What kind of command it is for.
  struct CommandTraits {
    bool urgent = false;        // Partition::Put
    bool counts_as_use = true;  // of the keys that it reads
    bool many = false;          // puts more than one value
  };
  KvView(KvStore* store, const KvStore::Place& place, const CommandTraits& traits, bool may_block,
         bool held_all, int64_t now_ms);

  bool Get(std::string_view key, redis::Found* found) override;
  bool GetMany(const std::string_view* keys, size_t count, std::vector<redis::Found>* found,
               uint64_t most_bytes) override;
  bool holds_still() const override { return true; }
  bool CountExisting(const std::string_view* keys, size_t count, size_t* existing) override;
  void Put(std::string_view key, std::string_view data, int64_t expires_ms) override;
  void PutFrom(const redis::Found& before, std::string_view key, std::string_view data) override;
  void Delete(std::string_view key) override;
  bool GetExpiry(std::string_view key, redis::Found* found) override;
  // Keeps the flags and the CAS that memcached's clients have given.
  void SetExpiry(std::string_view key, const redis::Found& found, int64_t expires_ms) override;
  bool Clear() override;
  bool ForEachKey(std::string_view prefix, const UseKey& use) override;
  bool ScanStep(uint64_t cursor, std::string_view prefix, int64_t count, const UseKey& use,
                uint64_t* next, bool* known) override;
  bool CountKeys(uint64_t* count) override;
  bool ChooseKey(std::optional<std::string>* key) override;
  std::optional<int> UseOf(std::string_view key) override;
  std::optional<uint64_t> MemoryOf(std::string_view key) override;

  redis::ClusterNode node() const override;

  // After an error nothing more is written; this takes back what was: a command is carried out as a
  // whole or not at all.
  void Undo();

 private:
  // Runs `use` with each partition held, while it returns true. False: it would block.
  template <class Use>
  bool WithEach(const Use& use);

  // Null: there is none.
  const Item* ItemOf(std::string_view key);
  void PutWith(const ItemFacts& facts, std::string_view key, std::string_view data);
  // Behind each write, with what came of it.
  void Written(std::string_view key, Partition* partition, Partition::Result result);
  // The item, null for none, and of `found` all but the value.
  const Item* Look(std::string_view key, redis::Found* found);
  Partition& PartitionFor(uint64_t hash) { return store_->partition(place_.ShardOf(hash)); }

  KvStore* const store_;
  const KvStore::Place place_;
  // A key as it was before this command wrote to it.
  struct Before {
    std::string key;
    bool existed = false;
    std::string value;
    ItemFacts facts;
  };
  // False after an error: it would be too much.
  bool Remember(std::string_view key, uint64_t hash);

  const CommandTraits traits_;
  std::vector<Before> before_;
  uint64_t before_bytes_ = 0;
  const bool may_block_;
  const bool held_all_;
};

// The reply to a value of `key` that could not be stored.
std::string RefusalOf(Partition::Result result, std::string_view key);

// An expiry as Redis's commands have it, and as items do.
inline int64_t ItemExpiry(int64_t expires_ms) {
  return expires_ms == redis::kNever ? kNoExpiry : expires_ms;
}

}  // namespace pulse::kv
