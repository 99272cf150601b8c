#include "apps/pulse/util/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse {
namespace {

// What a signal that ends the process has to remove. Only one output is written at a time.
char unfinished[4096];
volatile sig_atomic_t has_unfinished = 0;

void RemoveUnfinished(int signal) {
  RemoveUnfinishedOutput();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void RemoveOnSignal(const std::string& path) {
  if (path.size() >= sizeof(unfinished)) return;
  std::memcpy(unfinished, path.c_str(), path.size() + 1);
  has_unfinished = 1;
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU, SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM}) {
    struct sigaction before;
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) std::signal(signal, RemoveUnfinished);
  }
}

// Whether the path leads to a descriptor of a process, as /dev/fd/1 does, also through links.
bool IsDescriptor(std::string path) {
  for (int links = 0; links < 40; ++links) {
    if (absl::StartsWith(path, "/dev/fd/") || absl::StartsWith(path, "/proc/")) return true;
    char target[4096];
    const ssize_t n = readlink(path.c_str(), target, sizeof(target));
    if (n <= 0) return false;
    const std::string next(target, static_cast<size_t>(n));
    const size_t slash = path.rfind('/');
    const bool within = next.front() != '/' && slash != std::string::npos;
    path = within ? absl::StrCat(path.substr(0, slash + 1), next) : next;
  }
  return false;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Not an error where it cannot be done.
absl::Status SyncIfPossible(int fd, const std::string& name) {
  const absl::Status status = SyncFd(fd, name);
  const int error = ErrnoOf(status);
  return error == EINVAL || error == ENOTSUP || error == ENOSYS ? absl::OkStatus() : status;
}

}  // namespace

OutputFile::OutputFile(OutputFile&& o) noexcept
    : fd_(std::move(o.fd_)),
      name_(std::move(o.name_)),
      final_(std::exchange(o.final_, std::string())),
      temporary_(std::exchange(o.temporary_, std::string())),
      remark_(std::move(o.remark_)),
      overwrite_(o.overwrite_) {}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  has_unfinished = 0;
}

absl::Status OutputFile::OpenStandard(const struct stat& input) {
  name_ = "standard output";
  fd_.reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!fd_.valid()) return ErrnoError(errno, "writing", name_);
  struct stat there {};
  if (fstat(fd_.get(), &there) != 0) return ErrnoError(errno, "writing", name_);
  if (S_ISREG(there.st_mode) && IsSameFile(there, input)) {
    return absl::InvalidArgumentError("the input file is also the output");
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Open(const std::string& path, bool overwrite, const struct stat& input,
                              Links links) {
  overwrite_ = overwrite;
  struct stat there {};
  struct stat standard {};
  if (path.empty() || path == "-" || path == "/dev/stdout") return OpenStandard(input);
  name_ = path;
  std::string file = path;  // what gets the output: of a link, what it leads to
  if (stat(path.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) {
      // A device or pipe: as it is.
      fd_ = OpenFile(path, O_WRONLY);
      if (!fd_.valid()) return ErrnoError(errno, "opening", path);
      return absl::OkStatus();
    }
    if (IsSameFile(there, input)) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is the input itself"));
    }
    if (IsDescriptor(path)) {
      // A file in its place would not be the one that the shell goes on with.
      if (fstat(STDOUT_FILENO, &standard) == 0 && IsSameFile(there, standard)) {
        return OpenStandard(input);
      }
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is a file that is open: use -c and a redirection"));
    }
    if (!overwrite) {
      return absl::AlreadyExistsError(absl::StrCat(path, " exists; --force overwrites it"));
    }
    if (links == Links::kFollow && lstat(path.c_str(), &there) == 0 && S_ISLNK(there.st_mode)) {
      const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
      if (real == nullptr) return ErrnoError(errno, "following", path);
      file = real.get();
    }
  } else if (!overwrite && lstat(path.c_str(), &there) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is a link that leads nowhere; --force replaces it"));
  }
  final_ = file;
  return OpenUnfinished();
}

