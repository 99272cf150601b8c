// The directory a benchmark works in. It is marked as ours by a file, and nothing is ever removed
// from a directory without that mark. Not thread-safe; one process at a time, held by a lock.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::bench {

class BenchDir {
 public:
  // Creates `path` where it is missing. Refuses a directory with somebody else's files in it, one
  // in memory unless `allow_tmpfs`, one with less than `need_bytes` free, and one in use.
  static absl::StatusOr<BenchDir> Open(const std::string& path, bool allow_tmpfs,
                                       uint64_t need_bytes);

  const std::string& path() const { return path_; }
  const std::string& file_system() const { return file_system_; }
  std::string Sub(const std::string& name) const { return path_ + "/" + name; }

  // Removes the sub-directory or file `name` with all it holds, if it is there.
  absl::Status Remove(const std::string& name) const;

  // Removes the directory `path` as a whole if it is empty or has the mark; FailedPrecondition
  // while it is in use. Another one, or something else of that name, is left as it is.
  static absl::Status RemoveWhole(const std::string& path);

  // Removes everything whose name begins with `prefix`, which must not be empty.
  absl::Status RemoveAll(const std::string& prefix) const;

  // Makes `to` a copy of the database in `from`, both sub-directories. Tables never change once
  // written and are linked; all else is copied.
  absl::Status CloneDb(const std::string& from, const std::string& to) const;

 private:
  BenchDir() = default;

  std::string path_;
  std::string file_system_;
  UniqueFd mark_;
};

// Writes everything out and empties the page cache; where that is not permitted, asks the kernel to
// forget the files of `dir` at least. Returns how: "drop_caches" or "fadvise".
std::string DropPageCache(const std::string& dir);

// The bytes of all files directly in `dir` whose names end in `suffix`.
uint64_t BytesIn(const std::string& dir, const std::string& suffix);

}  // namespace pulse::bench
