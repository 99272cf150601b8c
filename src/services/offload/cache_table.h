// CacheTable: keys and items of fixed sizes, found by many readers while they are changed. The
// cache table of DDS section 6.2.
//
// Cuckoo hashing: a key's item lies in one of two buckets. A bucket has few slots (as many as fit
// its cache lines) and, when both are full and no item in them can move to its other bucket within
// two steps, a chain of further ones from a pool. When the pool is used up too, a random item of
// the two makes way: memory is bounded, and Put never fails. So an item may be missing, and is
// never wrong: whoever asks must have another way to the answer.
//
// Threads: one at a time may change the table; any number may find, without locks: each bucket has
// a version, odd while it changes (and its chain counts as the bucket's own), and a reader whose
// buckets have another version afterwards looks again. A reader never writes and never waits for
// anything but a writer in the middle of a bucket, to which it leaves its processor when that takes
// long. All memory that both sides touch is atomic words.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pulse/offload.h"

namespace pulse::offload {

class CacheTable {
 public:
  struct Options {
    uint32_t key_size = 8;     // 1 to kMaxKeyBytes
    uint32_t item_size = 8;    // 0 to kMaxItemBytes
    uint64_t capacity = 1024;  // items for which there is room without eviction, about
  };
  struct Counts {
    uint64_t items = 0;
    uint64_t inserted = 0;  // ever; not what took the place of its own key
    uint64_t evicted = 0;
    uint64_t bytes = 0;  // of memory
  };

  // InvalidArgument, or ResourceExhausted when there is no memory for it: says how much it takes.
  static absl::StatusOr<std::unique_ptr<CacheTable>> Create(const Options& options);
  ~CacheTable();
  CacheTable(const CacheTable&) = delete;
  CacheTable& operator=(const CacheTable&) = delete;

  // Copies the item. Any thread.
  bool Find(const void* key, void* item) const;

  // The writer. Puts in place of what is there.
  void Put(const void* key, const void* item);
  // False: it was not there.
  bool Erase(const void* key);

  Counts counts() const;

 private:
  // A bucket is an array of words: [version | chain << 32] [tags, 16 bits a slot; 0: empty]
  // [slots: key words, item words]. chain: number of an overflow bucket, plus 1. In an overflow
  // bucket's first word, only the chain means anything.
  using Word = std::atomic<uint64_t>;
  static constexpr uint32_t kMostSlots = 4;
  static constexpr uint32_t kLine = 8;  // words
  static constexpr int kMostHops = 8;

  struct Place {
    Word* head = nullptr;  // whose version covers it
    Word* bucket = nullptr;
    uint32_t slot = 0;
  };
  struct Homes {
    uint16_t tag;
    uint32_t first;
    uint32_t second;
  };
  enum class Seen { kYes, kNo, kChanged };

  explicit CacheTable(const Options& options);
  bool Allocate();
  uint64_t Hash(const void* key) const;
  Homes HomesOf(const void* key) const;
  uint32_t OtherHome(const Word* slot, uint32_t here) const;
  Word* Bucket(uint32_t index) const { return buckets_ + size_t{index} * bucket_words_; }
  Word* Overflow(uint32_t number) const { return Bucket(bucket_mask_ + number); }  // from 1
  Word* SlotOf(Word* bucket, uint32_t slot) const {
    return bucket + 2 + size_t{slot} * slot_words_;
  }
  static uint16_t TagAt(uint64_t tags, uint32_t slot) {
    return static_cast<uint16_t>(tags >> (16 * slot));
  }
  static uint32_t ChainOf(const Word* bucket) {
    return static_cast<uint32_t>(bucket[0].load(std::memory_order_relaxed) >> 32);
  }
  bool KeyIs(const Word* slot, const uint64_t* key) const;
  void CopyItem(const Word* slot, void* item) const;
  Seen Look(const Word* head, uint16_t tag, const uint64_t* key, void* item,
            uint32_t* version) const;

  // The writer's.
  static void BeginChange(Word* head);
  static void EndChange(Word* head);
  static void SetTag(Word* bucket, uint32_t slot, uint16_t tag);
  void PadKey(const void* key, uint64_t* words) const;
  void Fill(Word* slot, const uint64_t* key, const void* item) const;
  Place FindPlace(Word* head, uint16_t tag, const uint64_t* key) const;
  Place FreePlace(Word* head, bool with_chain) const;
  Place MakeRoom(const Homes& homes);
  bool MoveOneOut(uint32_t from, int depth, Place* out);
  void Move(const Place& from, const Place& to);
  Place Chain(Word* head);
  void DropEmpty(Word* head);
  Place Evict(const Homes& homes);

  const uint32_t key_size_;
  const uint32_t item_size_;
  const uint32_t key_words_;
  const uint32_t slot_words_;
  uint32_t slots_;         // in a bucket
  uint32_t bucket_words_;  // whole lines
  uint32_t bucket_mask_;
  uint32_t overflow_;           // buckets
  Word* buckets_ = nullptr;     // 2^n, then the overflow buckets
  std::vector<uint32_t> free_;  // overflow buckets
  uint64_t random_ = 0x9e3779b97f4a7c15;
  size_t memory_bytes_ = 0;
  Word items_{0};
  Word inserted_{0};
  Word evicted_{0};
};

}  // namespace pulse::offload
