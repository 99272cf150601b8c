// TableCopy: copies table and blob files between plain files and a store, past the page cache where
// the file systems allow it, and compares them byte by byte.
//
// What it writes it reads back and compares, piece by piece; and it syncs. A copy counts only when
// its length is there: CopyIn declares it, and CopyOut cuts the file to it, as the last step after
// everything else is durable (the store's metadata: with the caller's next Commit).
//
// Not thread-safe; blocks. Errors: of the system calls, ENOSPC included; DataLoss when a medium
// does not give back what was written; what `advance` returns ends a copy at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/aligned_buffer.h"
#include "store/store.h"

namespace pulse::convert {

class TableCopy {
 public:
  // After each piece: so many bytes more.
  using Advance = absl::FunctionRef<absl::Status(uint64_t bytes)>;

  // `store` outlives it.
  explicit TableCopy(store::Store& store);

  // The first `size` bytes of the plain file into the empty file `to`.
  absl::Status CopyIn(const std::string& from, uint64_t size, store::FileId to, Advance advance);
  // Into the plain file `to`, which is made or replaced, with the owner and the mode of the file at
  // `like`. It is left behind if that fails.
  absl::Status CopyOut(store::FileId from, const std::string& to, const std::string& like,
                       Advance advance);
  // Whether both have the same bytes. `advance` has counted all of them only then.
  absl::StatusOr<bool> Same(const std::string& plain, store::FileId file, Advance advance);

 private:
  struct Stored;
  absl::StatusOr<Stored> Map(store::FileId file) const;
  absl::Status ReadStored(const Stored& file, uint64_t at, uint64_t n, uint8_t* data) const;

  store::Store& store_;
  store::AlignedBuffer data_;
  store::AlignedBuffer again_;
};

}  // namespace pulse::convert
