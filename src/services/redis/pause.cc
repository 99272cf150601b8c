#include "services/redis/pause.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "base/shortage.h"

namespace pulse::redis {

Pause::~Pause() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Pause::Begin(int64_t ms, bool writes_only) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) {
    PULSE_RETURN_IF_ERROR(StartThread(
        "the end of the pause", [this] { Run(); }, &thread_));
  }
  const Kind kind = writes_only ? Kind::kWrites : Kind::kAll;
  const int64_t now = NowNanos();
  int64_t until = 0;
  if (__builtin_mul_overflow(ms, int64_t{1'000'000}, &until) ||
      __builtin_add_overflow(until, now, &until)) {
    until = INT64_MAX;
  }
  const Kind before = kind_.load(std::memory_order_relaxed);
  until_ns_ = before == Kind::kNone ? until : std::max(until_ns_, until);
  kind_.store(std::max(before, kind), std::memory_order_release);
  wake_.notify_all();
  return absl::OkStatus();
}

Pause::Waiters Pause::EndLocked() {
  kind_.store(Kind::kNone, std::memory_order_release);
  return std::exchange(waiters_, {});
}

void Pause::End() {
  Waiters waiters;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiters = EndLocked();
  }
  wake_.notify_all();
  for (const auto& [waiter, done] : waiters) done();
}

uint64_t Pause::Wait(std::function<void()> done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (kind_.load(std::memory_order_relaxed) != Kind::kNone && !stopping_) {
      waiters_.emplace(++last_waiter_, std::move(done));
      return last_waiter_;
    }
  }
  done();
  return 0;
}

void Pause::Forget(uint64_t waiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiters_.erase(waiter);
}

void Pause::Run() {
  pthread_setname_np(pthread_self(), "pulse-pause");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (kind_.load(std::memory_order_relaxed) == Kind::kNone) {
      wake_.wait(lock);
      continue;
    }
    const int64_t left = until_ns_ - NowNanos();
    if (left > 0) {
      // The longest that the clock's arithmetic is sure to take.
      wake_.wait_for(lock, std::chrono::nanoseconds(std::min<int64_t>(left, 3'600'000'000'000)));
      continue;
    }
    const auto waiters = EndLocked();
    lock.unlock();
    for (const auto& [waiter, done] : waiters) done();
    lock.lock();
  }
}

}  // namespace pulse::redis
