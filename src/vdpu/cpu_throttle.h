// CpuThrottle: threads of this process run as if on slower cores, and on so many of them. Needs no
// privilege.
//
// Each enrolled thread has a POSIX timer on its own CPU clock. Its signal comes for every
// millisecond or so that the thread has consumed (the kernel looks at its tick: 4 ms with
// CONFIG_HZ=250), and the handler sleeps for as long as a slow core would take longer
// (core_budget.h). Consumed and slept are counted from the beginning, so errors of single sleeps do
// not add up. A thread that does nothing does not sleep. Time for which a thread was ready and
// found every CPU taken counts as slept, where the kernel tells it (/proc/PID/task/TID/schedstat):
// on a card its core would have been free. What is shorter than a tick is not stretched by itself
// but in the sum, unless the thread calls Settle now and then.
//
// Not covered: threads of the kernel that work for this process. io_uring's (iou-wrk-*), which do
// what cannot be done without blocking (fdatasync, buffered writes), take no signals; Usage::kernel
// has what they consumed. A thread asleep in the handler keeps its locks, as one on
// a slow core would.
//
// System calls go on after the signal, except those that always return EINTR (epoll_wait, poll,
// nanosleep, io_uring_enter when it waits; signal(7)): loops around these have to bear it. A forked
// child has no timers and is not slowed down.
//
// One at a time in a process; it takes the signal SIGRTMIN+5. Threads: any, except where said.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse::vdpu {

class CpuThrottle {
 public:
  struct Options {
    double speed = 1;  // of a core, against a host core: above 0, at most 1
    int cores = 0;     // that all enrolled threads share; 0: no bound
    // Enrols every thread of the process, those to come within 10 ms of their beginning (what they
    // consumed until then counts), by a thread of its own that looks for them. Else only threads
    // that call Enroll.
    bool every_thread = false;
  };
  struct Usage {
    int64_t consumed = 0;  // CPU time of enrolled threads, nanoseconds, without what was exempt
    int64_t slept = 0;     // by them, for being slow
    int64_t kernel = 0;    // CPU time of io_uring's workers, which are not slowed down
  };

  // FailedPrecondition when there is one already, or when the signal is in use.
  static absl::StatusOr<std::unique_ptr<CpuThrottle>> Start(const Options& options);
  // Threads go on at full speed; those asleep in the handler are waited for.
  ~CpuThrottle();
  CpuThrottle(const CpuThrottle&) = delete;
  CpuThrottle& operator=(const CpuThrottle&) = delete;

  // Enrols the calling thread until it ends or leaves. For a thread that is enrolled already,
  // nothing.
  absl::Status Enroll();
  // The calling thread leaves; nothing for one that was not enrolled.
  void Leave();

  Usage usage() const;

  // The calling thread, if it is enrolled, sleeps for the rest of the time that its work takes on a
  // slow core: at the end of a piece of work, so that its effects come as late as there. Costs a
  // system call; a time that is too short to sleep for is added to the next one.
  static void Settle();

  // What the calling thread consumes in this scope costs nothing: work that a DPU's core would not
  // do (a copy that stands for DMA), or that takes it no longer than a fast one (looking for work).
  class Exempt {
   public:
    Exempt();
    ~Exempt();
    Exempt(const Exempt&) = delete;
    Exempt& operator=(const Exempt&) = delete;
  };

  // What the calling thread had consumed, and of it was exempt, at a moment.
  struct Mark {
    int64_t cpu = 0;
    int64_t exempt = 0;
  };
  static Mark Now();
  // All that the thread has consumed since `mark` was exempt: for work of which only its end tells
  // that it was none. Not within an Exempt. Returns Now(). Costs a system call.
  static Mark ExemptSince(const Mark& mark);

  struct Thread;  // of this file's own
  struct Cores;

 private:
  explicit CpuThrottle(const Options& options) : options_(options) {}
  // All with mu_ held, but before there is a watcher. `cpu_base`, `exempt_base`: what the thread
  // had consumed, and of it was exempt, before it had to pay.
  absl::Status EnrollTid(int tid, int64_t cpu_base, int64_t exempt_base);
  Thread* Drop(int tid);
  void Watch();
  absl::Status LookForThreads(bool first);

  const Options options_;
  Cores* cores_ = nullptr;  // never freed: a late signal may look at it
  mutable std::mutex mu_;
  std::condition_variable cv_;
  bool stopping_ = false;
  std::map<int, Thread*> threads_;  // by thread number
  std::map<int, int64_t> kernel_;   // io_uring's workers, and what each had consumed when last seen
  Usage gone_;                      // of threads that have ended
  int watcher_tid_ = 0;
  std::thread watcher_;
};

}  // namespace pulse::vdpu
