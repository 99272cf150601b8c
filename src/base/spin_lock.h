// TrySpinning: takes a mutex that others hold for some microseconds at a time, on a thread that
// must not sleep. Any thread; never blocks.
#pragma once

#include <mutex>

#include "base/clock.h"

namespace pulse {

// Looks `tries` times, a pause instruction apart. False: it is not taken.
inline bool TrySpinning(std::mutex* mutex, int tries) {
  for (int i = 0; i < tries; ++i) {
    if (mutex->try_lock()) return true;
    CpuPause();
  }
  return false;
}

}  // namespace pulse
