#include "services/lsm/plugin/pulse_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/core/plain_target.h"
#include "services/lsm/core/thread_activity.h"
#include "services/lsm/placement/task_directory.h"
#include "services/lsm/placement/task_wire.h"
#include "services/lsm/pool/pool_file_system.h"
#include "services/lsm/pool/pool_files.h"
#include "services/lsm/pool/pool_target.h"

namespace pulse::lsm {
namespace {

// Marks file options that came out of OptimizeForCompactionTableWrite: with it, and only then, a
// new table or blob file is a compaction or flush output. Ingestion, checkpoints, backups and
// SstFileWriter use other options, and keep their synchronous Sync.
constexpr char kOutputMark[] = "pulse.output";

// The mark once more, for an Env that is wrapped (EnvWrapper): wrappers hand on only the EnvOptions
// part of file options, and the property bag is lost. To RocksDB the value means what 0 means,
// since no file grows by so much between two syncs.
constexpr uint64_t kOutputBytesPerSync = ~uint64_t{0} - 0x70756c73;

bool IsTableOrBlob(const std::string& path) {
  const absl::string_view name = NameOf(path);
  return absl::EndsWith(name, ".sst") || absl::EndsWith(name, ".blob");
}

// Named by RocksDB, as 000012.sst, and not by a user.
bool HasNumberForName(const std::string& path) {
  const absl::string_view name = NameOf(path);
  const size_t dot = name.find('.');
  return dot != 0 && dot != absl::string_view::npos &&
         std::all_of(name.begin(), name.begin() + static_cast<ptrdiff_t>(dot),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

// The metadata that waits at the barrier, or nothing. CURRENT is written as NUMBER.dbtmp and
// renamed, a compaction's progress (from 11.x on) likewise with a name of its own.
std::optional<Metadata> MetadataAt(const std::string& path) {
  const absl::string_view name = NameOf(path);
  if (absl::StartsWith(name, "MANIFEST-")) return Metadata::kManifest;
  if (absl::StartsWith(name, "COMPACTION_PROGRESS-")) return Metadata::kProgress;
  if (name == "CURRENT" || absl::EndsWith(name, ".dbtmp")) return Metadata::kPointer;
  return std::nullopt;
}

// Without the plug-in each compaction allocates and frees buffers for its reads and writes, of up
// to 2 MiB each. From that glibc's malloc learns (its dynamic threshold) to serve what is as large
// from the heap. If it does not, each block of a memtable is a mapping of its own, faulted in page
// by page and returned to the kernel with the memtable: a Put takes a fifth longer. The plug-in has
// no such buffers, so it lets malloc see one. To other allocators it means nothing.
void LetMallocSeeLargeBuffers() {
  void* volatile buffer =
      malloc((2 << 20) + (64 << 10));  // volatile: or the pair is optimised away
  free(buffer);
}

// Outputs and fetched inputs are opened by path, past `base`: that must be where it would put them,
// in the same bytes.
absl::Status CheckBase(const FileSystem& base) {
  for (const rocksdb::Customizable* f = &base; f != nullptr; f = f->Inner()) {
    for (const char* name :
         {"EncryptedFileSystem", "ChrootFS", "RemapFileSystem", "ReadOnlyFileSystem"}) {
      if (!f->IsInstanceOf(name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("pulse:// cannot work on top of ", name,
                       ": outputs and compaction inputs would go past it; put it above pulse://"));
    }
    if (f->IsInstanceOf("PosixFileSystem")) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("pulse:// cannot work on top of ", base.Name(),
                   ": it writes plain files, and needs PosixFileSystem at the bottom"));
}

// RocksDB keeps the errno in words only.
bool IsAnotherDisk(const IOStatus& s) {
  return absl::StrContains(s.ToString(), std::strerror(EXDEV));
}

// Moves a file by copying it, after renaming it has failed with `failure`.
IOStatus MoveTaskOutput(FileSystem* fs, const std::string& from, const std::string& to,
                        const IOStatus& failure) {
  const IOOptions io;
  std::unique_ptr<FSSequentialFile> in;
  std::unique_ptr<FSWritableFile> out;
  if (!fs->NewSequentialFile(from, FileOptions(), &in, nullptr).ok()) return failure;
  IOStatus s = fs->NewWritableFile(to, FileOptions(), &out, nullptr);
  std::string buffer(size_t{1} << 20, '\0');
  for (Slice piece; s.ok();) {
    s = in->Read(buffer.size(), io, &piece, buffer.data(), nullptr);
    if (!s.ok() || piece.empty()) break;
    s = out->Append(piece, io, nullptr);
  }
  if (s.ok()) s = out->Fsync(io, nullptr);
  if (s.ok()) s = out->Close(io, nullptr);
  // Whose source is left is removed with the task's directory.
  if (!s.ok()) fs->DeleteFile(to, io, nullptr).PermitUncheckedError();
  return s;
}

bool IsMarked(const FileOptions& options) {
  return options.bytes_per_sync == kOutputBytesPerSync ||
         options.io_options.property_bag.count(kOutputMark) != 0;
}

class OffloadingFileSystem final : public PulseFileSystem {
 public:
  using PulseFileSystem::PulseFileSystem;

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* out, IODebugContext* dbg) override {
    // Sequential readers go to the physical end of the file, which is right only once it is closed.
    IOStatus s = Settle(path);
    return s.ok() ? target()->NewSequentialFile(path, options, out, dbg) : s;
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* out,
                               IODebugContext* dbg) override {
    if (!IsTableOrBlob(path)) return target()->NewRandomAccessFile(path, options, out, dbg);
    std::shared_ptr<OutputFile> output = context_->registry->Find(path);
    if (output != nullptr && options.use_mmap_reads) {
      // A mapping takes the file's size as it is now.
      PULSE_RETURN_IF_ERROR(ToIOStatus(output->WaitDurable()));
      output = nullptr;
    }
    // A file of a pool is read, not mapped.
    if (options.use_mmap_reads && context_->pool == nullptr) {
      return target()->NewRandomAccessFile(path, options, out, dbg);
    }
    return NewFetchingRandomAccessFile(context_, target(), path, options, std::move(output), out,
                                       dbg);
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    if (context_->pool != nullptr && Pool::MayHold(NameOf(path))) {
      return NewPoolTable(path, options, out);
    }
    if (IsTableOrBlob(path)) {
      return IsMarked(options) ? NewOutput(path, options, out, dbg)
                               : NewPlainTable(path, options, out, dbg);
    }
    const std::optional<Metadata> kind = MetadataAt(path);
    if (!kind) return target()->NewWritableFile(path, options, out, dbg);
    if (kind == Metadata::kManifest) WarmUp();
    std::unique_ptr<FSWritableFile> base;
    IOStatus s = target()->NewWritableFile(path, options, &base, dbg);
    if (s.ok()) {
      *out = NewBarrierWritableFile(context_, DirectoryOf(CanonicalPath(path)), *kind, 0,
                                    std::move(base));
    }
    return s;
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    IOStatus s = Settle(path);
    if (!s.ok()) return s;
    if (context_->pool != nullptr && Pool::MayHold(NameOf(path)) &&
        !target()->FileExists(path, options.io_options, dbg).ok()) {
      return NewPoolTable(path, options, out);  // as a plain one would be made
    }
    std::unique_ptr<FSWritableFile> base;
    s = target()->ReopenWritableFile(path, options, &base, dbg);
    if (!s.ok()) return s;
    const std::optional<Metadata> kind = MetadataAt(path);
    if (!kind) {
      *out = std::move(base);
      return s;
    }
    if (kind == Metadata::kManifest) WarmUp();
    uint64_t size = 0;
    s = target()->GetFileSize(path, options.io_options, &size, dbg);
    if (s.ok()) {
      *out = NewBarrierWritableFile(context_, DirectoryOf(CanonicalPath(path)), *kind, size,
                                    std::move(base));
    }
    return s;
  }

  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options, std::unique_ptr<FSWritableFile>* out,
                             IODebugContext* dbg) override {
    // Used for recycled logs only, which are never in flight here.
    return target()->ReuseWritableFile(path, old_path, options, out, dbg);
  }

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSRandomRWFile>* out, IODebugContext* dbg) override {
    IOStatus s = Settle(path);
    return s.ok() ? target()->NewRandomRWFile(path, options, out, dbg) : s;
  }

  IOStatus NewMemoryMappedFileBuffer(const std::string& path,
                                     std::unique_ptr<MemoryMappedFileBuffer>* out) override {
    IOStatus s = Settle(path);
    return s.ok() ? target()->NewMemoryMappedFileBuffer(path, out) : s;
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* out, IODebugContext* dbg) override {
    std::unique_ptr<FSDirectory> base;
    IOStatus s = target()->NewDirectory(path, options, &base, dbg);
    if (!s.ok()) return s;
    // A name inside gives the directory's own canonical spelling. Its sync passes the barrier
    // first.
    const std::string dir = DirectoryOf(CanonicalPath(path + "/x"));
    *out = NewHookedDirectory(std::move(base), [context = context_, dir] {
      return ToIOStatus(context->registry->BeforeDirectorySync(dir));
    });
    return s;
  }

  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<FileAttributes>* out,
                                     IODebugContext* dbg) override {
    IOStatus s = target()->GetChildrenFileAttributes(dir, options, out, dbg);
    if (!s.ok()) return s;
    for (FileAttributes& a : *out) {
      if (auto output = context_->registry->Find(dir + "/" + a.name)) a.size_bytes = output->size();
    }
    return s;
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    std::shared_ptr<OutputFile> output = context_->registry->Find(path);
    if (output == nullptr) return target()->DeleteFile(path, options, dbg);
    IOStatus s;
    {
      const OutputFile::PathGuard guard(output.get());
      s = target()->DeleteFile(path, options, dbg);
      // The agent finishes with its descriptor by itself; nobody will ask for this output again.
      // But one whose file is still there is still part of the barrier.
      if (s.ok()) context_->registry->Forget(output);
    }
    // Now: who waits for space makes no other output that would. Not under the guard, for which a
    // rescue of another output may wait.
    output.reset();
    if (s.ok()) context_->registry->DropReleased();
    return s;
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override {
    IOStatus s = Settle(path);
    return s.ok() ? target()->Truncate(path, size, options, dbg) : s;
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* dbg) override {
    if (auto output = context_->registry->Find(path)) {
      // The physical size is the preallocated one until the file is closed.
      *size = output->size();
      return IOStatus::OK();
    }
    return target()->GetFileSize(path, options, size, dbg);
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    IOStatus s = Settle(from);
    if (const std::optional<Metadata> kind = MetadataAt(to); s.ok() && kind) {
      NamedFiles named;
      named.all = kind != Metadata::kPointer;  // a CURRENT's MANIFEST was checked as it was written
      s = ToIOStatus(context_->registry->BeforeMetadata(DirectoryOf(CanonicalPath(to)), named,
                                                        /*ends_job=*/false));
      if (s.ok() && context_->pool != nullptr) s = ToIOStatus(context_->pool->CommitNames());
    }
    if (!s.ok()) return s;
    const std::shared_ptr<OutputFile> replaced = context_->registry->Find(to);
    const OutputFile::PathGuard guard(replaced.get());
    s = target()->RenameFile(from, to, options, dbg);
    // Another disk (db_paths, cf_paths): RocksDB would give up the whole database over it.
    if (!s.ok() && IsTableOrBlob(from) && IsInTaskDirectory(from) && IsAnotherDisk(s)) {
      s = MoveTaskOutput(target(), from, to, s);
    }
    if (s.ok() && replaced != nullptr) context_->registry->Forget(replaced);
    return s;
  }

  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override {
    IOStatus s = Settle(from);
    return s.ok() ? target()->LinkFile(from, to, options, dbg) : s;
  }

  IOStatus LockFile(const std::string& path, const IOOptions& options, FileLock** lock,
                    IODebugContext* dbg) override {
    IOStatus s = target()->LockFile(path, options, lock, dbg);
    if (s.ok() && NameOf(path) == "LOCK") {
      const std::string dir = DirectoryOf(CanonicalPath(path));
      context_->registry->OnLocked(dir);
      {
        std::lock_guard guard(locks_mu_);
        locks_[*lock] = dir;
      }
      // Wherever its compactions are done now.
      SweepTaskDirectories(this, dir);
    }
    return s;
  }

  IOStatus UnlockFile(FileLock* lock, const IOOptions& options, IODebugContext* dbg) override {
    std::string dir;
    {
      std::lock_guard guard(locks_mu_);
      const auto it = locks_.find(lock);
      if (it != locks_.end()) {
        dir = std::move(it->second);
        locks_.erase(it);
      }
    }
    // Before the lock is free, or it could be taken anew in between.
    if (!dir.empty()) {
      context_->registry->OnUnlocked(dir);
      context_->NotifyClosed(dir);
    }
    return target()->UnlockFile(lock, options, dbg);
  }

#if PULSE_ROCKSDB_AT_LEAST(11, 5)
  IOStatus SyncFile(const std::string& path, const FileOptions& file_options,
                    const IOOptions& options, bool use_fsync, IODebugContext* dbg) override {
    IOStatus s = Settle(path);
    return s.ok() ? target()->SyncFile(path, file_options, options, use_fsync, dbg) : s;
  }
#endif

  FileOptions OptimizeForCompactionTableWrite(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& db_options) const override {
    FileOptions o = target()->OptimizeForCompactionTableWrite(options, db_options);
    // No output is ever the agent's: as without the plug-in.
    if (context_->session->options().placement == PlacementMode::kHost) return o;
    o.io_options.property_bag[kOutputMark] = "1";
    o.writable_file_max_buffer_size = kWriterBufferBytes;
    LetMallocSeeLargeBuffers();
    // The stream does its own direct I/O; RocksDB's would copy everything into its buffer.
    o.use_direct_writes = false;
    o.use_mmap_writes = false;
    // The stream's own sync interval takes their place.
    o.bytes_per_sync = kOutputBytesPerSync;
    o.strict_bytes_per_sync = false;
    return o;
  }

  FileOptions OptimizeForCompactionTableRead(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& db_options) const override {
    // RocksDB asks when it makes a compaction job, on the thread that will run it.
    ThreadActivity::BeginCompactionJob();
    FileOptions o = target()->OptimizeForCompactionTableRead(options, db_options);
    if (context_->fetch != nullptr) {
      // How far ahead to read is the fetch stage's business; what RocksDB copies at a time should
      // fit into the core's cache.
      o.compaction_readahead_size = context_->session->options().readahead;
    }
    return o;
  }

 private:
  // Waits until an output in flight at `path` is durable, if there is one.
  IOStatus Settle(const std::string& path) const {
    const std::shared_ptr<OutputFile> output = context_->registry->Find(path);
    return output == nullptr ? IOStatus::OK() : ToIOStatus(output->WaitDurable());
  }

  // A database was opened for writing: outputs and compactions will follow.
  void WarmUp() {
    if (context_->session->options().placement == PlacementMode::kHost) return;
    context_->session->Prewarm();
    if (context_->fetch != nullptr) context_->fetch->Warm();
  }

  // RocksDB asks nothing, so nothing else would tell that an option has no effect.
  void TellIfNotPlaced(const std::string& path) const {
    const Options& o = context_->session->options();
    const bool asked = o.placement == PlacementMode::kOffloadAll ||
                       o.placement == PlacementMode::kAdaptive || o.flushes == FlushMode::kAgent ||
                       o.flushes == FlushMode::kAdaptive;
    if (asked && !context_->placed) {
      LogOnce("not placed",
              absl::StrCat("placement= and flushes= of the URI have no effect on the database of ",
                           path, ": nothing has called PlaceCompactions for it. A program calls ",
                           "it before DB::Open, in Java env.place(options); a preloaded DB::Open ",
                           "does it before RocksDB 10"));
    }
    if (o.agent_compresses && !context_->compresses) {
      LogOnce("not compressed",
              absl::StrCat("compression=agent of the URI has no effect on the database of ", path,
                           ", unless it sets parallel_threads itself: nothing has called ",
                           "CompressOnAgent for it. A program calls that, or PlaceCompactions, ",
                           "before DB::Open, in Java env.place(options) or env.compress(options); ",
                           "a preloaded DB::Open does it"));
    }
  }

  // A new output at `path`, in a file that the base made.
  IOStatus NewOutput(const std::string& path, const FileOptions& options,
                     std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) {
    TellIfNotPlaced(path);
    // By the base, which knows with what rights.
    IOStatus made;
    const auto make =
        [&](const std::string& canonical) -> absl::StatusOr<std::shared_ptr<OutputTarget>> {
      std::unique_ptr<FSWritableFile> empty;
      made = target()->NewWritableFile(path, FileOptions(), &empty, dbg);
      if (made.ok()) made = empty->Close(IOOptions(), dbg);
      if (!made.ok()) return absl::UnknownError(made.ToString());
      return OpenPlainTarget(canonical, context_->session->options().io);
    };
    const bool on_agent = context_->AgentDoesIo();
    auto output = context_->registry->Create(
        path, make, on_agent ? OutputFile::Writer::kAgent : OutputFile::Writer::kHost);
    if (!made.ok()) return made;
    if (!output.ok()) return ToIOStatus(output.status());
    *out = NewOutputWritableFile(context_, *std::move(output), options, !on_agent || SyncsAtOnce(),
                                 on_agent ? StartOfTable(path) : nullptr);
    return IOStatus::OK();
  }

  // With layout=pool: any table or blob file.
  IOStatus NewPoolTable(const std::string& path, const FileOptions& options,
                        std::unique_ptr<FSWritableFile>* out) {
    const std::shared_ptr<Pool>& pool = context_->pool;
    const auto make = [&](const std::string& canonical) {
      return CreatePoolTarget(pool, canonical, context_->session->options().io);
    };
    if (IsMarked(options)) TellIfNotPlaced(path);
    const bool marked = IsMarked(options) && context_->AgentDoesIo();
    auto output = context_->registry->Create(
        path, make, marked ? OutputFile::Writer::kAgent : OutputFile::Writer::kHost);
    if (!output.ok()) return PoolStatus(output.status());
    *out = NewOutputWritableFile(context_, *std::move(output), options, !marked || SyncsAtOnce(),
                                 marked ? StartOfTable(path) : nullptr);
    return IOStatus::OK();
  }

  // RocksDB makes the builder of an output next, and with it the threads that compress its blocks.
  std::shared_ptr<CompressionThreads::Start> StartOfTable(const std::string& path) const {
    if (context_->compression == nullptr || !absl::EndsWith(NameOf(path), ".sst")) return nullptr;
    const HostSession::Connection agent = context_->session->connection();
    const bool embedded = agent != nullptr && !agent->dead && agent->link->embedded();
    return embedded ? context_->compression->Begin() : nullptr;
  }

  bool SyncsAtOnce() const { return context_->session->options().sync == SyncMode::kStrict; }
  // With layout=files: a table or blob file that is no output.
  IOStatus NewPlainTable(const std::string& path, const FileOptions& options,
                         std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) {
    const std::shared_ptr<OutputFile> old = context_->registry->Find(path);
    const bool in_flight = old != nullptr && context_->registry->InFlight(*old);
    // The agent must not write into the new file, nor that of a process that was killed and has
    // left a file of this number behind.
    if (in_flight || HasNumberForName(path)) {
      const OutputFile::PathGuard guard(in_flight ? old.get() : nullptr);
      IOStatus s = target()->DeleteFile(path, options.io_options, dbg);
      if (!s.ok() && !s.IsNotFound() && !s.IsPathNotFound()) return s;
      if (in_flight) context_->registry->Forget(old);
    }
    IOStatus s = target()->NewWritableFile(path, options, out, dbg);
    if (s.ok() && old != nullptr) context_->registry->Forget(old);
    return s;
  }

  std::mutex locks_mu_;
  std::map<FileLock*, std::string> locks_;  // the directories of open databases
};

}  // namespace

absl::StatusOr<std::unique_ptr<PulseFileSystem>> PulseFileSystem::Open(
    const std::string& uri, std::shared_ptr<FileSystem> base) {
  PULSE_ASSIGN_OR_RETURN(auto options, ParseOptions(uri));
  return Open(options, std::move(base));
}

absl::StatusOr<std::unique_ptr<PulseFileSystem>> PulseFileSystem::Open(
    const Options& options, std::shared_ptr<FileSystem> base) {
  if (absl::Status st = CheckBase(*base); !st.ok()) return st;
  auto context = std::make_shared<FileContext>();
  if (options.layout == Layout::kPool) {
    PULSE_ASSIGN_OR_RETURN(context->pool, Pool::Open(options.pool));
    context->in_pool = true;
    base = NewPoolFileSystem(std::move(base), context->pool);
  }
  PULSE_ASSIGN_OR_RETURN(context->session, HostSession::Open(options));
  context->registry = std::make_shared<OutputRegistry>(context->session);
  if (options.agent_compresses) {
    context->compression =
        std::make_unique<CompressionThreads>(options.agent_cpus, &context->session->counters());
  }
  if (options.fetch && options.placement != PlacementMode::kHost)
    context->fetch = std::make_shared<FetchSource>(context->session);
  return std::unique_ptr<PulseFileSystem>(
      new OffloadingFileSystem(std::move(base), std::move(context)));
}

}  // namespace pulse::lsm
