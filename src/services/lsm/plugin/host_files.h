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

// The buffer that WritableFileWriter gets for an output. It cannot do without: Pad (block_align,
// super_block_alignment_size) fills it in a loop, which never ends if there is no room. Two pages
// hold a block's trailer and the padding of up to a page after it, so that Pad need not flush
// within (RocksDB 7.8 computes a wrong checksum then). What does not fit is appended past the
// buffer. Smaller blocks are copied once more, within the core's cache, which is cheaper than the
// two calls of Append that they would need: on RocksDB 7.8.3 (Debian) a block takes 0.58 us against
// 0.72 without a buffer at 4000 bytes, 0.44 against 0.68 at 2000 and 1.2 against 1.0 at 16 KiB.
// With 64 KiB the last would take 5 us, since each byte of it is copied twice.
inline constexpr size_t kWriterBufferBytes = 8192;

// A table or blob file that is an OutputFile: a compaction or flush output, or, with layout=pool,
// any. `strict`: Sync and Close wait until it is durable. `start`: ends with the first append.
std::unique_ptr<FSWritableFile> NewOutputWritableFile(
    std::shared_ptr<FileContext> context, std::shared_ptr<OutputFile> output,
    const FileOptions& options, bool strict,
    std::shared_ptr<CompressionThreads::Start> start = nullptr);

// What kind of metadata a file is, and with it which failed outputs are held against a write of it.
enum class Metadata {
  kManifest,  // those that its records name
  kProgress,  // all in scope: the progress of a compaction names outputs in a format of its own
  kPointer,   // none: CURRENT names a MANIFEST only, other *.dbtmp no file
};

// A MANIFEST or the like: every append and sync passes the barrier of `dir` first. `offset`: the
// size of the file.
std::unique_ptr<FSWritableFile> NewBarrierWritableFile(std::shared_ptr<FileContext> context,
                                                       std::string dir, Metadata kind,
                                                       uint64_t offset,
                                                       std::unique_ptr<FSWritableFile> base);

// Opens a table or blob file for reading through `base`, the FileSystem beneath; compaction reads
// are served by the fetch stage. `output` is the file's writer while it is not durable yet, or
// null.
IOStatus NewFetchingRandomAccessFile(std::shared_ptr<FileContext> context, FileSystem* base,
                                     const std::string& path, const FileOptions& options,
                                     std::shared_ptr<OutputFile> output,
                                     std::unique_ptr<FSRandomAccessFile>* out, IODebugContext* dbg);

}  // namespace pulse::lsm
