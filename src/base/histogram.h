// A latency histogram in the manner of HdrHistogram: log-linear buckets that
// keep three significant digits over 1 .. 2^40 (18 minutes in nanoseconds).
//
// Debian 12 ships no C or C++ HdrHistogram, hence this one; percentiles mean the
// same as there. Memory is fixed (about 250 KiB) and taken by the constructor;
// nothing allocates afterwards, so Record may sit on a hot path.
//
// Thread safety: none. Give each thread its own and Merge them at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pulse {

class Histogram {
 public:
  // The largest value told apart; larger ones count as this one (Max() stays
  // exact all the same).
  static constexpr uint64_t kMaxValue = uint64_t{1} << 40;

  Histogram();

  void Record(uint64_t value);

  // Adds every value recorded in `other`.
  void Merge(const Histogram& other);

  // The smallest recorded value that is not exceeded by `percentile` per cent of
  // all values, to three significant digits and never above Max(). Percentiles
  // outside 0 .. 100 count as the nearer end. An empty histogram says 0.
  uint64_t ValueAtPercentile(double percentile) const;

  double Mean() const;
  uint64_t Max() const { return max_; }
  uint64_t Min() const { return count_ == 0 ? 0 : min_; }
  uint64_t Count() const { return count_; }

 private:
  static size_t IndexOf(uint64_t value);
  static uint64_t HighestValueIn(size_t index);

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace pulse
