// ClosedDatabase: the directories of a RocksDB database that nobody has open, held by its LOCK
// so that nobody opens it meanwhile (RocksDB, with or without the plug-in, takes that lock first).
//
// Directories are named as the plug-in names them in a pool: absolute, symbolic links resolved.
// Threads: one. Blocks on the file system. Errors: InvalidArgument for what is no database,
// FailedPrecondition where it is open, DataLoss where files are missing or have the wrong size; all
// say what to do.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/lsm/pool/pool_guard.h"

namespace rocksdb {
class FileLock;
}  // namespace rocksdb

namespace pulse::convert {

// The files that a database's MANIFEST says it consists of, read without RocksDB: which options and
// comparators the database was made with makes no difference.
struct LiveFile {
  uint64_t number = 0;
  bool blob = false;
  uint64_t size = 0;  // of a table, exactly; of a blob file, at least
};

struct LiveFiles {
  // False when the MANIFEST has something that is not understood, such as by a newer RocksDB: then
  // `files` says nothing.
  bool known = false;
  std::vector<LiveFile> files;
};

// `current` is the path of CURRENT, by whatever name; the MANIFEST is beside it.
absl::StatusOr<LiveFiles> ReadLiveFiles(const std::string& current);

class ClosedDatabase {
 public:
  // `db_paths`: further directories in which it keeps tables. `read_only` makes no LOCK where there
  // is none, and so nobody has it open.
  static absl::StatusOr<std::unique_ptr<ClosedDatabase>> Open(
      const std::string& home, const std::vector<std::string>& db_paths, bool read_only);
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

  // Whether the MANIFEST is understood: else nothing is checked, and no file is Owned.
  bool known() const { return live_.known; }
  // Whether the MANIFEST names such a file, as far as its size tells.
  bool Owns(const std::string& name, uint64_t size) const;
  // Whether every file is there that the MANIFEST names, and has its size: in the pool, which has
  // `stored` (their sizes by name), or else as a plain file.
  absl::Status CheckFiles(const std::map<std::string, uint64_t>& stored) const;

 private:
  ClosedDatabase() = default;
  absl::Status Lock(bool read_only);

  std::vector<std::string> dirs_;
  std::optional<lsm::GuardInfo> guard_;
  LiveFiles live_;
  std::map<std::string, LiveFile> live_names_;
  rocksdb::FileLock* lock_ = nullptr;
};

// The sizes of the regular files of `dir` whose names layout=pool may have in a pool, by
// name. FailedPrecondition where one of RocksDB's names is a symbolic link: to delete that would
// not be to move the file.
absl::StatusOr<std::map<std::string, uint64_t>> ListPlainFiles(const std::string& dir);
// The size of the regular file at `path`, if there is one.
std::optional<uint64_t> SizeOfPlain(const std::string& path);

}  // namespace pulse::convert
