// Partition: the items of one part of the keys, with one owner: the processing engine of
// section 4.1 of the DPU-KV paper. Pure: no I/O, no threads, no clock of its own.
//
// Memory: index and segments share one limit, which is never exceeded. When it is reached, the
// cleaner makes room: it moves the live items of a segment together and gives the segment back.
// Under kNoEviction it takes the segments with the most dead bytes, and when there are none, items
// are refused. Under the other policies it takes the oldest ones and drops the items that are used
// least. Expired items do not exist for any call; whole segments of them are given back by Tick.
//
// Pointers to items are valid until the next call that may add an item, and Tick. Bytes that are to
// be stored must not lie in the partition.
//
// In a file of memory (MemoryFile) it outlives its process, wherever that is killed. Open goes on
// with what is there. A partition that was settled is taken as it is. Of one that was being changed
// the change is taken back (undo.h), or, where that cannot be, it gets a new index from its items:
// the last item, whose value may not have been written to its end, is again what it was before.
// What lies in the file is checked as far as the partition could not go on without, not item by
// item.
//
// Threads: one at a time, the owner. Nothing blocks but for page faults. Errors: kNoMemory,
// kTooLarge and kNotFilled, and then nothing has changed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/prefetch.h"
#include "services/kv/core/index.h"
#include "services/kv/core/item.h"
#include "services/kv/core/memory.h"
#include "services/kv/core/segments.h"
#include "services/kv/core/undo.h"

namespace pulse::kv {

enum class Policy : uint8_t {
  kNoEviction,
  kLfu,     // drops what is used least often
  kLru,     // drops what was not used since the cleaner last saw it
  kRandom,  // drops the oldest segment, whatever is in it
};

struct PartitionOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;  // kLeastMemory to 2 TiB
  Policy policy = Policy::kNoEviction;
  uint64_t expected_items = 0;  // the index begins with room for them, where it can
  MemoryFile file;              // where its memory is; none: it goes with the process
};
inline constexpr uint64_t kLeastMemory = uint64_t{16} << 20;

// A later expiry counts as this one in the sum, which so cannot overflow: the year 2242.
inline constexpr int64_t kLastExpirySecond = int64_t{1} << 33;

struct PartitionNumbers {
  uint64_t items = 0;
  uint64_t item_bytes = 0;   // of live items, with headers and padding
  uint64_t dead_bytes = 0;   // that the cleaner may give back
  uint64_t index_bytes = 0;  // taken
  uint64_t used_bytes = 0;   // taken, in all
  uint64_t expired = 0;      // items, ever
  uint64_t evicted = 0;
  uint64_t refused = 0;
  uint64_t moved_bytes = 0;     // by the cleaner
  uint64_t expiring = 0;        // items that will expire
  uint64_t expiry_seconds = 0;  // since 1970, of these together; see kLastExpirySecond

  PartitionNumbers& operator+=(const PartitionNumbers& other) {
    items += other.items;
    item_bytes += other.item_bytes;
    dead_bytes += other.dead_bytes;
    index_bytes += other.index_bytes;
    used_bytes += other.used_bytes;
    expired += other.expired;
    evicted += other.evicted;
    refused += other.refused;
    moved_bytes += other.moved_bytes;
    expiring += other.expiring;
    expiry_seconds += other.expiry_seconds;
    return *this;
  }
};

class Partition final : private Index::Items {
 public:
  enum class Result { kStored, kNoMemory, kTooLarge, kNotFilled };

  // DataLoss: what is in the file makes no sense.
  static absl::StatusOr<std::unique_ptr<Partition>> Open(const PartitionOptions& options);
  // Bytes of the file that it takes from its offset on.
  static uint64_t FileBytes(uint64_t memory_bytes);
  // Tells files of other layouts apart.
  static uint64_t FileLayout();
  // Where in its file the number of lines is that can be taken back (UndoLog::Area); for tests.
  static uint64_t UndoOffset(uint64_t memory_bytes);

  // Milliseconds since 1970, for the calls that follow.
  void SetNow(int64_t now_ms) { now_ms_ = now_ms; }
  int64_t now_ms() const { return now_ms_; }

