// How fast the counter of Cycles() goes, for who reports what was measured by it. The longer this
// has existed, the more exactly it knows. Thread-safe; who asks within its first 50 us waits for
// their end.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace pulse {

class CycleRate {
 public:
  CycleRate() : from_(Read()) {}
  // It is known: for tests.
  explicit CycleRate(double per_nano) : from_{}, per_nano_(per_nano) {}

  double PerNano() const {
    if (per_nano_ > 0) return per_nano_;
    while (NowNanos() < from_.nanos + 50'000) CpuPause();
    const Reading to = Read();
    return static_cast<double>(to.cycles - from_.cycles) /
           static_cast<double>(to.nanos - from_.nanos);
  }

 private:
  struct Reading {
    uint64_t cycles = 0;
    int64_t nanos = 0;
  };
  // Both clocks at one time: a thread that is stopped between them for milliseconds would be wrong
  // by a multiple, so the closest of a few readings is taken.
  static Reading Read() {
    constexpr int64_t kCloseNanos = 500;
    constexpr int kTries = 16;
    Reading best;
    int64_t closest = INT64_MAX;
    for (int i = 0; i < kTries && closest > kCloseNanos; ++i) {
      const int64_t before = NowNanos();
      const uint64_t cycles = Cycles();
      const int64_t apart = NowNanos() - before;
      if (apart >= closest) continue;
      closest = apart;
      best = {cycles, before + apart / 2};
    }
    return best;
  }

  const Reading from_;
  const double per_nano_ = 0;
};

}  // namespace pulse
