// Opening a RocksDB in every version that the server compiles against: from 10.0 on RocksDB puts
// the database into a unique_ptr. Blocks as RocksDB's own functions do.
#pragma once

#include <memory>
#include <string>

#include "rocksdb/db.h"

namespace pulse::redis {

template <typename Db>
rocksdb::Status OpenDatabaseAt(const rocksdb::Options& options, const std::string& path,
                               std::unique_ptr<Db>* db) {
  if constexpr (requires { Db::Open(options, path, db); }) {
    return Db::Open(options, path, db);
  } else {
    Db* raw = nullptr;
    const rocksdb::Status status = Db::Open(options, path, &raw);
    db->reset(raw);
    return status;
  }
}

// For reading alone: changes nothing.
template <typename Db>
rocksdb::Status OpenToReadAt(const rocksdb::Options& options, const std::string& path,
                             std::unique_ptr<Db>* db) {
  if constexpr (requires { Db::OpenForReadOnly(options, path, db); }) {
    return Db::OpenForReadOnly(options, path, db);
  } else {
    Db* raw = nullptr;
    const rocksdb::Status status = Db::OpenForReadOnly(options, path, &raw);
    db->reset(raw);
    return status;
  }
}

// The database at `path` followed by an instance that has its own files in `own`.
template <typename Db>
rocksdb::Status OpenSecondaryAt(const rocksdb::Options& options, const std::string& path,
                                const std::string& own, std::unique_ptr<Db>* db) {
  if constexpr (requires { Db::OpenAsSecondary(options, path, own, db); }) {
    return Db::OpenAsSecondary(options, path, own, db);
  } else {
    Db* raw = nullptr;
    const rocksdb::Status status = Db::OpenAsSecondary(options, path, own, &raw);
    db->reset(raw);
    return status;
  }
}

}  // namespace pulse::redis
