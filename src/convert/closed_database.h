// ClosedDatabase: the directories of a RocksDB database that nobody has open, held by its LOCK
// so that nobody opens it meanwhile (RocksDB, with or without the plug-in, takes that lock first).
//
// Directories are named as the plug-in names them in a pool: absolute, symbolic links resolved.
// Threads: one. Blocks on the file system. Errors: InvalidArgument for what is no database,
// FailedPrecondition where it is open, DataLoss where files are missing or have the wrong size; all
// say what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lsm/pool_guard.h"

namespace rocksdb {
class FileLock;
}  // namespace rocksdb

namespace pulse::convert {

class ClosedDatabase {
 public:
  // `db_paths`: further directories in which it keeps tables.
  static absl::StatusOr<std::unique_ptr<ClosedDatabase>> Open(
      const std::string& home, const std::vector<std::string>& db_paths);
  ~ClosedDatabase();
  ClosedDatabase(const ClosedDatabase&) = delete;
  ClosedDatabase& operator=(const ClosedDatabase&) = delete;

  const std::string& home() const { return dirs_.front(); }
  // The home first, each once.
  const std::vector<std::string>& dirs() const { return dirs_; }
  // What its guard says, if its tables are in a pool.
  const std::optional<lsm::GuardInfo>& guard() const { return guard_; }
  // The path of its real CURRENT.
  std::string current() const;

  // Whether every file is there that the MANIFEST names, and has its size. `size_of` gives the size
  // of the file of this name, in whatever directory and layout. False when the MANIFEST is not
  // understood, and nothing was checked; one line is logged then.
  absl::StatusOr<bool> CheckFiles(
      absl::FunctionRef<std::optional<uint64_t>(const std::string& name)> size_of) const;

 private:
  ClosedDatabase() = default;

  std::vector<std::string> dirs_;
  std::optional<lsm::GuardInfo> guard_;
  rocksdb::FileLock* lock_ = nullptr;
};

// A plain file of a directory.
struct PlainFile {
  std::string name;
  uint64_t size = 0;
};
// The regular files of `dir`.
absl::StatusOr<std::vector<PlainFile>> ListPlainFiles(const std::string& dir);
absl::Status SyncDirectory(const std::string& dir);
// The size of the regular file at `path`, if there is one.
std::optional<uint64_t> SizeOfPlain(const std::string& path);

}  // namespace pulse::convert
