// RocksDB's file interface, and what differs between the versions that the plug-in compiles against
// (7.8 to 11.x).
#pragma once

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/version.h"

#define PULSE_ROCKSDB_AT_LEAST(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

namespace pulse::lsm {

// The file interface that the plug-in sits in, by its own names.
using rocksdb::FileAttributes;
using rocksdb::FileLock;
using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::FileSystemWrapper;
using rocksdb::FSDirectory;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSRandomRWFile;
using rocksdb::FSReadRequest;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::MemoryMappedFileBuffer;
using rocksdb::Slice;

// Whether a read serves a compaction's input. Where RocksDB does not say (before 8.3), a priority
// for the rate limiter does: only background work sets one.
inline bool IsCompactionRead(const rocksdb::IOOptions& options) {
#if PULSE_ROCKSDB_AT_LEAST(8, 3)
  if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) return true;
  if (options.io_activity != rocksdb::Env::IOActivity::kUnknown) return false;
#endif
  return options.rate_limiter_priority != rocksdb::Env::IO_TOTAL;
}

}  // namespace pulse::lsm
