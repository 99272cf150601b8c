// Doorbell: wakes the other side only if it sleeps. PulseDB III-D's "lightweight notification".
//
// Sleep protocol (Dekker): the sleeper publishes its flag, then looks at its rings once more, then
// blocks on its descriptor. The waker publishes its entry, then looks at the flag. The two
// sequentially consistent fences order "publish, then look" on both sides, so at least one of them
// sees the other.
//
// A doorbell is one direction and has two ends, of one connected pair of Unix sockets. The sleeper
// makes the pair, keeps its end to itself and hands the other to the waker. A socket, because each
// send and receive can be told not to block: the status flags of an eventfd or a pipe belong to
// both sides, and a hostile peer could make them blocking again. The sleeper reads only what nobody
// else has ever held, since reading takes a lock that another holder of the same end could keep.
//
// Nothing here blocks. An end belongs to one object; Ring() and Kick() from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse {

class Doorbell {
 public:
  struct Ends {
    UniqueFd ring;   // for the waker
    UniqueFd sleep;  // for the sleeper, and for nobody else
  };
  static absl::StatusOr<Ends> CreatePair();
  // InvalidArgument unless `fd`, which a peer passed, can be rung without blocking.
  static absl::Status CheckRingEnd(int fd);

  Doorbell() = default;
  // `flag` lives in the control page and outlives this object.
  Doorbell(UniqueFd end, std::atomic<uint32_t>* flag) : fd_(std::move(end)), flag_(flag) {}

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
  void FinishSleep() {
    LowerFlag();
    Drain();
  }
  // The two halves of FinishSleep, for one who sleeps on many doorbells and knows which ones rang.
  void LowerFlag() { flag_->store(0, std::memory_order_relaxed); }
  void Drain();

  // -1 once the waker has closed its end, so that poll(2) does not report that for ever.
  int fd() const { return hung_up_ ? -1 : fd_.get(); }
  bool hung_up() const { return hung_up_; }
  int end() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::atomic<uint32_t>* flag_ = nullptr;
  bool hung_up_ = false;  // the sleeper's
};

}  // namespace pulse
