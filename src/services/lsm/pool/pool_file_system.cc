#include "services/lsm/pool/pool_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/pool/pool_files.h"
#include "services/lsm/pool/pool_former.h"

namespace pulse::lsm {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

bool IsCurrent(const std::string& path) { return NameOf(path) == kCurrentName; }

IOStatus IgnoreMissing(const IOStatus& s) {
  return s.IsNotFound() || s.IsPathNotFound() ? IOStatus::OK() : s;
}

// A directory whose sync also makes durable which of its names are links to files of the pool.
class PoolDirectory : public rocksdb::FSDirectory {
 public:
  PoolDirectory(std::shared_ptr<Pool> pool, std::unique_ptr<rocksdb::FSDirectory> base)
      : pool_(std::move(pool)), base_(std::move(base)) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = PoolStatus(pool_->CommitNames());
    return s.ok() ? base_->Fsync(options, dbg) : s;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* dbg,
                               const rocksdb::DirFsyncOptions& dir_options) override {
    IOStatus s = PoolStatus(pool_->CommitNames());
    return s.ok() ? base_->FsyncWithDirOptions(options, dbg, dir_options) : s;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    return base_->Close(options, dbg);
  }
  size_t GetUniqueId(char* id, size_t max_size) const override {
    return base_->GetUniqueId(id, max_size);
  }

 private:
  const std::shared_ptr<Pool> pool_;
  const std::unique_ptr<rocksdb::FSDirectory> base_;
};

absl::Status SyncParent(const std::string& path) {
  const std::string dir = DirectoryOf(path);
  const UniqueFd fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError(errno, "syncing", dir);
  return absl::OkStatus();
}

}  // namespace

store::FileId PoolFileSystem::Find(const std::string& path) const {
  if (!Pool::MayHold(NameOf(path))) return store::kNoFile;
  const auto file = pool_->Find(CanonicalPath(path));
  return file.ok() ? *file : store::kNoFile;
}

std::string PoolFileSystem::InBase(const std::string& path) const {
  if (!IsCurrent(path)) return path;
  const std::string dir = DirectoryOf(path);
  const std::string real = absl::StrCat(dir, "/", kRealCurrentName);
  const auto guarded = IsGuarded(dir);
  if (guarded.ok()) return *guarded ? real : path;
  // CURRENT cannot be read, for want of descriptors, say. Never take a guard for the real one.
  return access(real.c_str(), F_OK) == 0 ? real : path;
}

IOStatus PoolFileSystem::Guard(const std::string& path) {
  const std::string dir = DirectoryOf(path);
  const std::string name = CanonicalDirectory(dir);
  bool durable = false;
  {
    std::lock_guard lock(guards_mu_);
    durable = durable_guards_.erase(name) != 0;
  }
  absl::Status st = WriteGuard(dir, pool_->guard_info(), durable);
  if (st.ok()) {
    std::lock_guard lock(guards_mu_);
    durable_guards_.insert(name);
  }
  return ToIOStatus(st);
}

void PoolFileSystem::ForgetGuards() {
  std::lock_guard lock(guards_mu_);
  durable_guards_.clear();
}

IOStatus PoolFileSystem::DropGuard(const std::string& dir) {
  ForgetGuards();
  return ToIOStatus(DeleteGuard(dir));
}

IOStatus PoolFileSystem::CheckGuard(const std::string& path) const {
  if (!IsCurrent(path)) return IOStatus::OK();
  const auto guard = ReadGuard(DirectoryOf(path));
  if (absl::IsNotFound(guard.status())) return IOStatus::OK();
  if (!guard.ok()) return ToIOStatus(guard.status());
  const GuardInfo mine = pool_->guard_info();
  if (guard->pool_id == mine.pool_id) return IOStatus::OK();
  return IOStatus::InvalidArgument(absl::StrCat(
      "the tables of ", DirectoryOf(path), " are in the pool ", guard->pool, " (", guard->pool_id,
      "), not in ", mine.pool, " (", mine.pool_id, "); open it with pool=", guard->pool));
}

IOStatus PoolFileSystem::SetAside(const std::string& name, bool numbered_only) {
  return PoolStatus(SetAsideFormer(pool_->store(), name, [=](const std::string& file) {
    return !numbered_only || IsNumbered(file);
  }));
}

