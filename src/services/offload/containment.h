// Containment: runs a program's functions so that one that crashes, throws or does not end costs
// the program its place, and not the agent its life. DDS section 6.1 has functions that are not
// general programs; this is for those that are wrong.
//
// A call is left, by siglongjmp and without unwinding, at SIGSEGV, SIGBUS, SIGFPE, SIGILL and
// SIGABRT of its own thread, and when it has taken a budget of the thread's CPU time, between one
// and two times kBudgetNanos; if it takes that within what it calls of the agent's, up to kMostOwn
// times more. What is not contained: memory that it has overwritten before, locks
// that it holds (of malloc's, say: so it may not allocate), a thread it has started, exit().
//
// The signals' handlers are the process's; what was there before is called for faults elsewhere.
// The CPU budget is a timer per thread, armed by the first call and then about once in its time of
// CPU, so that a call costs no system call.
//
// Threads: any. One call at a time per thread.
#pragma once

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>

#include "absl/status/status.h"

namespace pulse::offload {

class Containment {
 public:
  static constexpr int64_t kBudgetNanos = 10'000'000;
  // Times that it may be over within the agent's own code, which may wait there for another thread.
  static constexpr int kMostOwn = 8;

  enum class End { kReturned, kCrashed, kThrew, kTooLong };

  // Once, before the first Run: takes the signals. Unavailable where that is refused.
  static absl::Status Install();

  // Runs `call`. What it has allocated, locked or half done when it does not return stays so.
  template <typename Call>
  [[nodiscard]] static __attribute__((noinline)) End Run(Call&& call) {
    Thread* const t = Enter();
    if (sigsetjmp(t->leave, 0) != 0) return Left(t);
    t->state = kInside;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // The timer of an earlier call may have come just before.
    if (!t->armed) Arm(t);
    bool threw = false;
    try {
      call();
    } catch (...) {
      threw = true;
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t->state = kOutside;
    return threw ? End::kThrew : End::kReturned;
  }

  // While it lives, the agent's own code runs within a call: it is not left.
  class Own {
   public:
    Own() {
      current->state = kOwn;
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~Own() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      current->state = kInside;
      if (current->own_budgets >= kMostOwn) LeaveLate();
    }
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
  };

 private:
  enum State { kOutside, kInside, kOwn };
  struct Thread {
    sigjmp_buf leave;
    volatile State state = kOutside;
    volatile bool armed = false;
    volatile bool too_long = false;
    volatile int own_budgets = 0;  // that were over in state kOwn, of this call
    volatile uint64_t call = 0;
    volatile uint64_t armed_call = 0;
    timer_t timer{};
    bool has_timer = false;
    void* stack = nullptr;  // for handlers; null: the thread had one
  };
  struct Exit;

  static Thread* Enter();
  static Thread* NewThread();
  static End Left(Thread* thread);
  static void Arm(Thread* thread);
  [[noreturn]] static void LeaveLate();
  static void OnFault(int signal, siginfo_t* info, void* context);
  static void OnTimer(int signal, siginfo_t* info, void* context);

  static thread_local Thread* current;
};

// "crashed", …, for messages.
const char* EndName(Containment::End end);

}  // namespace pulse::offload
