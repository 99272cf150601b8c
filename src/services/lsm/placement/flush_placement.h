// FlushPlacement: on which CPUs RocksDB's flushes are merged and encoded. An embedded agent is in
// the process of the memtables, so its CPUs can flush, too. The flush's thread then runs on the
// agent's CPUs while it writes its table, and nowhere else: threads that RocksDB starts inherit the
// CPUs of the thread that starts them, and it may start some between two flushes.
//
//   flushes=host      flushes stay on the host's CPUs
//   flushes=agent     all flushes run on the agent's CPUs
//   flushes=adaptive  flushes run there while the host's CPUs are busy, and the agent's less so. A
//                     decision holds for a while, since flushes themselves make either busy
//
// Thread-safe; Begin and End are called by the flush's own thread. Blocks for a few system calls
// and, at most twice a second, for the read of a small file.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "services/lsm/core/options.h"
#include "services/lsm/placement/flush_priority.h"
#include "services/lsm/placement/thread_migrator.h"

namespace pulse::lsm {

struct AtomicCounters;

// Decides for flushes=adaptive by how busy both sides are. Pure.
class FlushDecision {
 public:
  // The busy part of the CPUs of each side, 0 to 1; `now` in seconds. True when the decision has
  // changed.
  bool Update(double host_busy, double agent_busy, double now);
  bool on_agent() const { return on_agent_; }

 private:
  bool on_agent_ = false;
  double changed_at_ = -1e9;
};

class FlushPlacement {
 public:
  // The busy part of some CPUs now, 0 to 1.
  using Busy = std::function<double()>;
  FlushPlacement(FlushMode mode, ThreadMigrator* threads, Busy host_busy, Busy agent_busy,
                 FlushPriority* priority, AtomicCounters* counters);

  // A flush of the database in `home` begins to write a table, or has ended it. `agent`: there is
  // an embedded agent.
  void Begin(const std::string& home, bool agent);
  void End();

 private:
  bool ShouldMigrate(bool agent);

  const FlushMode mode_;
  ThreadMigrator* const threads_;
  const Busy host_busy_;
  const Busy agent_busy_;
  FlushPriority* const priority_;
  AtomicCounters* const counters_;
  std::mutex mu_;
  FlushDecision decision_;
};

}  // namespace pulse::lsm
