// The output directories of tasks, DB/pulse-tasks/TOKEN-N. Each task has one, with
// a name that no task has had before, so that a writer of an earlier task cannot write into it.
// TOKEN is drawn once in a process.
//
// Thread-safe, as the FileSystem is. Blocks for file-system calls.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {

// A new one, empty, for the database in `home`.
absl::StatusOr<std::string> MakeTaskDirectory(FileSystem* fs, const std::string& home);
// Removes what killed processes left for the database in `home`. The caller holds its LOCK, so no
// other process uses them; those of this process stay.
void SweepTaskDirectories(FileSystem* fs, const std::string& home);
// Removes it with all that is in it; the parent goes with its last. Best effort.
void RemoveTaskDirectory(FileSystem* fs, const std::string& dir);

}  // namespace pulse::lsm
