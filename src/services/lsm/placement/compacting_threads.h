// CompactingThreads: the threads of this process that compact on the host's CPUs, what they take of
// them, and what others want. Those others are the users' threads, and other processes.
//
// Where all CPUs are busy, others use less than they want, the more so the more threads compact: so
// what they use says little. But threads share CPUs evenly, and a thread that compacts wants one:
// by what it gets of it, what the others want can be told. Who uses less than such a share has what
// it wants.
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
    double cpus = 0;     // in use
    double threads = 0;  // that compacted
  };

  // The calling thread compacts from here on; until End, which may be called without Begin.
  void Begin();
  void End();
  // On average since the last call, or since the beginning.
  Use Take();
  int size() const;

 private:
  struct Thread {
    int64_t cpu_nanos = 0;  // counted until here
    int64_t at = 0;
  };
  // Counts what it did since. False: it has ended.
  bool CountLocked(pid_t tid, Thread* thread, int64_t now);

  mutable std::mutex mu_;
  std::map<pid_t, Thread> threads_;
  int64_t cpu_nanos_ = 0;
  int64_t thread_nanos_ = 0;
  int64_t taken_at_;
};

// Of `cores`, which others want, where `busy` are in use.
double WantedByOthers(double busy, int cores, const CompactingThreads::Use& own);

}  // namespace pulse::lsm
