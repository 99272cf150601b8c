// Job: what Import and Export share: the database and the pool they hold, progress, and the files
// of both sides. Not thread-safe. Errors as in convert.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/lsm/pool/convert/closed_database.h"
#include "services/lsm/pool/convert/convert.h"
#include "services/lsm/pool/convert/table_copy.h"
#include "store/store.h"

namespace pulse::convert {

class Job {
 public:
  // Takes the database's LOCK and the pool. FailedPrecondition where the guard names another pool.
  static absl::StatusOr<std::unique_ptr<Job>> Open(const Options& options, bool into_pool);

  const Options& options() const { return options_; }
  const ClosedDatabase& database() const { return *database_; }
  // Its tables are in this pool: the guard says so.
  bool guarded() const { return database_->guard().has_value(); }
  store::Store& store() { return *store_; }
  TableCopy& copy() { return *copy_; }
  Report& report() { return report_; }

  // Files by name: their sizes, or what the store knows of them. A missing directory has none.
  using PlainFiles = std::map<std::string, uint64_t>;
  using StoredFiles = std::map<std::string, store::Attributes>;
  // Whether a file that was found in `dir`, plain or in the pool, is the database's, as far as can
  // be told. In its home all are that have RocksDB's names; elsewhere those that the MANIFEST
  // names, unless an earlier directory has such a one as well.
  bool Owns(const std::string& dir, const std::string& name, uint64_t size) const;
  // Those that layout=pool may have in the pool.
  absl::StatusOr<PlainFiles> Plain(const std::string& dir) const;
  absl::StatusOr<StoredFiles> Stored(const std::string& dir) const;

  // Whether the pool's directory of copies is there for any of the database's; deletes those.
  bool HasMoving() const;
  absl::Status DeleteMoving();

  absl::Status Step(const char* what);
  // The database is in its new layout: calls options().verify.
  absl::Status Switched();
  // Whether both are the same. Counts towards the progress only if they are.
  absl::StatusOr<bool> Same(const std::string& plain, store::FileId file);
  // As TableCopy's, with progress. A failed CopyOut leaves nothing.
  absl::Status CopyIn(const std::string& plain, uint64_t size, store::FileId file);
  absl::Status CopyOut(store::FileId file, const std::string& plain);

 private:
  explicit Job(const Options& options) : options_(options) {}
  absl::Status Advance(const char* what, uint64_t bytes);

  const Options& options_;
  std::unique_ptr<ClosedDatabase> database_;
  std::shared_ptr<store::Store> store_;
  std::unique_ptr<TableCopy> copy_;
  Report report_;
  uint64_t done_ = 0;
  bool switched_ = false;
};

}  // namespace pulse::convert