  // The item of the key, counted as used; null when there is none.
  Item* Find(std::string_view key, uint64_t hash) {
    uint64_t* at = FindSlot(key, hash);
    return at == nullptr ? nullptr : UseSlot(at);
  }
  // The same without counting.
  Item* Peek(std::string_view key, uint64_t hash) {
    uint64_t* at = FindSlot(key, hash);
    if (at == nullptr) return nullptr;
    Item* item = ItemAt(slot::Offset(*at));
    if (!item->ExpiredAt(now_ms_)) return item;
    DropExpired(at);
    return nullptr;
  }
  // Counts the key as used, though nobody reads its item: it stays longer.
  void Count(std::string_view key, uint64_t hash) {
    uint64_t* at = policy_ == Policy::kNoEviction ? nullptr : FindSlot(key, hash);
    if (at != nullptr) CountUse(at);
  }
  // Makes the key's item one with room for `value_size` bytes, which the caller writes to
  // (*item)->value_bytes() before any other call.
  // `urgent`: for an item that only changes its facts or name; it may use what is otherwise kept
  // for the cleaner.
  Result Put(std::string_view key, uint64_t hash, size_t value_size, const ItemFacts& facts,
             Item** item, bool urgent = false) {
    return PutItem(key, hash, value_size, facts, item, urgent, nullptr);
  }
  // The same with a value that `fill` writes; the key has its old one until that has returned true.
  // kNotFilled: it has returned false. It makes no other call. Needs room for both values.
  using Fill = std::function<bool(char* value)>;
  Result PutFilled(std::string_view key, uint64_t hash, size_t value_size, const ItemFacts& facts,
                   const Fill& fill) {
    Item* item = nullptr;
    return PutItem(key, hash, value_size, facts, &item, /*urgent=*/false, &fill);
  }
  bool Erase(std::string_view key, uint64_t hash);
  // Its facts alone, urgently. `found`: there is such an item. kNoMemory: it would have to move and
  // cannot. It does not move where its expiry stays and it gets or loses nothing but marks.
  Result SetFacts(std::string_view key, uint64_t hash, const ItemFacts& facts, bool* found);
  void Clear();
  // How often that was called: memory of the index may have been given back.
  uint64_t clears() const { return clears_; }

  // Frequency of use of the key, 0 to 255, or -1.
  int UseOf(std::string_view key, uint64_t hash);
  // A live item of random choice, each with about the same chance; null when there is none.
  Item* Random(uint64_t random);
  // Calls `use(item)` for the live items of a step of a scan; returns the cursor of the next step,
  // 0 at the end. Each item that exists throughout a scan is met at least once. Begins with 0.
  template <class Use>
  uint64_t Scan(uint64_t cursor, const Use& use);

  // Gives expired segments back, and cleans a little where room is short. Some times in a second.
  // Looks at `most` items or few more; true: others may have expired.
  static constexpr int kTickItems = 4096;
  bool Tick(int most = kTickItems);

  // What was done until now is complete, values included. Due before anybody is told of it.
  void Settle() {
    InOrder();
    state_->busy = 0;
  }
  // Where index and items are, and the next step of moving them; see Memory.
  absl::StatusOr<bool> MoveNext(bool to_agent) { return memory_.MoveNext(to_agent); }
  Side side() const { return memory_.side(); }
  uint64_t agent_bytes() const { return memory_.agent_bytes(); }
  // The most that they may take.
  uint64_t limit_bytes() const { return memory_.limit_pages() * kPageBytes; }
  // Open had to make a new index; or it has taken a change back.
  bool recovered() const { return recovered_; }
  bool undone() const { return undone_; }

  PartitionNumbers numbers() const;
  Policy policy() const { return policy_; }
  void set_policy(Policy policy) {
    policy_ = policy;
    in_place_ = policy == Policy::kNoEviction && !kept_;
    victim_ = {};  // which may have been chosen for eviction
  }
  // Is told of each key that is evicted, before it is.
  void set_on_evict(std::function<void(std::string_view key)> on_evict) {
    on_evict_ = std::move(on_evict);
  }
  // Is told of each key that has expired, when that is noticed: by a call that looks for it, by
  // Erase, or when the memory of its item is given back. Not by a Put in its place.
  void set_on_expire(std::function<void(std::string_view key)> on_expire) {
    on_expire_ = std::move(on_expire);
  }
  // Is raised to the bytes of each larger item, before that is there; several partitions may do so.
  void set_largest(std::atomic<uint64_t>* largest) { largest_ = largest; }
  // Most that one value may have here.
  uint64_t largest_item() const { return largest_item_; }

