#include "services/graph/backup/backup.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/core/committed.h"
#include "services/graph/core/files.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/wal_records.h"
#include "services/graph/exchange/directory.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

// Opening is much faster than a compaction.
constexpr int kAttempts = 20;
constexpr std::string_view kHead = "pulse graph backup 1\n";
constexpr size_t kCopyBytes = size_t{1} << 20;

struct SourceFile {
  std::string name;
  UniqueFd fd;
  uint64_t size = 0;
  timespec changed{};
  bool constant = false;  // a run or checkpoint
};

// Where the last whole record of a segment of the log ends, up to `size`: behind it are zeros,
// which a writer may fill while they are copied. `size`, where there is something else.
// `newest` becomes its sequence.
absl::StatusOr<uint64_t> EndOfLog(const std::string& directory, uint64_t number, int fd,
                                  uint64_t size, uint64_t* newest) {
  WalSegmentReader reader(SystemFiles(), directory, number);
  WalRecord record;
  uint64_t at = kWalSegmentHeader;
  for (int attempt = 0; attempt < 3; ++attempt) {
    reader.Refresh();
    while (at < size) {
      PULSE_ASSIGN_OR_RETURN(const bool whole, reader.ReadAt(at, &record));
      if (!whole || record.end > size) break;
      at = record.end;
      if (!record.continues) *newest = std::max(*newest, record.sequence);
    }
    bool zeros = true;
    std::string bytes;
    for (uint64_t from = at; zeros && from < size; from += bytes.size()) {
      bytes.resize(std::min<uint64_t>(kCopyBytes, size - from));
      PULSE_ASSIGN_OR_RETURN(
          const size_t n, ReadAt(fd, bytes.data(), bytes.size(), from, "reading", reader.path()));
      if (n == 0) break;
      bytes.resize(n);
      zeros = bytes.find_first_not_of('\0') == std::string::npos;
    }
    if (zeros) return std::min(at, size);
    // It was written to since, or it is damaged.
  }
  return size;
}

struct Source {
  std::string manifest;  // its bytes
  std::vector<SourceFile> files;
  uint64_t newest = 0;  // commit
};

absl::Status Open(const std::string& directory, const std::string& name, bool constant,
                  Source* source) {
  SourceFile file;
  file.name = name;
  file.constant = constant;
  const std::string path = Concat(directory, "/", name);
  file.fd = OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat info;
  if (!file.fd.valid() || fstat(file.fd.get(), &info) != 0) {
    return ErrnoError(errno, "opening", path);
  }
  file.size = static_cast<uint64_t>(info.st_size);
  file.changed = info.st_mtim;
  source->files.push_back(std::move(file));
  return absl::OkStatus();
}

