#include "services/ops/rates.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pulse::ops {

double Rate::Decay(int64_t now) const {
  const int64_t age = std::max<int64_t>(0, now - last_);
  return std::exp2(-static_cast<double>(age) / static_cast<double>(kHalfLife));
}

void Rate::Add(uint64_t bytes, int64_t nanos, int64_t now) {
  const double keep = weight_ == 0 ? 0 : kKeep * Decay(now);
  bytes_ = bytes_ * keep + static_cast<double>(bytes);
  nanos_ = nanos_ * keep + static_cast<double>(std::max<int64_t>(nanos, 1));
  weight_ = weight_ * keep + 1;
  last_ = std::max(last_, now);
}

bool Rate::Known(int64_t now) const { return weight_ * Decay(now) > kForgotten; }

double Rate::BytesPerSecond(int64_t now) const { return Known(now) ? bytes_ / nanos_ * 1e9 : 0; }

int SizedRates::ClassOf(uint64_t bytes) {
  const uint64_t units = bytes == 0 ? 0 : (bytes - 1) >> 15;
  return std::min(kClasses - 1, static_cast<int>(std::bit_width(units)));
}

void SizedRates::Add(uint64_t bytes, int64_t nanos, int64_t now) {
  rates_[static_cast<size_t>(ClassOf(bytes))].Add(bytes, nanos, now);
}

double SizedRates::BytesPerSecond(uint64_t bytes, int64_t now) const {
  const int wanted = ClassOf(bytes);
  for (int distance = 0; distance < kClasses; ++distance) {
    for (const int at : {wanted + distance, wanted - distance}) {
      if (at < 0 || at >= kClasses) continue;
      const double rate = rates_[static_cast<size_t>(at)].BytesPerSecond(now);
      if (rate > 0) return rate;
    }
  }
  return 0;
}

SizedRates RateTable::Get(const RateKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = rates_.find(key);
  return it == rates_.end() ? SizedRates() : it->second;
}

void RateTable::Put(const RateKey& key, const SizedRates& rates) {
  const std::lock_guard lock(mutex_);
  rates_[key] = rates;
}

std::optional<PaperVerdict> RateTable::GetVerdict(const RateKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = verdicts_.find(key);
  return it == verdicts_.end() ? std::nullopt : std::optional(it->second);
}

void RateTable::PutVerdict(const RateKey& key, const PaperVerdict& verdict) {
  const std::lock_guard lock(mutex_);
  verdicts_[key] = verdict;
}

}  // namespace pulse::ops
