#include "services/graph/exchange/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

absl::Status Outside(std::string_view where, std::string_view option) {
  return absl::PermissionDeniedError(Concat(where, ": outside the directory of ", option));
}

bool LedOut() { return errno == EXDEV || errno == ELOOP; }

// The directory that paths begin in.
absl::StatusOr<UniqueFd> OpenRoot(const AllowedDirectory& allowed, std::string_view where,
                                  std::string_view option) {
  if (allowed.path.empty()) {
    return absl::PermissionDeniedError(
        Concat(where, ": the server was started without ", option, " DIR"));
  }
  UniqueFd root = OpenFile(allowed.path, O_PATH | O_DIRECTORY);
  if (!root.valid()) return ErrnoError(errno, "opening", allowed.path);
  return root;
}

std::string WithoutLeadingSlashes(std::string_view path) {
  const size_t begin = path.find_first_not_of('/');
  return begin == std::string_view::npos ? "." : std::string(path.substr(begin));
}

// Whether a directory may take the name: nothing has it, or an empty directory.
bool IsFree(int parent, const std::string& name) {
  struct stat there;
  if (fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  const int fd = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* const dir = fd < 0 ? nullptr : fdopendir(fd);
  if (dir == nullptr) {
    if (fd >= 0) close(fd);
    return false;
  }
  int entries = 0;
  while (readdir(dir) != nullptr) ++entries;
  closedir(dir);
  return entries <= 2;  // itself and its parent
}

// Whether `name` is the directory that is open.
bool IsNameOf(int parent, const char* name, int directory) {
  struct stat named, open;
  return fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(directory, &open) == 0 &&
         IsSameFile(named, open);
}

absl::Status CheckText(std::string_view where) {
  if (where.empty() || where.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("expected the name of a directory");
  }
  return absl::OkStatus();
}

}  // namespace

UniqueFd OpenBelow(int directory, const std::string& path, uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  while (true) {
    const long fd = syscall(SYS_openat2, directory, path.c_str(), &how, sizeof(how));
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return UniqueFd(static_cast<int>(fd));
  }
}

absl::StatusOr<UniqueFd> OpenDirectory(const AllowedDirectory& allowed, std::string_view where,
                                       std::string_view option) {
  PULSE_RETURN_IF_ERROR(CheckText(where));
  UniqueFd fd;
  if (allowed.everywhere) {
    fd = OpenFile(std::string(where), O_PATH | O_DIRECTORY);
  } else {
    PULSE_ASSIGN_OR_RETURN(const UniqueFd root, OpenRoot(allowed, where, option));
    fd = OpenBelow(root.get(), WithoutLeadingSlashes(where), O_PATH | O_DIRECTORY);
    if (!fd.valid() && LedOut()) return Outside(where, option);
  }
  if (!fd.valid()) return ErrnoError(errno, "opening", std::string(where));
  return fd;
}

absl::StatusOr<UniqueFd> OpenFileIn(int directory, const std::string& name,
                                    const std::string& shown) {
  if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') {
    return absl::InvalidArgumentError(Concat(shown, ": not the name of a file beside it"));
  }
  UniqueFd fd(openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return ErrnoError(errno, "opening", shown);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(Concat(shown, ": not a file"));
  return fd;
}

absl::StatusOr<std::unique_ptr<NewDirectory>> NewDirectory::Create(const AllowedDirectory& allowed,
                                                                   std::string_view where,
                                                                   std::string_view option,
                                                                   bool in_place) {
  PULSE_RETURN_IF_ERROR(CheckText(where));
  while (where.size() > 1 && where.back() == '/') where.remove_suffix(1);
  std::unique_ptr<NewDirectory> made(new NewDirectory);
  made->shown_ = std::string(where);
  const size_t slash = where.rfind('/');
  made->name_ = std::string(where.substr(slash == std::string_view::npos ? 0 : slash + 1));
  if (made->name_.empty() || made->name_ == "." || made->name_ == "..") {
    return absl::InvalidArgumentError(Concat(where, ": expected the name of a new directory"));
  }
  const std::string parent = slash == std::string_view::npos ? "."
                             : slash == 0                    ? "/"
                                                             : std::string(where.substr(0, slash));
  PULSE_ASSIGN_OR_RETURN(made->parent_, OpenDirectory(allowed, parent, option));
  made->partial_ = Concat(".", made->name_, ".partial");
  for (bool taken = false; !taken;) {
    if (!in_place && !IsFree(made->parent_.get(), made->name_)) {
      return absl::AlreadyExistsError(Concat(where, ": there is already something of that name"));
    }
    PULSE_ASSIGN_OR_RETURN(taken, made->TakePartial());
  }
  // Of one that was killed.
  PULSE_RETURN_IF_ERROR(made->Clear());
  return made;
}

