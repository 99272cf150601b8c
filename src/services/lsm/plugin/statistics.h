// The Statistics behind pulse::NewStatistics: another's, and a FileSystem's counters beside them.
// Thread-safe; does not block.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "pulse/rocksdb.h"
#include "rocksdb/statistics.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {

// What GetStats counts, by name; without what is of the moment.
std::map<std::string, uint64_t> TickersOf(const Stats& stats);

// `fs` is one of this plug-in's.
std::shared_ptr<rocksdb::Statistics> NewStatistics(std::shared_ptr<FileSystem> fs,
                                                   std::shared_ptr<rocksdb::Statistics> base);

}  // namespace pulse::lsm
