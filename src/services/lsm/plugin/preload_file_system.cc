#include "services/lsm/plugin/preload_file_system.h"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

using Clock = std::chrono::steady_clock;
// An agent that is away is not asked again by each of the calls that one DB::Open makes.
constexpr auto kRetryAfter = std::chrono::seconds(1);

// What one process has. A process that is forked makes its own, and leaves its parent's alone: the
// mutex may be held by, and the agent's threads are, threads that only the parent has.
struct Process {
  explicit Process(bool pool_of_parent) : forked_from_pool(pool_of_parent) {}
  const pid_t pid = getpid();
  const bool forked_from_pool;  // the parent had a pool open
  std::atomic<bool> has_pool{false};

  std::mutex mu;
  std::shared_ptr<PulseFileSystem> opened;
  absl::Status failure;  // of the last try
  Clock::time_point retry_at;
  std::set<std::string> logged;
  std::map<FileLock*, FileSystem*> locks;  // of files that `opened` has locked
};

class Routed final : public RoutedFileSystem {
 public:
  Routed(std::string uri, absl::StatusOr<PathMatch> match, std::shared_ptr<FileSystem> base)
      : RoutedFileSystem(std::move(base)),
        uri_(std::move(uri)),
        match_(std::move(match)),
        process_(new Process(false)) {}

  ~Routed() override {
    Process* process = process_.load();
    if (process->pid == getpid()) delete process;
  }

  bool Matches(const std::string& path) const override {
    // Of a list that cannot be read every path is one: nothing goes past PulseDB unnoticed.
    return !match_.ok() || match_->Matches(path);
  }

  absl::StatusOr<std::shared_ptr<PulseFileSystem>> Pulse() const override {
    Process& process = OfThisProcess();
    std::lock_guard lock(process.mu);
    if (process.opened != nullptr) return process.opened;
    if (!process.failure.ok() && Clock::now() < process.retry_at) return process.failure;
    absl::StatusOr<std::shared_ptr<PulseFileSystem>> fs = OpenLocked(process);
    if (!fs.ok()) {
      process.failure = absl::Status(fs.status().code(),
                                     absl::StrCat("PULSE_URI=", uri_, ": ", fs.status().message()));
      process.retry_at = Clock::now() + kRetryAfter;
      if (process.logged.insert(std::string(process.failure.message())).second) {
        Log(LogLevel::kError, process.failure.message());
      }
      return process.failure;
    }
    process.opened = *std::move(fs);
    process.has_pool = process.opened->context().pool != nullptr;
    return process.opened;
  }

  // What RocksDB looks for by class is in the one of pulse://, where there is one.
  const rocksdb::Customizable* Inner() const override {
    Process& process = OfThisProcess();
    std::lock_guard lock(process.mu);
    return process.opened != nullptr ? process.opened.get() : target();
  }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.NewSequentialFile(path, options, out, dbg); });
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* out,
                               IODebugContext* dbg) override {
    return At(path,
              [&](FileSystem& fs) { return fs.NewRandomAccessFile(path, options, out, dbg); });
  }
  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.NewWritableFile(path, options, out, dbg); });
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.ReopenWritableFile(path, options, out, dbg); });
  }
  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options, std::unique_ptr<FSWritableFile>* out,
                             IODebugContext* dbg) override {
    // Write-ahead logs, which are plain files on either side.
    return Between(path, old_path, [&](FileSystem& fs) {
      return fs.ReuseWritableFile(path, old_path, options, out, dbg);
    });
  }
  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSRandomRWFile>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.NewRandomRWFile(path, options, out, dbg); });
  }
  IOStatus NewMemoryMappedFileBuffer(const std::string& path,
                                     std::unique_ptr<MemoryMappedFileBuffer>* out) override {
    return At(path, [&](FileSystem& fs) { return fs.NewMemoryMappedFileBuffer(path, out); });
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.NewDirectory(path, options, out, dbg); });
  }
  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.FileExists(path, options, dbg); });
  }
  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.GetChildren(path, options, out, dbg); });
  }
  IOStatus GetChildrenFileAttributes(const std::string& path, const IOOptions& options,
                                     std::vector<FileAttributes>* out,
                                     IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) {
      return fs.GetChildrenFileAttributes(path, options, out, dbg);
    });
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.DeleteFile(path, options, dbg); });
  }
  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.Truncate(path, size, options, dbg); });
  }
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.CreateDir(path, options, dbg); });
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.CreateDirIfMissing(path, options, dbg); });
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.DeleteDir(path, options, dbg); });
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.GetFileSize(path, options, size, dbg); });
  }
  IOStatus GetFileModificationTime(const std::string& path, const IOOptions& options,
                                   uint64_t* time, IODebugContext* dbg) override {
    return At(path,
              [&](FileSystem& fs) { return fs.GetFileModificationTime(path, options, time, dbg); });
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    return Between(from, to, [&](FileSystem& fs) { return fs.RenameFile(from, to, options, dbg); });
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override {
    return Between(from, to, [&](FileSystem& fs) { return fs.LinkFile(from, to, options, dbg); });
  }
  IOStatus NumFileLinks(const std::string& path, const IOOptions& options, uint64_t* count,
                        IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.NumFileLinks(path, options, count, dbg); });
  }
  IOStatus AreFilesSame(const std::string& first, const std::string& second,
                        const IOOptions& options, bool* same, IODebugContext* dbg) override {
    return Between(first, second, [&](FileSystem& fs) {
      return fs.AreFilesSame(first, second, options, same, dbg);
    });
  }
  IOStatus NewLogger(const std::string& path, const IOOptions& options,
                     std::shared_ptr<rocksdb::Logger>* out, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.NewLogger(path, options, out, dbg); });
  }
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes,
                        IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.GetFreeSpace(path, options, bytes, dbg); });
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* is,
                       IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) { return fs.IsDirectory(path, options, is, dbg); });
  }