IOStatus PoolFileSystem::NewSequentialFile(const std::string& path, const FileOptions& options,
                                           std::unique_ptr<rocksdb::FSSequentialFile>* out,
                                           IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    return NewPoolSequentialFile(pool_, file, path, options, out);
  }
  IOStatus s = CheckGuard(path);
  return s.ok() ? target()->NewSequentialFile(InBase(path), options, out, dbg) : s;
}

IOStatus PoolFileSystem::NewRandomAccessFile(const std::string& path, const FileOptions& options,
                                             std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
                                             IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    return NewPoolRandomAccessFile(pool_, file, path, options, out);
  }
  return target()->NewRandomAccessFile(InBase(path), options, out, dbg);
}

IOStatus PoolFileSystem::NewWritableFile(const std::string& path, const FileOptions& options,
                                         std::unique_ptr<rocksdb::FSWritableFile>* out,
                                         IODebugContext* dbg) {
  if (IsCurrent(path)) {
    if (IOStatus s = Guard(path); !s.ok()) return s;
  }
  return target()->NewWritableFile(InBase(path), options, out, dbg);
}

IOStatus PoolFileSystem::ReopenWritableFile(const std::string& path, const FileOptions& options,
                                            std::unique_ptr<rocksdb::FSWritableFile>* out,
                                            IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    return ReopenPoolFile(pool_, file, path, options, out);
  }
  // It may be the MANIFEST that CURRENT leads to already.
  if (IsCurrent(path) || absl::StartsWith(NameOf(path), "MANIFEST-")) {
    if (IOStatus s = Guard(path); !s.ok()) return s;
  }
  return target()->ReopenWritableFile(InBase(path), options, out, dbg);
}

IOStatus PoolFileSystem::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                           const FileOptions& options,
                                           std::unique_ptr<rocksdb::FSWritableFile>* out,
                                           IODebugContext* dbg) {
  // Of logs only.
  if (Find(old_path) != store::kNoFile || IsCurrent(path) || IsCurrent(old_path)) {
    return IOStatus::NotSupported("reuse of a file with layout=pool", old_path);
  }
  return target()->ReuseWritableFile(path, old_path, options, out, dbg);
}

IOStatus PoolFileSystem::NewRandomRWFile(const std::string& path, const FileOptions& options,
                                         std::unique_ptr<rocksdb::FSRandomRWFile>* out,
                                         IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    return NewPoolRandomRWFile(pool_, file, path, out);
  }
  return target()->NewRandomRWFile(InBase(path), options, out, dbg);
}

IOStatus PoolFileSystem::NewMemoryMappedFileBuffer(
    const std::string& path, std::unique_ptr<rocksdb::MemoryMappedFileBuffer>* out) {
  // Nobody maps a table this way, and its segments need not lie together.
  if (Find(path) != store::kNoFile) {
    return IOStatus::NotSupported("mapping a file of a pool", path);
  }
  return target()->NewMemoryMappedFileBuffer(InBase(path), out);
}

IOStatus PoolFileSystem::NewDirectory(const std::string& path, const IOOptions& options,
                                      std::unique_ptr<rocksdb::FSDirectory>* out,
                                      IODebugContext* dbg) {
  std::unique_ptr<rocksdb::FSDirectory> base;
  IOStatus s = target()->NewDirectory(path, options, &base, dbg);
  if (s.ok()) *out = std::make_unique<PoolDirectory>(pool_, std::move(base));
  return s;
}

IOStatus PoolFileSystem::FileExists(const std::string& path, const IOOptions& options,
                                    IODebugContext* dbg) {
  if (Find(path) != store::kNoFile) return IOStatus::OK();
  return target()->FileExists(InBase(path), options, dbg);
}

