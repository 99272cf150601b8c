#include "services/ops/remote/give_way.h"

#include <algorithm>

namespace pulse::ops::remote {
namespace {

// A new window's weight in an average.
constexpr double kNew = 0.4;

double Averaged(double before, double now) {
  return before <= 0 ? now : before + kNew * (now - before);
}

}  // namespace

void GiveWay::Begin(int64_t now, const Numbers& front) {
  started_ = true;
  window_began_ = now;
  at_begin_ = front;
  ran_ = false;
  missed_ = false;
}

void GiveWay::Tick(int64_t now, const Numbers& front, bool ran) {
  if (!started_) {
    last_alone_ = now;
    return Begin(now, front);
  }
  ran_ = ran_ || ran;
  missed_ = missed_ || !ran;
  if (pausing_ && ran) {
    if (now - pause_began_ >= options_.drain_nanos) {
      pausing_ = false;
      last_alone_ = now;
    }
    return Begin(now, front);  // counts from when the last chunk has ended
  }
  const int64_t length = now - window_began_;
  if (length < options_.window_nanos) return;
  const uint64_t requests = front.requests - at_begin_.requests;
  if (requests < options_.least_requests) {
    if (length < options_.idle_nanos) return;
    // Nobody is there whom operators could hold up; what they cost was of another load.
    level_ = Level::kAll;
    pausing_ = false;
    beside_ = 0;
    alone_ = 0;
    windows_ = 0;
    retry_ = 0;
    last_alone_ = now;
    return Begin(now, front);
  }
  OnWindow(now, static_cast<double>(front.cpu_nanos - at_begin_.cpu_nanos) /
                    static_cast<double>(requests));
  Begin(now, front);
}

void GiveWay::OnWindow(int64_t now, double cost) {
  if (!ran_) {
    alone_ = Averaged(alone_, cost);
    last_alone_ = now;
    pausing_ = false;
  } else if (!missed_) {
    beside_ = Averaged(beside_, cost);
    ++windows_;
  }
  if (level_ != Level::kAll && now >= retry_at_) {
    GoTo(level_ == Level::kNone ? Level::kLight : Level::kAll, now);
    return;
  }
  if (windows_ >= options_.compared && alone_ > 0 && beside_ > options_.slower * alone_ &&
      level_ != Level::kNone) {
    ++raised_;
    // What has held for long is a new beginning.
    if (level_ == Level::kAll && now - all_since_ > options_.last_retry) retry_ = 0;
    retry_ = retry_ == 0 ? options_.first_retry : std::min(2 * retry_, options_.last_retry);
    retry_at_ = now + retry_;
    GoTo(level_ == Level::kAll ? Level::kLight : Level::kNone, now);
    return;
  }
  if (!pausing_ && ran_ && now - last_alone_ >= (alone_ > 0 ? options_.baseline_every : 0)) {
    pausing_ = true;
    pause_began_ = now;
  }
}

void GiveWay::GoTo(Level level, int64_t now) {
  if (level == Level::kAll) all_since_ = now;
  level_ = level;
  beside_ = 0;
  windows_ = 0;
  // The next level up is tried again, too.
  if (level != Level::kAll) retry_at_ = std::max(retry_at_, now + options_.first_retry);
}

}  // namespace pulse::ops::remote
