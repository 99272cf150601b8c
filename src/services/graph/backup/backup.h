// BackUpGraph: a copy of a database, beside a process that writes to it. The copy is a database:
// restoring is opening it, or copying it back.
//
// Runs and checkpoints never change once the manifest names them, and the log only grows. So what a
// manifest names, opened at one moment, and the log from its first segment on, up to where it ends
// then, is what a kill at that moment would have left. A commit that was answered before is in it.
//
// The copy gets its name when all of it is on the device, and was checked; a kill leaves the
// earlier backup of that name, or none. A later backup to the same place takes files that have not
// changed from the earlier one by hard links. It is refused where that one was written to since: it
// may have commits that the database lacks.
//
// Any thread; blocks on I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse::graph {

// In a backup: what it is, and what its files were, one a line. Nobody who opens the database reads
// it.
inline constexpr char kBackupFile[] = "BACKUP";

struct BackupOptions {
  // Runs and checkpoints are hard links to those of the database, where both are on one file
  // system: no space, and no protection against a device that damages what it holds.
  bool link = false;
  // Called with the directory of the copy before it gets its name; an error leaves it without.
  std::function<absl::Status(const std::string& directory)> check = {};
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // bytes
};

struct BackupReport {
  uint64_t files = 0;
  uint64_t bytes = 0;         // of all files
  uint64_t bytes_copied = 0;  // or cloned, where the file system shares extents
  uint64_t bytes_kept = 0;    // links to files of the earlier backup
  uint64_t bytes_linked = 0;  // links to files of the database
};

// NotFound: there is no database. AlreadyExists: `to` is something else than an earlier backup.
// FailedPrecondition: somebody writes to it, or it was written to. Aborted: the database replaced
// its files each time. Errors of the system otherwise.
absl::StatusOr<BackupReport> BackUpGraph(const std::string& from, const std::string& to,
                                         const BackupOptions& options);

}  // namespace pulse::graph
