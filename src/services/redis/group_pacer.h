// GroupPacer: when a loop of an agent hands what it has collected to the host. Each time wakes a
// thread there, which costs the host as much as tens of requests, so a loop waits until every
// client that asks at the moment has asked, until there is enough to pay for the wake-up, or until
// the first one has waited for long. A client that is alone never waits.
//
// One thread. Nothing blocks; the time is the caller's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace pulse::redis {

class GroupPacer {
 public:
  static constexpr int64_t kLongestNanos = 400'000;  // that a request waits
  static constexpr size_t kEnough = 128;             // requests
  static constexpr int64_t kPeriodNanos = 1'000'000;
  // How long a loop looks for what comes back, which is near, instead of having the host wake it.
  static constexpr int64_t kLongestLookNanos = 1'000'000;

  // Of a client.
  struct Seen {
    uint64_t group = 0;
    uint64_t period = 0;
  };
  // A client has sent so many requests.
  void Count(int64_t now, size_t requests, Seen* seen) {
    if (first_at_ == 0) first_at_ = now;
    requests_ += requests;
    if (std::exchange(seen->group, group_) != group_) ++clients_;
    if (std::exchange(seen->period, period_) != period_) ++active_;
  }
  // Whether what has been counted since Gone may go now.
  bool MayGo(int64_t now) {
    if (now - period_begun_ >= kPeriodNanos) {
      before_ = now - period_begun_ < 2 * kPeriodNanos ? active_ : clients_;
      active_ = 0;
      ++period_;
      period_begun_ = now;
    }
    return clients_ >= std::max(active_, before_) || requests_ >= kEnough || now >= goes_at();
  }
  // MayGo then, whatever comes.
  int64_t goes_at() const { return first_at_ + kLongestNanos; }
  void Gone() {
    first_at_ = 0;
    clients_ = requests_ = 0;
    ++group_;
  }

 private:
  int64_t first_at_ = 0;  // 0: nobody waits
  uint64_t group_ = 1;
  size_t clients_ = 0;  // that wait
  size_t requests_ = 0;
  // Clients that have asked within the period, and within the one before.
  uint64_t period_ = 1;
  int64_t period_begun_ = 0;
  size_t active_ = 0;
  size_t before_ = 0;
};

}  // namespace pulse::redis
