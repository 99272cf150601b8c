// Partitions that a thread has for itself.
#pragma once

#include <bit>
#include <cstdint>

#include "services/kv/store.h"

namespace pulse::kv {

class KvStore::Held {
 public:
  explicit Held(KvStore* store) : store_(store) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { Release(); }

  // Takes them in ascending order, and tells them the time, which is read once all are held: none
  // has seen a later one. False when it would block and may not; then none is held.
  bool Take(ShardSet shards, bool may_block) {
    for (ShardSet left = shards; left != 0; left &= left - 1) {
      const auto number = static_cast<uint32_t>(std::countr_zero(left));
      Shard& shard = store_->shards_[number];
      if (!Lock(&shard.mutex, may_block)) {
        Release();
        return false;
      }
      held_ |= ShardSet{1} << number;
    }
    now_ms_ = store_->now_ms();
    for (ShardSet left = shards; left != 0; left &= left - 1) {
      Shard& shard = store_->shards_[static_cast<uint32_t>(std::countr_zero(left))];
      if (!store_->Begin(&shard, may_block, now_ms_)) {
        Release();
        return false;
      }
    }
    held_here = {store_, held_here.shards | shards};
    return true;
  }
  int64_t now_ms() const { return now_ms_; }
  void Release() {
    held_here.shards &= ~held_;
    for (; held_ != 0; held_ &= held_ - 1) {
      Shard& shard = store_->shards_[static_cast<uint32_t>(std::countr_zero(held_))];
      shard.partition->Settle();
      shard.mutex.unlock();
    }
  }

  // What this thread has: commands within a transaction may ask for the same, as INFO does.
  struct Here {
    const KvStore* store;
    ShardSet shards;
  };
  static bool IsHere(const KvStore* store, size_t shard) {
    return held_here.store == store && (held_here.shards >> shard & 1) != 0;
  }

 private:
  static inline thread_local Here held_here{};
  KvStore* const store_;
  ShardSet held_ = 0;
  int64_t now_ms_ = 0;  // of the last Take
};

}  // namespace pulse::kv
