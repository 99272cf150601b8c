// A whole compaction, done here for a database that is open elsewhere: DB::OpenAndCompact. What
// DComp offloads to a DPU (PulseDB II-C, the baseline of its evaluation).
//
// Thread-safe. Blocks for as long as the compaction takes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/options.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/placement/agent_tasks.h"
#include "services/lsm/placement/task_wire.h"

namespace pulse::lsm {

// What a task that runs in the database's own process is given.
struct TaskObjects {
  // The objects that RocksDB does not pass on: comparator, merge operator, filters and so on.
  rocksdb::CompactionServiceOptionsOverride objects;
  std::shared_ptr<rocksdb::FileSystem> fs;  // of the database
  // What they are called. A task is refused when the database, by its OPTIONS file, has others by
  // now: options are often wrapped or changed between PlaceCompactions and DB::Open.
  std::map<std::string, std::string> names;
};

// The objects of `family` with their names.
absl::StatusOr<TaskObjects> ObjectsOf(const rocksdb::DBOptions& db,
                                      const rocksdb::ColumnFamilyOptions& family,
                                      std::shared_ptr<rocksdb::FileSystem> fs);

// The result, for RocksDB on the database's side. `local` null: the database's objects are made by
// name, from its OPTIONS file and RocksDB's registry of objects, and its files read through the
// default file system.
// Unimplemented, with the reason, for what this process will never be able to compact: an object
// that its registry does not know, blob files, user-defined timestamps, two-phase commit, which
// RocksDB's remote compaction does not carry over. Cancelled when `canceled` was set.
absl::StatusOr<std::string> RunWholeTask(const TaskRequest& request, const TaskObjects* local,
                                         std::atomic<bool>* canceled);

// RunWholeTask for the requests of other processes.
TaskFunction RemoteTaskFunction();

// Of a database in the same process: what RocksDB's remote compaction cannot do with such a family,
// or "".
std::string WhyNotWhole(const rocksdb::DBOptions& db, const rocksdb::ColumnFamilyOptions& family);

}  // namespace pulse::lsm
