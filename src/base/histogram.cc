#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pulse {
namespace {

// Values below 2^11 have a counter each. Every octave above has 2^10 counters,
// each 2^bucket wide: the error stays under one part in 1024.
constexpr int kHalfBits = 10;
constexpr uint64_t kHalf = uint64_t{1} << kHalfBits;
constexpr uint64_t kLinear = 2 * kHalf;
constexpr int kTopBucket = std::bit_width(Histogram::kMaxValue) - (kHalfBits + 1);
// The last counter is kMaxValue's own, the first of its octave.
constexpr size_t kCounters = (static_cast<size_t>(kTopBucket + 1) << kHalfBits) + 1;

}  // namespace

Histogram::Histogram() : counts_(kCounters, 0) {}

size_t Histogram::IndexOf(uint64_t value) {
  const int bucket = std::bit_width(value | (kLinear - 1)) - (kHalfBits + 1);
  const uint64_t sub = value >> bucket;
  return (static_cast<size_t>(bucket) << kHalfBits) + static_cast<size_t>(sub);
}

uint64_t Histogram::HighestValueIn(size_t index) {
  if (index < kLinear) return index;
  const auto bucket = static_cast<int>(index >> kHalfBits) - 1;
  const uint64_t sub = (index & (kHalf - 1)) + kHalf;
  return ((sub + 1) << bucket) - 1;
}

void Histogram::Record(uint64_t value) {
  ++counts_[IndexOf(std::min(value, kMaxValue))];
  ++count_;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

uint64_t Histogram::ValueAtPercentile(double percentile) const {
  if (count_ == 0) return 0;
  if (percentile >= 100) return max_;
  // The next number down, so that 99.9 % of 1000 values is the 999th in spite of
  // rounding. The comparison also turns a NaN into 0.
  const double share = percentile > 0 ? std::nextafter(percentile, 0.0) / 100.0 : 0.0;
  const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  const uint64_t rank = std::clamp<uint64_t>(wanted, 1, count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen < rank) continue;
    // What lies in the last counter may be anything up to Max().
    return i + 1 == counts_.size() ? max_ : std::clamp(HighestValueIn(i), min_, max_);
  }
  return max_;
}

double Histogram::Mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

}  // namespace pulse
