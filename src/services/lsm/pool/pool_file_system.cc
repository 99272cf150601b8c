#include "services/lsm/pool/pool_file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_calls.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/pool/pool_files.h"
#include "services/lsm/pool/pool_former.h"

namespace pulse::lsm {
namespace {

bool IsCurrent(const std::string& path) { return NameOf(path) == kCurrentName; }

bool IsMissing(const IOStatus& s) { return s.IsNotFound() || s.IsPathNotFound(); }

class PoolFileSystem : public FileSystemWrapper {
 public:
  PoolFileSystem(std::shared_ptr<FileSystem> base, std::shared_ptr<Pool> pool)
      : FileSystemWrapper(std::move(base)), pool_(std::move(pool)) {}

  static const char* kClassName() { return "PulsePoolFileSystem"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* out, IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      return NewPoolSequentialFile(pool_, file, path, options, out);
    }
    IOStatus s = CheckGuard(path);
    return s.ok() ? target()->NewSequentialFile(InBase(path), options, out, dbg) : s;
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* out,
                               IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      return NewPoolRandomAccessFile(pool_, file, path, options, out);
    }
    return target()->NewRandomAccessFile(InBase(path), options, out, dbg);
  }

  // Not of a table or blob file.
  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    if (IsCurrent(path)) {
      if (IOStatus s = Guard(path); !s.ok()) return s;
    }
    return target()->NewWritableFile(InBase(path), options, out, dbg);
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      return ReopenPoolFile(pool_, file, path, options, out);
    }
    // It may be the MANIFEST that CURRENT leads to already.
    if (IsCurrent(path) || absl::StartsWith(NameOf(path), "MANIFEST-")) {
      if (IOStatus s = Guard(path); !s.ok()) return s;
    }
    return target()->ReopenWritableFile(InBase(path), options, out, dbg);
  }

  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options, std::unique_ptr<FSWritableFile>* out,
                             IODebugContext* dbg) override {
    // Of logs only.
    if (Find(old_path) != store::kNoFile || IsCurrent(path) || IsCurrent(old_path)) {
      return IOStatus::NotSupported("reuse of a file with layout=pool", old_path);
    }
    return target()->ReuseWritableFile(path, old_path, options, out, dbg);
  }

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSRandomRWFile>* out, IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      return NewPoolRandomRWFile(pool_, file, path, out);
    }
    return target()->NewRandomRWFile(InBase(path), options, out, dbg);
  }

  IOStatus NewMemoryMappedFileBuffer(const std::string& path,
                                     std::unique_ptr<MemoryMappedFileBuffer>* out) override {
    // Nobody maps a table this way, and its segments need not lie together.
    if (Find(path) != store::kNoFile) {
      return IOStatus::NotSupported("mapping a file of a pool", path);
    }
    return target()->NewMemoryMappedFileBuffer(InBase(path), out);
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* out, IODebugContext* dbg) override {
    std::unique_ptr<FSDirectory> base;
    IOStatus s = target()->NewDirectory(path, options, &base, dbg);
    if (!s.ok()) return s;
    // Its sync also makes durable which of its names are links to files of the pool.
    *out = NewHookedDirectory(std::move(base),
                              [pool = pool_] { return PoolStatus(pool->CommitNames()); });
    return s;
  }

  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    if (Find(path) != store::kNoFile) return IOStatus::OK();
    return target()->FileExists(InBase(path), options, dbg);
  }

  IOStatus GetChildren(const std::string& dir, const IOOptions& options,
                       std::vector<std::string>* out, IODebugContext* dbg) override {
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

  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<FileAttributes>* out,
                                     IODebugContext* dbg) override {
    out->clear();
    std::vector<std::string> names;
    IOStatus s = GetChildren(dir, options, &names, dbg);
    if (!s.ok()) return s;
    for (std::string& name : names) {
      FileAttributes a{};
      s = GetFileSize(absl::StrCat(dir, "/", name), options, &a.size_bytes, dbg);
      if (IsMissing(s)) continue;  // deleted meanwhile
      if (!s.ok()) return s;
      a.name = std::move(name);
      out->push_back(std::move(a));
    }
    return IOStatus::OK();
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    if (Find(path) != store::kNoFile) {
      absl::Status st = Unlink(path);
      return absl::IsNotFound(st) ? IOStatus::PathNotFound(path) : PoolStatus(st);
    }
    if (NameOf(path) == kGuardManifestName) {
      // It goes with its database only. It is not listed, so that nobody asks for this by mistake
      // of ours; but a name can be made up.
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

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      return PoolStatus(pool_->store().SetSize(file, size));
    }
    return target()->Truncate(InBase(path), size, options, dbg);
  }

  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    IOStatus s = target()->CreateDir(path, options, dbg);
    return s.ok() ? SetAside(CanonicalDirectory(path), Shared::kDrop, /*numbered_only=*/false) : s;
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override {
    const IOStatus before = target()->FileExists(path, options, dbg);
    IOStatus s = target()->CreateDirIfMissing(path, options, dbg);
    if (!s.ok() || !IsMissing(before)) return s;
    return SetAside(CanonicalDirectory(path), Shared::kKeep, /*numbered_only=*/false);
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    const std::string name = CanonicalDirectory(path);
    const auto files = pool_->store().List(name);
    if (files.ok() && !files->empty()) {
      return IOStatus::IOError(path, "the directory has files in the pool: not empty");
    }
    // A guard whose database was deleted in part.
    if (const auto guarded = IsGuarded(path); guarded.ok() && *guarded) {
      const IOStatus real =
          target()->FileExists(absl::StrCat(path, "/", kRealCurrentName), options, dbg);
      if (IsMissing(real)) {
        if (IOStatus s = DropGuard(path); !s.ok()) return s;
      }
    }
    IOStatus s = target()->DeleteDir(path, options, dbg);
    if (s.ok() && files.ok()) {
      pool_->store().RemoveDirectory(name).IgnoreError();  // an empty one does no harm
    }
    return s;
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      const auto now = pool_->store().Stat(file);
      if (now.ok()) *size = now->size;
      return PoolStatus(now.status());
    }
    return target()->GetFileSize(InBase(path), options, size, dbg);
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions& options,
                                   uint64_t* time, IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      const auto now = pool_->store().Stat(file);
      if (now.ok()) *time = static_cast<uint64_t>(now->modified_ns / 1'000'000'000);
      return PoolStatus(now.status());
    }
    return target()->GetFileModificationTime(InBase(path), options, time, dbg);
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    if (Find(from) != store::kNoFile) return RenamePoolFile(from, to, options, dbg);
    // Not by opening it, which fails where descriptors are used up.
    struct stat info {};
    if (stat(from.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
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
      s = PoolStatus(Unlink(to));
      pool_->NoteNames();
    }
    return s;
  }

  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override {
    if (Find(from) == store::kNoFile) {
      if (!IsCurrent(from) && !IsCurrent(to)) return target()->LinkFile(from, to, options, dbg);
      return IOStatus::NotSupported("a link to CURRENT", from);
    }
    if (!Pool::MayHold(NameOf(to))) {
      return IOStatus::NotSupported("a link from a pool to a file outside", to);  // it is copied
    }
    const std::string source = CanonicalPath(from);
    const std::string goal = CanonicalPath(to);
    if (target()->FileExists(to, options, dbg).ok()) return IOStatus::IOError(to, "File exists");
    IOStatus s = EnterInPool(DirectoryOf(goal), options, dbg);
    if (!s.ok()) return s;
    s = PoolStatus(
        pool_->store().Link(DirectoryOf(source), NameOf(source), DirectoryOf(goal), NameOf(goal)));
    if (s.ok()) pool_->NoteNames();
    return s;
  }

  IOStatus NumFileLinks(const std::string& path, const IOOptions& options, uint64_t* count,
                        IODebugContext* dbg) override {
    if (const store::FileId file = Find(path); file != store::kNoFile) {
      const auto now = pool_->store().Stat(file);
      if (now.ok()) *count = now->links;
      return PoolStatus(now.status());
    }
    return target()->NumFileLinks(InBase(path), options, count, dbg);
  }

  IOStatus AreFilesSame(const std::string& first, const std::string& second,
                        const IOOptions& options, bool* same, IODebugContext* dbg) override {
    const store::FileId a = Find(first);
    const store::FileId b = Find(second);
    if (a == store::kNoFile && b == store::kNoFile) {
      return target()->AreFilesSame(InBase(first), InBase(second), options, same, dbg);
    }
    *same = a == b;
    return IOStatus::OK();
  }

  IOStatus LockFile(const std::string& path, const IOOptions& options, FileLock** lock,
                    IODebugContext* dbg) override {
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

  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* bytes,
                        IODebugContext* dbg) override {
    // RocksDB asks by the path of a table, which the base does not have.
    const std::string at = Pool::MayHold(NameOf(path)) ? DirectoryOf(CanonicalPath(path)) : path;
    IOStatus s = target()->GetFreeSpace(at, options, bytes, dbg);
    if (s.ok()) *bytes = std::min(*bytes, pool_->FreeBytes());
    return s;
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* is_directory,
                       IODebugContext* dbg) override {
    if (Find(path) == store::kNoFile) {
      return target()->IsDirectory(InBase(path), options, is_directory, dbg);
    }
    *is_directory = false;
    return IOStatus::OK();
  }