  // For batches (batch.h): the steps of Find, between which other keys' steps hide the misses.
  void PrefetchBucket(uint64_t hash) const { PrefetchToL2(index_->BucketOf(hash)); }
  Bucket* BucketOf(uint64_t hash) const { return index_->BucketOf(hash); }
  Bucket* Next(const Bucket& bucket) const { return index_->Next(bucket); }
  // The first bytes of an item, and those that are `span` further: a typical item's last ones.
  void PrefetchItem(uint64_t word, size_t span) const {
    const char* item = base_ + slot::Offset(word);
    PrefetchToL2(item);
    PrefetchToL2(item + span);
  }
  size_t TypicalSpan() const {
    const uint64_t items = index_->items();
    return items == 0 ? 0 : std::min<uint64_t>(segments_.item_bytes() / items, 128) - 1;
  }
  // The item if `at` still is `word` and has this key; else by Find. What few need is not inlined,
  // nor what only stores that evict do: 4 to 8 % of those that do not.
  Item* FindAt(uint64_t* at, uint64_t word, std::string_view key, uint64_t hash) {
    if (word == 0 || *at != word) return FindAnew(key, hash);
    Item* item = ItemAt(slot::Offset(word));
    if (!item->Is(key)) return FindAnew(key, hash);
    return item->fields() == 0 && policy_ == Policy::kNoEviction ? item : UseSlot(at);
  }
  // Put, beginning where FindAt does.
  Result PutAt(uint64_t* at, uint64_t word, std::string_view key, uint64_t hash, size_t value_size,
               const ItemFacts& facts, Item** item) {
    if (word != 0 && *at == word && facts.fields() == 0 && in_place_) {
      Item* old = ItemAt(slot::Offset(word));
      if (old->fields() == 0 && old->Is(key) &&
          old->size() == Item::SizeOf(key.size(), value_size, 0)) {
        old->set_value_size(value_size);
        *item = old;
        return Result::kStored;
      }
    }
    return Put(key, hash, value_size, facts, item);
  }

 private:
  // What outlives the process, beside buckets and segments. Zeros at first.
  struct State {
    uint64_t busy;  // since the last Settle it was changed; or kClearing
    // The item that was stored last, and the one that it took the place of; 0: none.
    uint64_t stored;
    uint64_t replaced;
    uint64_t used_pages;
    uint64_t overflow_pages;  // that a recovery has to leave room for, while it is under way
    Index::State index;
    PartitionNumbers numbers;
    // Its last member, the open segments, does not change in what can be taken back.
    Segments::State segments;
  };
  // All items are being dropped, which the next process brings to its end.
  static constexpr uint64_t kClearing = 2;
  // The head that the undo log keeps.
  static constexpr size_t kHeadBytes = offsetof(State, segments) + offsetof(Segments::State, open);
  static_assert(kHeadBytes <= UndoLog::kMostHead);

  // State, table of segments, a line that may be noted with the last of them, undo log.
  static uint64_t UndoAt(uint32_t segments) {
    const uint64_t end = sizeof(State) + segments * sizeof(Segments::Segment);
    return (end + 2 * UndoLog::kLineBytes - 1) / UndoLog::kLineBytes * UndoLog::kLineBytes;
  }
  static uint64_t UncountedBytes(uint32_t segments) {
    return UndoAt(segments) + sizeof(UndoLog::Area);
  }