IOStatus PoolFileSystem::GetChildren(const std::string& dir, const IOOptions& options,
                                     std::vector<std::string>* out, IODebugContext* dbg) {
  // First: RocksDB deletes what it finds in a list and does not know, also after an error.
  const auto guarded = IsGuarded(dir);
  if (!guarded.ok()) {
    out->clear();
    return ToIOStatus(guarded.status());
  }
  IOStatus s = target()->GetChildren(dir, options, out, dbg);
  if (!s.ok()) {
    out->clear();
    return s;
  }
  if (*guarded) {
    std::erase_if(*out, [](const std::string& name) {
      return name == kCurrentName || name == kGuardManifestName;
    });
    std::replace(out->begin(), out->end(), std::string(kRealCurrentName),
                 std::string(kCurrentName));
  }
  const auto files = pool_->store().List(CanonicalDirectory(dir));
  if (!files.ok()) return absl::IsNotFound(files.status()) ? s : PoolStatus(files.status());
  std::sort(out->begin(), out->end());
  const auto in_base = static_cast<ptrdiff_t>(out->size());
  for (const store::DirectoryEntry& f : *files) {
    if (!std::binary_search(out->begin(), out->begin() + in_base, f.name)) out->push_back(f.name);
  }
  return s;
}

IOStatus PoolFileSystem::GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                                   std::vector<rocksdb::FileAttributes>* out,
                                                   IODebugContext* dbg) {
  out->clear();
  std::vector<std::string> names;
  IOStatus s = GetChildren(dir, options, &names, dbg);
  if (!s.ok()) return s;
  for (std::string& name : names) {
    rocksdb::FileAttributes a{};
    s = GetFileSize(absl::StrCat(dir, "/", name), options, &a.size_bytes, dbg);
    if (s.IsNotFound() || s.IsPathNotFound()) continue;  // deleted meanwhile
    if (!s.ok()) return s;
    a.name = std::move(name);
    out->push_back(std::move(a));
  }
  return IOStatus::OK();
}

IOStatus PoolFileSystem::DeleteFile(const std::string& path, const IOOptions& options,
                                    IODebugContext* dbg) {
  if (Find(path) != store::kNoFile) {
    const std::string canonical = CanonicalPath(path);
    absl::Status st = pool_->store().Unlink(DirectoryOf(canonical), NameOf(canonical));
    return absl::IsNotFound(st) ? IOStatus::PathNotFound(path) : PoolStatus(st);
  }
  if (NameOf(path) == kGuardManifestName) {
    // It goes with its database only. It is not listed, so that nobody asks for this by mistake of
    // ours; but a name can be made up.
    const auto guarded = IsGuarded(DirectoryOf(path));
    if (!guarded.ok()) return ToIOStatus(guarded.status());
    if (*guarded) {
      return IOStatus::InvalidArgument(absl::StrCat(
          path, " says in which pool the tables are; delete the database to delete it"));
    }
  }
  const std::string real = InBase(path);
  IOStatus s = target()->DeleteFile(real, options, dbg);
  if (real == path || !s.ok()) return s;
  // That was the database: its guard goes, too.
  return DropGuard(DirectoryOf(path));
}

IOStatus PoolFileSystem::Truncate(const std::string& path, size_t size, const IOOptions& options,
                                  IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    return PoolStatus(pool_->store().SetSize(file, size));
  }
  return target()->Truncate(InBase(path), size, options, dbg);
}

IOStatus PoolFileSystem::CreateDir(const std::string& path, const IOOptions& options,
                                   IODebugContext* dbg) {
  IOStatus s = target()->CreateDir(path, options, dbg);
  return s.ok() ? SetAside(CanonicalDirectory(path), /*numbered_only=*/false) : s;
}

IOStatus PoolFileSystem::CreateDirIfMissing(const std::string& path, const IOOptions& options,
                                            IODebugContext* dbg) {
  const IOStatus before = target()->FileExists(path, options, dbg);
  IOStatus s = target()->CreateDirIfMissing(path, options, dbg);
  return s.ok() && (before.IsNotFound() || before.IsPathNotFound())
             ? SetAside(CanonicalDirectory(path), /*numbered_only=*/false)
             : s;
}

IOStatus PoolFileSystem::DeleteDir(const std::string& path, const IOOptions& options,
                                   IODebugContext* dbg) {
  const std::string name = CanonicalDirectory(path);
  const auto files = pool_->store().List(name);
  if (files.ok() && !files->empty()) {
    return IOStatus::IOError(path, "the directory has files in the pool: not empty");
  }
  // A guard whose database was deleted in part.
  if (const auto guarded = IsGuarded(path); guarded.ok() && *guarded) {
    const IOStatus real =
        target()->FileExists(absl::StrCat(path, "/", kRealCurrentName), options, dbg);
    if (real.IsNotFound() || real.IsPathNotFound()) {
      if (IOStatus s = DropGuard(path); !s.ok()) return s;
    }
  }
  IOStatus s = target()->DeleteDir(path, options, dbg);
  if (s.ok() && files.ok()) {
    pool_->store().RemoveDirectory(name).IgnoreError();  // an empty one does no harm
  }
  return s;
}

