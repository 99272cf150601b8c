#include "services/redis/offload/dirty_table.h"

#include <algorithm>
#include <bit>

#include "services/kv/core/hash.h"

namespace pulse::redis {

DirtyTable::DirtyTable(const CatchUpClock* clock, size_t words, uint64_t seed, bool broken)
    : clock_(clock), seed_(seed), broken_(broken) {
  const size_t size = std::bit_ceil(std::clamp<size_t>(words, 1, size_t{1} << 28));
  mask_ = size - 1;
  words_ = std::make_unique<std::atomic<uint64_t>[]>(size + 1);
  versions_ = std::make_unique<std::atomic<uint64_t>[]>(size + 1);
}

uint64_t DirtyTable::Hash(std::string_view key) const { return kv::HashKey(key, seed_); }

std::optional<uint64_t> DirtyTable::Count(Slot slot) {
  std::atomic<uint64_t>& word = words_[slot];
  uint64_t seen = word.load();
  do {
    if ((seen & kCountMask) == kCountMask) return std::nullopt;
  } while (!word.compare_exchange_weak(seen, seen + 1));
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  return seen;
}

bool DirtyTable::Mark(Slot slot, Version* alone) {
  const Version before = VersionOf(slot);
  const auto seen = Count(slot);
  if (!seen) return false;
  if (slot == everything()) return true;
  const uint64_t version = versions_[slot].fetch_add(1) + 1;
  if (alone != nullptr && (*seen & kCountMask) == 0 && before.known() &&
      version == before.slot + 1 && (words_[everything()].load() & kCountMask) == 0) {
    alone->slot = version;
    alone->everything = before.everything;
  }
  return true;
}

void DirtyTable::Refuse(Slot slot) {
  words_[slot].fetch_sub(1);
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

void DirtyTable::Settle(Slot slot) {
  if (slot == everything()) versions_[slot].fetch_add(1);
  // Read after the host's answer: the next catch-up begins later than its write.
  const uint64_t until = clock_->begun() + 1;
  std::atomic<uint64_t>& word = words_[slot];
  uint64_t seen = word.load();
  while (!word.compare_exchange_weak(
      seen, std::max(seen >> kCountBits, until) << kCountBits | ((seen & kCountMask) - 1))) {
  }
  uint64_t wanted = wanted_.load();
  while (wanted < until && !wanted_.compare_exchange_weak(wanted, until)) {
  }
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

std::optional<uint64_t> DirtyTable::Check(Slot slot) const {
  const uint64_t word = words_[slot].load();
  if (broken_) return word;
  if ((word & kCountMask) != 0 || word >> kCountBits > clock_->finished()) return std::nullopt;
  return word;
}

bool DirtyTable::Unchanged(Slot slot, uint64_t word) const {
  // The read before it is not to be done later.
  std::atomic_thread_fence(std::memory_order_acquire);
  return broken_ || words_[slot].load() == word;
}

}  // namespace pulse::redis
