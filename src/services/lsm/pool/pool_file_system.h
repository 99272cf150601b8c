// The name space of layout=pool: a FileSystem between PulseFileSystem and the base, in which table
// and blob files are the pool's and everything else is the base's. It serves what was written;
// PulseFileSystem makes new ones.
//
// A name is looked for in the pool first, then in the base, so a directory may have tables in both:
// a database that was there before moves into the pool with its compactions. CURRENT is the guard's
// business (pool_guard.h): here it goes by its own name, and the guard is not seen.
//
// Threads: any. Errors: those of the base; of the pool, IOError and NoSpace.
#pragma once

#include <memory>

#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/pool/pool.h"

namespace pulse::lsm {

std::shared_ptr<FileSystem> NewPoolFileSystem(std::shared_ptr<FileSystem> base,
                                              std::shared_ptr<Pool> pool);

}  // namespace pulse::lsm
