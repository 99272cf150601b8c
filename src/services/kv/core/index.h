// Index: which item has which hash. Buckets of one cache line: a word about the bucket, and seven
// slots of tag (16 bits), frequency of use (8) and place (40, in units of 8 bytes). Buckets that
// are full go on in overflow buckets.
//
// It grows by linear hashing: an insertion splits one bucket, so it never stops for longer. Growth
// reads the items of that bucket to learn their hashes; the insertion before has prefetched them.
//
// Its owner gives it pages (WantsPage, NeedsPage), as it decides who may have memory.
//
// Ownership: the memory outlives the index. Threads: one. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "services/kv/core/hash.h"
#include "services/kv/core/memory.h"
#include "services/kv/core/undo.h"

namespace pulse::kv {

inline constexpr int kSlots = 7;

struct alignas(64) Bucket {
  uint64_t next;  // number of the overflow bucket that follows; 0: none
  uint64_t slots[kSlots];
};
static_assert(sizeof(Bucket) == 64);

// A slot; 0 is a free one.
namespace slot {
inline constexpr uint64_t kPlaceMask = (uint64_t{1} << 40) - 1;
inline constexpr uint64_t kUseUnit = uint64_t{1} << 40;
inline constexpr uint64_t kUseMask = uint64_t{0xff} << 40;
// `offset` is a multiple of 8, and not 0.
inline uint64_t Make(uint64_t tag, uint64_t offset) { return tag << 48 | offset >> 3; }
inline uint64_t Offset(uint64_t word) { return (word & kPlaceMask) << 3; }
inline uint64_t Tag(uint64_t word) { return word >> 48; }
inline uint32_t Use(uint64_t word) { return static_cast<uint32_t>((word & kUseMask) >> 40); }
inline uint64_t WithUse(uint64_t word, uint32_t use) {
  return (word & ~kUseMask) | uint64_t{use} << 40;
}
inline uint64_t WithOffset(uint64_t word, uint64_t offset) {
  return (word & ~kPlaceMask) | offset >> 3;
}
}  // namespace slot

// The slots of a bucket that have the tag, a bit each.
inline uint32_t MatchTag(const Bucket& bucket, uint64_t tag) {
  uint32_t mask = 0;
  for (int i = 0; i < kSlots; ++i) {
    mask |= static_cast<uint32_t>(slot::Tag(bucket.slots[i]) == tag) << i;
  }
  return mask;
}

class Index {
 public:
  // Tells the hash of the item at an offset; and brings what that reads into the cache.
  struct Items {
    virtual uint64_t HashAt(uint64_t offset) const = 0;
    virtual void PrefetchAt(uint64_t offset) const = 0;

   protected:
    ~Items() = default;
  };

  // All that has to be known, beside the buckets, to go on with an index.
  struct State {
    uint64_t count;  // of buckets; 0: there is no index yet
    uint64_t half;
    uint64_t items;
    uint64_t bucket_pages;
    uint64_t overflow_pages;
    uint64_t overflow_used;  // the first number that was never used; number 0 is none
    uint64_t overflow_free;  // first of a list by `next`
  };

  // Addresses for at most `most` bytes of buckets begin at `buckets`, and for as many of overflow
  // buckets at `overflow`; both at a page. Goes on with what state and buckets tell; where that is
  // nothing, Begin is due.
  Index(char* buckets, char* overflow, uint64_t most, State* state, Memory* memory,
        const Items* items, uint64_t expected, UndoLog* undo);

