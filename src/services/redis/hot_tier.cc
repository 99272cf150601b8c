#include "services/redis/hot_tier.h"

#include "absl/container/inlined_vector.h"
#include "services/redis/commands/value.h"

namespace pulse::redis {

absl::StatusOr<std::unique_ptr<HotTier>> HotTier::Open(uint64_t bytes) {
  kv::PartitionOptions options;
  options.memory_bytes = bytes;
  options.policy = kv::Policy::kLfu;
  auto partition = kv::Partition::Open(options);
  if (!partition.ok()) return partition.status();
  auto tier = std::make_unique<HotTier>();
  tier->partition_ = *std::move(partition);
  return tier;
}

void HotTier::Keep(std::string_view key, const Probe& probe, std::string_view value,
                   int64_t expires_ms) {
  if ((probe.word & kWriters) != 0 || value.size() > kLargestValue || !TryLock()) return;
  const std::lock_guard<std::mutex> lock(mutex_, std::adopt_lock);
  if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_seq_cst);
  if (WordOf(probe.hash).load(std::memory_order_seq_cst) != probe.word) return;
  kv::ItemFacts facts;
  if (expires_ms != kNever) facts.expires_ms = expires_ms;
  kv::Item* item = nullptr;
  // What does not fit is read again.
  if (partition_->Put(key, probe.hash, value.size(), facts, &item) ==
      kv::Partition::Result::kStored) {
    kv::CopyValue(item->value_bytes(), value);
  }
}

void HotTier::BeginWrite(Keys keys) {
  absl::InlinedVector<uint64_t, kMostTogether> hashes;
  for (const std::string_view key : keys) {
    hashes.push_back(kv::HashKey(key));
    WordOf(hashes.back()).fetch_add(1, std::memory_order_seq_cst);
  }
  // Who keeps something after this sees the words.
  if (!used_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  kv::RunOverlapped(
      *partition_, keys.size(), kv::BestMatch(), [&](size_t i) { return hashes[i]; },
      [&](size_t i, const kv::Candidate&) { partition_->Erase(keys[i], hashes[i]); });
}

void HotTier::EndWrite(Keys keys) {
  for (const std::string_view key : keys) {
    WordOf(kv::HashKey(key)).fetch_add(kLeave, std::memory_order_acq_rel);
  }
}

void HotTier::BeginClear() {
  for (auto& word : words_) word.fetch_add(1, std::memory_order_acq_rel);
  const std::lock_guard<std::mutex> lock(mutex_);
  partition_->Clear();
}

void HotTier::EndClear() {
  for (auto& word : words_) word.fetch_add(kLeave, std::memory_order_acq_rel);
}

kv::PartitionNumbers HotTier::numbers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return partition_->numbers();
}

}  // namespace pulse::redis
