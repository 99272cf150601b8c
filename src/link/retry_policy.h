// RetryPolicy: when a host that has lost its agent tries to attach again. An agent that served for
// a while is tried at once, one that keeps dying young less and less often: attaching costs the
// host its queues' memory and every loss some rescued files, so a flapping agent would be worse
// than none.
//
// One thread's; never blocks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pulse {

class RetryPolicy {
 public:
  static constexpr int kFirstMs = 50;
  static constexpr int kLastMs = 5'000;
  // An agent that lived this long has proved itself.
  static constexpr int64_t kYoungNanos = int64_t{5'000'000'000};

  // How long to wait before the next attempt.
  int delay_ms() const { return delay_ms_; }

  void OnFailedAttempt() { delay_ms_ = std::min(delay_ms_ * 2, kLastMs); }
  // The agent was lost, `lived` after the session had attached to it.
  void OnLost(int64_t lived_nanos) {
    if (lived_nanos >= kYoungNanos) {
      first_ms_ = kFirstMs;
    } else {
      first_ms_ = std::min(first_ms_ * kGrowth, kLastMs);
    }
    delay_ms_ = first_ms_;
  }

 private:
  static constexpr int kGrowth = 4;

  int first_ms_ = kFirstMs / kGrowth;  // the first death is forgiven
  int delay_ms_ = kFirstMs;
};

}  // namespace pulse
