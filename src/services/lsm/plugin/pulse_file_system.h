// The RocksDB FileSystem behind pulse://. Wraps a base FileSystem and takes over what belongs to
// compaction and flush: outputs (persist stage), inputs (fetch stage), and the barrier before
// durable metadata. Everything else, the write-ahead log first of all, goes to the base untouched.
//
// Every virtual that names a path decides what an output still in flight means for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "services/lsm/plugin/host_files.h"

namespace pulse::lsm {

class PulseFileSystem : public rocksdb::FileSystemWrapper {
 public:
  static absl::StatusOr<std::unique_ptr<PulseFileSystem>> Open(
      const std::string& uri, std::shared_ptr<rocksdb::FileSystem> base);
  static absl::StatusOr<std::unique_ptr<PulseFileSystem>> Open(
      const Options& options, std::shared_ptr<rocksdb::FileSystem> base);

  static const char* kClassName() { return "PulseFileSystem"; }
  const char* Name() const override { return kClassName(); }

  FileContext& context() { return *context_; }
  const FileContext& context() const { return *context_; }

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
  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<rocksdb::FileAttributes>* out,
                                     IODebugContext* dbg) override;
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override;
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* dbg) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override;
  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* dbg) override;
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions& options,
                      IODebugContext* dbg) override;
#if PULSE_ROCKSDB_AT_LEAST(11, 5)
  IOStatus SyncFile(const std::string& path, const FileOptions& file_options,
                    const IOOptions& options, bool use_fsync, IODebugContext* dbg) override;
#endif

  FileOptions OptimizeForCompactionTableWrite(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& db_options) const override;
  FileOptions OptimizeForCompactionTableRead(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& db_options) const override;

 private:
  PulseFileSystem(std::shared_ptr<rocksdb::FileSystem> base, std::shared_ptr<FileContext> context)
      : FileSystemWrapper(base), context_(std::move(context)) {}

  // Waits until an output in flight at `path` is durable, if there is one.
  IOStatus Settle(const std::string& path) const;
  // A database was opened for writing: outputs and compactions will follow.
  void WarmUp();
  // A new output at `path`, in a file that the base made.
  IOStatus NewOutput(const std::string& path, const FileOptions& options,
                     std::unique_ptr<rocksdb::FSWritableFile>* out, IODebugContext* dbg);
  // With layout=pool: any table or blob file.
  IOStatus NewPoolTable(const std::string& path, const FileOptions& options,
                        std::unique_ptr<rocksdb::FSWritableFile>* out);
  bool SyncsAtOnce() const { return context_->session->options().sync == SyncMode::kStrict; }
  // With layout=files: a table or blob file that is no output.
  IOStatus NewPlainTable(const std::string& path, const FileOptions& options,
                         std::unique_ptr<rocksdb::FSWritableFile>* out, IODebugContext* dbg);

  const std::shared_ptr<FileContext> context_;
  std::mutex locks_mu_;
  std::map<rocksdb::FileLock*, std::string> locks_;  // the directories of open databases
};

}  // namespace pulse::lsm