  Partition(const PartitionOptions& options, Memory memory, uint32_t segments, bool undone);
  // Takes back what was under way when a process died. False: nothing was, or it cannot.
  static bool UndoChange(const Memory& memory, uint32_t segments);
  // Before anything is changed.
  void Change() {
    // In this order: what was stored last is complete, so nobody may take it back.
    InOrder();
    state_->stored = 0;
    InOrder();
    if (undo_.is_on()) BeginEpoch();
    state_->busy = 1;
    InOrder();
  }
  // All that was done is complete, also before each item that the cleaner looks at.
  void BeginEpoch() {
    if (state_->busy != 0 && !undo_.IsSpent()) return;
    state_->busy = 0;
    InOrder();
    undo_.Begin(state_, kHeadBytes);
  }

  // recovery.cc
  absl::Status Attach(uint64_t expected_items);
  absl::Status CheckState() const;
  absl::Status Recover();
  absl::Status WalkSegments(uint64_t* items);
  absl::Status WalkSegment(uint32_t number, uint64_t* items);
  absl::Status IndexSegment(uint32_t number);
  absl::Status TakeBackStored();

  uint64_t HashAt(uint64_t offset) const override { return HashKey(ItemAt(offset)->key()); }
  void PrefetchAt(uint64_t offset) const override { __builtin_prefetch(base_ + offset); }

  Item* ItemAt(uint64_t offset) const { return reinterpret_cast<Item*>(base_ + offset); }
  uint64_t* FindSlot(std::string_view key, uint64_t hash) const {
    return index_->Find(hash, [&](uint64_t word) { return ItemAt(slot::Offset(word))->Is(key); });
  }
  [[gnu::noinline]] Item* FindAnew(std::string_view key, uint64_t hash) { return Find(key, hash); }
  [[gnu::noinline]] Item* UseSlot(uint64_t* at) {
    Item* item = ItemAt(slot::Offset(*at));
    if (item->ExpiredAt(now_ms_)) {
      DropExpired(at);
      return nullptr;
    }
    if (policy_ != Policy::kNoEviction) CountUse(at);
    item->NoteUse(now_ms_);
    return item;
  }
  // As often as it takes for 255 to stand for some ten thousand uses.
  void CountUse(uint64_t* at) {
    const uint32_t use = slot::Use(*at);
    if (use < 16 || (use < 255 && (NextRandom() & ((uint64_t{1} << (use / 16)) - 1)) == 0)) {
      *at += slot::kUseUnit;
    }
  }
  uint64_t NextRandom() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  // `fill` may be null.
  Result PutItem(std::string_view key, uint64_t hash, size_t value_size, const ItemFacts& facts,
                 Item** item, bool urgent, const Fill* fill);
  void NoteSize(uint64_t bytes) {
    if (largest_ == nullptr) return;
    uint64_t largest = largest_->load(std::memory_order_relaxed);
    while (bytes > largest &&
           !largest_->compare_exchange_weak(largest, bytes, std::memory_order_relaxed)) {
    }
  }
  void DropExpired(uint64_t* at);
  void DropItem(uint64_t* at);  // the slot, and what it points to
  // Room for an item, made if need be; 0: there is none. Slots may have changed.
  uint64_t AllocateSlowly(size_t bytes, int ttl_class, bool urgent);
  // Sees to it that one more slot fits into the index.
  bool FeedIndex();
  // Of an item that lies at `offset` now. Where memory is small, items of all classes may lie in a
  // segment; one of class 0 is asked for its first expiry alone.
  void NoteExpiry(uint64_t offset, int64_t expires_ms) {
    auto& segment = segments_.of(offset);
    if (segment.ttl_class == 0 && expires_ms == kNoExpiry) return;
    undo_.Note(&segment);
    segment.last_expiry_ms = std::max(segment.last_expiry_ms, expires_ms);
    segment.first_expiry_ms = std::min(segment.first_expiry_ms, expires_ms);
  }
  void EvictItem(uint64_t* at);
  // An item that a slot points to, or did until now.
  void CountExpiry(const Item& item, bool comes) {
    if ((item.fields() & kHasExpiry) == 0) return;
    const int64_t seconds = std::clamp<int64_t>(item.expires_ms() / 1000, 0, kLastExpirySecond);
    PartitionNumbers& numbers = state_->numbers;
    if (comes) {
      ++numbers.expiring;
      numbers.expiry_seconds += static_cast<uint64_t>(seconds);
    } else {
      --numbers.expiring;
      numbers.expiry_seconds -= static_cast<uint64_t>(seconds);
    }
  }

