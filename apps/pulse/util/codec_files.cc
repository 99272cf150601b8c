#include "apps/pulse/util/codec_files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/ops/format.h"

namespace pulse {
namespace {

// No tick of a kernel's clock, by which files have their times, is longer.
constexpr int64_t kTickNanos = 20'000'000;

// A change in the same tick as the last one before it leaves the file's times as they are (before
// Linux 6.13, and on file systems without its finer times). Waits until that tick is over, so that
// what is read has the one, and the times show the other.
void WaitUntilChangesShow(const timespec& changed) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  // Not as one number of nanoseconds: a time may be far away.
  const int64_t seconds = std::clamp<int64_t>(now.tv_sec - changed.tv_sec, -1, 1);
  const int64_t age = seconds * 1'000'000'000 + now.tv_nsec - changed.tv_nsec;
  if (age < kTickNanos) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kTickNanos - std::max<int64_t>(age, 0)));
  }
}

bool IsSame(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

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
  if (remove_input_) WaitUntilChangesShow(info_.st_ctim);
  // Without a writer, what was opened without waiting would be at its end. Not opened anew: the
  // first writer may have been there meanwhile.
  while (S_ISFIFO(info_.st_mode)) {
    pollfd waits = {.fd = in_.get(), .events = POLLIN, .revents = 0};
    if (poll(&waits, 1, -1) >= 0) break;
    if (errno != EINTR) return ErrnoError(errno, "waiting for", file);
  }
  // It was for opening only.
  fcntl(in_.get(), F_SETFL, fcntl(in_.get(), F_GETFL) & ~O_NONBLOCK);
  return absl::OkStatus();
}

absl::Status CodecFiles::OpenOutput(const FileChoices& choices, const std::string& path,
                                    bool compresses) {
  if (compresses && (path.empty() || path == "-") && !choices.force && isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        "compressed data is not written to a terminal; name the output with -o, or use --force");
  }
  // A link is followed only to where the user has named it: FILE.gz may be anybody's.
  const auto links =
      choices.output.empty() ? OutputFile::Links::kReplace : OutputFile::Links::kFollow;
  PULSE_RETURN_IF_ERROR(out_.Open(path, choices.force, info_, links));
  out_name_ = out_.name();
  return absl::OkStatus();
}

absl::StatusOr<std::string> CodecFiles::Commit() {
  PULSE_RETURN_IF_ERROR(out_.Commit(is_file_ ? &info_ : nullptr, /*durable=*/remove_input_));
  const std::string& remark = out_.remark();
  if (!remove_input_) return remark;
  const auto stays = [&](const char* why) {
    return absl::StrCat(remark, remark.empty() ? "" : "; ", in_name_, " was ", why,
                        " while it was read, and is not removed; ", out_name_,
                        " has what was read");
  };
  struct stat read {};
  struct stat named {};
  if (fstat(in_.get(), &read) != 0) return ErrnoError(errno, "reading", in_name_);
  if (stat(in_name_.c_str(), &named) != 0 || !IsSameFile(named, read)) {
    return stays("renamed or replaced");
  }
  // The time of change, too, which programs cannot set.
  if (read.st_size != info_.st_size || !IsSame(read.st_mtim, info_.st_mtim) ||
      !IsSame(read.st_ctim, info_.st_ctim)) {
    return stays("changed");
  }
  if (unlink(in_name_.c_str()) != 0) return ErrnoError(errno, "removing", in_name_);
  return remark;
}

absl::Status CodecFiles::CommitSalvaged() { return out_.Commit(is_file_ ? &info_ : nullptr); }

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
