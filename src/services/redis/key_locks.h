// KeyLocks: mutual exclusion of the commands that change keys, so that a command may read, decide
// and write. Keys share stripes; a command takes the stripes of all its keys, in order, or, where
// it cannot name its keys, everything.
//
// Reads take no lock: RocksDB shows each write, a transaction's too, as a whole or not at all.
// Thread-safe. With `may_block` false nothing waits.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/container/inlined_vector.h"

namespace pulse::redis {

class KeyLocks {
 public:
  static constexpr uint32_t kStripes = 1024;
  // Beyond this many stripes, a command takes everything.
  static constexpr size_t kMostStripes = 48;

  KeyLocks();
  ~KeyLocks();

  // What a command holds; gives it back when it is destroyed.
  class Held {
   public:
    Held() = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { Release(); }
    void Release();

   private:
    friend class KeyLocks;
    KeyLocks* owner_ = nullptr;
    absl::InlinedVector<uint16_t, 4> stripes_;  // ascending
  };

  // The keys that a lock is for, collected before it is taken.
  class Wanted {
   public:
    void Add(std::string_view key) { stripes_.push_back(StripeOf(key)); }
    void AddAll() { all_ = true; }

   private:
    friend class KeyLocks;
    absl::InlinedVector<uint16_t, 4> stripes_;
    bool all_ = false;
  };

  // False when it would have to wait and may not; then nothing is held.
  bool Take(Wanted wanted, bool may_block, Held* held);

 private:
  static uint16_t StripeOf(std::string_view key);
  struct alignas(64) Stripe {
    std::mutex mutex;
  };

  pthread_rwlock_t gate_;  // shared by who takes stripes; writers of it come first
  std::unique_ptr<Stripe[]> stripes_;
};

}  // namespace pulse::redis
