#include "apps/pulse/util/codec_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/ops/format.h"

namespace pulse {
namespace {

// What a signal that ends the process has to remove. Only one output is written at a time.
char unfinished[4096];
volatile sig_atomic_t has_unfinished = 0;

void RemoveUnfinished(int signal) {
  if (has_unfinished != 0) unlink(unfinished);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void RemoveOnSignal(const std::string& path) {
  if (path.size() >= sizeof(unfinished)) return;
  std::memcpy(unfinished, path.c_str(), path.size() + 1);
  has_unfinished = 1;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction before;
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) std::signal(signal, RemoveUnfinished);
  }
}

}  // namespace

CodecFiles::CodecFiles(CodecFiles&& o) noexcept
    : in_(std::move(o.in_)),
      out_(std::move(o.out_)),
      in_name_(std::move(o.in_name_)),
      out_name_(std::move(o.out_name_)),
      temporary_(std::exchange(o.temporary_, std::string())),
      info_(o.info_),
      is_file_(o.is_file_),
      remove_input_(o.remove_input_),
      overwrite_(o.overwrite_) {}

CodecFiles::~CodecFiles() {
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  has_unfinished = 0;
}

absl::StatusOr<CodecFiles> CodecFiles::ForCompression(const FileChoices& choices,
                                                      const std::string& file,
                                                      const std::string& suffix) {
  CodecFiles files;
  PULSE_RETURN_IF_ERROR(files.OpenInput(choices, file));
  const bool implied = choices.output.empty() && !choices.to_stdout && file != "-";
  if (implied && ops::NameWithoutSuffix(file).ok() && !choices.force) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " has the suffix of a compressed file; --force compresses it again"));
  }
  PULSE_RETURN_IF_ERROR(files.OpenOutput(choices, implied ? file + suffix : choices.output, true));
  return files;
}

absl::StatusOr<CodecFiles> CodecFiles::ForDecompression(const FileChoices& choices,
                                                        const std::string& file) {
  CodecFiles files;
  PULSE_RETURN_IF_ERROR(files.OpenInput(choices, file));
  std::string path = choices.output;
  if (choices.output.empty() && !choices.to_stdout && file != "-") {
    PULSE_ASSIGN_OR_RETURN(path, ops::NameWithoutSuffix(file));
  }
  PULSE_RETURN_IF_ERROR(files.OpenOutput(choices, path, false));
  return files;
}

absl::StatusOr<CodecFiles> CodecFiles::ForTest(const FileChoices& choices,
                                               const std::string& file) {
  CodecFiles files;
  FileChoices reading = choices;
  reading.to_stdout = true;
  PULSE_RETURN_IF_ERROR(files.OpenInput(reading, file));
  files.out_name_ = files.in_name_;
  return files;
}

absl::Status CodecFiles::OpenInput(const FileChoices& choices, const std::string& file) {
  if (file == "-") {
    in_name_ = "standard input";
    in_.reset(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!in_.valid()) return ErrnoError(errno, "reading", in_name_);
    if (fstat(in_.get(), &info_) != 0) return ErrnoError(errno, "reading", in_name_);
    return absl::OkStatus();
  }
  in_name_ = file;
  remove_input_ = choices.output.empty() && !choices.to_stdout && !choices.keep;
  const bool implied = choices.output.empty() && !choices.to_stdout;
  const int follow = implied && !choices.force ? O_NOFOLLOW : 0;
  in_ = OpenFile(file, O_RDONLY | follow | O_NONBLOCK);
  if (!in_.valid() && errno == ELOOP && follow != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " is a symbolic link; use --force, -c or -o"));
  }
  if (!in_.valid()) return ErrnoError(errno, "opening", file);
  if (fstat(in_.get(), &info_) != 0) return ErrnoError(errno, "opening", file);
  if (S_ISDIR(info_.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(file, " is a directory"));
  is_file_ = S_ISREG(info_.st_mode);
  if (implied && !is_file_) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " is no regular file; name the output with -o, or use -c"));
  }
  if (remove_input_ && info_.st_nlink > 1 && !choices.force) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " has other names (hard links), which would keep it; use --keep or --force"));
  }
  // It was for opening only: a named pipe is waited for.
  fcntl(in_.get(), F_SETFL, fcntl(in_.get(), F_GETFL) & ~O_NONBLOCK);
  return absl::OkStatus();
}

