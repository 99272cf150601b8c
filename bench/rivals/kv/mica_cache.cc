#include "bench/rivals/kv/mica_cache.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "services/kv/processing.inc"

namespace pulse::kv {
namespace {

// The first slot with the tag, of each. With the instructions of whoever it becomes a part of.
inline __attribute__((always_inline)) void MicaMatchAll(const MicaCache& cache,
                                                        const uint64_t* hashes, size_t count,
                                                        Candidate* candidates) {
  for (size_t i = 0; i < count; ++i) {
    Bucket* bucket = cache.BucketOf(hashes[i]);
    const uint32_t mask = MatchTag(*bucket, TagOf(hashes[i]));
    if (mask == 0) {
      candidates[i] = {};
      continue;
    }
    uint64_t* at = &bucket->slots[__builtin_ctz(mask)];
    candidates[i] = {at, *at};
    cache.PrefetchItem(*at);
  }
}

void MicaMatchPortable(const MicaCache& cache, const uint64_t* hashes, size_t count,
                       Candidate* candidates) {
  MicaMatchAll(cache, hashes, count, candidates);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void MicaMatchAvx2(const MicaCache& cache, const uint64_t* hashes,
                                                   size_t count, Candidate* candidates) {
  MicaMatchAll(cache, hashes, count, candidates);
}
__attribute__((target("avx512f"))) void MicaMatchAvx512(const MicaCache& cache,
                                                        const uint64_t* hashes, size_t count,
                                                        Candidate* candidates) {
  MicaMatchAll(cache, hashes, count, candidates);
}
#endif

}  // namespace

MicaMatchFunction BestMicaMatch() {
#if defined(__x86_64__)
  static const MicaMatchFunction best = __builtin_cpu_supports("avx512f") != 0 ? MicaMatchAvx512
                                        : __builtin_cpu_supports("avx2") != 0  ? MicaMatchAvx2
                                                                               : MicaMatchPortable;
  return best;
#else
  return MicaMatchPortable;
#endif
}

absl::StatusOr<std::unique_ptr<MicaCache>> MicaCache::Open(const MicaOptions& options) {
  if (options.log_bytes < kLeastLog || options.log_bytes > kMostLog ||
      options.expected_items > kMostLog) {
    return absl::InvalidArgumentError(absl::StrCat("a log of ", options.log_bytes, " bytes for ",
                                                   options.expected_items,
                                                   " items: give it from 64 KiB to 8 TiB"));
  }
  const uint64_t log_bytes = std::bit_ceil(options.log_bytes);
  const uint64_t buckets = std::bit_ceil(std::max<uint64_t>(1, options.expected_items / 4));
  auto memory = Memory::Open(0, buckets * sizeof(Bucket) + log_bytes, 0);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<MicaCache>(
      new MicaCache(*std::move(memory), buckets, log_bytes, options.first_position));
}

bool MicaCache::Erase(std::string_view key, uint64_t hash) {
  uint64_t* at = FindSlot(key, hash);
  if (at == nullptr) return false;
  const bool existed = UseSlot(at) != nullptr;
  *at = 0;
  return existed;
}

MicaCache::Result MicaCache::PutInto(uint64_t* at, std::string_view key, uint64_t hash,
                                     size_t value_size, const ItemFacts& facts, Item** item) {
  if (key.size() > kMaxKeyBytes || value_size > kMaxValueBytes) return Result::kTooLarge;
  const size_t bytes = Item::SizeOf(key.size(), value_size, facts.fields());
  if (bytes / 8 > log_units() / 2) return Result::kTooLarge;
  if (at != nullptr) {
    Item* old = ItemOf(*at);
    if (old->fields() == facts.fields() && bytes <= old->size()) {
      old->WriteFacts(facts);
      old->set_value_size(value_size);
      *item = old;
      return Result::kStored;
    }
  }
  const uint64_t position = Append(bytes);
  // After it: room in the log is made by evicting, so fewer slots are of items that are there.
  if (at == nullptr) at = FreeSlot(BucketOf(hash));
  *item = ItemOf(position);
  (*item)->Write(key, value_size, facts);
  *at = TagOf(hash) << 48 | (position & kPositionMask);
  span_ = bytes - 1;
  return Result::kStored;
}

uint64_t MicaCache::Append(uint64_t bytes) {
  const uint64_t before = tail_;
  const uint64_t units = bytes / 8;
  const uint64_t left = log_units() - (tail_ & log_mask_);
  if (units > left) tail_ += left;  // no item goes on at the log's beginning
  const uint64_t position = tail_;
  tail_ += units;
  if (before >> kSweepBit != tail_ >> kSweepBit) Sweep();
  return position;
}

uint64_t* MicaCache::FreeSlot(Bucket* bucket) {
  uint64_t* oldest = &bucket->slots[0];
  for (uint64_t& word : bucket->slots) {
    if (!IsLive(word)) return &word;
    if (AgeOf(word) > AgeOf(*oldest)) oldest = &word;
  }
  ++displaced_;
  if (on_displace_) on_displace_(ItemOf(*oldest)->key());
  return oldest;
}

void MicaCache::Sweep() {
  for (uint64_t i = 0; i <= bucket_mask_; ++i) {
    for (uint64_t& word : buckets_[i].slots) {
      if (!IsLive(word)) word = 0;
    }
  }
}

MicaCache::Slots MicaCache::CountSlots() const {
  Slots slots;
  for (uint64_t i = 0; i <= bucket_mask_; ++i) {
    for (const uint64_t word : buckets_[i].slots) {
      slots.used += word != 0 ? 1 : 0;
      slots.live += IsLive(word) ? 1 : 0;
    }
  }
  return slots;
}

BatchResult ProcessBatch(MicaCache* cache, const BatchBuffers& buffers, const BatchRules& rules,
                         BatchCounts* counts) {
  return ProcessOn(cache, buffers, rules, counts);
}

}  // namespace pulse::kv
