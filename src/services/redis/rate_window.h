// RateWindow: how fast a counter grows now, as Redis's instantaneous_ops_per_sec tells it: over the
// last second and a half, from samples that whoever counts takes now and then.
//
// Thread-safe. Sample blocks nobody: of two at a time one is enough. Times are of the caller's
// clock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace pulse::redis {

class RateWindow {
 public:
  // Redis's: sixteen samples, a tenth of a second apart.
  static constexpr size_t kSamples = 16;
  static constexpr int64_t kApartNanos = 100'000'000;

  // The counter is `count` now. Dropped where the last sample is younger than kApartNanos.
  void Sample(int64_t now_nanos, uint64_t count) {
    if (now_nanos - last_nanos_.load(std::memory_order_relaxed) < kApartNanos) return;
    const std::unique_lock<std::mutex> lock(mu_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    last_nanos_.store(now_nanos, std::memory_order_relaxed);
    samples_[next_++ % kSamples] = {now_nanos, count};
  }

  // A second, since the oldest sample of the window; where it has none, since the newest one.
  double PerSecond(int64_t now_nanos, uint64_t count) const {
    constexpr int64_t kWindowNanos = static_cast<int64_t>(kSamples) * kApartNanos;
    const std::lock_guard<std::mutex> lock(mu_);
    const Point* from = nullptr;
    for (size_t back = 0; back < kSamples && back < next_; ++back) {
      const Point& point = samples_[(next_ - 1 - back) % kSamples];
      if (from != nullptr && now_nanos - point.nanos > kWindowNanos) break;
      from = &point;
    }
    if (from == nullptr || count <= from->count || now_nanos <= from->nanos) return 0;
    return static_cast<double>(count - from->count) * 1e9 /
           static_cast<double>(now_nanos - from->nanos);
  }

  // The counter begins anew.
  void Reset(int64_t now_nanos) {
    const std::lock_guard<std::mutex> lock(mu_);
    last_nanos_.store(now_nanos, std::memory_order_relaxed);
    samples_[0] = {now_nanos, 0};
    next_ = 1;
  }

 private:
  struct Point {
    int64_t nanos = 0;
    uint64_t count = 0;
  };
  std::atomic<int64_t> last_nanos_{INT64_MIN / 2};
  mutable std::mutex mu_;
  std::array<Point, kSamples> samples_{};
  size_t next_ = 0;  // samples, ever
};

}  // namespace pulse::redis
