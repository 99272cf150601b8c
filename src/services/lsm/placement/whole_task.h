// A compaction that an external agent does all of, for a database that is open in another process:
// DB::OpenAndCompact. What DComp offloads to a DPU (PulseDB II-C, the baseline of its evaluation).
//
// Thread-safe. Blocks for as long as the compaction takes.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/options.h"
#include "services/lsm/placement/agent_tasks.h"
#include "services/lsm/placement/task_wire.h"

namespace pulse::lsm {

// The result, for RocksDB on the database's side. The database's objects are made by name, from its
// OPTIONS file and RocksDB's registry of objects, and its files are read through the default file
// system.
// Unimplemented, with the reason, for what this process will never be able to compact: an object
// that its registry does not know, blob files, user-defined timestamps, two-phase commit, which
// RocksDB's remote compaction does not carry over. Cancelled when `canceled` was set.
absl::StatusOr<std::string> RunCompactionTask(const TaskRequest& request,
                                              std::atomic<bool>* canceled);

// RunCompactionTask for a TaskRunner.
TaskFunction RemoteTaskFunction();

// What RocksDB's remote compaction cannot do with such a column family, or "".
std::string WhyNotOffloadable(const rocksdb::DBOptions& db,
                              const rocksdb::ColumnFamilyOptions& family);

}  // namespace pulse::lsm