#if PULSE_ROCKSDB_AT_LEAST(11, 5)
  IOStatus SyncFile(const std::string& path, const FileOptions& file_options,
                    const IOOptions& options, bool use_fsync, IODebugContext* dbg) override {
    const store::FileId file = Find(path);
    if (file == store::kNoFile) {
      return target()->SyncFile(InBase(path), file_options, options, use_fsync, dbg);
    }
    std::unique_ptr<FSWritableFile> f;
    IOStatus s = ReopenPoolFile(pool_, file, path, file_options, &f);
    return s.ok() ? f->Fsync(options, dbg) : s;
  }

#endif

 private:
  // The file at `path` in the pool, or kNoFile.
  store::FileId Find(const std::string& path) const {
    if (!Pool::MayHold(NameOf(path))) return store::kNoFile;
    const auto file = pool_->Find(CanonicalPath(path));
    return file.ok() ? *file : store::kNoFile;
  }

  absl::Status Unlink(const std::string& path) {
    const std::string canonical = CanonicalPath(path);
    return pool_->store().Unlink(DirectoryOf(canonical), NameOf(canonical));
  }

  // The path in the base of what is not in the pool.
  std::string InBase(const std::string& path) const {
    if (!IsCurrent(path)) return path;
    const std::string dir = DirectoryOf(path);
    const std::string real = absl::StrCat(dir, "/", kRealCurrentName);
    const auto guarded = IsGuarded(dir);
    if (guarded.ok()) return *guarded ? real : path;
    // CURRENT cannot be read, for want of descriptors, say. Never take a guard for the real one.
    return access(real.c_str(), F_OK) == 0 ? real : path;
  }

  // Before CURRENT or a MANIFEST of the directory leads to tables in the pool.
  IOStatus Guard(const std::string& path) {
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

  IOStatus DropGuard(const std::string& dir) {
    ForgetGuards();
    return ToIOStatus(DeleteGuard(dir));
  }

  // Directories get other names, go, or are opened anew.
  void ForgetGuards() {
    std::lock_guard lock(guards_mu_);
    durable_guards_.clear();
  }

  // InvalidArgument if `path` is the CURRENT of a database whose tables are in another pool.
  IOStatus CheckGuard(const std::string& path) const {
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

  // The files of a directory of the pool are nobody's any more: they go to one of another name.
  IOStatus SetAside(const std::string& name, Shared shared, bool numbered_only) {
    return PoolStatus(SetAsideFormer(pool_->store(), name, shared, [=](const std::string& file) {
      return !numbered_only || IsNumbered(file);
    }));
  }

  // A database is about to be opened. A guarded one has its tables in the pool; what the pool has
  // under the name of any other is left over from a database that was deleted behind its back.
  IOStatus CheckFormer(const std::string& dir, const IOOptions& options, IODebugContext* dbg) {
    if (absl::Status st = CheckDirectoryName(CanonicalDirectory(dir)); !st.ok()) {
      return ToIOStatus(st);
    }
    const std::string current = absl::StrCat(dir, "/", kCurrentName);
    if (IOStatus s = CheckGuard(current); !s.ok()) return s;
    const auto guarded = IsGuarded(dir);
    if (!guarded.ok()) return ToIOStatus(guarded.status());
    const std::string name = CanonicalDirectory(dir);
    if (*guarded) {
      // What a stopped conversion has left there would keep the space of tables that are deleted.
      DropCopies(pool_->store(), name);
      return IOStatus::OK();
    }
    if (!pool_->store().HasDirectory(name)) return IOStatus::OK();
    const std::string real = absl::StrCat(dir, "/", kRealCurrentName);
    // An import that was stopped has made CURRENT.pulse, too; its copies are nobody's tables.
    if (HasFormer(pool_->store(), name) && access(real.c_str(), F_OK) == 0) {
      return IOStatus::Corruption(
          absl::StrCat(current, " was replaced without the plug-in, and the tables of ", dir,
                       " are in the pool ", pool_->store().path(), "; move the guard (CURRENT, ",
                       kGuardManifestName, ") back from a copy, or remove ", real,
                       " to go on without these tables"));
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
    return SetAside(name, Shared::kKeep, /*numbered_only=*/true);
  }

  // The pool gets `dir`, which is there in the base, for a file that is about to be named in it.
  IOStatus EnterInPool(const std::string& dir, const IOOptions& options, IODebugContext* dbg) {
    PULSE_RETURN_IF_ERROR(target()->FileExists(dir, options, dbg));
    if (absl::Status st = CheckDirectoryName(dir); !st.ok()) return ToIOStatus(st);
    store::Store& store = pool_->store();
    if (store.HasDirectory(dir)) return IOStatus::OK();
    absl::Status made = store.CreateDirectory(dir);
    return absl::IsAlreadyExists(made) ? IOStatus::OK() : PoolStatus(made);
  }

  IOStatus RenamePoolFile(const std::string& from, const std::string& to, const IOOptions& options,
                          IODebugContext* dbg) {
    if (!Pool::MayHold(NameOf(to))) {
      return IOStatus::NotSupported(
          absl::StrCat("renaming ", from, ", which is in a pool, to ", to),
          "the pool has names that end in .sst and .blob only; copy it");
    }
    const std::string source = CanonicalPath(from);
    const std::string goal = CanonicalPath(to);
    IOStatus s = EnterInPool(DirectoryOf(goal), options, dbg);
    if (!s.ok()) return s;
    s = PoolStatus(pool_->store().Rename(DirectoryOf(source), NameOf(source), DirectoryOf(goal),
                                         NameOf(goal)));
    if (!s.ok()) return s;
    pool_->NoteNames();
    if (IsMissing(target()->FileExists(to, options, dbg))) return IOStatus::OK();
    // Durable before the plain file goes: a rename never loses what it replaces.
    s = PoolStatus(pool_->CommitNames());
    if (!s.ok()) return s;
    s = target()->DeleteFile(to, options, dbg);
    return IsMissing(s) ? IOStatus::OK() : s;
  }

  // Two renames that a cut may part. So the files have their names in both directories of the pool
  // while the base renames: whichever of the two is there afterwards has its tables. What a cut
  // leaves under the other name in the pool is set aside when a database is made there.
  IOStatus RenameDirectory(const std::string& from, const std::string& to, const IOOptions& options,
                           IODebugContext* dbg) {
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
    const bool exists = !IsMissing(target()->FileExists(to, options, dbg));
    if (exists) {
      struct stat info {};
      if (stat(to.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
        return target()->RenameFile(from, to, options, dbg);  // which tells what is wrong
      }
      std::vector<std::string> children;
      if (IOStatus s = target()->GetChildren(to, options, &children, dbg); !s.ok()) return s;
      std::erase_if(children, [](const std::string& name) { return name == "." || name == ".."; });
      const auto files = store.List(goal);
      if (!children.empty() || (files.ok() && !files->empty())) {
        return IOStatus::IOError(to, "Directory not empty");
      }
    }
    // What a directory of such a name has left in the pool, and nobody sees.
    for (const std::string& name : store.ListDirectories()) {
      if (!(name == goal && !exists) && !absl::StartsWith(name, goal + "/")) continue;
      if (absl::StrContains(name, kFormer)) continue;
      if (IOStatus s = SetAside(name, Shared::kDrop, /*numbered_only=*/false); !s.ok()) return s;
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
      s = ToIOStatus(SyncDirectory(DirectoryOf(goal)));
      if (s.ok()) s = ToIOStatus(SyncDirectory(DirectoryOf(source)));
      if (!s.ok()) return s;  // both have their tables
    }
    drop(s.ok() ? source : goal);
    return s;
  }

  const std::shared_ptr<Pool> pool_;
  std::mutex guards_mu_;
  // Directories with a guard that has been made durable since they were locked: a MANIFEST that is
  // begun anew by a compaction, say, then needs no fsync for it.
  std::set<std::string> durable_guards_;
};

}  // namespace

std::shared_ptr<FileSystem> NewPoolFileSystem(std::shared_ptr<FileSystem> base,
                                              std::shared_ptr<Pool> pool) {
  return std::make_shared<PoolFileSystem>(std::move(base), std::move(pool));
}

}  // namespace pulse::lsm
