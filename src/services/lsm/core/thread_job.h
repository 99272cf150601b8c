// ThreadJob: what the calling thread does for RocksDB, as far as a FileSystem can know: whether it
// is in a compaction, and of which kind. Fetches take their class from it, and a flush its queue;
// and compaction_nice= lowers the CPU priority of RocksDB's compaction threads.
//
// Knows nothing of RocksDB. One state a thread; nothing here blocks, beyond system calls once a
// thread (or, where threads both flush and compact, once a job).
#pragma once

#include <cstdint>

#include "services/lsm/core/wire.h"

namespace pulse::lsm {

// How compaction threads are to run. Nothing: as they are.
struct CompactionPriority {
  enum class Policy { kNormal, kBatch, kIdle };
  int64_t nice = 0;
  Policy policy = Policy::kNormal;
  bool wanted() const { return nice != 0 || policy != Policy::kNormal; }
};

class ThreadJob {
 public:
  // A compaction job was made on this thread.
  static void NewCompaction();
  // One reads its input.
  static void BeginCompaction();
  // The thread's job has written its MANIFEST record.
  static void End();
  static bool compacting();
  // The class of the thread's outputs is known.
  static void SetJob(Job job);
  // Of what it reads as input. A compaction that has no output yet counts as one from L0: it needs
  // little before its first.
  static Job ReadJob();

  // Lowers or restores the priority of this thread, if it is one of RocksDB's that compact
  // (rocksdb:low, rocksdb:bottom, and the threads of their subcompactions), by what it does now.
  // Threads of the user's own are left alone.
  static void ApplyPriority(const CompactionPriority& priority, Job job);
};

}  // namespace pulse::lsm
