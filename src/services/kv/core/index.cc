#include "services/kv/core/index.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace pulse::kv {
namespace {

uint64_t BucketsFor(uint64_t items) { return items * 10 / (kSlots * 7) + 1; }

}  // namespace

Index::Index(char* buckets, char* overflow, uint64_t most, State* state, Memory* memory,
             const Items* items, uint64_t expected, UndoLog* undo)
    : buckets_(reinterpret_cast<Bucket*>(buckets)),
      overflow_(reinterpret_cast<Bucket*>(overflow)),
      most_buckets_(most / sizeof(Bucket)),
      state_(state),
      memory_(memory),
      items_of_(items),
      expected_(expected),
      undo_(undo) {
  if (state_->count > 0) Learn();
}

void Index::Clear() {
  undo_->Forbid();
  // One page stays: there may be none to get.
  const uint64_t kept = std::min<uint64_t>(state_->bucket_pages, 1);
  if (kept > 0) {
    std::memset(buckets_, 0, kPageBytes);
    if (state_->bucket_pages > 1) memory_->Give(PageAt(buckets_, 1), state_->bucket_pages - 1);
    if (state_->overflow_pages > 0) memory_->Give(PageAt(overflow_, 0), state_->overflow_pages);
  }
  state_->bucket_pages = kept;
  PULSE_CHECK(Begin(expected_), "an index has a page at least");
}

bool Index::Begin(uint64_t expected) {
  state_->overflow_pages = state_->overflow_free = state_->items = 0;
  state_->overflow_used = 1;
  prefetched_ = false;
  const uint64_t wanted = std::min(BucketsFor(expected), most_buckets_);
  // As many pages as there are.
  uint64_t& has = state_->bucket_pages;
  for (uint64_t more = (wanted + kPerPage - 1) / kPerPage - has; more > 0; more /= 2) {
    if (!memory_->Take(more) || !memory_->Back(PageAt(buckets_, has), more)) continue;
    has += more;
    break;
  }
  if (has == 0) return false;
  // All of a page, as it is there.
  state_->count = std::max<uint64_t>(std::min(wanted, has * kPerPage), kPerPage);
  state_->half = 1;
  while (state_->half * 2 <= state_->count) state_->half *= 2;
  Learn();
  return true;
}

bool Index::AddPage(bool needed) {
  undo_->Forbid();
  uint64_t& pages = needed ? state_->overflow_pages : state_->bucket_pages;
  if (!memory_->Back(PageAt(needed ? overflow_ : buckets_, pages), 1)) return false;
  ++pages;
  return true;
}

uint64_t Index::TakeOverflow() {
  if (state_->overflow_free == 0) {
    PULSE_CHECK(!NeedsPage(), "an index is given pages before it runs out of them");
    return state_->overflow_used++;
  }
  const uint64_t number = state_->overflow_free;
  undo_->Note(overflow_ + number);
  state_->overflow_free = overflow_[number].next;
  overflow_[number].next = 0;
  return number;
}

void Index::Append(Bucket* bucket, uint64_t word) {
  while (true) {
    for (uint64_t& at : bucket->slots) {
      if (at != 0) continue;
      undo_->Note(bucket);
      at = word;
      return;
    }
    if (bucket->next == 0) {
      undo_->Note(bucket);
      bucket->next = TakeOverflow();
    }
    bucket = overflow_ + bucket->next;
  }
}

void Index::Insert(uint64_t hash, uint64_t offset) {
  Append(BucketOf(hash), slot::Make(TagOf(hash), offset));
  ++state_->items;
  // Without a page to grow into, chains get longer.
  if (MustGrow() && state_->count < state_->bucket_pages * kPerPage &&
      state_->count < most_buckets_) {
    Split();
    prefetched_ = false;
    __builtin_prefetch(buckets_ + (state_->count - state_->half));
  } else if (!prefetched_) {
    prefetched_ = true;
    ForEachIn(state_->count - state_->half,
              [this](const uint64_t* at) { items_of_->PrefetchAt(slot::Offset(*at)); });
  }
}

void Index::Erase(uint64_t hash, uint64_t* at) {
  NoteSlot(at);
  --state_->items;
  Bucket* before = nullptr;
  Bucket* last = BucketOf(hash);
  if (last->next == 0) {
    *at = 0;
    return;
  }
  while (last->next != 0) {
    before = last;
    last = overflow_ + last->next;
  }
  uint64_t* moved = nullptr;
  int used = 0;
  for (uint64_t& word : last->slots) {
    if (word == 0) continue;
    moved = &word;
    ++used;
  }
  undo_->Note(last);
  undo_->Note(before);
  // The last bucket of a chain is never empty.
  const uint64_t word = *moved;
  *moved = 0;
  if (moved != at) *at = word;
  if (used > 1) return;
  const uint64_t number = before->next;
  before->next = 0;
  std::memset(last, 0, sizeof(Bucket));
  last->next = state_->overflow_free;
  state_->overflow_free = number;
}

void Index::Split() {
  const uint64_t from = state_->count - state_->half;
  absl::InlinedVector<uint64_t, size_t{4} * kSlots> words;
  Bucket* first = buckets_ + from;
  uint64_t number = first->next;
  for (const uint64_t word : first->slots) {
    if (word != 0) words.push_back(word);
  }
  while (number != 0) {
    Bucket* bucket = overflow_ + number;
    for (const uint64_t word : bucket->slots) {
      if (word != 0) words.push_back(word);
    }
    const uint64_t next = bucket->next;
    undo_->Note(bucket);
    // A batch may still look at its slots.
    std::memset(bucket, 0, sizeof(Bucket));
    bucket->next = state_->overflow_free;
    state_->overflow_free = number;
    number = next;
  }
  undo_->Note(first);
  std::memset(first, 0, sizeof(Bucket));
  Bucket* second = buckets_ + state_->count;
  for (const uint64_t word : words) {
    const bool up = (items_of_->HashAt(slot::Offset(word)) & state_->half) != 0;
    // As many overflow buckets as were freed suffice.
    Append(up ? second : first, word);
  }
  ++state_->count;
  if (state_->count == state_->half * 2) state_->half *= 2;
  Learn();
}

}  // namespace pulse::kv
