// CacheTable: keys and items of fixed sizes, found by many readers while they are changed. The
// cache table of DDS section 6.2.
//
// Cuckoo hashing: a key's item lies in one of two buckets. A bucket has few slots (as many as fit
// its cache lines) and, when both are full and no item in them can move to its other bucket within
// two steps, a chain of further ones from a pool. When the pool is used up too, a random item of
// the two makes way: memory is bounded, and Put never fails. So an item may be missing, and is
// never wrong: whoever asks must have another way to the answer.
//
// The table is cut into shards by hash. Threads: one at a time may change a shard; any number may
// find, without locks: each bucket has a version, odd while it changes (and its chain counts as the
// bucket's own), and a reader whose buckets have another version afterwards looks again. A reader
// never writes and never waits for anything but a writer in the middle of a bucket, to which it
// leaves its processor when that takes long. All memory that both sides touch is atomic words.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
    uint32_t shards = 1;       // a power of two, at most 64
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
  // Brings a key's bucket into the cache, for a Find soon.
  void Prefetch(const void* key) const;

  // The shard's writer. Puts in place of what is there.
  void Put(const void* key, const void* item);
  // False: it was not there.
  bool Erase(const void* key);

  uint32_t ShardOf(const void* key) const { return static_cast<uint32_t>(Hash(key) & shard_mask_); }
  Counts counts() const;

 private:
  // A bucket is an array of words: [version | chain << 32] [tags, 16 bits a slot; 0: empty]
  // [slots: key words, item words]. chain: number of an overflow bucket, plus 1. In an overflow
  // bucket's first word, only the chain means anything.
  using Word = std::atomic<uint64_t>;
  static constexpr uint32_t kMostSlots = 4;
  static constexpr uint32_t kLine = 8;  // words
  static constexpr int kMostHops = 8;

  struct Shard {
    Word* buckets = nullptr;     // 2^n, then the overflow buckets
    std::vector<uint32_t> free;  // overflow buckets
    std::atomic<uint64_t> items{0};
    std::atomic<uint64_t> inserted{0};
    std::atomic<uint64_t> evicted{0};
    uint64_t random = 1;
  };
  struct Place {
    Word* head = nullptr;  // whose version covers it
    Word* bucket = nullptr;
    uint32_t slot = 0;
  };
  struct Homes {
    uint64_t hash;
    uint16_t tag;
    uint32_t first;
    uint32_t second;
  };
  enum class Seen { kYes, kNo, kChanged };

  explicit CacheTable(const Options& options);
  bool Allocate();
  uint64_t Hash(const void* key) const;
  Homes HomesOf(uint64_t hash) const;
  uint32_t OtherHome(const Shard& shard, const Word* slot, uint32_t here) const;
  Shard& ShardAt(uint64_t hash) { return shards_[hash & shard_mask_]; }
  const Shard& ShardAt(uint64_t hash) const { return shards_[hash & shard_mask_]; }
  Word* Bucket(const Shard& shard, uint32_t index) const {
    return shard.buckets + size_t{index} * bucket_words_;
  }
  Word* Overflow(const Shard& shard, uint32_t number) const {  // from 1
    return Bucket(shard, bucket_mask_ + number);
  }
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
  Seen Look(const Shard& shard, const Word* head, uint16_t tag, const uint64_t* key, void* item,
            uint32_t* version) const;

  // The writer's.
  static void BeginChange(Word* head);
  static void EndChange(Word* head);
  static void SetTag(Word* bucket, uint32_t slot, uint16_t tag);
  void PadKey(const void* key, uint64_t* words) const;
  void Fill(Word* slot, const uint64_t* key, const void* item) const;
  Place FindPlace(const Shard& shard, Word* head, uint16_t tag, const uint64_t* key) const;
  Place FreePlace(const Shard& shard, Word* head, bool with_chain) const;
  Place MakeRoom(Shard* shard, const Homes& homes);
  bool MoveOneOut(Shard* shard, uint32_t from, int depth, Place* out);
  void Move(const Place& from, const Place& to);
  Place Chain(Shard* shard, Word* head);
  void DropEmpty(Shard* shard, Word* head);
  Place Evict(Shard* shard, const Homes& homes);

  const uint32_t key_size_;
  const uint32_t item_size_;
  const uint32_t key_words_;
  const uint32_t slot_words_;
  uint32_t slots_;         // in a bucket
  uint32_t bucket_words_;  // whole lines
  uint32_t bucket_mask_;   // of a shard
  uint32_t overflow_;      // buckets of a shard
  const uint32_t shard_mask_;
  uint32_t shard_bits_;
  std::unique_ptr<Shard[]> shards_;
  void* memory_ = nullptr;
  size_t memory_bytes_ = 0;
};

}  // namespace pulse::offload
