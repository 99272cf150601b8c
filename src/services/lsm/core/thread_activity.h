// ThreadActivity: what the calling thread does for RocksDB, as far as a FileSystem can tell:
// whether it compacts, and in which levels. It gives reads their I/O class and flushes an idle
// queue, and lowers the CPU priority of RocksDB's compaction threads (compaction_nice=).
//
// Does not include RocksDB. State per thread; nothing here blocks, but for system calls once per
// thread (or once per job, where threads both flush and compact).
#pragma once

#include "services/lsm/core/wire.h"

namespace pulse::lsm {

class ThreadActivity {
 public:
  // RocksDB has made a compaction job on this thread.
  static void BeginCompactionJob();
  // A compaction on this thread reads its input.
  static void BeginCompactionRead();
  // The thread's job has written its MANIFEST record.
  static void End();
  static bool compacting();
  // The class of the thread's outputs is known.
  static void SetPurpose(IoPurpose purpose);
  // Of what it reads as input. A compaction that has no output yet counts as one from L0: it needs
  // little before its first.
  static IoPurpose ReadPurpose();

  // Lowers or restores the priority of this thread, if it is one of RocksDB's that compact
  // (rocksdb:low, rocksdb:bottom, and the threads of their subcompactions), by what it does now.
  // Threads of the user's own are left alone. `nice`: of threads that compact; 0 leaves them as
  // they are.
  static void ApplyPriority(int nice, IoPurpose purpose);
};

}  // namespace pulse::lsm