IOStatus PoolFileSystem::GetFileSize(const std::string& path, const IOOptions& options,
                                     uint64_t* size, IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    const auto now = pool_->store().Stat(file);
    if (now.ok()) *size = now->size;
    return PoolStatus(now.status());
  }
  return target()->GetFileSize(InBase(path), options, size, dbg);
}

IOStatus PoolFileSystem::GetFileModificationTime(const std::string& path, const IOOptions& options,
                                                 uint64_t* time, IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    const auto now = pool_->store().Stat(file);
    if (now.ok()) *time = static_cast<uint64_t>(now->modified_ns / 1'000'000'000);
    return PoolStatus(now.status());
  }
  return target()->GetFileModificationTime(InBase(path), options, time, dbg);
}

IOStatus PoolFileSystem::RenameFile(const std::string& from, const std::string& to,
                                    const IOOptions& options, IODebugContext* dbg) {
  if (const store::FileId file = Find(from); file != store::kNoFile) {
    return RenamePoolFile(file, from, to, options, dbg);
  }
  bool directory = false;
  if (target()->IsDirectory(from, options, &directory, dbg).ok() && directory) {
    return RenameDirectory(from, to, options, dbg);
  }
  if (IsCurrent(to)) {
    if (IOStatus s = Guard(to); !s.ok()) return s;
  }
  const store::FileId replaced = Find(to);
  const std::string source = InBase(from);
  IOStatus s = target()->RenameFile(source, InBase(to), options, dbg);
  if (s.ok() && source != from) s = DropGuard(DirectoryOf(from));
  if (s.ok() && replaced != store::kNoFile) {
    const std::string canonical = CanonicalPath(to);
    s = PoolStatus(pool_->store().Unlink(DirectoryOf(canonical), NameOf(canonical)));
    pool_->NoteNames();
  }
  return s;
}

IOStatus PoolFileSystem::RenamePoolFile(store::FileId, const std::string& from,
                                        const std::string& to, const IOOptions& options,
                                        IODebugContext* dbg) {
  if (!Pool::MayHold(NameOf(to))) {
    return IOStatus::NotSupported(absl::StrCat("renaming ", from, ", which is in a pool, to ", to),
                                  "the pool has names that end in .sst and .blob only; copy it");
  }
  const std::string source = CanonicalPath(from);
  const std::string goal = CanonicalPath(to);
  const IOStatus dir = target()->FileExists(DirectoryOf(goal), options, dbg);
  if (!dir.ok()) return dir;
  store::Store& store = pool_->store();
  if (absl::Status st = CheckDirectoryName(DirectoryOf(goal)); !st.ok()) return ToIOStatus(st);
  if (!store.HasDirectory(DirectoryOf(goal))) {
    absl::Status made = store.CreateDirectory(DirectoryOf(goal));
    if (!made.ok() && !absl::IsAlreadyExists(made)) return PoolStatus(made);
  }
  IOStatus s = PoolStatus(
      store.Rename(DirectoryOf(source), NameOf(source), DirectoryOf(goal), NameOf(goal)));
  if (!s.ok()) return s;
  pool_->NoteNames();
  return IgnoreMissing(target()->DeleteFile(to, options, dbg));
}