  // cleaner.cc
  struct Victim {
    uint32_t number = kNoSegment;
    uint64_t age = 0;
    uint32_t at = 0;
    bool evict = false;
    uint32_t walked = 0;  // bytes of live items
    uint32_t kept = 0;
  };
  // How few dead bytes are worth it.
  enum class Urgency : uint8_t { kNone, kUrgent, kLast };
  // Cleans one segment to its end. False when nothing can be gained.
  bool CleanOne(Urgency urgency = Urgency::kNone);
  bool ChooseVictim(Urgency urgency = Urgency::kNone);
  bool MayHaveExpired(const Segments::Segment& segment) const;
  // Looks at so many items of the victim, which there is. False when they have nowhere to go.
  bool CleanStep(int items);
  bool CleanItem(uint64_t offset, uint64_t hash);
  bool MayKeep(uint32_t use, size_t bytes);
  void CleanRun(uint32_t number);
  bool HasVictim() {
    return victim_.number != kNoSegment &&
           segments_.at(victim_.number).use == Segments::Use::kSealed &&
           segments_.at(victim_.number).age == victim_.age;
  }
  bool IsShort() const { return segments_.available() < low_; }

  Memory memory_;
  State* const state_;
  char* const base_;  // of segments
  Policy policy_;
  const bool kept_;  // in a file
  // Whether a value may be written over. What is in a file must not be lost half way.
  bool in_place_;
  bool recovered_ = false;
  bool undone_;
  int64_t now_ms_ = 0;
  uint64_t clears_ = 0;
  uint64_t random_ = 0x9e3779b97f4a7c15;
  uint64_t largest_item_;
  UndoLog undo_;
  Segments segments_;
  std::unique_ptr<Index> index_;
  Victim victim_;
  uint32_t cutoff_ = 1;  // of use, below which the cleaner drops
  const uint32_t keep_;  // segments that are left when a write finds no room
  const uint64_t low_;   // segments to take, below which it cleans ahead
  // A search that found nothing to clean, so that the next one does not follow at once.
  struct FailedSearch {
    uint64_t dead = UINT64_MAX;  // bytes, in all
    int64_t since_ms = 0;
  };
  FailedSearch failed_searches_[3];  // of each urgency
  uint32_t most_open_ = 0;           // segments, before classes share them
  std::atomic<uint64_t>* largest_ = nullptr;
  std::function<void(std::string_view)> on_evict_;
  std::function<void(std::string_view)> on_expire_;
};

// Small values are what it is for.
inline void CopyValue(char* to, std::string_view from) {
  if (from.size() == 8) {
    std::memcpy(to, from.data(), 8);
  } else {
    std::memcpy(to, from.data(), from.size());
  }
}

inline uint64_t ReverseBits(uint64_t v) {
  v = __builtin_bswap64(v);
  v = (v >> 4 & 0x0f0f0f0f0f0f0f0f) | (v & 0x0f0f0f0f0f0f0f0f) << 4;
  v = (v >> 2 & 0x3333333333333333) | (v & 0x3333333333333333) << 2;
  return (v >> 1 & 0x5555555555555555) | (v & 0x5555555555555555) << 1;
}

template <class Use>
uint64_t Partition::Scan(uint64_t cursor, const Use& use) {
  // Buckets in the order of their reversed bits, so that a bucket that splits during a scan has its
  // halves either both before the cursor or both behind it.
  const uint64_t mask = 2 * index_->half() - 1;
  uint64_t number = cursor & mask;
  if (number >= index_->buckets()) number &= index_->half() - 1;
  index_->ForEachIn(number, [&](const uint64_t* at) {
    const Item* item = ItemAt(slot::Offset(*at));
    if (!item->ExpiredAt(now_ms_)) use(*item);
  });
  // Adds one to the reversed bits that this bucket has.
  const bool split = number + index_->half() < index_->buckets() || number >= index_->half();
  return ReverseBits(ReverseBits(number | ~(split ? mask : index_->half() - 1)) + 1);
}

}  // namespace pulse::kv
