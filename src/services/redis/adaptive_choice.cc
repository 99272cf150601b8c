#include "services/redis/adaptive_choice.h"

#include <algorithm>
#include <cmath>

namespace pulse::redis {
namespace {

// Of a trial: what is under way when a design begins is not its own.
constexpr int kSkippedTicks = 1;
constexpr int kMeasuredTicks = 4;
// What is too little to measure by: nobody waits then.
constexpr double kIdleRate = 500;
constexpr double kTolerance = 0.98;
constexpr double kMoved = 0.2;
constexpr int kWindowTicks = 4;
constexpr int kMovedWindows = 3;  // fewer may be a hiccup
// Of a second look, and who has one.
constexpr int kLookWindows = 10;
constexpr int kLookTicks = 12;
constexpr double kNear = 0.88;
// Of a window's rate in the one that is compared with, so that what drifts is no step.
constexpr double kDrift = 0.1;
constexpr int64_t kRenewNanos = 30'000'000'000;
constexpr double kMostTokens = 2;
constexpr double kNanosForToken = 10e9;

bool Differ(double rate, double from) { return std::abs(rate - from) > kMoved * from; }

}  // namespace

AdaptiveChoice::AdaptiveChoice(size_t designs, size_t current)
    : results_(designs), current_(current), tokens_(kMostTokens) {}

AdaptiveChoice::Result AdaptiveChoice::Since(const Sample& begin, const Sample& now) const {
  const double seconds = static_cast<double>(now.now_nanos - begin.now_nanos) * 1e-9;
  const auto requests = static_cast<double>(now.requests - begin.requests);
  const auto host = static_cast<double>(now.host_cpu_nanos - begin.host_cpu_nanos);
  return {requests / std::max(seconds, 1e-9), host / std::max(requests, 1.0)};
}

size_t AdaptiveChoice::Next(const Sample& sample) {
  if (ticks_++ == 0) {
    if (tokens_at_ == 0) tokens_at_ = sample.now_nanos;
    window_ = sample;
    return current_;
  }
  if (!trying_ && !looking_) {
    if (WantsTrial(sample)) return BeginTrial(sample);
    if (windows_ < kLookWindows) return current_;
    windows_ = -1;
    looking_ = true;
    chosen_ = current_;
    results_[chosen_] = Since(settled_, sample);
    return LookAgain(sample, 0);
  }
  if (ticks_ == 1 + kSkippedTicks) window_ = sample;
  if (looking_) {
    if (ticks_ < 1 + kSkippedTicks + kLookTicks) return current_;
    const Result result = Since(window_, sample);
    if (Differ(result.rate, results_[current_].rate)) {  // it is another load
      current_ = chosen_;
      return EndLook(sample);
    }
    results_[current_] = result;
    return LookAgain(sample, current_ + 1);
  }
  if (ticks_ < 1 + kSkippedTicks + kMeasuredTicks) return current_;
  const Result result = Since(window_, sample);
  ticks_ = 1;
  window_ = sample;
  if (tried_ == results_.size()) return Settle(result.rate);
  results_[current_] = result;
  ++tried_;
  return current_ = (current_ + 1) % results_.size();
}

// Called at each tick.
bool AdaptiveChoice::WantsTrial(const Sample& now) {
  if (ticks_ < 1 + kWindowTicks) return false;
  const double rate = Since(window_, now).rate;
  ticks_ = 1;
  window_ = now;
  tokens_ = std::min(kMostTokens,
                     tokens_ + static_cast<double>(now.now_nanos - tokens_at_) / kNanosForToken);
  tokens_at_ = now.now_nanos;
  if (rate < kIdleRate) {
    settled_at_ = 0;  // whatever comes next is another load
    windows_ = -1;
    return false;
  }
  if (Differ(rate, settled_at_)) {
    ++moved_;
    windows_ = std::min(windows_, 0);
    settled_ = now;
  } else {
    moved_ = 0;
    if (windows_ >= 0) ++windows_;
    settled_at_ += kDrift * (rate - settled_at_);
  }
  const bool renew = now.now_nanos - last_trial_ >= kRenewNanos;
  return tokens_ >= 1 && (renew || moved_ >= kMovedWindows);
}

size_t AdaptiveChoice::BeginTrial(const Sample& now) {
  trying_ = true;
  tried_ = 0;
  ++trials_;
  tokens_ -= 1;
  last_trial_ = now.now_nanos;
  ticks_ = 1;
  window_ = now;
  return current_;  // the first, as it runs already
}

// The first design ran once more, at `rate`: had the load changed meanwhile, the others' rates
// would say nothing.
size_t AdaptiveChoice::Settle(double rate) {
  if (Differ(rate, results_[current_].rate) && tokens_ >= 1) return BeginTrial(window_);
  trying_ = false;
  moved_ = 0;
  current_ = Best();
  settled_at_ = results_[current_].rate;
  settled_ = window_;
  windows_ = 0;
  return current_;
}

size_t AdaptiveChoice::LookAgain(const Sample& now, size_t from) {
  const double highest = HighestRate();
  for (size_t i = from; i < results_.size(); ++i) {
    if (i == chosen_ || results_[i].rate < kNear * highest) continue;
    ticks_ = 1;
    return current_ = i;
  }
  current_ = Best();
  settled_at_ = results_[current_].rate;
  return EndLook(now);
}

size_t AdaptiveChoice::EndLook(const Sample& now) {
  looking_ = false;
  ticks_ = 1;
  window_ = now;
  return current_;
}

double AdaptiveChoice::HighestRate() const {
  const auto slower = [](const Result& a, const Result& b) { return a.rate < b.rate; };
  return std::max_element(results_.begin(), results_.end(), slower)->rate;
}

size_t AdaptiveChoice::Best() const {
  const double highest = HighestRate();
  size_t best = current_;
  for (size_t i = 0; i < results_.size(); ++i) {
    const Result& result = results_[i];
    if (result.rate < kTolerance * highest) continue;
    if (results_[best].rate < kTolerance * highest || result.host_cpu < results_[best].host_cpu) {
      best = i;
    }
  }
  return best;
}

}  // namespace pulse::redis
