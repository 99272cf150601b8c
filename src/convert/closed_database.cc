#include "convert/closed_database.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "convert/live_files.h"
#include "lsm/host_registry.h"
#include "rocksdb/file_system.h"

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

absl::Status NoDatabase(const std::string& dir) {
  return absl::InvalidArgumentError(
      absl::StrCat(dir, " is no RocksDB database: it has no ", lsm::kCurrentName,
                   "; name the directory that the database is opened by"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClosedDatabase>> ClosedDatabase::Open(
    const std::string& home, const std::vector<std::string>& db_paths) {
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
  if (!Exists(absl::StrCat(db->home(), "/", lsm::kCurrentName))) return NoDatabase(home);
  const std::string lock = db->home() + "/LOCK";
  const rocksdb::IOStatus locked =
      rocksdb::FileSystem::Default()->LockFile(lock, rocksdb::IOOptions(), &db->lock_, nullptr);
  if (!locked.ok()) {
    db->lock_ = nullptr;
    return absl::FailedPreconditionError(absl::StrCat("the database ", db->home(), " is open (",
                                                      locked.ToString(), "); close it first"));
  }
  auto guard = lsm::ReadGuard(db->home());
  if (guard.ok()) {
    db->guard_ = *std::move(guard);
    if (!Exists(db->current())) return NoDatabase(home);
  } else if (!absl::IsNotFound(guard.status())) {
    return guard.status();
  }
  return db;
}

ClosedDatabase::~ClosedDatabase() {
  if (lock_ == nullptr) return;
  rocksdb::FileSystem::Default()->UnlockFile(lock_, rocksdb::IOOptions(), nullptr);
}

std::string ClosedDatabase::current() const {
  return absl::StrCat(home(), "/", guard_.has_value() ? lsm::kRealCurrentName : lsm::kCurrentName);
}

absl::StatusOr<bool> ClosedDatabase::CheckFiles(
    absl::FunctionRef<std::optional<uint64_t>(const std::string& name)> size_of) const {
  const auto live = ReadLiveFiles(current());
  if (!live.ok()) return live.status();
  if (!live->known) {
    Log(LogLevel::kWarn, absl::StrCat(home(),
                                      ": its MANIFEST has records that are not understood: not "
                                      "checked whether all tables are there"));
    return false;
  }
  std::vector<std::string> missing;
  for (const LiveFile& file : live->files) {
    const std::string name = FileName(file.number, file.blob ? ".blob" : ".sst");
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
  if (missing.empty()) return true;
  const size_t n = missing.size();
  if (n > kMostNamed) missing.resize(kMostNamed);
  return absl::DataLossError(absl::StrCat(
      "the MANIFEST names files that are missing in ", absl::StrJoin(dirs_, ", "), ": ",
      absl::StrJoin(missing, ", "), n > kMostNamed ? absl::StrCat(", ... (", n, " in all)") : "",
      "; nothing was converted. If the database has db_paths or cf_paths, name each with "
      "--db-path; else restore it from a backup"));
}

absl::StatusOr<std::vector<PlainFile>> ListPlainFiles(const std::string& dir) {
  DIR* const d = opendir(dir.c_str());
  if (d == nullptr) return ErrnoError(errno, "listing", dir);
  std::vector<PlainFile> files;
  absl::Status st;
  while (st.ok()) {
    errno = 0;
    const dirent* const entry = readdir(d);
    if (entry == nullptr) {
      if (errno != 0) st = ErrnoError(errno, "listing", dir);
      break;
    }
    struct stat s {};
    if (fstatat(dirfd(d), entry->d_name, &s, 0) != 0) {
      // A link that leads nowhere is no file.
      if (errno != ENOENT) {
        st = ErrnoError(errno, "looking at", absl::StrCat(dir, "/", entry->d_name));
      }
      continue;
    }
    if (S_ISREG(s.st_mode)) files.push_back({entry->d_name, static_cast<uint64_t>(s.st_size)});
  }
  closedir(d);
  if (!st.ok()) return st;
  std::sort(files.begin(), files.end(),
            [](const PlainFile& a, const PlainFile& b) { return a.name < b.name; });
  return files;
}

absl::Status SyncDirectory(const std::string& dir) {
  const UniqueFd fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError(errno, "syncing directory", dir);
  return absl::OkStatus();
}

std::optional<uint64_t> SizeOfPlain(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(st.st_size);
}

}  // namespace pulse::convert
