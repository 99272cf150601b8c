// Pause: commands of all clients, or those that write, wait until a time (CLIENT PAUSE), or until
// somebody ends it.
//
// Threads: all calls are for any thread. Nothing blocks: who waits is called back, by the thread
// that ends the pause, or one of this object's own, which lives from the first pause on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "absl/status/status.h"

namespace pulse::redis {

class Pause {
 public:
  Pause() = default;
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  // For `ms` from now on. A pause that is there already stays as strict and as long as it is.
  absl::Status Begin(int64_t ms, bool writes_only);
  void End();
  // Whether a command has to wait. Costs one load without a pause.
  bool Holds(bool writes) const {
    const Kind kind = kind_.load(std::memory_order_acquire);
    return kind == Kind::kAll || (kind == Kind::kWrites && writes);
  }
  // Calls `done` when the pause is over; at once where there is none, and returns 0. Else a number
  // for Forget.
  uint64_t Wait(std::function<void()> done);
  // Who waited so is not called any more, or is being called.
  void Forget(uint64_t waiter);

 private:
  enum class Kind { kNone, kWrites, kAll };
  void Run();
  using Waiters = std::map<uint64_t, std::function<void()>>;
  Waiters EndLocked();

  std::atomic<Kind> kind_{Kind::kNone};
  std::mutex mutex_;
  std::condition_variable wake_;
  int64_t until_ns_ = 0;  // monotonic
  Waiters waiters_;
  uint64_t last_waiter_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pulse::redis
