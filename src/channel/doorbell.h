// Doorbell: wakes the other side only if it sleeps. PulseDB III-D's "lightweight notification".
//
// Sleep protocol (Dekker): the sleeper publishes its flag, then looks at its rings once more, then
// blocks on the eventfd. The waker publishes its entry, then looks at the flag. The two
// sequentially consistent fences order "publish, then look" on both sides, so at least one of them
// sees the other.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse {

class Doorbell {
 public:
  Doorbell() = default;
  // `flag` lives in the control page and outlives this object.
  Doorbell(UniqueFd event_fd, std::atomic<uint32_t>* flag)
      : fd_(std::move(event_fd)), flag_(flag) {}

  // A non-blocking, close-on-exec eventfd.
  static absl::StatusOr<UniqueFd> CreateEventFd();

  // Waker's side. A system call only when the sleeper's flag is up. Any thread.
  void Ring() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (flag_->load(std::memory_order_relaxed) != 0 && flag_->exchange(0) != 0) Kick();
  }
  // Unconditional wake-up, for shut-down and control messages.
  void Kick();

  // Sleeper's side: PrepareSleep(), look again, then poll fd(); then FinishSleep().
  void PrepareSleep() {
    flag_->store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // Lowers the flag and drains the eventfd.
  void FinishSleep();

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::atomic<uint32_t>* flag_ = nullptr;
};

}  // namespace pulse
