// FlushPriority: on an agent's CPUs compactions yield to flushes, for which writers wait. The
// kernel would share the time evenly, and a thread whose priority was lowered may need a privilege
// to raise it again. So a thread that compacts there waits before an append while there are more
// threads than CPUs and one of them flushes, but no longer than it has worked since its last wait.
// So flushes get half of the time at most in this way, and the kernel's share of the rest.
//
// Thread-safe. YieldToFlushes blocks for kLongestWaitMs at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/nanos_clock.h"

namespace pulse::lsm {

class FlushPriority {
 public:
  static constexpr int kLongestWaitMs = 100;

  FlushPriority() : FlushPriority(NowNanos) {}
  // `clock` measures work; waits are of real time.
  explicit FlushPriority(NanosClock clock) : clock_(clock) {}

  void SetCpus(int cpus) { cpus_.store(cpus); }

  // A flush runs on the agent's CPUs for as long as what it returns exists.
  std::shared_ptr<void> BeginFlush() {
    flushes_.fetch_add(1);
    return {this, [](FlushPriority* p) { p->EndFlush(); }};
  }

  // The calling thread compacts there, one of `compactions`.
  void YieldToFlushes(int compactions) {
    if (flushes_.load(std::memory_order_relaxed) == 0) return;
    const int too_many = flushes_.load() + compactions - cpus_.load();
    if (too_many <= 0) return;
    thread_local int64_t last_wait_end = 0;
    const int64_t begin = clock_();
    if (last_wait_end == 0) last_wait_end = begin;
    const auto longest = std::chrono::nanoseconds(
        std::min<int64_t>(begin - last_wait_end, int64_t{kLongestWaitMs} * 1'000'000));
    std::unique_lock lock(mu_);
    if (waiting_ >= too_many) return;
    ++waiting_;
    ended_.wait_for(lock, longest, [this] { return flushes_.load() == 0; });
    --waiting_;
    last_wait_end = clock_();
  }

 private:
  void EndFlush() {
    {
      std::lock_guard lock(mu_);
      flushes_.fetch_sub(1);
    }
    ended_.notify_all();
  }

  const NanosClock clock_;
  std::atomic<int> cpus_{1};
  std::atomic<int> flushes_{0};
  std::mutex mu_;
  std::condition_variable ended_;
  int waiting_ = 0;
};

}  // namespace pulse::lsm
