// MicaCache: the store that the DPU-KV paper measures (MICA in its cache mode, section 3.1), as the
// baseline of Partition, with the same calls. Items lie in a circular log: what is written last
// takes the place of what was written first, which is how items are evicted. The index has a fixed
// number of buckets of seven slots and loses items: an insertion into a full bucket drops its
// oldest slot. A new value that fits into the old one's place is written there.
//
// So a hit is always the last value of its key; what is missing was evicted by the log, displaced
// in the index, deleted, or has expired. Nobody sees to expired items; they leave with the log.
//
// A slot is a tag (16 bits) and the low 48 bits of a position, which counts units of 8 bytes that
// were ever written. Slots of evicted items are not cleared: their positions tell. They are swept
// away before positions come round to where they could be taken for others'.
//
// Pointers to items are valid until the next call that may add one. Bytes that are to be stored
// must not lie in the cache. Ownership: the memory is the object's own. Threads: one at a time.
// Nothing blocks but for page faults; a sweep, every 512 TiB written, reads all of the index.
// Errors: kTooLarge, and then nothing has changed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "services/kv/core/batch.h"
#include "services/kv/core/memory.h"
#include "services/kv/core/partition.h"
#include "services/kv/processing.h"

namespace pulse::kv {

struct MicaOptions {
  uint64_t log_bytes = uint64_t{1} << 30;  // made a power of two
  // The index has seven slots for each four of them, or up to twice as many.
  uint64_t expected_items = uint64_t{1} << 20;
  uint64_t first_position = 0;  // of the log; for tests of what happens when it is large
};

class MicaCache {
 public:
  using Result = Partition::Result;

  // InvalidArgument for less than kLeastLog or more than kMostLog; what the kernel refused.
  static absl::StatusOr<std::unique_ptr<MicaCache>> Open(const MicaOptions& options);
  static constexpr uint64_t kLeastLog = uint64_t{64} << 10;
  static constexpr uint64_t kMostLog = uint64_t{1} << 43;

  void SetNow(int64_t now_ms) { now_ms_ = now_ms; }
  int64_t now_ms() const { return now_ms_; }

  Item* Find(std::string_view key, uint64_t hash) {
    uint64_t* at = FindSlot(key, hash);
    return at == nullptr ? nullptr : UseSlot(at);
  }
  // Makes the key's item one with room for `value_size` bytes, which the caller writes to
  // (*item)->value_bytes() before any other call.
  Result Put(std::string_view key, uint64_t hash, size_t value_size, const ItemFacts& facts,
             Item** item) {
    return PutInto(FindSlot(key, hash), key, hash, value_size, facts, item);
  }
  bool Erase(std::string_view key, uint64_t hash);

  // For batches, as Partition has them. It gives no memory back.
  uint64_t clears() const { return 0; }
  void PrefetchBucket(uint64_t hash) const { PrefetchToL2(BucketOf(hash)); }
  Bucket* BucketOf(uint64_t hash) const { return buckets_ + (hash & bucket_mask_); }
  void PrefetchItem(uint64_t word) const {
    const char* item = log_ + ((word & log_mask_) << 3);
    PrefetchToL2(item);
    PrefetchToL2(item + span_);
  }
  Item* FindAt(uint64_t* at, uint64_t word, std::string_view key, uint64_t hash) {
    if (word != 0 && *at == word && Holds(word, key)) return UseSlot(at);
    return Find(key, hash);
  }
  Result PutAt(uint64_t* at, uint64_t word, std::string_view key, uint64_t hash, size_t value_size,
               const ItemFacts& facts, Item** item) {
    if (word != 0 && *at == word && Holds(word, key)) {
      return PutInto(at, key, hash, value_size, facts, item);
    }
    return Put(key, hash, value_size, facts, item);
  }

  // The position that the next item may have, and what of the log is still there.
  uint64_t tail() const { return tail_; }
  uint64_t log_units() const { return log_mask_ + 1; }
  uint64_t index_bytes() const { return (bucket_mask_ + 1) * sizeof(Bucket); }
  // Items, ever, that the index has lost; those that the log had evicted before do not count.
  uint64_t displaced() const { return displaced_; }
  // Is told of each key that the index loses, before it does.
  void set_on_displace(std::function<void(std::string_view key)> on_displace) {
    on_displace_ = std::move(on_displace);
  }
  // Reads all of the index: slots that are not free, and of them those whose item is there.
  struct Slots {
    uint64_t used = 0;
    uint64_t live = 0;
  };
  Slots CountSlots() const;

 private:
  static constexpr uint64_t kPositionMask = (uint64_t{1} << 48) - 1;
  static constexpr int kSweepBit = 46;

  MicaCache(Memory memory, uint64_t buckets, uint64_t log_bytes, uint64_t first_position)
      : memory_(std::move(memory)),
        buckets_(reinterpret_cast<Bucket*>(memory_.base())),
        bucket_mask_(buckets - 1),
        log_(memory_.base() + buckets * sizeof(Bucket)),
        log_mask_(log_bytes / 8 - 1),
        tail_(first_position) {}

  uint64_t AgeOf(uint64_t word) const { return (tail_ - word) & kPositionMask; }
  bool IsLive(uint64_t word) const { return word != 0 && AgeOf(word) <= log_units(); }
  Item* ItemOf(uint64_t word) const {
    return reinterpret_cast<Item*>(log_ + ((word & log_mask_) << 3));
  }
  bool Holds(uint64_t word, std::string_view key) const {
    return IsLive(word) && ItemOf(word)->Is(key);
  }
  uint64_t* FindSlot(std::string_view key, uint64_t hash) const {
    Bucket* bucket = BucketOf(hash);
    for (uint32_t mask = MatchTag(*bucket, TagOf(hash)); mask != 0; mask &= mask - 1) {
      uint64_t* at = &bucket->slots[__builtin_ctz(mask)];
      if (Holds(*at, key)) return at;
    }
    return nullptr;
  }
  Item* UseSlot(uint64_t* at) {
    Item* item = ItemOf(*at);
    if (!item->ExpiredAt(now_ms_)) return item;
    *at = 0;
    return nullptr;
  }
  // `at`: the key's slot, or null.
  Result PutInto(uint64_t* at, std::string_view key, uint64_t hash, size_t value_size,
                 const ItemFacts& facts, Item** item);
  // Room at the log's end; returns its position.
  uint64_t Append(uint64_t bytes);
  uint64_t* FreeSlot(Bucket* bucket);
  void Sweep();

  Memory memory_;
  Bucket* const buckets_;
  const uint64_t bucket_mask_;
  char* const log_;
  const uint64_t log_mask_;  // of units
  uint64_t tail_;            // units
  uint64_t span_ = 0;        // from the first byte of the last item that was written to its last
  int64_t now_ms_ = 0;
  uint64_t displaced_ = 0;
  std::function<void(std::string_view)> on_displace_;
};

using MicaMatchFunction = void (*)(const MicaCache& cache, const uint64_t* hashes, size_t count,
                                   Candidate* candidates);
// The best for this machine.
MicaMatchFunction BestMicaMatch();
inline MicaMatchFunction MatchOf(const MicaCache&) { return BestMicaMatch(); }
// It has no overflow buckets.
inline void ResolveChains(const MicaCache&, const uint64_t*, size_t, Candidate*) {}

// As on a Partition (processing.h); what is far is refused.
BatchResult ProcessBatch(MicaCache* cache, const BatchBuffers& buffers, const BatchRules& rules,
                         BatchCounts* counts);

}  // namespace pulse::kv
