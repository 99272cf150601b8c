// CorePace: a thread that polls, as if on a slower core. For rounds of microseconds, for which the
// ticks of CpuThrottle are too coarse: what was done since the thread began to look for work is
// stretched, by waiting, before anybody may see it.
//
// Each busy round is charged, the first one after an idle time too, and from the look that found
// its work on. Looks that find nothing cost nothing: the next one begins anew. The thread keeps
// its CPU while it waits, as one on a slow core would. Time in which the kernel runs others in its
// place is stretched, too.
//
// Threads: one. Times are nanoseconds of NowNanos, or of another clock in tests.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/clock.h"

namespace pulse::vdpu {

class CorePace {
 public:
  // `speed`: of a core, against a host core; above 0, at most 1.
  explicit CorePace(double speed, int64_t (*clock)() = NowNanos)
      : stretch_(1 / speed), clock_(clock) {
    PULSE_CHECK(speed > 0 && speed <= 1);
  }
  bool is_slow() const { return stretch_ > 1; }

  // A look for work begins.
  void Begin() {
    if (is_slow()) begin_ = clock_();
  }
  // When a slow core would be where this one is at `now`.
  int64_t DueAt(int64_t now) const {
    return begin_ + static_cast<int64_t>(static_cast<double>(now - begin_) * stretch_);
  }
  // Waits until then. What follows belongs to the same round, and is charged by the next Settle.
  void Settle() {
    if (!is_slow()) return;
    const int64_t due = DueAt(clock_());
    while (clock_() < due) CpuPause();
    begin_ = due;
  }

 private:
  const double stretch_;
  int64_t (*const clock_)();
  int64_t begin_ = 0;
};

}  // namespace pulse::vdpu
