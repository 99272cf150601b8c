// Reads a database with RocksDB: opens it read-only and checks the checksum of every block of its
// tables. Blocks for as long as that takes. Errors say what RocksDB says.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pulse::pool {

// `pool` is the pool that its tables are in, or empty for plain files. `db_paths` as in the options
// that it was opened with, or empty; everything else is taken from its OPTIONS file.
absl::Status VerifyDatabase(const std::string& dir, const std::vector<std::string>& db_paths,
                            const std::string& pool);

}  // namespace pulse::pool