  Bucket* BucketOf(uint64_t hash) const {
    // For a bucket that is not there yet, the one that it will be split from; without a branch,
    // which nobody could predict.
    const uint64_t number = hash & kBucketBits & (2 * half_ - 1);
    return buckets_ + (number - (half_ & -static_cast<uint64_t>(number >= count_)));
  }
  Bucket* Next(const Bucket& bucket) const {
    return bucket.next == 0 ? nullptr : overflow_ + bucket.next;
  }
  // The first slot with the hash's tag for which `accepts(word)`; null when there is none.
  template <class Accepts>
  uint64_t* Find(uint64_t hash, const Accepts& accepts) const {
    const uint64_t tag = TagOf(hash);
    for (Bucket* bucket = BucketOf(hash); bucket != nullptr; bucket = Next(*bucket)) {
      for (uint32_t mask = MatchTag(*bucket, tag); mask != 0; mask &= mask - 1) {
        uint64_t* at = &bucket->slots[__builtin_ctz(mask)];
        if (accepts(*at)) return at;
      }
    }
    return nullptr;
  }
  uint64_t* FindOffset(uint64_t hash, uint64_t offset) const {
    return Find(hash, [offset](uint64_t word) { return slot::Offset(word) == offset; });
  }

  // Whether it wants a page to grow into, and whether it needs one before Insert may be called.
  bool WantsPage() const {
    return state_->count == state_->bucket_pages * kPerPage && MustGrow() &&
           state_->count < most_buckets_;
  }
  bool NeedsPage() const {
    return state_->overflow_free == 0 && state_->overflow_used >= state_->overflow_pages * kPerPage;
  }
  // Whether a page that it needs would have addresses.
  bool MayAddOverflow() const { return (state_->overflow_pages + 1) * kPerPage <= most_buckets_; }
  // A page that the caller has counted in its memory. False: there is no memory for it after all.
  bool AddPage(bool needed);
  // Adds a slot, and splits a bucket where it may.
  void Insert(uint64_t hash, uint64_t offset);
  // Frees a slot of the hash's bucket; the last one of the chain takes its place, so that no chain
  // is longer than it needs to be.
  void Erase(uint64_t hash, uint64_t* at);
  // Forgets all; gives memory back, but for a page, and what `expected` items need, if it can.
  void Clear();
  // Begins without any memory, for as many items. False: there is not one page.
  bool Begin(uint64_t expected);

  // Before a slot is changed from outside.
  void NoteSlot(const uint64_t* at) { undo_->NoteLines(at, sizeof(*at)); }

  // Calls `use(slot)` for each slot of bucket `number`.
  template <class Use>
  void ForEachIn(uint64_t number, const Use& use) const {
    for (Bucket* bucket = buckets_ + number; bucket != nullptr; bucket = Next(*bucket)) {
      for (uint64_t& word : bucket->slots) {
        if (word != 0) use(&word);
      }
    }
  }

  // That fit well into so many pages of buckets.
  static uint64_t ItemsOf(uint64_t pages) { return (pages * kPerPage - 1) / 10 * kSlots * 7; }
  uint64_t items() const { return state_->items; }
  uint64_t buckets() const { return state_->count; }
  // Bits of a bucket's number that are in use by all buckets: buckets below half() were split.
  uint64_t half() const { return state_->half; }
  uint64_t pages() const { return state_->bucket_pages + state_->overflow_pages; }

 private:
  static constexpr uint64_t kBucketBits = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t kPerPage = kPageBytes / sizeof(Bucket);

  static char* PageAt(Bucket* buckets, uint64_t page) {
    return reinterpret_cast<char*>(buckets + page * kPerPage);
  }
  bool MustGrow() const { return state_->items * 10 > state_->count * kSlots * 7; }
  void Learn() {
    count_ = state_->count;
    half_ = state_->half;
  }
  void Split();
  void Append(Bucket* bucket, uint64_t word);
  uint64_t TakeOverflow();

  Bucket* const buckets_;
  Bucket* const overflow_;
  const uint64_t most_buckets_;
  State* const state_;
  Memory* const memory_;
  const Items* const items_of_;
  const uint64_t expected_;
  UndoLog* const undo_;
  // As in the state: each lookup needs them.
  uint64_t count_ = 0;
  uint64_t half_ = 1;
  bool prefetched_ = false;  // items of the bucket to split next
};

}  // namespace pulse::kv
