#include "bench/macro/bench_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "base/errors.h"

namespace pulse::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = ".pulse-bench";
constexpr char kMarkText[] = "The working directory of `pulse bench`; may be deleted as a whole.\n";

absl::Status Error(const std::error_code& ec, absl::string_view what, absl::string_view target) {
  return ec ? ErrnoError(ec.value(), what, target) : absl::OkStatus();
}

absl::Status LockMark(int mark, const std::string& dir) {
  if (flock(mark, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "directory ", dir, " is in use by another benchmark; wait for it, or choose another --dir"));
}

// Opens the mark, creating it in an empty directory only.
absl::StatusOr<UniqueFd> TakeMark(const std::string& dir) {
  const std::string mark = absl::StrCat(dir, "/", kMark);
  std::error_code ec;
  const bool empty = fs::is_empty(dir, ec);
  if (ec) return ErrnoError(ec.value(), "looking into", dir);
  UniqueFd fd(open(mark.c_str(), O_RDWR | O_CLOEXEC | (empty ? O_CREAT : 0), 0644));
  if (!fd.valid() && errno == ENOENT) {
    return absl::FailedPreconditionError(
        absl::StrCat("directory ", dir,
                     " holds files that are not this benchmark's; choose an empty or new --dir"));
  }
  if (!fd.valid()) return ErrnoError(errno, "opening", mark);
  PULSE_RETURN_IF_ERROR(LockMark(fd.get(), dir));
  if (empty && write(fd.get(), kMarkText, sizeof(kMarkText) - 1) < 0) {
    return ErrnoError(errno, "writing", mark);
  }
  return fd;
}

absl::Status CheckDisk(const std::string& dir, const DiskInfo& disk, bool allow_tmpfs,
                       uint64_t need_bytes) {
  if (disk.in_memory && !allow_tmpfs) {
    return absl::FailedPreconditionError(
        absl::StrCat("directory ", dir, " lies in memory (", disk.type,
                     "), where I/O costs nothing and figures mean nothing; choose a --dir on a "
                     "disk, or insist with --allow-tmpfs"));
  }
  if (disk.free_bytes < need_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "directory ", dir, " has ", FormatBytes(disk.free_bytes), " free and the benchmark needs ",
        FormatBytes(need_bytes), "; make room, or choose a smaller --size or another --dir"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchDir> BenchDir::Open(const std::string& path, bool allow_tmpfs,
                                        uint64_t need_bytes) {
  std::error_code ec;
  const std::string absolute = fs::absolute(path, ec).lexically_normal().string();
  PULSE_ASSIGN_OR_RETURN(const auto disk, InspectDisk(ExistingAncestor(absolute)));
  PULSE_RETURN_IF_ERROR(CheckDisk(absolute, disk, allow_tmpfs, need_bytes));
  fs::create_directories(absolute, ec);
  PULSE_RETURN_IF_ERROR(Error(ec, "creating directory", absolute));
  PULSE_ASSIGN_OR_RETURN(auto mark, TakeMark(absolute));
  BenchDir dir;
  dir.path_ = absolute;
  dir.file_system_ = disk.type;
  dir.mark_ = std::move(mark);
  return dir;
}

absl::Status BenchDir::Remove(const std::string& name) const {
  std::error_code ec;
  fs::remove_all(Sub(name), ec);
  return Error(ec, "removing", Sub(name));
}

absl::Status BenchDir::RemoveWhole(const std::string& path) {
  const UniqueFd mark(open(absl::StrCat(path, "/", kMark).c_str(), O_RDWR | O_CLOEXEC));
  if (!mark.valid()) {
    if (errno != ENOENT && errno != ENOTDIR) return ErrnoError(errno, "opening the mark of", path);
    rmdir(path.c_str());  // no benchmark's; fails where it holds anything
    return absl::OkStatus();
  }
  PULSE_RETURN_IF_ERROR(LockMark(mark.get(), path));
  std::error_code ec;
  fs::remove_all(path, ec);
  return Error(ec, "removing", path);
}

absl::Status BenchDir::RemoveAll(const std::string& prefix) const {
  if (prefix.empty()) return absl::InvalidArgumentError("removing by an empty prefix");
  std::vector<std::string> names;
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ec)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, prefix)) names.push_back(name);
  }
  PULSE_RETURN_IF_ERROR(Error(ec, "reading directory", path_));
  for (const std::string& name : names) PULSE_RETURN_IF_ERROR(Remove(name));
  return absl::OkStatus();
}

absl::Status BenchDir::CloneDb(const std::string& from, const std::string& to) const {
  std::error_code ec;
  fs::create_directories(Sub(to), ec);
  PULSE_RETURN_IF_ERROR(Error(ec, "creating directory", Sub(to)));
  fs::directory_iterator it(Sub(from), ec);
  PULSE_RETURN_IF_ERROR(Error(ec, "reading directory", Sub(from)));
  for (const fs::directory_entry& entry : it) {
    const std::string name = entry.path().filename().string();
    if (name == "LOCK" || absl::StartsWith(name, "LOG")) continue;
    const std::string target = absl::StrCat(Sub(to), "/", name);
    if (absl::EndsWith(name, ".sst")) {
      fs::create_hard_link(entry.path(), target, ec);
      if (!ec) continue;  // not every file system has links
    }
    fs::copy_file(entry.path(), target, ec);
    PULSE_RETURN_IF_ERROR(Error(ec, "copying a database to", target));
  }
  return absl::OkStatus();
}

std::string DropPageCache(const std::string& dir) {
  sync();
  const UniqueFd control(open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
  if (control.valid() && write(control.get(), "1", 1) == 1) return "drop_caches";
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, ec)) {
    const UniqueFd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid()) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  return "fadvise";
}

uint64_t BytesIn(const std::string& dir, const std::string& suffix) {
  uint64_t total = 0;
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, ec)) {
    if (absl::EndsWith(entry.path().string(), suffix)) total += entry.file_size(ec);
  }
  return total;
}

}  // namespace pulse::bench
