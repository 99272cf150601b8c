// ParallelFor: calls f(0) ... f(n - 1) by some threads, and meanwhile, by the caller, tick() now
// and then. Returns the first error by number; after an error no further call begins. Blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace pulse {

inline absl::Status ParallelFor(size_t n, int threads, const std::function<absl::Status(size_t)>& f,
                                const std::function<void()>& tick) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable ended;
  size_t running = std::min<size_t>(n, static_cast<size_t>(std::max(threads, 1)));
  absl::Status first;
  size_t first_at = n;
  const auto work = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= n) break;
      if (absl::Status st = f(i); !st.ok()) {
        failed.store(true, std::memory_order_relaxed);
        const std::lock_guard lock(mutex);
        if (i < first_at) {
          first_at = i;
          first = std::move(st);
        }
      }
    }
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_one();
  };
  std::vector<std::thread> workers;
  try {
    for (size_t t = running; t > 0; --t) workers.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads: those that there are do it, or the caller.
    const std::lock_guard lock(mutex);
    running -= std::min<size_t>(n, static_cast<size_t>(std::max(threads, 1))) - workers.size();
    if (workers.empty()) running = 1;
  }
  if (workers.empty() && n > 0) work();
  {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(200), [&] { return running == 0; })) {
      lock.unlock();
      tick();
      lock.lock();
    }
  }
  for (std::thread& worker : workers) worker.join();
  return first;
}

}  // namespace pulse
