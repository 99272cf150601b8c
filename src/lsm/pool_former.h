// What a directory of the pool holds that is no database's of that path any more: such as the
// tables of one that was deleted without the plug-in. A path says too little to delete by, since
// the directory may just not be mounted: the data is kept under another name of the pool.
//
// Threads: not two at once on one directory. Does not commit. Errors: the store's.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/store.h"

namespace pulse::lsm {

// What follows a directory's name in that of what a former one of the name has left.
inline constexpr char kFormer[] = "#former-";

// Whether RocksDB gives out names like this: its tables' begin with a number. Others are the
// user's.
bool IsNumbered(absl::string_view name);

// Moves those files of `directory` that `which` chooses to DIRECTORY#former-N. Names of files that
// have others as well, such as a checkpoint's, are dropped. Logs what was kept and how to delete
// it.
absl::Status SetAsideFormer(store::Store& store, const std::string& directory,
                            absl::FunctionRef<bool(const std::string& name)> which);

}  // namespace pulse::lsm