absl::Status CodecFiles::OpenOutput(const FileChoices& choices, const std::string& path,
                                    bool compresses) {
  overwrite_ = choices.force;
  if (path.empty() || path == "-") {
    if (compresses && !choices.force && isatty(STDOUT_FILENO) != 0) {
      return absl::InvalidArgumentError(
          "compressed data is not written to a terminal; name the output with -o, or use --force");
    }
    out_name_ = "standard output";
    out_.reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!out_.valid()) return ErrnoError(errno, "writing", out_name_);
    return absl::OkStatus();
  }
  out_name_ = path;
  struct stat there;
  if (stat(path.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) {
      // A device or pipe: as it is.
      out_ = OpenFile(path, O_WRONLY);
      if (!out_.valid()) return ErrnoError(errno, "opening", path);
      return absl::OkStatus();
    }
    if (there.st_dev == info_.st_dev && there.st_ino == info_.st_ino) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is the input itself"));
    }
    if (!choices.force) {
      return absl::AlreadyExistsError(absl::StrCat(path, " exists; --force overwrites it"));
    }
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  // Not the whole name: it may be as long as names may be.
  std::string name = absl::StrCat(folder, ".pulse-XXXXXX");
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, "creating", path);
  out_.reset(fd);
  temporary_ = name;
  RemoveOnSignal(temporary_);
  return absl::OkStatus();
}

absl::Status CodecFiles::Rename() {
  if (temporary_.empty()) return absl::OkStatus();
  mode_t mode = info_.st_mode & 07777;
  if (is_file_) {
    // As far as it is allowed: without the owner, others get no rights that they did not have.
    if (fchown(out_.get(), static_cast<uid_t>(-1), info_.st_gid) != 0) mode &= ~mode_t{070};
    if (fchown(out_.get(), info_.st_uid, static_cast<gid_t>(-1)) != 0) mode &= 0777;
  } else {
    const mode_t mask = umask(0);
    umask(mask);
    mode = 0666 & ~mask;
  }
  if (fchmod(out_.get(), mode) != 0) return ErrnoError(errno, "setting the mode of", out_name_);
  if (is_file_) {
    const timespec times[2] = {info_.st_atim, info_.st_mtim};
    if (futimens(out_.get(), times) != 0) return ErrnoError(errno, "setting times of", out_name_);
  }
  // Delayed writes of some file systems fail here.
  if (close(out_.release()) != 0) return ErrnoError(errno, "closing", out_name_);
  const unsigned flags = overwrite_ ? 0 : RENAME_NOREPLACE;
  int got = renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, out_name_.c_str(), flags);
  if (got != 0 && errno == EINVAL && flags != 0) {
    // The file system cannot refuse to replace: a link can.
    got = link(temporary_.c_str(), out_name_.c_str());
    if (got == 0) unlink(temporary_.c_str());
  }
  if (got != 0) return ErrnoError(errno, "naming the output", out_name_);
  temporary_.clear();
  has_unfinished = 0;
  return absl::OkStatus();
}

absl::Status CodecFiles::Commit() {
  PULSE_RETURN_IF_ERROR(Rename());
  if (remove_input_ && unlink(in_name_.c_str()) != 0) {
    return ErrnoError(errno, "removing", in_name_);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CodecFiles::CommitSalvaged() {
  struct stat there {};
  if (out_.valid() && fstat(out_.get(), &there) != 0)
    return ErrnoError(errno, "writing", out_name_);
  PULSE_RETURN_IF_ERROR(Rename());
  return static_cast<uint64_t>(there.st_size);
}

std::string CodecFiles::base_name() const {
  return is_file_ ? in_name_.substr(in_name_.rfind('/') + 1) : std::string();
}

uint32_t CodecFiles::mtime() const {
  const int64_t seconds = info_.st_mtim.tv_sec;
  return is_file_ && seconds > 0 && seconds <= UINT32_MAX ? static_cast<uint32_t>(seconds) : 0;
}

uint64_t CodecFiles::input_size() const {
  return S_ISREG(info_.st_mode) ? static_cast<uint64_t>(info_.st_size) : 0;
}

}  // namespace pulse
