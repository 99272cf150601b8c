// How fast the counter of Cycles() goes, for who reports what was measured by it. The longer this
// has existed, the more exactly it knows. Thread-safe; who asks within its first 50 us waits for
// their end.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace pulse {

class CycleRate {
 public:
  CycleRate() : cycles_(Cycles()), nanos_(NowNanos()) {}
  double PerNano() const {
    while (NowNanos() < nanos_ + 50'000) CpuPause();
    return static_cast<double>(Cycles() - cycles_) / static_cast<double>(NowNanos() - nanos_);
  }

 private:
  const uint64_t cycles_;
  const int64_t nanos_;
};

}  // namespace pulse
