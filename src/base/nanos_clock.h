// NanosClock: where a time comes from, for classes whose tests move it (testing.h: TestClock).
// Apart from clock.h, which everything includes.
#pragma once

#include <cstdint>

namespace pulse {

// NowNanos, or a clock that a test moves. Any thread.
using NanosClock = int64_t (*)();

}  // namespace pulse
