// HotTier: values that were read lately, in memory in front of RocksDB, kept by the engine of the
// in-memory store (services/kv/core), which drops what is used least. A GET that finds its key
// here costs RocksDB nothing.
//
// Coherence. Each key belongs to one of some thousand words: a count of writers that are at it, and
// a version. A writer, who holds the key's lock, announces itself and removes the key before it
// writes to RocksDB, and leaves afterwards. A reader takes the word before it reads RocksDB, and
// its value is kept only if the word is still the same and nobody writes. So a value here is always
// the one in RocksDB, and no reader sees an older value than one before it.
//
// Threads: thread-safe. Blocking: a reader who does not get the lock soon goes without the tier;
// writers wait for readers' batches, some microseconds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/spin_lock.h"
#include "services/kv/core/batch.h"

namespace pulse::redis {

class HotTier {
 public:
  static constexpr size_t kMostTogether = kv::kLargestGroup;

  // At least kv::kLeastMemory bytes.
  static absl::StatusOr<std::unique_ptr<HotTier>> Open(uint64_t bytes);

  // What a reader knows of a key before it reads RocksDB.
  struct Probe {
    uint64_t hash = 0;
    uint64_t word = kWriting;  // so that nothing is kept
  };
  // Looks for up to kMostTogether keys; calls `found(i, value)` for those that are here, in turn,
  // and notes in `probes` what Keep needs for the others.
  template <class Found>
  void Find(const std::string_view* keys, size_t count, int64_t now_ms, Probe* probes,
            const Found& found) {
    std::array<uint64_t, kMostTogether> hashes;
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = probes[i].hash = kv::HashKey(keys[i]);
      probes[i].word = kWriting;
    }
    if (!TryLock()) return;
    const std::lock_guard<std::mutex> lock(mutex_, std::adopt_lock);
    partition_->SetNow(now_ms);
    kv::RunOverlapped(
        *partition_, count, kv::BestMatch(), [&](size_t i) { return hashes[i]; },
        [&](size_t i, const kv::Candidate& candidate) {
          probes[i].word = WordOf(hashes[i]).load(std::memory_order_acquire);
          if ((probes[i].word & kWriters) != 0) return;
          const kv::Item* item =
              partition_->FindAt(candidate.at, candidate.word, keys[i], hashes[i]);
          if (item != nullptr) found(i, item->value());
        });
  }

  // Whether nobody has written to the key, or its like, since its probe.
  bool IsUnchanged(const Probe& probe) {
    return WordOf(probe.hash).load(std::memory_order_acquire) == probe.word;
  }
  // Keeps what RocksDB has said of a key after its probe, unless somebody has written meanwhile.
  void Keep(std::string_view key, const Probe& probe, std::string_view value, int64_t expires_ms);

  // Around a write of these keys to RocksDB, whose locks the caller holds. Calls are paired.
  using Keys = absl::Span<const std::string_view>;
  void BeginWrite(Keys keys);
  void EndWrite(Keys keys);
  // Around a write that may concern any key.
  void BeginClear();
  void EndClear();

  kv::PartitionNumbers numbers() const;

 private:
  static constexpr size_t kWords = 4096;
  static constexpr uint64_t kWriters = UINT32_MAX;  // the count; above it, the version
  static constexpr uint64_t kWriting = 1;
  // One writer less, one version more.
  static constexpr uint64_t kLeave = (uint64_t{1} << 32) - 1;
  // Values beyond it would drive out too many others.
  static constexpr size_t kLargestValue = size_t{64} << 10;

  std::atomic<uint64_t>& WordOf(uint64_t hash) { return words_[hash % kWords]; }
  bool TryLock() { return TrySpinning(&mutex_, 100); }

  mutable std::mutex mutex_;
  std::unique_ptr<kv::Partition> partition_;
  std::array<std::atomic<uint64_t>, kWords> words_{};
  // Whether anything was ever kept: before, writers need no lock.
  std::atomic<bool> used_{false};
};

}  // namespace pulse::redis