// What one manifest names, and the log. NotFound: a file that was replaced meanwhile, maybe.
absl::Status OpenAll(const std::string& from, Source* source) {
  const std::string path = Concat(from, "/", kManifestFile);
  PULSE_ASSIGN_OR_RETURN(source->manifest, SystemFiles()->Read(path));
  PULSE_ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Decode(source->manifest, path));
  source->newest = manifest.checkpoint_sequence;
  if (!manifest.checkpoint.empty()) {
    PULSE_RETURN_IF_ERROR(Open(from, manifest.checkpoint, true, source));
  }
  for (const ManifestRun& run : manifest.runs) {
    PULSE_RETURN_IF_ERROR(Open(from, run.file, true, source));
  }
  PULSE_ASSIGN_OR_RETURN(const auto segments, ListWalSegments(SystemFiles(), from));
  uint64_t expected = manifest.first_segment;
  for (const uint64_t number : segments) {
    if (number < manifest.first_segment) continue;
    const std::string name = WalName(number);
    if (number != expected++) {
      return absl::NotFoundError(
          Concat(from, ": a segment of the log before ", name, " is missing"));
    }
    PULSE_RETURN_IF_ERROR(Open(from, name, false, source));
    SourceFile& log = source->files.back();
    PULSE_ASSIGN_OR_RETURN(log.size,
                           EndOfLog(from, number, log.fd.get(), log.size, &source->newest));
  }
  // A writer may have begun, whose log has what a manifest of this format does not tell of.
  PULSE_ASSIGN_OR_RETURN(const std::string now, SystemFiles()->Read(path));
  PULSE_ASSIGN_OR_RETURN(const Manifest newest, Manifest::Decode(now, path));
  if (newest.format != manifest.format) {
    return absl::NotFoundError(Concat(from, ": its format has become a newer one meanwhile"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Source> OpenSource(const std::string& from) {
  absl::Status last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Source source;
    last = OpenAll(from, &source);
    if (last.ok()) return source;
    if (!absl::IsNotFound(last)) return last;
    const auto newest = SystemFiles()->Read(Concat(from, "/", kManifestFile));
    if (absl::IsNotFound(newest.status())) {
      return absl::NotFoundError(Concat(from, ": there is no graph database"));
    }
    // The writer names what it has before it removes what it no longer needs.
    if (newest.ok() && *newest == source.manifest) {
      return absl::DataLossError(std::string(last.message()));
    }
  }
  return absl::AbortedError(
      Concat(from, ": a writer replaces its files faster than they can be opened; try again (",
             std::string(last.message()), ")"));
}

// A line of the backup's file, for each file of it.
std::string FileLine(const std::string& name, const struct stat& info) {
  return Concat(name, " ", static_cast<int64_t>(info.st_size), " ",
                static_cast<int64_t>(info.st_mtim.tv_sec), ".",
                static_cast<int64_t>(info.st_mtim.tv_nsec), "\n");
}

bool SameTime(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

class Backup {
 public:
  Backup(std::string from, std::string to, const BackupOptions& options)
      : from_(std::move(from)), to_(std::move(to)), options_(options) {}

  absl::StatusOr<BackupReport> Run() {
    struct stat source, there;
    if (stat(from_.c_str(), &source) != 0) {
      return absl::NotFoundError(Concat(from_, ": there is no graph database"));
    }
    PULSE_RETURN_IF_ERROR(ResolveDestination());
    bool in_place = false;
    if (stat(to_.c_str(), &there) == 0) {
      if (IsSameFile(there, source)) {
        return absl::InvalidArgumentError(Concat(to_, " is the database itself"));
      }
      PULSE_ASSIGN_OR_RETURN(in_place, CheckEarlier());
    }
    // Before the log is read, which a writer makes longer meanwhile.
    PULSE_ASSIGN_OR_RETURN(const auto committed, ReadCommitted(SystemFiles(), from_));
    PULSE_ASSIGN_OR_RETURN(const Source opened, OpenSource(from_));
    if (committed.has_value()) {
      const absl::Status whole = CheckSyncedIsThere(*committed, opened.newest, from_);
      if (!whole.ok()) {
        return absl::DataLossError(Concat(std::string(whole.message()), "; `pulse graph check ",
                                          from_, "` names the remedy"));
      }
    }
    PULSE_ASSIGN_OR_RETURN(
        made_, NewDirectory::Create({.path = {}, .everywhere = true}, to_, "", in_place));
    for (const SourceFile& file : opened.files) report_.bytes += file.size;
    for (const SourceFile& file : opened.files) PULSE_RETURN_IF_ERROR(Take(file));
    PULSE_RETURN_IF_ERROR(Write(kManifestFile, opened.manifest));
    PULSE_RETURN_IF_ERROR(WriteList(opened));
    if (options_.check) {
      // With the names that it will have there.
      PULSE_RETURN_IF_ERROR(SyncFd(made_->descriptor(), to_));
      PULSE_RETURN_IF_ERROR(options_.check(made_->partial_path()));
    }
    if (!in_place) {
      PULSE_RETURN_IF_ERROR(made_->Commit());
      return report_;
    }
    // Nobody may have begun to write to it.
    PULSE_ASSIGN_OR_RETURN(const auto lock, SystemFiles()->Lock(Concat(to_, "/", kLockFile)));
    std::unique_ptr<CommittedWriter> second;
    if (SystemFiles()->Size(Concat(to_, "/", kCommittedFile)).ok()) {
      PULSE_ASSIGN_OR_RETURN(second, CommittedWriter::Open(SystemFiles(), to_));
    }
    PULSE_RETURN_IF_ERROR(CheckEarlier().status());
    PULSE_RETURN_IF_ERROR(made_->CommitInPlace());
    return report_;
  }

 private:
  // Where a link stands, the directory that it leads to gives way, and not the link. Within the
  // database nothing else may stand: what copies or removes it would have both.
  absl::Status ResolveDestination() {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::is_symlink(to_, error)) {
      const fs::path target = fs::canonical(to_, error);
      if (!error) to_ = target.string();
    }
    const fs::path database = fs::canonical(from_, error);
    const fs::path to = fs::weakly_canonical(fs::absolute(to_, error), error);
    if (error) return ErrnoError(error.value(), "looking at", to_);
    const fs::path within = to.lexically_relative(database);
    if (within.empty() || within == "." || *within.begin() == "..") return absl::OkStatus();
    return absl::InvalidArgumentError(Concat(to_, " is in the directory of the database"));
  }

  // Whether there is an earlier backup, as it was made; false for an empty directory.
  absl::StatusOr<bool> CheckEarlier() {
    PULSE_ASSIGN_OR_RETURN(const auto names, SystemFiles()->List(to_));
    if (names.empty()) return false;
    const auto text = SystemFiles()->Read(Concat(to_, "/", kBackupFile));
    if (absl::IsNotFound(text.status()) || (text.ok() && !text->starts_with(kHead))) {
      return absl::AlreadyExistsError(
          Concat(to_, ": there is already something, and it is no backup of a graph database"));
    }
    PULSE_RETURN_IF_ERROR(text.status());
    std::string now(kHead);
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    for (const std::string& name : sorted) {
      if (name == kBackupFile || name == kLockFile) continue;
      struct stat info;
      const std::string path = Concat(to_, "/", name);
      if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, "looking at", path);
      if (name == kCommittedFile && info.st_size == 0) continue;  // an opening came no further
      now += FileLine(name, info);
    }
    if (now != *text) {
      return absl::FailedPreconditionError(Concat(
          to_, " was written to since it was made: it is a database of its own now; back up ",
          "to another place, or remove it"));
    }
    return true;
  }

  absl::Status Take(const SourceFile& file) {
    if (options_.progress) options_.progress(done_, report_.bytes);
    done_ += file.size;
    ++report_.files;
    if (file.constant && TryLink(Concat(to_, "/", file.name), file)) {
      report_.bytes_kept += file.size;
      return absl::OkStatus();
    }
    if (file.constant && options_.link && TryLink(Concat(from_, "/", file.name), file)) {
      report_.bytes_linked += file.size;
      return absl::OkStatus();
    }
    report_.bytes_copied += file.size;
    return Copy(file);
  }

  // A link to the same file at another place. False: it is not there, or another one, or no link is
  // possible.
  bool TryLink(const std::string& path, const SourceFile& file) {
    if (linkat(AT_FDCWD, path.c_str(), made_->descriptor(), file.name.c_str(), 0) != 0) {
      return false;
    }
    // What was linked, and not what had the name before.
    struct stat info;
    if (fstatat(made_->descriptor(), file.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == file.size &&
        SameTime(info.st_mtim, file.changed)) {
      return true;
    }
    // Where that fails, so does the copy, as the name is taken.
    (void)unlinkat(made_->descriptor(), file.name.c_str(), 0);
    return false;
  }

  absl::Status Copy(const SourceFile& file) {
    const std::string name = Concat(to_, "/", file.name);
    PULSE_ASSIGN_OR_RETURN(const UniqueFd fd, made_->CreateFile(file.name));
    // A clone has all that the file has; of the log only what was there then is wanted.
    if (!file.constant || ioctl(fd.get(), FICLONE, file.fd.get()) != 0) {
      PULSE_RETURN_IF_ERROR(CopyBytes(file, fd.get(), name));
    }
    if (file.constant) {
      // By which a later backup knows it again.
      const timespec times[2] = {file.changed, file.changed};
      if (futimens(fd.get(), times) != 0) return ErrnoError(errno, "writing", name);
    }
    return SyncFd(fd.get(), name);
  }

  absl::Status CopyBytes(const SourceFile& file, int to, const std::string& name) {
    std::string buffer;
    for (uint64_t at = 0; at < file.size;) {
      const size_t size = std::min<uint64_t>(kCopyBytes, file.size - at);
      buffer.resize(size);
      const std::string source = Concat(from_, "/", file.name);
      PULSE_ASSIGN_OR_RETURN(const size_t n,
                             ReadAt(file.fd.get(), buffer.data(), size, at, "reading", source));
      // The log's end, where a write failed and was taken back.
      if (n == 0) return absl::OkStatus();
      PULSE_RETURN_IF_ERROR(WriteAll(to, {buffer.data(), n}, "writing", name));
      at += n;
    }
    return absl::OkStatus();
  }

  absl::Status Write(const std::string& name, std::string_view bytes) {
    const std::string shown = Concat(to_, "/", name);
    PULSE_ASSIGN_OR_RETURN(const UniqueFd fd, made_->CreateFile(name));
    PULSE_RETURN_IF_ERROR(WriteAll(fd.get(), cypher::Absl(bytes), "writing", shown));
    return SyncFd(fd.get(), shown);
  }

  absl::Status WriteList(const Source& source) {
    std::vector<std::string> names = {kManifestFile};
    for (const SourceFile& file : source.files) names.push_back(file.name);
    std::sort(names.begin(), names.end());
    std::string list(kHead);
    for (const std::string& name : names) {
      struct stat info;
      if (fstatat(made_->descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return ErrnoError(errno, "looking at", Concat(to_, "/", name));
      }
      list += FileLine(name, info);
    }
    return Write(kBackupFile, list);
  }

  const std::string from_;
  std::string to_;
  const BackupOptions& options_;
  BackupReport report_;
  uint64_t done_ = 0;
  std::unique_ptr<NewDirectory> made_;
};

}  // namespace

absl::StatusOr<BackupReport> BackUpGraph(const std::string& from, const std::string& to,
                                         const BackupOptions& options) {
  return Backup(from, to, options).Run();
}

}  // namespace pulse::graph
