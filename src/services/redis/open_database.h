// Opening a RocksDB in every version that the server compiles against: from 10.0 on RocksDB puts
// the database into a unique_ptr. Blocks as RocksDB's own functions do.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"

namespace pulse::redis {

// Whether two processes have the same directory open, whatever each calls it. Empty: nobody knows.
inline std::string DirectoryIdentity(const std::string& path) {
  struct stat facts {};
  if (path.empty() || stat(path.c_str(), &facts) != 0) return {};
  return absl::StrCat(facts.st_dev, ":", facts.st_ino);
}

// `open` takes a pointer to either.
template <typename Db, typename Open>
rocksdb::Status OpenInto(std::unique_ptr<Db>* db, const Open& open) {
  if constexpr (std::is_invocable_v<Open, std::unique_ptr<Db>*>) {
    return open(db);
  } else {
    Db* raw = nullptr;
    const rocksdb::Status status = open(&raw);
    db->reset(raw);
    return status;
  }
}

template <typename Db>
rocksdb::Status OpenDatabaseAt(const rocksdb::Options& options, const std::string& path,
                               std::unique_ptr<Db>* db) {
  return OpenInto(db, [&](auto* out) -> decltype(Db::Open(options, path, out)) {
    return Db::Open(options, path, out);
  });
}

// For reading alone: changes nothing.
template <typename Db>
rocksdb::Status OpenToReadAt(const rocksdb::Options& options, const std::string& path,
                             std::unique_ptr<Db>* db) {
  return OpenInto(db, [&](auto* out) -> decltype(Db::OpenForReadOnly(options, path, out)) {
    return Db::OpenForReadOnly(options, path, out);
  });
}

// The database at `path` followed by an instance that has its own files in `own`.
template <typename Db>
rocksdb::Status OpenSecondaryAt(const rocksdb::Options& options, const std::string& path,
                                const std::string& own, std::unique_ptr<Db>* db) {
  return OpenInto(db, [&](auto* out) -> decltype(Db::OpenAsSecondary(options, path, own, out)) {
    return Db::OpenAsSecondary(options, path, own, out);
  });
}

}  // namespace pulse::redis
