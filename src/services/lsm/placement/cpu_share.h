// CpuShare: how much some threads of this process ran of the time in which they could have: what
// the kernel's scheduler tells (/proc/self/task/TID/schedstat). Time in which they waited for
// something else, or a hypervisor had the CPU, does not count.
//
// Also of threads that are there for a short time each: only time counts in which one was.
//
// One thread at a time. Note reads a small file for each thread, Take no more often than that says
// something.
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
    double each = 1;       // of a CPU, while a thread wants one
    bool crowded = false;  // others than these have most of what they could use
  };

  // Of `threads`, which may use so many CPUs, since the last call that gave something; nothing if
  // it is too soon. `served`: nanoseconds of CPU so far, of threads there that work for the same.
  std::optional<Share> Take(const std::vector<pid_t>& threads, int cpus, int64_t served = 0);
  // From now on it is these. Before one goes, too: then Drop, and nothing that it does counts.
  void Note(const std::vector<pid_t>& threads, int64_t served = 0);
  void Drop(pid_t thread) { last_.erase(thread); }

  // Whether the kernel keeps account of it.
  static bool IsKnown();

  // Of threads that ran on `ran` CPUs, on average, while `waited` more waited for one, and `served`
  // were used for them.
  static Share Of(double ran, double waited, int cpus, double served = 0);

 private:
  struct Times {
    uint64_t ran = 0;
    uint64_t waited = 0;  // for a CPU
  };
  static std::optional<Times> Read(pid_t thread);

  int64_t noted_at_ = 0;
  int64_t served_at_ = 0;  // `served`, then
  std::map<pid_t, Times> last_;
  // Since the last Take that gave something, in nanoseconds: in which any was there; of all
  // together; of what they did then.
  int64_t any_ = 0;
  double all_ = 0;
  double ran_ = 0, waited_ = 0, served_ = 0;
};

}  // namespace pulse::lsm
