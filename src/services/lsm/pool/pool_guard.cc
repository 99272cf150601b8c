#include "services/lsm/pool/pool_guard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/crc32c.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"

namespace pulse::lsm {
namespace {

constexpr char kGuardCurrent[] = "MANIFEST-000000\n";
// A name that RocksDB knows as that of a temporary file, which DestroyDB deletes.
constexpr char kTemporaryName[] = "000000.dbtmp";
constexpr char kText[] = "PulseDB: the tables of this database are in the pool ";
constexpr char kRemedy[] = "; open it with the URI pulse://?layout=pool&pool=";

void AppendFixed(std::string* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendVarint(std::string* out, uint64_t value) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}

// A MANIFEST of one record with one field: 1, the comparator's name.
std::string GuardManifest(const GuardInfo& info) {
  const std::string name =
      absl::StrCat(kText, info.pool, " (", info.pool_id, ")", kRemedy, info.pool);
  std::string record;
  AppendVarint(&record, 1);
  AppendVarint(&record, name.size());
  record += name;
  constexpr char kWholeRecord = 1;
  const std::string covered = absl::StrCat(absl::string_view(&kWholeRecord, 1), record);
  std::string file;
  AppendFixed(&file, MaskedCrc32c(Crc32c(covered.data(), covered.size())), 4);
  AppendFixed(&file, record.size(), 2);
  file.push_back(kWholeRecord);
  return file + record;
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  const UniqueFd fd = pulse::OpenFile(path, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "opening", path);
  return ReadToEnd(fd.get(), SIZE_MAX, "reading", path);
}

absl::Status Replace(const std::string& dir, const char* name, const std::string& bytes) {
  const std::string path = absl::StrCat(dir, "/", name);
  const std::string temp = absl::StrCat(dir, "/", kTemporaryName);
  // Root may do this for the user whose database it is.
  return ReplaceFile(path, temp, 0644, bytes, [&](int fd) {
    return TakeOwner(fd, temp, absl::StrCat(dir, "/", kCurrentName));
  });
}

absl::Status Delete(const std::string& dir, const char* name) {
  const std::string path = absl::StrCat(dir, "/", name);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "deleting", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> IsGuarded(const std::string& dir) {
  const auto current = ReadAll(absl::StrCat(dir, "/", kCurrentName));
  if (current.ok()) return *current == kGuardCurrent;
  const int error = ErrnoOf(current.status());
  if (error == ENOENT || error == ENOTDIR) return false;
  return current.status();
}

absl::StatusOr<GuardInfo> ReadGuard(const std::string& dir) {
  PULSE_ASSIGN_OR_RETURN(const auto guarded, IsGuarded(dir));
  if (!guarded) return absl::NotFoundError(absl::StrCat(dir, " has no guard"));
  const std::string path = absl::StrCat(dir, "/", kGuardManifestName);
  auto bytes = ReadAll(path);
  if (!bytes.ok() && ErrnoOf(bytes.status()) == ENOENT) {
    return absl::DataLossError(absl::StrCat(
        path, " is missing, which says in which pool the tables are; put it back from a copy"));
  }
  if (!bytes.ok()) return bytes.status();
  const size_t text = bytes->find(kText);
  const size_t remedy = bytes->find(kRemedy);
  GuardInfo info;
  if (text != std::string::npos && remedy != std::string::npos) {
    info.pool = bytes->substr(remedy + sizeof(kRemedy) - 1);
    const size_t id = text + sizeof(kText) - 1 + info.pool.size() + 2;
    if (id < remedy) info.pool_id = bytes->substr(id, remedy - id - 1);
  }
  if (info.pool_id.empty() || GuardManifest(info) != *bytes) {
    return absl::DataLossError(absl::StrCat(
        path, " does not say in which pool the tables are: it is damaged, or of another version"));
  }
  return info;
}

absl::Status WriteGuard(const std::string& dir, const GuardInfo& info, bool known_durable) {
  const std::string manifest = GuardManifest(info);
  const auto now = ReadAll(absl::StrCat(dir, "/", kGuardManifestName));
  if (!now.ok() && ErrnoOf(now.status()) != ENOENT) return now.status();
  PULSE_ASSIGN_OR_RETURN(const bool guarded, IsGuarded(dir));
  if (guarded) {
    const auto guard = ReadGuard(dir);
    if (guard.ok() && guard->pool_id != info.pool_id) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the tables of ", dir, " are in the pool ", guard->pool, " (", guard->pool_id,
          "), not in ", info.pool, "; open it with pool=", guard->pool));
    }
  }
  if (!now.ok() || *now != manifest) {
    PULSE_RETURN_IF_ERROR(Replace(dir, kGuardManifestName, manifest));
  }
  // Whoever relies on the guard now may come after one who was killed before its rename was
  // durable.
  if (guarded) return known_durable ? absl::OkStatus() : SyncDirectory(dir);
  auto current = ReadAll(absl::StrCat(dir, "/", kCurrentName));
  if (current.ok()) {
    PULSE_RETURN_IF_ERROR(Replace(dir, kRealCurrentName, *current));
  } else if (ErrnoOf(current.status()) == ENOENT) {
    // No database yet. What an older one has left is none either.
    PULSE_RETURN_IF_ERROR(Delete(dir, kRealCurrentName));
  } else {
    return current.status();
  }
  return Replace(dir, kCurrentName, kGuardCurrent);
}

absl::Status TakeOwner(int fd, const std::string& path, const std::string& like) {
  struct stat to {
  }, from{};
  if (stat(like.c_str(), &from) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return ErrnoError(errno, "looking at", like);
  }
  if (fstat(fd, &to) != 0) return ErrnoError(errno, "looking at", path);
  // The owner first: a change of it may clear bits of the mode.
  if ((to.st_uid != from.st_uid || to.st_gid != from.st_gid) &&
      fchown(fd, from.st_uid, from.st_gid) != 0 && (errno != EPERM || geteuid() == 0)) {
    return ErrnoError(errno, "giving its owner to", path);
  }
  const mode_t mode = from.st_mode & 0777;
  if (mode != (to.st_mode & 0777) && fchmod(fd, mode) != 0) {
    return ErrnoError(errno, "setting the mode of", path);
  }
  return absl::OkStatus();
}

absl::Status LiftGuard(const std::string& dir) {
  const auto guarded = IsGuarded(dir);
  if (!guarded.ok() || !*guarded) return guarded.status();
  const std::string real = absl::StrCat(dir, "/", kRealCurrentName);
  const std::string current = absl::StrCat(dir, "/", kCurrentName);
  if (access(real.c_str(), F_OK) != 0) {
    if (errno != ENOENT) return ErrnoError(errno, "looking for", real);
    return DeleteGuard(dir);
  }
  if (rename(real.c_str(), current.c_str()) != 0) return ErrnoError(errno, "replacing", current);
  PULSE_RETURN_IF_ERROR(SyncDirectory(dir));
  return Delete(dir, kGuardManifestName);
}

absl::Status DeleteGuard(const std::string& dir) {
  const auto guarded = IsGuarded(dir);
  if (!guarded.ok() || !*guarded) return guarded.status();
  PULSE_RETURN_IF_ERROR(Delete(dir, kCurrentName));
  return Delete(dir, kGuardManifestName);
}

}  // namespace pulse::lsm
