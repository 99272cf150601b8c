// FlushFirst: on an agent's CPUs compactions give way to flushes, behind which the writers stand.
// The kernel would share the time evenly, and a thread's priority, once lowered, is not everybody's
// to raise again. So threads that compact there wait between two pieces of output, while there are
// more threads than CPUs and one of them flushes. No longer than they have worked since they last
// did: flushes get half of the time at the most that way, and the kernel's share of the rest.
//
// Thread-safe. GiveWay blocks for kMostMs at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/clock.h"

namespace pulse::lsm {

class FlushFirst {
 public:
  static constexpr int kMostMs = 100;

  void SetCpus(int cpus) { cpus_.store(cpus); }

  // Until what it returns is gone.
  std::shared_ptr<void> Flush() {
    flushes_.fetch_add(1);
    return {this, [](FlushFirst* f) { f->FlushEnds(); }};
  }

  // The calling thread compacts there, as one of so many.
  void GiveWay(int compactions) {
    if (flushes_.load(std::memory_order_relaxed) == 0) return;
    const int too_many = flushes_.load() + compactions - cpus_.load();
    if (too_many <= 0) return;
    thread_local int64_t since = 0;  // the last wait's end
    const int64_t begin = NowNanos();
    if (since == 0) since = begin;
    const auto most =
        std::chrono::nanoseconds(std::min<int64_t>(begin - since, int64_t{kMostMs} * 1'000'000));
    std::unique_lock lock(mu_);
    if (waiting_ >= too_many) return;
    ++waiting_;
    ended_.wait_for(lock, most, [this] { return flushes_.load() == 0; });
    --waiting_;
    since = NowNanos();
  }

 private:
  void FlushEnds() {
    {
      std::lock_guard lock(mu_);
      flushes_.fetch_sub(1);
    }
    ended_.notify_all();
  }

  std::atomic<int> cpus_{1};
  std::atomic<int> flushes_{0};
  std::mutex mu_;
  std::condition_variable ended_;
  int waiting_ = 0;
};

}  // namespace pulse::lsm