#if PULSE_ROCKSDB_AT_LEAST(11, 5)
  IOStatus SyncFile(const std::string& path, const FileOptions& file_options,
                    const IOOptions& options, bool use_fsync, IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) {
      return fs.SyncFile(path, file_options, options, use_fsync, dbg);
    });
  }
#endif

  IOStatus LockFile(const std::string& path, const IOOptions& options, FileLock** lock,
                    IODebugContext* dbg) override {
    return At(path, [&](FileSystem& fs) {
      IOStatus s = fs.LockFile(path, options, lock, dbg);
      if (s.ok() && &fs != target()) {
        Process& process = OfThisProcess();
        std::lock_guard guard(process.mu);
        process.locks[*lock] = &fs;
      }
      return s;
    });
  }
  IOStatus UnlockFile(FileLock* lock, const IOOptions& options, IODebugContext* dbg) override {
    FileSystem* fs = target();
    {
      Process& process = OfThisProcess();
      std::lock_guard guard(process.mu);
      const auto it = process.locks.find(lock);
      if (it != process.locks.end()) {
        fs = it->second;
        process.locks.erase(it);
      }
    }
    return fs->UnlockFile(lock, options, dbg);
  }

  // These two do not say for which path. Databases that the list leaves out do not come here where
  // DB::Open is the plug-in's (preload_open.cc); others of them have small buffers for their
  // tables.
  FileOptions OptimizeForCompactionTableWrite(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& db_options) const override {
    const auto fs = Pulse();
    return fs.ok() ? (*fs)->OptimizeForCompactionTableWrite(options, db_options)
                   : target()->OptimizeForCompactionTableWrite(options, db_options);
  }
  FileOptions OptimizeForCompactionTableRead(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& db_options) const override {
    const auto fs = Pulse();
    return fs.ok() ? (*fs)->OptimizeForCompactionTableRead(options, db_options)
                   : target()->OptimizeForCompactionTableRead(options, db_options);
  }

 private:
  Process& OfThisProcess() const {
    Process* process = process_.load();
    if (process->pid != getpid()) {
      auto* own = new Process(process->has_pool || process->forked_from_pool);
      if (process_.compare_exchange_strong(process, own)) return *own;
      delete own;  // another thread was faster; `process` is its
    }
    return *process;
  }

  absl::StatusOr<std::shared_ptr<PulseFileSystem>> OpenLocked(const Process& process) const {
    if (!match_.ok()) return match_.status();
    if (process.forked_from_pool) {
      return absl::FailedPreconditionError(
          "the process that forked this one has the pool open; fork before the first database is "
          "opened, or start the other process by exec");
    }
    return PulseFileSystem::Open(uri_, target_);
  }

  // Not by ToIOStatus: a missing socket must not read as a missing file, after which RocksDB makes
  // a new one.
  static IOStatus Refusal(const absl::Status& status) {
    return IOStatus::IOError(std::string(status.message()));
  }

  template <typename Call>
  IOStatus At(const std::string& path, const Call& call) {
    if (!Matches(path)) return call(*target());
    const auto fs = Pulse();
    return fs.ok() ? call(**fs) : Refusal(fs.status());
  }

  // A call with two paths. In plain files either side sees what the other does, and pulse:// also
  // what is in flight; but nothing can be renamed or linked into or out of a pool.
  template <typename Call>
  IOStatus Between(const std::string& one, const std::string& other, const Call& call) {
    const bool ours = Matches(one);
    if (ours == Matches(other)) return At(one, call);
    const auto fs = Pulse();
    if (!fs.ok()) return Refusal(fs.status());
    if ((*fs)->context().pool != nullptr) {
      return IOStatus::NotSupported(absl::StrCat(
          "of ", one, " and ", other, " PULSE_MATCH means only one, which is in a pool"));
    }
    return call(**fs);
  }

  const std::string uri_;
  const absl::StatusOr<PathMatch> match_;
  mutable std::atomic<Process*> process_;
};

}  // namespace

std::shared_ptr<RoutedFileSystem> RoutedFileSystem::Create(std::string uri,
                                                           absl::StatusOr<PathMatch> match,
                                                           std::shared_ptr<FileSystem> base) {
  return std::make_shared<Routed>(std::move(uri), std::move(match), std::move(base));
}

}  // namespace pulse::lsm
