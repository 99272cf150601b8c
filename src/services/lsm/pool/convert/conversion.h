// Conversion: what Import and Export share: the database and the pool they hold, progress, and the
// files of both sides, which it copies past the page cache where the file systems allow it, and
// compares byte by byte.
//
// What it writes it reads back and compares, piece by piece; and it syncs. A copy counts only when
// its length is there: CopyIn declares it, and CopyOut cuts the file to it, as the last step after
// everything else is durable (the store's metadata: with the caller's next Commit).
//
// Not thread-safe; blocks. Errors as in convert.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/lsm/pool/convert/closed_database.h"
#include "services/lsm/pool/convert/convert.h"
#include "store/aligned_buffer.h"
#include "store/store.h"

namespace pulse::convert {

class Conversion {
 public:
  // Takes the database's LOCK and the pool. FailedPrecondition where the guard names another pool.
  static absl::StatusOr<std::unique_ptr<Conversion>> Open(const Options& options, bool into_pool);

  const Options& options() const { return options_; }
  const ClosedDatabase& database() const { return *database_; }
  // Its tables are in this pool: the guard says so.
  bool guarded() const { return database_->guard().has_value(); }
  store::Store& store() { return *store_; }
  Report& report() { return report_; }

  // What the store knows of files, by name. A missing directory has none.
  using StoredFiles = std::map<std::string, store::Attributes>;
  // Whether a file that was found in `dir`, plain or in the pool, is the database's, as far as can
  // be told. In its home all are that have RocksDB's names; elsewhere those that the MANIFEST
  // names, unless an earlier directory has such a one as well.
  bool Owns(const std::string& dir, const std::string& name, uint64_t size) const;
  absl::StatusOr<StoredFiles> Stored(const std::string& dir) const;

  // Whether the pool's directory of copies is there for any of the database's; deletes those.
  bool HasMoving() const;
  absl::Status DeleteMoving();

  // Tells options().on_step that it does `what` now, and has copied or compared `bytes` more.
  absl::Status Step(const char* what, uint64_t bytes = 0);
  // The database is in its new layout: calls options().verify.
  absl::Status Switched();
  // Whether both are the same. Counts towards the progress only if they are.
  absl::StatusOr<bool> Same(const std::string& plain, store::FileId file);
  // The error for a plain file that is not the same as the pool's, which the database reads.
  absl::Status Differs(const std::string& plain) const;
  // The first `size` bytes of the plain file into the empty file `file`.
  absl::Status CopyIn(const std::string& plain, uint64_t size, store::FileId file);
  // Into the plain file, which is made or replaced, with the owner and the mode of the database's
  // CURRENT. Leaves nothing if that fails.
  absl::Status CopyOut(store::FileId file, const std::string& plain);

 private:
  struct Mapped;
  explicit Conversion(const Options& options);
  absl::StatusOr<Mapped> Map(store::FileId file) const;
  absl::Status ReadMapped(const Mapped& file, uint64_t at, uint64_t n, uint8_t* data) const;
  absl::Status WritePieces(const Mapped& file, const std::string& plain);

  const Options& options_;
  std::unique_ptr<ClosedDatabase> database_;
  std::shared_ptr<store::Store> store_;
  store::AlignedBuffer data_;
  store::AlignedBuffer again_;
  Report report_;
  uint64_t done_ = 0;
  bool switched_ = false;
};

}  // namespace pulse::convert
