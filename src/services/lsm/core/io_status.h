// Between Abseil's statuses and RocksDB's, and a directory that does something before its syncs.
// Thread-safe; statuses never block.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "rocksdb/status.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {

IOStatus ToIOStatus(const absl::Status& status);
rocksdb::Status ToStatus(const absl::Status& status);

// `base`, each sync of which calls `before` first, and fails if that does.
std::unique_ptr<FSDirectory> NewHookedDirectory(std::unique_ptr<FSDirectory> base,
                                                std::function<IOStatus()> before);

}  // namespace pulse::lsm
