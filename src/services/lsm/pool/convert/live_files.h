// The files that a database's MANIFEST says it consists of, read without RocksDB: which options and
// comparators the database was made with makes no difference.
//
// Threads: any; blocks. Errors: of the system calls. DataLoss where the MANIFEST is missing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::convert {

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

}  // namespace pulse::convert