absl::Status OutputFile::OpenUnfinished() {
  const std::string folder = FolderOf(final_);
  // By its descriptor it gets a name later.
  if (access("/proc/self/fd", X_OK) == 0) {
    fd_ = OpenFile(folder.empty() ? "." : folder, O_TMPFILE | O_RDWR, 0600);
    if (fd_.valid()) return absl::OkStatus();
  }
  // Without the whole name, which may be as long as names may be.
  std::string name = absl::StrCat(folder, ".pulse-XXXXXX");
  fd_.reset(mkostemp(name.data(), O_CLOEXEC));
  if (!fd_.valid()) return ErrnoError(errno, "creating", name_);
  temporary_ = name;
  RemoveOnSignal(temporary_);
  return absl::OkStatus();
}

absl::Status OutputFile::NameTemporarily() {
  const std::string own = absl::StrCat("/proc/self/fd/", fd_.get());
  for (uint64_t number = 0;; ++number) {
    const std::string name = absl::StrCat(FolderOf(final_), ".pulse-", getpid(), "-", number);
    if (linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      RemoveOnSignal(temporary_);
      return absl::OkStatus();
    }
    if (errno != EEXIST) return ErrnoError(errno, "naming the output", name_);
  }
}

absl::Status OutputFile::CannotSet(const char* what) {
  const int error = errno;
  const absl::Status status = ErrnoError(error, absl::StrCat("setting the ", what, " of"), name_);
  if (error != EPERM && error != ENOTSUP && error != ENOSYS) return status;
  // The file system has none, or lets nobody set them. The output, so far its owner's alone, is
  // worth more.
  absl::StrAppend(&remark_, remark_.empty() ? "" : "; ", status.message());
  return absl::OkStatus();
}

absl::Status OutputFile::Commit(const struct stat* like, bool durable) {
  if (final_.empty()) {
    // Also of a descriptor that others share, some file systems say here what could not be written.
    const bool closed = !fd_.valid() || close(fd_.release()) == 0;
    if (closed || errno == EBADF || errno == EINVAL) return absl::OkStatus();
    return ErrnoError(errno, "closing", name_);
  }
  if (temporary_.empty()) PULSE_RETURN_IF_ERROR(NameTemporarily());
  mode_t mode = 0;
  struct stat old {};
  const bool replaces = overwrite_ && stat(final_.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  if (const struct stat* rights = like != nullptr ? like : replaces ? &old : nullptr) {
    // No program is in it: nothing to run as somebody else.
    mode = CopyOwner(fd_.get(), *rights);
  } else {
    const mode_t mask = umask(0);
    umask(mask);
    mode = 0666 & ~mask;
  }
  if (fchmod(fd_.get(), mode) != 0) PULSE_RETURN_IF_ERROR(CannotSet("mode"));
  if (like != nullptr) {
    const timespec times[2] = {like->st_atim, like->st_mtim};
    if (futimens(fd_.get(), times) != 0) PULSE_RETURN_IF_ERROR(CannotSet("times"));
  }
  if (durable) PULSE_RETURN_IF_ERROR(SyncIfPossible(fd_.get(), name_));
  // Delayed writes of some file systems fail here.
  if (close(fd_.release()) != 0) return ErrnoError(errno, "closing", name_);
  const unsigned flags = overwrite_ ? 0 : RENAME_NOREPLACE;
  int got = renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, final_.c_str(), flags);
  if (got != 0 && errno == EINVAL && flags != 0) {
    // The file system cannot refuse to replace: a link can.
    got = link(temporary_.c_str(), final_.c_str());
    if (got == 0) unlink(temporary_.c_str());
  }
  if (got != 0) return ErrnoError(errno, "naming the output", name_);
  const std::string folder = FolderOf(final_);
  temporary_.clear();
  final_.clear();
  has_unfinished = 0;
  if (!durable) return absl::OkStatus();
  const UniqueFd named_in = OpenFile(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  // One that may not be read cannot be synced.
  return named_in.valid() ? SyncIfPossible(named_in.get(), folder) : absl::OkStatus();
}

void RemoveUnfinishedOutput() {
  if (has_unfinished != 0) unlink(unfinished);
}

}  // namespace pulse
