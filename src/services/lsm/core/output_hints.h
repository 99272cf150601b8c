// OutputHints: what RocksDB tells a FileSystem about the flush or compaction that writes an output,
// without any set-up by the user. docs/internals/architecture.md, "Classes", lists it by version.
//
// Plain data and pure functions.
#pragma once

#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {

struct OutputHints {
  enum class Activity { kUnknown, kFlush, kCompaction };

  rocksdb::Env::IOPriority priority = rocksdb::Env::IO_TOTAL;
  rocksdb::Env::WriteLifeTimeHint lifetime = rocksdb::Env::WLTH_NOT_SET;
  Activity activity = Activity::kUnknown;  // from 8.3 on
  bool preallocates = false;               // of the tables of compactions only
  bool thread_compacts = false;            // ThreadActivity::compacting

  // Adds the hints of an append. Behind an EnvWrapper there are no others.
  void AddFrom(const IOOptions& options) {
    if (priority == rocksdb::Env::IO_TOTAL) priority = options.rate_limiter_priority;
#if PULSE_ROCKSDB_AT_LEAST(8, 3)
    if (options.io_activity == rocksdb::Env::IOActivity::kFlush) activity = Activity::kFlush;
    if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) {
      activity = Activity::kCompaction;
    }
#endif
  }

  // RocksDB delays or stops writers: flushes and compactions then have this priority.
  bool stalls() const { return priority == rocksdb::Env::IO_USER; }
};

inline IoPurpose PurposeOf(const OutputHints& h) {
  using rocksdb::Env;
  using Activity = OutputHints::Activity;
  const bool deep = h.lifetime == Env::WLTH_LONG || h.lifetime == Env::WLTH_EXTREME;
  bool compaction = h.activity == Activity::kCompaction;
  if (h.activity == Activity::kUnknown) {
    if (h.priority == Env::IO_HIGH) return IoPurpose::kFlush;
    // During a stall both have the same priority.
    compaction =
        h.priority == Env::IO_LOW || (h.stalls() && (deep || h.preallocates || h.thread_compacts));
    if (!compaction && !h.stalls()) return IoPurpose::kUnknown;
  }
  if (!compaction) return IoPurpose::kFlush;
  if (deep) return IoPurpose::kDeep;
  if (h.lifetime == Env::WLTH_SHORT || h.lifetime == Env::WLTH_MEDIUM) return IoPurpose::kBase;
  // RocksDB tells no level: another style than level compaction. In a stall any compaction of such
  // a database helps to end it, since each reduces the number of sorted runs.
  return h.stalls() ? IoPurpose::kBase : IoPurpose::kDeep;
}

}  // namespace pulse::lsm
