// The guard of a database whose tables are in a pool: what keeps a RocksDB without the plug-in, or
// the plug-in without the pool, from opening it and finding no tables.
//
// In such a directory CURRENT names a MANIFEST-000000, which RocksDB itself never makes. Its only
// record sets a comparator whose name says what to do; RocksDB refuses a database of another
// comparator than its own, shows that name, and has changed nothing by then. The real CURRENT is
// kept as CURRENT.pulse. A directory is guarded when its CURRENT has the guard's content, and not
// otherwise: a CURRENT.pulse beside a real CURRENT means nothing.
//
// Order, so that a cut at any point leaves either the database as it was or a guarded one: the
// guard's MANIFEST, a copy of the real CURRENT as CURRENT.pulse, and last, by one rename, the
// guard's CURRENT; each is durable before the next. Until a database is guarded, no durable
// MANIFEST that its CURRENT leads to names a table in the pool.
//
// Plain system calls; they block. Threads: not two at once on one directory, except IsGuarded and
// ReadGuard. Errors name the file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse::lsm {

inline constexpr char kCurrentName[] = "CURRENT";
inline constexpr char kRealCurrentName[] = "CURRENT.pulse";
inline constexpr char kGuardManifestName[] = "MANIFEST-000000";

struct GuardInfo {
  std::string pool;     // path of the pool, as of when the guard was written
  std::string pool_id;  // its identity
};

// Whether CURRENT in `dir` is a guard. An error when it is there and cannot be read: nobody may
// take that for "no".
absl::StatusOr<bool> IsGuarded(const std::string& dir);
// What the guard in `dir` says. NotFound if there is none, DataLoss if it cannot be read.
absl::StatusOr<GuardInfo> ReadGuard(const std::string& dir);
// Guards `dir`, durably; where the same guard is already, makes that durable, which may have been
// cut off, unless the caller has done so before (`known_durable`). FailedPrecondition where there
// is one of another pool.
absl::Status WriteGuard(const std::string& dir, const GuardInfo& info, bool known_durable = false);
// Makes the real CURRENT, if there is one, CURRENT again, durably: for a database that has no table
// in the pool any more.
absl::Status LiftGuard(const std::string& dir);
// Gives the open file `fd`, at `path`, the owner and the mode of the file at `like`, if there is
// one. A user who is not root keeps what he makes.
absl::Status TakeOwner(int fd, const std::string& path, const std::string& like);
// Deletes the guard in a directory whose database is gone, if there is one.
absl::Status DeleteGuard(const std::string& dir);

}  // namespace pulse::lsm
