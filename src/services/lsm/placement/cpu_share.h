// CpuShare: what share of a CPU some threads of this process get while they want one, by the
// kernel's scheduler statistics (/proc/self/task/TID/schedstat): time on a CPU against time spent
// waiting for one. Time in which they waited for something else, or in which a hypervisor had the
// CPU, does not count.
//
// Threads that exist for a short time are measured together: only time in which one existed counts.
//
// One thread at a time. Note reads a small file for each thread; Take no more often than a
// measurement takes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace pulse::lsm {

class CpuShare {
 public:
  struct Share {
    double each = 1;         // of a CPU, while a thread wants one
    bool contended = false;  // others have most of what these threads could use
  };

  // The share of `threads`, which may use `cpus` CPUs, since the last call that returned one;
  // nullopt if that is too short ago, or if nearly all of it is a wait that has not ended yet.
  // `served`: CPU time so far, in nanoseconds, of threads on the
  // same CPUs that work for these (the agent's own).
  std::optional<Share> Take(const std::vector<pid_t>& threads, int cpus, int64_t served = 0);
  // From now on it is these. Call it before one leaves, too, and then Drop, so that nothing that it
  // does elsewhere counts.
  void Note(const std::vector<pid_t>& threads, int64_t served = 0);
  void Drop(pid_t thread) { last_.erase(thread); }

  // Whether this kernel keeps these statistics.
  static bool IsSupported();

  // The share of threads that ran on `ran` CPUs, on average, while `waited` more were waiting, and
  // `served` CPUs were used for them.
  static Share Of(double ran, double waited, int cpus, double served = 0);

 private:
  struct Times {
    uint64_t ran = 0;
    uint64_t waited = 0;  // for a CPU
  };
  static std::optional<Times> Read(pid_t thread);
  // Whether another one than this thread, of those that were noted last, runs or waits for a CPU.
  bool AnyIsReady() const;

  int64_t noted_at_ = 0;
  int64_t served_at_ = 0;  // `served`, then
  std::map<pid_t, Times> last_;
  // Since the last Take that returned a share, in nanoseconds: in which any thread existed; summed
  // over the threads; what they did meanwhile.
  int64_t any_ = 0;
  double all_ = 0;
  double ran_ = 0, waited_ = 0, served_ = 0;
};

}  // namespace pulse::lsm
