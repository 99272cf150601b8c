// The directories that whole compactions put their outputs into: DB/pulse-tasks/TOKEN-N, one for
// each task, with a name that no task has had before, so that whatever still writes for an earlier
// one writes elsewhere. TOKEN is drawn once in a process.
//
// Thread-safe, as the FileSystem is. Blocks for file-system calls.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "lsm/rocksdb_compat.h"

namespace pulse::lsm {

class TaskDirectories {
 public:
  explicit TaskDirectories(rocksdb::FileSystem* fs) : fs_(fs) {}

  // A new one, empty, for the database in `home`. What killed processes left there goes first, once
  // for each database: it is open here, and so nobody else's.
  absl::StatusOr<std::string> Make(const std::string& home);
  // Removes it with all that is in it; the parent goes with its last. Best effort.
  void Remove(const std::string& dir);

 private:
  void Sweep(const std::string& parent);

  rocksdb::FileSystem* const fs_;
  std::mutex mu_;
  std::set<std::string> swept_;
};

}  // namespace pulse::lsm
