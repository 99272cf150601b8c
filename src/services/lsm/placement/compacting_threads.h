// CompactingThreads: the threads of this process that compact on the host's CPUs, and how much CPU
// time they get. From that ForegroundDemand tells how many CPUs other work wants: the application's
// threads and other processes.
//
// Where all CPUs are busy, other work uses less than it wants, the more so the more threads
// compact: its use alone says little. But the kernel shares CPUs evenly, and a thread that compacts
// wants a whole one. So the part that it gets tells how much the others want; other work that uses
// less than that part has all that it wants.
//
// Thread-safe. Take makes a system call for each thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace pulse::lsm {

class CompactingThreads {
 public:
  CompactingThreads();
  struct Use {
    double cpus = 0;     // that they used
    double threads = 0;  // how many compacted
  };

  // The calling thread compacts from here on; until End, which may be called without Begin.
  void Begin();
  void End();
  // The average since the last call, or since this object was made.
  Use Take();
  int size() const;

 private:
  struct Thread {
    int64_t cpu_nanos = 0;  // counted until here
    int64_t at = 0;
  };
  // Adds the thread's time since it was last counted. False: it has ended.
  bool CountLocked(pid_t tid, Thread* thread, int64_t now);

  mutable std::mutex mu_;
  std::map<pid_t, Thread> threads_;
  int64_t cpu_nanos_ = 0;
  int64_t thread_nanos_ = 0;
  int64_t taken_at_;
};

// How many of the host's `cores` other work wants, where `busy` are in use, and compactions use
// `own`.
double ForegroundDemand(double busy, int cores, const CompactingThreads::Use& own);

}  // namespace pulse::lsm
