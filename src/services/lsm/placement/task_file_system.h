// TaskFileSystem: what a task sees of the database that it compacts, which is open in another
// process. It can read everything but the write-ahead log, which a compaction does not need
// (RocksDB before 10 would replay it each time), and write only below its output directory, so that
// nothing that RocksDB does here changes the database. Of its information log only errors are kept.
//
// Thread-safe as its base.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {

class TaskFileSystem : public rocksdb::FileSystemWrapper {
 public:
  TaskFileSystem(std::shared_ptr<rocksdb::FileSystem> base, std::string output_dir)
      : FileSystemWrapper(std::move(base)), output_dir_(std::move(output_dir)) {}

  static const char* kClassName() { return "PulseTaskFileSystem"; }
  const char* Name() const override { return kClassName(); }

  using IOOptions = rocksdb::IOOptions;
  using IODebugContext = rocksdb::IODebugContext;
  using FileOptions = rocksdb::FileOptions;
  using IOStatus = rocksdb::IOStatus;

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
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override;
  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override;
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override;
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override;
  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override;
  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* dbg) override;
  IOStatus GetChildren(const std::string& dir, const IOOptions& options,
                       std::vector<std::string>* out, IODebugContext* dbg) override;
  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<rocksdb::FileAttributes>* out,
                                     IODebugContext* dbg) override;
  IOStatus NewLogger(const std::string& path, const IOOptions& options,
                     std::shared_ptr<rocksdb::Logger>* out, IODebugContext* dbg) override;

 private:
  // OK for what lies below the output directory.
  IOStatus CheckOurs(const std::string& path) const;

  const std::string output_dir_;
};

}  // namespace pulse::lsm
