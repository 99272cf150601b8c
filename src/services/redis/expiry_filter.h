// What a Store gives to RocksDB: the compaction filter that drops what has expired, and the Env of
// a pulse:// URI. Apart from the rest, as it is compiled as RocksDB's plug-ins are, without
// run-time type information.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/compaction_filter.h"

namespace rocksdb {
class Env;
}

namespace pulse::redis {

// Counts what it drops in `dropped`. Any thread.
std::shared_ptr<rocksdb::CompactionFilterFactory> NewExpiryFilterFactory(
    std::function<int64_t()> clock, std::shared_ptr<std::atomic<uint64_t>> dropped);

// Connects when the URI names a socket.
absl::StatusOr<std::shared_ptr<rocksdb::Env>> OpenEnv(const std::string& uri);

}  // namespace pulse::redis
