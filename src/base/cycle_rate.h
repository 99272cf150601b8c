// How fast the counter of Cycles() goes, for who reports what was measured by it. The longer this
// has existed, the more exactly it knows. Thread-safe; only the constructor waits, 50 us.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace pulse {

class CycleRate {
 public:
  CycleRate() : cycles_(Cycles()), nanos_(NowNanos()) {
    while (NowNanos() < nanos_ + 50'000) CpuPause();
  }
  double PerNano() const {
    return static_cast<double>(Cycles() - cycles_) / static_cast<double>(NowNanos() - nanos_);
  }

 private:
  const uint64_t cycles_;
  const int64_t nanos_;
};

}  // namespace pulse
