// What RocksDB tells a FileSystem about the job that an output belongs to, without any set-up by
// the user. docs/internals/lsm.md, "I/O classes", has which version tells what.
//
// Plain data and pure functions.
#pragma once

#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {

struct OutputHints {
  enum class Activity { kUntold, kFlush, kCompaction };

  rocksdb::Env::IOPriority priority = rocksdb::Env::IO_TOTAL;
  rocksdb::Env::WriteLifeTimeHint lifetime = rocksdb::Env::WLTH_NOT_SET;
  Activity activity = Activity::kUntold;  // from 8.3 on
  bool preallocates = false;              // of the tables of compactions only
  bool thread_compacts = false;           // ThreadActivity::compacting

  // What an append says besides. Through an EnvWrapper it is all there is.
  void AddFrom(const rocksdb::IOOptions& options) {
    if (priority == rocksdb::Env::IO_TOTAL) priority = options.rate_limiter_priority;
#if PULSE_ROCKSDB_AT_LEAST(8, 3)
    if (options.io_activity == rocksdb::Env::IOActivity::kFlush) activity = Activity::kFlush;
    if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) {
      activity = Activity::kCompaction;
    }
#endif
  }

  // The write controller delays or stops writers: flushes and compactions then have this priority.
  bool stalls() const { return priority == rocksdb::Env::IO_USER; }
};

inline Job JobOf(const OutputHints& h) {
  using rocksdb::Env;
  using Activity = OutputHints::Activity;
  const bool deep = h.lifetime == Env::WLTH_LONG || h.lifetime == Env::WLTH_EXTREME;
  bool compaction = h.activity == Activity::kCompaction;
  if (h.activity == Activity::kUntold) {
    if (h.priority == Env::IO_HIGH) return Job::kFlush;
    // During a stall both have the same priority.
    compaction =
        h.priority == Env::IO_LOW || (h.stalls() && (deep || h.preallocates || h.thread_compacts));
    if (!compaction && !h.stalls()) return Job::kUntold;
  }
  if (!compaction) return Job::kFlush;
  if (deep) return Job::kDeep;
  if (h.lifetime == Env::WLTH_SHORT || h.lifetime == Env::WLTH_MEDIUM) return Job::kBase;
  // No level is told: another style than level compaction. In a stall, any compaction of such a
  // database is one that ends it, since each makes its sorted runs fewer.
  return h.stalls() ? Job::kBase : Job::kDeep;
}

}  // namespace pulse::lsm
