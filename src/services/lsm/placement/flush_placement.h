// FlushPlacement: on whose CPUs RocksDB's flushes are merged and encoded. An embedded agent's may
// do that as well as the host's: the memtables are in the memory of both. Then the flush's thread
// runs on the agent's CPUs from where its table begins to where it ends, and nowhere else: threads
// that RocksDB starts inherit the CPUs of whoever starts them, and it may start some between two
// flushes.
//
//   flushes=host      they stay where RocksDB's threads are
//   flushes=agent     all go
//   flushes=adaptive  they go while the host's CPUs are busy, and the agent's less so. What a flush
//                     takes is part of either, so that a decision stands for a while
//
// Thread-safe; Begin and End are called by the flush's own thread. Blocks for a few system calls
// and, at most twice a second, for the read of a small file.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "services/lsm/core/options.h"
#include "services/lsm/placement/flush_first.h"
#include "services/lsm/placement/moved_threads.h"

namespace pulse::lsm {

struct AtomicCounters;

// Whether flushes go to the agent, given how busy both are. Pure.
class FlushDecision {
 public:
  // In parts of the CPUs of each; `now` in seconds. True when what was decided before has changed.
  bool Look(double host_busy, double agent_busy, double now);
  bool on_agent() const { return on_agent_; }

 private:
  bool on_agent_ = false;
  double changed_at_ = -1e9;
};

class FlushPlacement {
 public:
  // Parts of 1, looked up anew.
  using Busy = std::function<double()>;
  FlushPlacement(FlushMode mode, MovedThreads* threads, Busy host_busy, Busy agent_busy,
                 FlushFirst* first, AtomicCounters* counters);

  // A flush of the database in `home` begins to write a table, or has ended it. `agent`: there is
  // an embedded one.
  void Begin(const std::string& home, bool agent);
  void End();

 private:
  bool Goes(bool agent);

  const FlushMode mode_;
  MovedThreads* const threads_;
  const Busy host_busy_;
  const Busy agent_busy_;
  FlushFirst* const first_;
  AtomicCounters* const counters_;
  std::mutex mu_;
  FlushDecision decision_;
};

}  // namespace pulse::lsm
