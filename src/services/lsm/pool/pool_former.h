// What a directory of the pool holds that is no database's of that path any more: such as the
// tables of one that was deleted without the plug-in. A path says too little to delete by, since
// the directory may just not be mounted: the data is kept under another name of the pool.
//
// Threads: not two at once on one directory. Does not commit. Errors: the store's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/store.h"

namespace pulse::lsm {

// What follows a directory's name in that of what a former one of the name has left.
inline constexpr char kFormer[] = "#former-";

// What follows a directory's name in that of the pool's directory with the copies of a conversion
// (convert/convert.h) that is under way, or was stopped.
inline constexpr char kMoving[] = "#moving";

// Whether RocksDB gives out names like this: a number, and what its tables and blob files end in,
// also on their way. Others are the user's.
bool IsNumbered(absl::string_view name);

// InvalidArgument where a part of this path ends as the names above do: in a pool, such a directory
// would be taken for one of them, and its tables for copies or for what is left over.
absl::Status CheckDirectoryName(absl::string_view directory);

// Whether `directory` has numbered files, other than the copies of a conversion: those have the
// same name in DIRECTORY#moving, too.
bool HasFormer(const store::Store& store, const std::string& directory);

// What becomes of names of files that have others as well.
enum class Shared : uint8_t {
  // They are kept, too: the database may be back, as one that is not mounted, and a checkpoint that
  // shares its tables gone by then. But for copies of a conversion.
  kKeep,
  // They are dropped: the directory was on its way, as a checkpoint's that was not finished.
  kDrop,
};

// Moves those files of `directory` that `which` chooses to DIRECTORY#former-N. Logs what was kept
// and how to delete it, and what was dropped.
absl::Status SetAsideFormer(store::Store& store, const std::string& directory, Shared shared,
                            absl::FunctionRef<bool(const std::string& name)> which);

// Of a guarded database: removes what a conversion that was stopped has left in DIRECTORY#moving.
// What cannot be removed stays, with a line in the log.
void DropCopies(store::Store& store, const std::string& directory);

}  // namespace pulse::lsm
