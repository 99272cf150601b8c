#include "services/lsm/pool/convert/closed_database.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "rocksdb/file_system.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_former.h"

namespace pulse::convert {
namespace {

// A message that names more says no more.
constexpr size_t kMostNamed = 5;

absl::Status CheckDirectory(const std::string& dir) {
  struct stat st {};
  if (stat(dir.c_str(), &st) != 0) return ErrnoError(errno, "database directory", dir);
  if (S_ISDIR(st.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(dir, " is not a directory; name the one that the database was opened by"));
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// As RocksDB names its files.
std::string FileName(uint64_t number, const char* suffix) {
  char digits[24];
  std::snprintf(digits, sizeof(digits), "%06llu", static_cast<unsigned long long>(number));
  return absl::StrCat(digits, suffix);
}

// Directories whose name a pool keeps for itself, and those that have such a neighbour: the pool
// has the copies of a conversion under its name, which would be mixed with its tables.
absl::Status CheckNames(const std::string& dir) {
  PULSE_RETURN_IF_ERROR(lsm::CheckDirectoryName(dir));
  const std::string moving = dir + lsm::kMoving;
  struct stat st {};
  if (lstat(moving.c_str(), &st) != 0) {
    if (errno == ENOENT || errno == ENAMETOOLONG) return absl::OkStatus();
    return ErrnoError(errno, "looking for", moving);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(moving, " exists, and the pool keeps the copies of ", dir,
                   " under that name; rename ", moving, " first"));
}

absl::Status NoDatabase(const std::string& dir) {
  return absl::InvalidArgumentError(
      absl::StrCat(dir, " is no RocksDB database: it has no ", lsm::kCurrentName,
                   "; name the directory that the database is opened by"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClosedDatabase>> ClosedDatabase::Open(
    const std::string& home, const std::vector<std::string>& db_paths, bool read_only) {
  std::unique_ptr<ClosedDatabase> db(new ClosedDatabase);
  PULSE_RETURN_IF_ERROR(CheckDirectory(home));
  db->dirs_.push_back(lsm::CanonicalDirectory(home));
  for (const std::string& given : db_paths) {
    PULSE_RETURN_IF_ERROR(CheckDirectory(given));
    const std::string dir = lsm::CanonicalDirectory(given);
    if (std::find(db->dirs_.begin(), db->dirs_.end(), dir) != db->dirs_.end()) continue;
    if (Exists(absl::StrCat(dir, "/", lsm::kCurrentName))) {
      return absl::InvalidArgumentError(absl::StrCat("--db-path ", given,
                                                     " is a database of its own, by its ",
                                                     lsm::kCurrentName, "; convert it by itself"));
    }
    db->dirs_.push_back(dir);
  }
  for (const std::string& dir : db->dirs_) PULSE_RETURN_IF_ERROR(CheckNames(dir));
  if (!Exists(absl::StrCat(db->home(), "/", lsm::kCurrentName))) return NoDatabase(home);
  PULSE_RETURN_IF_ERROR(db->Lock(read_only));
  auto guard = lsm::ReadGuard(db->home());
  if (guard.ok()) {
    db->guard_ = *std::move(guard);
    if (!Exists(db->current())) return NoDatabase(home);
  } else if (!absl::IsNotFound(guard.status())) {
    return guard.status();
  }
  PULSE_ASSIGN_OR_RETURN(db->live_, ReadLiveFiles(db->current()));
  for (const LiveFile& f : db->live_.files) {
    // A table also as LevelDB called it; but that is none that would be moved.
    db->live_names_[FileName(f.number, f.blob ? ".blob" : ".sst")] = f;
  }
  return db;
}

absl::Status ClosedDatabase::Lock(bool read_only) {
  const std::string lock = home() + "/LOCK";
  if (!Exists(lock)) {
    if (read_only) return absl::OkStatus();  // RocksDB makes it to open the database
    const UniqueFd fd(open(lock.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644));
    if (!fd.valid() && errno != EEXIST) return ErrnoError(errno, "creating", lock);
    if (fd.valid()) PULSE_RETURN_IF_ERROR(lsm::TakeOwner(fd.get(), lock, current()));
  }
  // RocksDB opens it for writing. An own attempt would, with its close, drop a lock that this
  // process may have on it.
  if (faccessat(AT_FDCWD, lock.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    return ErrnoError(errno, "locking", lock);
  }
  const rocksdb::IOStatus locked =
      rocksdb::FileSystem::Default()->LockFile(lock, rocksdb::IOOptions(), &lock_, nullptr);
  if (locked.ok()) return absl::OkStatus();
  lock_ = nullptr;
  const std::string text = locked.ToString();
  // RocksDB says one of these where it has the file, and not the lock; of another process or its
  // own.
  if (absl::StrContains(text, "While lock file") || absl::StrContains(text, "lock hold by")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the database ", home(), " is open (", text, "); close it first"));
  }
  return absl::UnavailableError(absl::StrCat("the database ", home(), " could not be locked: ",
                                             text, "; mend that and run the command again"));
}

ClosedDatabase::~ClosedDatabase() {
  if (lock_ == nullptr) return;
  rocksdb::FileSystem::Default()->UnlockFile(lock_, rocksdb::IOOptions(), nullptr);
}

std::string ClosedDatabase::current() const {
  return absl::StrCat(home(), "/", guard_.has_value() ? lsm::kRealCurrentName : lsm::kCurrentName);
}

bool ClosedDatabase::Owns(const std::string& name, uint64_t size) const {
  const auto it = live_names_.find(name);
  if (it == live_names_.end()) return false;
  return it->second.blob ? size >= it->second.size : size == it->second.size;
}

absl::Status ClosedDatabase::CheckFiles(const std::map<std::string, uint64_t>& stored) const {
  const auto size_of = [&](const std::string& name) -> std::optional<uint64_t> {
    const auto it = stored.find(name);
    if (it != stored.end()) return it->second;
    for (const std::string& dir : dirs_) {
      if (const auto size = SizeOfPlain(absl::StrCat(dir, "/", name))) return size;
    }
    return std::nullopt;
  };
  std::vector<std::string> missing;
  for (const auto& [name, file] : live_names_) {
    std::optional<uint64_t> size = size_of(name);
    // As LevelDB called it.
    if (!size && !file.blob) size = size_of(FileName(file.number, ".ldb"));
    if (!size) {
      missing.push_back(name);
    } else if (file.blob ? *size < file.size : *size != file.size) {
      return absl::DataLossError(absl::StrCat(
          name, " of ", home(), " has ", *size, " bytes, and the MANIFEST says ",
          file.blob ? "at least " : "", file.size,
          ": it is damaged; nothing was converted. Restore the database from a backup"));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  const size_t n = missing.size();
  if (n > kMostNamed) missing.resize(kMostNamed);
  return absl::DataLossError(absl::StrCat(
      "the MANIFEST names files that are missing in ", absl::StrJoin(dirs_, ", "), ": ",
      absl::StrJoin(missing, ", "), n > kMostNamed ? absl::StrCat(", ... (", n, " in all)") : "",
      "; nothing was converted. If the database has db_paths or cf_paths, name each with "
      "--db-path. If a directory was renamed after it moved into a pool, `pulse pool export POOL` "
      "lists under which name the pool has its tables, and `pulse pool mv` renames that. Else "
      "restore it from a backup"));
}

absl::StatusOr<std::map<std::string, uint64_t>> ListPlainFiles(const std::string& dir) {
  DIR* const d = opendir(dir.c_str());
  if (d == nullptr) return ErrnoError(errno, "listing", dir);
  std::map<std::string, uint64_t> files;
  absl::Status st;
  while (st.ok()) {
    errno = 0;
    const dirent* const entry = readdir(d);
    if (entry == nullptr) {
      if (errno != 0) st = ErrnoError(errno, "listing", dir);
      break;
    }
    if (!lsm::Pool::MayHold(entry->d_name)) continue;
    const std::string path = absl::StrCat(dir, "/", entry->d_name);
    struct stat s {};
    if (fstatat(dirfd(d), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) st = ErrnoError(errno, "looking at", path);
      continue;
    }
    if (S_ISLNK(s.st_mode) && lsm::IsNumbered(entry->d_name)) {
      st = absl::FailedPreconditionError(absl::StrCat(
          path, " is a symbolic link, and only files can be moved; put the file itself there"));
    }
    if (S_ISREG(s.st_mode)) files[entry->d_name] = static_cast<uint64_t>(s.st_size);
  }
  closedir(d);
  if (!st.ok()) return st;
  return files;
}

std::optional<uint64_t> SizeOfPlain(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(st.st_size);
}

}  // namespace pulse::convert
