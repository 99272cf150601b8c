// FlushPlacement: on which CPUs RocksDB's flushes are merged and encoded. An embedded agent is in
// the process of the memtables, so its CPUs can flush, too. The flush's thread then runs on the
// agent's CPUs while it writes its table, and nowhere else: threads that RocksDB starts inherit the
// CPUs of the thread that starts them, and it may start some between two flushes.
//
//   flushes=host      flushes stay on the host's CPUs
//   flushes=agent     all flushes run on the agent's CPUs
//   flushes=adaptive  the same, where they are none of the process's own, but while others contend
//                     for them
//
// Thread-safe; Begin and End are called by the flush's own thread. Blocks for a few system calls.
#pragma once

#include <functional>
#include <string>

#include "services/lsm/core/options.h"
#include "services/lsm/placement/flush_priority.h"
#include "services/lsm/placement/thread_migrator.h"

namespace pulse::lsm {

struct AtomicCounters;

class FlushPlacement {
 public:
  // `is_contended`: others contend for the agent's CPUs; asked for flushes=adaptive.
  FlushPlacement(FlushMode mode, ThreadMigrator* threads, std::function<bool()> is_contended,
                 FlushPriority* priority, AtomicCounters* counters);

  // A flush of the database in `home` begins to write a table, or has ended it. `agent`: there is
  // an embedded agent.
  void Begin(const std::string& home, bool agent);
  void End();

 private:
  const FlushMode mode_;
  ThreadMigrator* const threads_;
  const std::function<bool()> is_contended_;
  FlushPriority* const priority_;
  AtomicCounters* const counters_;
};

}  // namespace pulse::lsm
