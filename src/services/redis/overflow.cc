#include "services/redis/overflow.h"

#include <algorithm>

namespace pulse::resp {
namespace {

// Of means that forget: the weight of one more.
constexpr double kOfWaits = 1.0 / 64;
constexpr double kOfShare = 1.0 / 256;
// Half of the turn in which it comes, and all of the next.
constexpr double kTurns = 1.5;
constexpr double kLate = 5;  // waits; an answer
constexpr double kVeryLate = 20;

double Toward(double mean, double value, double weight) { return mean + (value - mean) * weight; }

}  // namespace

bool Overflow::Goes(int64_t now) const {
  if (lost_ || wait_ < static_cast<double>(options_.worth)) return false;
  if (limit_ < 1) return in_flight_ == 0 && now >= trial_at_;
  const bool silent =
      in_flight_ > 0 && static_cast<double>(now - silent_since_) > kVeryLate * wait_;
  return !silent && static_cast<double>(in_flight_) < limit_;
}

bool Overflow::Take(int64_t now, int64_t last_turn) {
  const double wait = kTurns * static_cast<double>(last_turn);
  wait_ = now - asked_at_ > options_.memory ? wait : Toward(wait_, wait, kOfWaits);
  asked_at_ = now;
  // Whatever keeps it, maybe one client that does not take its replies: others are not to wait.
  if (in_flight_ > 0 && now - silent_since_ > options_.most_pause) {
    in_flight_ = 0;
    given_up_at_ = now;
    Fail(now);
  }
  const bool goes = Goes(now);
  share_.store(Toward(share(), goes ? 1 : 0, kOfShare), std::memory_order_relaxed);
  if (!goes) return false;
  if (in_flight_++ == 0) silent_since_ = now;
  return true;
}

void Overflow::Answered(int64_t now, int64_t passed_at) {
  // More may go where all that may has gone.
  const bool full = static_cast<double>(in_flight_) + 1 > limit_;
  if (!Returned(now, passed_at)) return;
  const auto answer = static_cast<double>(now - passed_at);
  if (answer < kLate * wait_) {
    pause_ = 0;
    if (full) limit_ += 1 / std::max(limit_, 1.0);
    return;
  }
  if (passed_at < cut_at_) return;
  cut_at_ = now;
  limit_ *= answer < kVeryLate * wait_ ? 0.75 : 0.25;
  if (limit_ < 1) Fail(now);
}

void Overflow::Dropped(int64_t now, int64_t passed_at) {
  if (Returned(now, passed_at)) trial_at_ = std::max(trial_at_, now + options_.least_pause);
}

void Overflow::Lost(int64_t now, int64_t passed_at) {
  lost_ = true;
  // All that were there are lost together.
  if (Returned(now, passed_at) && passed_at >= cut_at_) Fail(now);
  cut_at_ = now;
}

bool Overflow::Returned(int64_t now, int64_t passed_at) {
  if (passed_at < given_up_at_) return false;
  --in_flight_;
  silent_since_ = now;
  return true;
}

// The next trial is later, and those after it.
void Overflow::Fail(int64_t now) {
  limit_ = 0;
  pause_ = std::clamp(2 * pause_, options_.least_pause, options_.most_pause);
  trial_at_ = now + pause_;
}

}  // namespace pulse::resp
