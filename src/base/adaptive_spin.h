// AdaptiveSpin: for how long a thread looks for work before it sleeps, by whether that has helped.
// A look that found nothing halves the next one; a sleep shorter than the longest look would have
// been better spent looking. A thread that nobody asks soon stops looking.
//
// One thread. Nothing blocks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pulse {

class AdaptiveSpin {
 public:
  // 0: never looks.
  explicit AdaptiveSpin(int64_t longest_nanos) : longest_(longest_nanos), now_(longest_nanos) {}

  // Nanoseconds to look for.
  int64_t now() const { return now_; }
  // ... before a sleep of at most `limit` (negative: of any length): none before a shorter one.
  int64_t Before(int64_t limit) const { return limit < 0 || limit >= now_ ? now_ : 0; }
  // Whether such a sleep is to be told: one that ends for a timer says nothing of work.
  bool Learns(int64_t limit) const { return longest_ > 0 && (limit < 0 || limit >= longest_); }
  // It had looked in vain, and then slept for so long.
  void Slept(int64_t nanos) {
    now_ /= 2;
    if (nanos < longest_) now_ = std::min(longest_, 2 * now_ + kStep);
  }

 private:
  static constexpr int64_t kStep = 1000;
  int64_t longest_;
  int64_t now_;
};

}  // namespace pulse
