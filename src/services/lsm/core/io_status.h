// Between Abseil's statuses and RocksDB's. Thread-safe, never blocks.
#pragma once

#include "absl/status/status.h"
#include "rocksdb/status.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {

IOStatus ToIOStatus(const absl::Status& status);
rocksdb::Status ToStatus(const absl::Status& status);

}  // namespace pulse::lsm
