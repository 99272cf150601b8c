// LatencyHistogram: how long many calls took each, in cycles, in classes of a sixteenth of an
// octave, so what is read is at most 1/16 above what was. 5 KiB.
//
// Threads: any. Adding is one relaxed addition; reading sees each addition or not.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pulse::redis {

class LatencyHistogram {
 public:
  static constexpr unsigned kBits = 4;  // of a class, below the highest one
  static constexpr unsigned kMostOctave = 41;
  static constexpr size_t kClasses = (kMostOctave - kBits + 2) << kBits;
  using Counts = std::array<uint64_t, kClasses>;

  static size_t ClassOf(uint64_t cycles) {
    cycles = std::min(cycles, (uint64_t{2} << kMostOctave) - 1);
    if (cycles < (1u << kBits)) return static_cast<size_t>(cycles);
    const auto octave = static_cast<unsigned>(std::bit_width(cycles)) - 1;
    const uint64_t within = (cycles >> (octave - kBits)) & ((1u << kBits) - 1);
    return ((octave - kBits + 1) << kBits) + static_cast<size_t>(within);
  }
  // The most cycles of a class.
  static uint64_t LastOf(size_t index) {
    if (index < (size_t{1} << kBits)) return index;
    const size_t octave = (index >> kBits) + kBits - 1;
    const uint64_t within = index & ((size_t{1} << kBits) - 1);
    return (((uint64_t{1} << kBits) + within + 1) << (octave - kBits)) - 1;
  }

  void Add(uint64_t cycles, uint64_t calls) {
    counts_[ClassOf(cycles)].fetch_add(calls, std::memory_order_relaxed);
  }
  void AddTo(Counts* counts) const {
    for (size_t i = 0; i < kClasses; ++i) {
      (*counts)[i] += counts_[i].load(std::memory_order_relaxed);
    }
  }
  void Clear() {
    for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kClasses> counts_{};
};

}  // namespace pulse::redis
