// The file objects that the plug-in hands to RocksDB.
//
// Ownership: each holds what it needs of the FileSystem alive. Threads: as RocksDB's base classes
// say.
#pragma once

#include <memory>
#include <string>

#include "services/lsm/core/host_fetch.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/placement/placement_context.h"
#include "services/lsm/pool/pool.h"

namespace pulse::lsm {

// What the files share with their FileSystem.
struct FileContext : PlacementContext {
  std::shared_ptr<OutputRegistry> registry;
  std::shared_ptr<FetchSource> fetch;  // null: fetch=off
  std::shared_ptr<Pool> pool;          // null: layout=files
};

// A table or blob file that is an OutputFile: a compaction or flush output, or, with layout=pool,
// any. `strict`: Sync and Close wait until it is durable.
std::unique_ptr<rocksdb::FSWritableFile> NewOutputWritableFile(std::shared_ptr<FileContext> context,
                                                               std::shared_ptr<OutputFile> output,
                                                               const rocksdb::FileOptions& options,
                                                               bool strict);

// What kind of metadata a file is, and with it which failed outputs are held against a write of it.
enum class Metadata {
  kManifest,  // those that its records name
  kProgress,  // all in scope: the progress of a compaction names outputs in a format of its own
  kPointer,   // none: CURRENT names a MANIFEST only, other *.dbtmp no file
};

// A MANIFEST or the like: every append and sync passes the barrier of `dir` first. `offset`: the
// size of the file.
std::unique_ptr<rocksdb::FSWritableFile> NewBarrierWritableFile(
    std::shared_ptr<FileContext> context, std::string dir, Metadata kind, uint64_t offset,
    std::unique_ptr<rocksdb::FSWritableFile> base);

// Opens a table or blob file for reading through `base`, the FileSystem beneath; compaction reads
// are served by the fetch stage. `output` is the file's writer while it is not durable yet, or
// null.
rocksdb::IOStatus NewFetchingRandomAccessFile(std::shared_ptr<FileContext> context,
                                              rocksdb::FileSystem* base, const std::string& path,
                                              const rocksdb::FileOptions& options,
                                              std::shared_ptr<OutputFile> output,
                                              std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
                                              rocksdb::IODebugContext* dbg);

// A directory whose fsync passes the barrier first.
std::unique_ptr<rocksdb::FSDirectory> NewBarrierDirectory(
    std::shared_ptr<FileContext> context, std::string dir,
    std::unique_ptr<rocksdb::FSDirectory> base);

}  // namespace pulse::lsm
