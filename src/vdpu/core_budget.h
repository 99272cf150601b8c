// What threads on slow cores owe: plain arithmetic, without clocks, so that tests need none.
//
// A core of speed s takes 1/s times as long for what a host core does. A thread that consumed c
// nanoseconds of a host core is to have been asleep for c(1/s - 1) on top. What it waited for other
// things does not count: a slow core waits for a device as long as a fast one.
//
// Threads: CoreBudget any, also in signal handlers (lock-free).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace pulse::vdpu {

// How long a thread has still to sleep; negative when it slept more than it had to.
inline int64_t SleepOwed(int64_t consumed, int64_t slept, double speed) {
  return static_cast<int64_t>(static_cast<double>(consumed) * (1 / speed - 1)) - slept;
}

// The cores that all threads share. While no more threads are busy than there are cores, the sleeps
// above keep within them; this says when more than that have to wait for one another. It is a
// bucket of core time that leaks at the rate of the cores.
class CoreBudget {
 public:
  // How far threads may be ahead of their cores, for sleeps that took longer than they should.
  static constexpr int64_t kSlackNanos = 20'000'000;

  // 0 cores: no bound.
  CoreBudget(int cores, double speed) : rate_(cores * speed) {}

  // A thread consumed `cpu` nanoseconds of a host core up to `now`. Returns when the cores have
  // time for more: `now` or earlier when they have it at once.
  int64_t Charge(int64_t cpu, int64_t now) {
    if (rate_ <= 0) return now;
    const auto taken = static_cast<int64_t>(static_cast<double>(cpu) / rate_);
    const int64_t from = now - cpu - kSlackNanos;
    int64_t until = free_at_.load(std::memory_order_relaxed);
    int64_t next;
    do {
      next = std::max(until, from) + taken;
    } while (!free_at_.compare_exchange_weak(until, next, std::memory_order_relaxed));
    return next;
  }

 private:
  const double rate_;
  std::atomic<int64_t> free_at_{0};
  static_assert(std::atomic<int64_t>::is_always_lock_free);
};

}  // namespace pulse::vdpu