absl::StatusOr<bool> NewDirectory::TakePartial() {
  const char* const partial = partial_.c_str();
  if (mkdirat(parent_.get(), partial, 0777) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "making the directory", shown_);
  }
  directory_.reset(openat(parent_.get(), partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory_.valid()) {
    if (errno == ENOENT) return false;
    return ErrnoError(errno, "opening", Concat(shown_, ": ", partial_, " beside it"));
  }
  if (flock(directory_.get(), LOCK_EX | LOCK_NB) != 0) {
    directory_.reset();
    return absl::FailedPreconditionError(Concat(shown_, ": somebody else is writing it"));
  }
  // Before the lock, whoever had it may have removed it, or given it its name.
  return IsNameOf(parent_.get(), partial, directory_.get());
}

NewDirectory::~NewDirectory() {
  if (committed_ || !directory_.valid()) return;
  // What cannot be removed stays as the next one finds it.
  if (Clear().ok()) (void)unlinkat(parent_.get(), partial_.c_str(), AT_REMOVEDIR);
}

absl::Status NewDirectory::Clear() {
  const int fd = openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const dir = fd < 0 ? nullptr : fdopendir(fd);
  if (dir == nullptr) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return ErrnoError(error, "listing", shown_);
  }
  absl::Status status;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (unlinkat(directory_.get(), entry->d_name, 0) != 0) {
      status = ErrnoError(errno, "removing", Concat(shown_, "/", name));
    }
  }
  closedir(dir);
  return status;
}

absl::StatusOr<UniqueFd> NewDirectory::CreateFile(const std::string& name) {
  UniqueFd fd(openat(directory_.get(), name.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd.valid()) return ErrnoError(errno, "creating", Concat(shown_, "/", name));
  return fd;
}

absl::Status NewDirectory::Commit() {
  PULSE_RETURN_IF_ERROR(SyncFd(directory_.get(), shown_));
  // An empty directory of that name gives way, and nothing else.
  if (renameat(parent_.get(), partial_.c_str(), parent_.get(), name_.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) {
      return absl::AlreadyExistsError(Concat(shown_, ": there is already something of that name"));
    }
    return ErrnoError(errno, "renaming", shown_);
  }
  committed_ = true;
  return SyncParent();
}

absl::Status NewDirectory::CommitInPlace() {
  PULSE_RETURN_IF_ERROR(SyncFd(directory_.get(), shown_));
  // Once it has the other name, nobody else may take it for what a kill left.
  UniqueFd old(
      openat(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!old.valid()) return ErrnoError(errno, "opening", shown_);
  if (flock(old.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(Concat(shown_, ": somebody else is writing it"));
  }
  if (syscall(SYS_renameat2, parent_.get(), partial_.c_str(), parent_.get(), name_.c_str(),
              RENAME_EXCHANGE) != 0) {
    return ErrnoError(errno, "exchanging", shown_);
  }
  committed_ = true;
  directory_ = std::move(old);
  PULSE_RETURN_IF_ERROR(SyncParent());
  PULSE_RETURN_IF_ERROR(Clear());
  if (unlinkat(parent_.get(), partial_.c_str(), AT_REMOVEDIR) != 0) {
    return ErrnoError(errno, "removing", Concat("what was at ", shown_));
  }
  return absl::OkStatus();
}

std::string NewDirectory::partial_path() const {
  const size_t slash = shown_.rfind('/');
  return slash == std::string::npos ? partial_ : Concat(shown_.substr(0, slash + 1), partial_);
}

absl::Status NewDirectory::SyncParent() {
  const UniqueFd parent(openat(parent_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return ErrnoError(errno, "syncing", shown_);
  return SyncFd(parent.get(), shown_);
}

}  // namespace pulse::graph
