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
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/pool/pool.h"

namespace pulse::lsm {

class PoolFileSystem : public rocksdb::FileSystemWrapper {
 public:
  PoolFileSystem(std::shared_ptr<rocksdb::FileSystem> base, std::shared_ptr<Pool> pool)
      : FileSystemWrapper(std::move(base)), pool_(std::move(pool)) {}

  static const char* kClassName() { return "PulsePoolFileSystem"; }
  const char* Name() const override { return kClassName(); }

  using IOOptions = rocksdb::IOOptions;
  using IODebugContext = rocksdb::IODebugContext;
  using FileOptions = rocksdb::FileOptions;
  using IOStatus = rocksdb::IOStatus;

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* out,
                             IODebugContext* dbg) override;
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
                               IODebugContext* dbg) override;
  // Not of a table or blob file.
  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* out,
                           IODebugContext* dbg) override;
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* out,
                              IODebugContext* dbg) override;
  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* out,
                             IODebugContext* dbg) override;
  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* out,
                           IODebugContext* dbg) override;
  IOStatus NewMemoryMappedFileBuffer(
      const std::string& path, std::unique_ptr<rocksdb::MemoryMappedFileBuffer>* out) override;
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* out, IODebugContext* dbg) override;
  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus GetChildren(const std::string& dir, const IOOptions& options,
                       std::vector<std::string>* out, IODebugContext* dbg) override;
  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<rocksdb::FileAttributes>* out,
                                     IODebugContext* dbg) override;
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override;
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override;
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override;
  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override;
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* dbg) override;
  IOStatus GetFileModificationTime(const std::string& path, const IOOptions& options,
                                   uint64_t* time, IODebugContext* dbg) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override;
  IOStatus NumFileLinks(const std::string& path, const IOOptions& options, uint64_t* count,
                        IODebugContext* dbg) override;
  IOStatus AreFilesSame(const std::string& first, const std::string& second,
                        const IOOptions& options, bool* same, IODebugContext* dbg) override;
  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* dbg) override;
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes,
                        IODebugContext* dbg) override;
  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* is_directory,
                       IODebugContext* dbg) override;
#if PULSE_ROCKSDB_AT_LEAST(11, 5)
  IOStatus SyncFile(const std::string& path, const FileOptions& file_options,
                    const IOOptions& options, bool use_fsync, IODebugContext* dbg) override;
#endif

 private:
  // The file at `path` in the pool, or kNoFile.
  store::FileId Find(const std::string& path) const;
  // The path in the base of what is not in the pool.
  std::string InBase(const std::string& path) const;
  // Before CURRENT or a MANIFEST of the directory leads to tables in the pool.
  IOStatus Guard(const std::string& path);
  IOStatus DropGuard(const std::string& dir);
  // Directories get other names, go, or are opened anew.
  void ForgetGuards();
  // InvalidArgument if `path` is the CURRENT of a database whose tables are in another pool.
  IOStatus CheckGuard(const std::string& path) const;
  // The files of a directory of the pool are nobody's any more: they go to one of another name.
  IOStatus SetAside(const std::string& name, bool numbered_only);
  IOStatus CheckFormer(const std::string& dir, const IOOptions& options, IODebugContext* dbg);
  IOStatus RenamePoolFile(store::FileId file, const std::string& from, const std::string& to,
                          const IOOptions& options, IODebugContext* dbg);
  IOStatus RenameDirectory(const std::string& from, const std::string& to, const IOOptions& options,
                           IODebugContext* dbg);

  const std::shared_ptr<Pool> pool_;
  std::mutex guards_mu_;
  // Directories with a guard that has been made durable since they were locked: a MANIFEST that is
  // begun anew by a compaction, say, then needs no fsync for it.
  std::set<std::string> durable_guards_;
};

}  // namespace pulse::lsm
