// TaskFileSystem: what a task sees of the database that it compacts, which is open in another
// process. It can read everything but the write-ahead log, which a compaction does not need
// (RocksDB before 10 would replay it each time), and write only below its output directory, so that
// nothing that RocksDB does here changes the database. Of its information log only errors are kept.
//
// Thread-safe as its base.
#pragma once

#include <memory>
#include <string>

#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {

std::shared_ptr<FileSystem> NewTaskFileSystem(std::shared_ptr<FileSystem> base,
                                              std::string output_dir);

}  // namespace pulse::lsm
