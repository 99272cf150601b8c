#include "services/kv/core/index.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace pulse::kv {
namespace {

uint64_t BucketsFor(uint64_t items) { return items * 10 / (kSlots * 7) + 1; }

}  // namespace

Index::Index(char* buckets, char* overflow, uint64_t most, Memory* memory, const Items* items,
             uint64_t expected)
    : buckets_(reinterpret_cast<Bucket*>(buckets)),
      overflow_(reinterpret_cast<Bucket*>(overflow)),
      most_buckets_(most / sizeof(Bucket)),
      memory_(memory),
      items_of_(items),
      expected_(std::min(BucketsFor(expected), most_buckets_)) {
  Clear();
}

void Index::Clear() {
  if (bucket_pages_ > 0) memory_->Give(reinterpret_cast<char*>(buckets_), bucket_pages_);
  if (overflow_pages_ > 0) memory_->Give(reinterpret_cast<char*>(overflow_), overflow_pages_);
  overflow_pages_ = overflow_free_ = items_ = 0;
  overflow_used_ = 1;
  prefetched_ = false;
  bucket_pages_ = (expected_ + kPerPage - 1) / kPerPage;
  if (!memory_->Take(bucket_pages_)) {
    bucket_pages_ = 1;
    PULSE_CHECK(memory_->Take(1), "an index has room for one page at least");
  }
  // All of a page, as it is there.
  count_ = std::max<uint64_t>(std::min(expected_, bucket_pages_ * kPerPage), kPerPage);
  half_ = 1;
  while (half_ * 2 <= count_) half_ *= 2;
}

uint64_t Index::TakeOverflow() {
  if (overflow_free_ == 0) {
    PULSE_CHECK(!NeedsPage(), "an index is given pages before it runs out of them");
    return overflow_used_++;
  }
  const uint64_t number = overflow_free_;
  overflow_free_ = overflow_[number].next;
  overflow_[number].next = 0;
  return number;
}

void Index::Append(Bucket* bucket, uint64_t word) {
  while (true) {
    for (uint64_t& at : bucket->slots) {
      if (at != 0) continue;
      at = word;
      return;
    }
    if (bucket->next == 0) bucket->next = TakeOverflow();
    bucket = overflow_ + bucket->next;
  }
}

void Index::Insert(uint64_t hash, uint64_t offset) {
  Append(BucketOf(hash), slot::Make(TagOf(hash), offset));
  ++items_;
  // Without a page to grow into, chains get longer.
  if (MustGrow() && count_ < bucket_pages_ * kPerPage && count_ < most_buckets_) {
    Split();
    prefetched_ = false;
    __builtin_prefetch(buckets_ + (count_ - half_));
  } else if (!prefetched_) {
    prefetched_ = true;
    ForEachIn(count_ - half_,
              [this](const uint64_t* at) { items_of_->PrefetchAt(slot::Offset(*at)); });
  }
}

void Index::Erase(uint64_t hash, uint64_t* at) {
  --items_;
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
  // The last bucket of a chain is never empty.
  const uint64_t word = *moved;
  *moved = 0;
  if (moved != at) *at = word;
  if (used > 1) return;
  const uint64_t number = before->next;
  before->next = 0;
  std::memset(last, 0, sizeof(Bucket));
  last->next = overflow_free_;
  overflow_free_ = number;
}

void Index::Split() {
  const uint64_t from = count_ - half_;
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
    // A batch may still look at its slots.
    std::memset(bucket, 0, sizeof(Bucket));
    bucket->next = overflow_free_;
    overflow_free_ = number;
    number = next;
  }
  std::memset(first, 0, sizeof(Bucket));
  Bucket* second = buckets_ + count_;
  for (const uint64_t word : words) {
    const bool up = (items_of_->HashAt(slot::Offset(word)) & half_) != 0;
    // As many overflow buckets as were freed suffice.
    Append(up ? second : first, word);
  }
  ++count_;
  if (count_ == half_ * 2) half_ *= 2;
}

}  // namespace pulse::kv