// Two renames that a cut may part. So the files have their names in both directories of the pool
// while the base renames: whichever of the two is there afterwards has its tables. What a cut
// leaves under the other name in the pool is forgotten when a directory of that name is made again.
IOStatus PoolFileSystem::RenameDirectory(const std::string& from, const std::string& to,
                                         const IOOptions& options, IODebugContext* dbg) {
  ForgetGuards();
  store::Store& store = pool_->store();
  struct stat link {};
  if (lstat(from.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    return target()->RenameFile(from, to, options, dbg);  // the directory stays where it is
  }
  const std::string source = CanonicalDirectory(from);
  std::vector<std::string> moved;  // what follows `source` in the name of each directory within
  for (const std::string& name : store.ListDirectories()) {
    if (name == source || absl::StartsWith(name, source + "/")) {
      moved.push_back(name.substr(source.size()));
    }
  }
  const std::string goal = CanonicalPath(to);
  if (!moved.empty()) {
    if (absl::Status st = CheckDirectoryName(goal); !st.ok()) return ToIOStatus(st);
  }
  const IOStatus there = target()->FileExists(to, options, dbg);
  if (there.IsNotFound() || there.IsPathNotFound()) {
    for (const std::string& name : store.ListDirectories()) {
      if (name != goal && !absl::StartsWith(name, goal + "/")) continue;
      if (absl::StrContains(name, kFormer)) continue;
      if (IOStatus s = SetAside(name, /*numbered_only=*/false); !s.ok()) return s;
    }
  } else if (const auto files = store.List(goal); files.ok() && !files->empty()) {
    return IOStatus::IOError(to, "Directory not empty");
  }
  const auto drop = [&](const std::string& top) {
    for (const std::string& rest : moved) {
      store.ClearDirectory(top + rest).IgnoreError();  // nobody looks there any more
      store.RemoveDirectory(top + rest).IgnoreError();
    }
  };
  for (const std::string& rest : moved) {
    absl::Status st;
    if (!store.HasDirectory(goal + rest)) st = store.CreateDirectory(goal + rest);
    const auto files = store.List(source + rest);
    if (st.ok()) st = files.status();
    for (size_t i = 0; st.ok() && i < files->size(); ++i) {
      const std::string& name = (*files)[i].name;
      st = store.Link(source + rest, name, goal + rest, name);
    }
    if (!st.ok()) {
      drop(goal);
      return PoolStatus(st);
    }
  }
  if (!moved.empty()) {
    if (absl::Status st = store.Commit(); !st.ok()) return PoolStatus(st);
  }
  IOStatus s = target()->RenameFile(from, to, options, dbg);
  if (s.ok() && !moved.empty()) {
    // Any commit makes the drop durable: the rename has to be so before.
    s = ToIOStatus(SyncParent(goal));
    if (s.ok()) s = ToIOStatus(SyncParent(source));
    if (!s.ok()) return s;  // both have their tables
  }
  drop(s.ok() ? source : goal);
  return s;
}

IOStatus PoolFileSystem::LinkFile(const std::string& from, const std::string& to,
                                  const IOOptions& options, IODebugContext* dbg) {
  if (Find(from) == store::kNoFile) {
    if (!IsCurrent(from) && !IsCurrent(to)) return target()->LinkFile(from, to, options, dbg);
    return IOStatus::NotSupported("a link to CURRENT", from);
  }
  if (!Pool::MayHold(NameOf(to))) {
    return IOStatus::NotSupported("a link from a pool to a file outside", to);  // it is copied
  }
  const std::string source = CanonicalPath(from);
  const std::string goal = CanonicalPath(to);
  const IOStatus there = target()->FileExists(to, options, dbg);
  if (there.ok()) return IOStatus::IOError(to, "File exists");
  const IOStatus dir = target()->FileExists(DirectoryOf(goal), options, dbg);
  if (!dir.ok()) return dir;
  store::Store& store = pool_->store();
  if (absl::Status st = CheckDirectoryName(DirectoryOf(goal)); !st.ok()) return ToIOStatus(st);
  if (!store.HasDirectory(DirectoryOf(goal))) {
    absl::Status made = store.CreateDirectory(DirectoryOf(goal));
    if (!made.ok() && !absl::IsAlreadyExists(made)) return PoolStatus(made);
  }
  IOStatus s =
      PoolStatus(store.Link(DirectoryOf(source), NameOf(source), DirectoryOf(goal), NameOf(goal)));
  if (s.ok()) pool_->NoteNames();
  return s;
}

IOStatus PoolFileSystem::NumFileLinks(const std::string& path, const IOOptions& options,
                                      uint64_t* count, IODebugContext* dbg) {
  if (const store::FileId file = Find(path); file != store::kNoFile) {
    const auto now = pool_->store().Stat(file);
    if (now.ok()) *count = now->links;
    return PoolStatus(now.status());
  }
  return target()->NumFileLinks(InBase(path), options, count, dbg);
}

IOStatus PoolFileSystem::AreFilesSame(const std::string& first, const std::string& second,
                                      const IOOptions& options, bool* same, IODebugContext* dbg) {
  const store::FileId a = Find(first);
  const store::FileId b = Find(second);
  if (a == store::kNoFile && b == store::kNoFile) {
    return target()->AreFilesSame(InBase(first), InBase(second), options, same, dbg);
  }
  *same = a == b;
  return IOStatus::OK();
}

// A database is about to be opened. A guarded one has its tables in the pool; what the pool has
// under the name of any other is left over from a database that was deleted behind its back.
IOStatus PoolFileSystem::CheckFormer(const std::string& dir, const IOOptions& options,
                                     IODebugContext* dbg) {
  if (absl::Status st = CheckDirectoryName(CanonicalDirectory(dir)); !st.ok()) {
    return ToIOStatus(st);
  }
  const std::string current = absl::StrCat(dir, "/", kCurrentName);
  if (IOStatus s = CheckGuard(current); !s.ok()) return s;
  const auto guarded = IsGuarded(dir);
  if (!guarded.ok()) return ToIOStatus(guarded.status());
  if (*guarded) return IOStatus::OK();
  const std::string name = CanonicalDirectory(dir);
  if (!pool_->store().HasDirectory(name)) return IOStatus::OK();
  const std::string real = absl::StrCat(dir, "/", kRealCurrentName);
  // An import that was stopped has made CURRENT.pulse, too; its copies are nobody's tables.
  if (HasFormer(pool_->store(), name) && access(real.c_str(), F_OK) == 0) {
    return IOStatus::Corruption(absl::StrCat(
        current, " was replaced without the plug-in, and the tables of ", dir, " are in the pool ",
        pool_->store().path(), "; move the guard (CURRENT, ", kGuardManifestName,
        ") back from a copy, or remove ", real, " to go on without these tables"));
  }
  std::vector<std::string> names;
  IOStatus s = target()->FileExists(current, options, dbg);
  if (!s.ok()) s = target()->GetChildren(dir, options, &names, dbg);
  if (!s.ok()) return s;
  // Without CURRENT, but with a MANIFEST, it may be somebody's attempt to save a database.
  for (const std::string& file : names) {
    if (absl::StartsWith(file, "MANIFEST-")) return s;
  }
  // What has a name of its own is the user's, perhaps to be ingested.
  return SetAside(name, /*numbered_only=*/true);
}

IOStatus PoolFileSystem::LockFile(const std::string& path, const IOOptions& options,
                                  rocksdb::FileLock** lock, IODebugContext* dbg) {
  IOStatus s = target()->LockFile(path, options, lock, dbg);
  if (!s.ok() || NameOf(path) != "LOCK") return s;
  ForgetGuards();
  const std::string dir = DirectoryOf(path);
  s = CheckFormer(dir, options, dbg);
  if (!s.ok()) {
    target()->UnlockFile(*lock, options, dbg);
    *lock = nullptr;  // RocksDB gives back what it finds
  }
  return s;
}

IOStatus PoolFileSystem::GetFreeSpace(const std::string& path, const IOOptions& options,
                                      uint64_t* bytes, IODebugContext* dbg) {
  IOStatus s = target()->GetFreeSpace(path, options, bytes, dbg);
  if (s.ok()) *bytes = std::min(*bytes, pool_->FreeBytes());
  return s;
}

IOStatus PoolFileSystem::IsDirectory(const std::string& path, const IOOptions& options,
                                     bool* is_directory, IODebugContext* dbg) {
  if (Find(path) == store::kNoFile) {
    return target()->IsDirectory(InBase(path), options, is_directory, dbg);
  }
  *is_directory = false;
  return IOStatus::OK();
}

#if PULSE_ROCKSDB_AT_LEAST(11, 5)
IOStatus PoolFileSystem::SyncFile(const std::string& path, const FileOptions& file_options,
                                  const IOOptions& options, bool use_fsync, IODebugContext* dbg) {
  const store::FileId file = Find(path);
  if (file == store::kNoFile) {
    return target()->SyncFile(InBase(path), file_options, options, use_fsync, dbg);
  }
  std::unique_ptr<rocksdb::FSWritableFile> f;
  IOStatus s = ReopenPoolFile(pool_, file, path, file_options, &f);
  return s.ok() ? f->Fsync(options, dbg) : s;
}
#endif

}  // namespace pulse::lsm
