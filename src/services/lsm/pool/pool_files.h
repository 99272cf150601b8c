// Files of the pool as RocksDB sees them: what was written already. (New files are OutputFiles.)
//
// Ownership: each pins its file, so that its segments stay although it is deleted. Threads: as
// RocksDB's base classes say.
#pragma once

#include <memory>
#include <string>

#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/pool/pool.h"

namespace pulse::lsm {

// With O_DIRECT if `options` say so and the pool's device can.
IOStatus NewPoolRandomAccessFile(std::shared_ptr<Pool> pool, store::FileId file,
                                 const std::string& path, const FileOptions& options,
                                 std::unique_ptr<FSRandomAccessFile>* out);
IOStatus NewPoolSequentialFile(std::shared_ptr<Pool> pool, store::FileId file,
                               const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSSequentialFile>* out);
// Reads and writes in place: an ingested file is given its sequence number.
IOStatus NewPoolRandomRWFile(std::shared_ptr<Pool> pool, store::FileId file,
                             const std::string& path, std::unique_ptr<FSRandomRWFile>* out);
// A file that is there, to be synced or cut short, and not appended to.
IOStatus ReopenPoolFile(std::shared_ptr<Pool> pool, store::FileId file, const std::string& path,
                        const FileOptions& options, std::unique_ptr<FSWritableFile>* out);

// As ToIOStatus; what the store has no room for is NoSpace.
IOStatus PoolStatus(const absl::Status& status);

}  // namespace pulse::lsm
