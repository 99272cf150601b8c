#include "services/graph/core/files.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Absl;

class SystemFile : public File {
 public:
  SystemFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status WriteAt(std::string_view bytes, uint64_t offset) override {
    return pulse::WriteAt(fd_.get(), Absl(bytes), offset, path_);
  }
  absl::Status Sync() override {
    while (fdatasync(fd_.get()) != 0) {
      if (errno != EINTR) return ErrnoError(errno, "syncing", path_);
    }
    return absl::OkStatus();
  }
  absl::Status Truncate(uint64_t size) override {
    while (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
      if (errno != EINTR) return ErrnoError(errno, "truncating", path_);
    }
    return absl::OkStatus();
  }
  int descriptor() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string path_;
};

class OperatingSystem : public Files {
 public:
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return Open(path, O_RDWR | O_CREAT | O_TRUNC, "creating");
  }
  absl::StatusOr<std::unique_ptr<File>> OpenForWriting(const std::string& path) override {
    return Open(path, O_RDWR, "opening");
  }
  absl::StatusOr<std::string> Read(const std::string& path) override {
    const UniqueFd fd = OpenFile(path, O_RDONLY);
    struct stat st;
    if (!fd.valid() || fstat(fd.get(), &st) != 0) return ErrnoError(errno, "reading", path);
    std::string bytes(static_cast<size_t>(st.st_size), '\0');
    PULSE_ASSIGN_OR_RETURN(const size_t n,
                           ReadAt(fd.get(), bytes.data(), bytes.size(), 0, "reading", path));
    bytes.resize(n);
    return bytes;
  }
  absl::StatusOr<RunBytes> Map(const std::string& path) override { return MapRun(path); }
  absl::StatusOr<UniqueFd> Descriptor(const std::string& path) override {
    UniqueFd fd = OpenFile(path, O_RDONLY);
    if (!fd.valid()) return ErrnoError(errno, "opening", path);
    return fd;
  }
  absl::StatusOr<std::shared_ptr<void>> Lock(const std::string& path) override {
    UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT, 0666);
    if (!fd.valid()) return ErrnoError(errno, "opening", path);
    while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return ErrnoError(errno, "locking", path);
      char owner[32] = {};
      if (pread(fd.get(), owner, sizeof(owner) - 1, 0) <= 0) owner[0] = '?';
      return absl::FailedPreconditionError(
          cypher::Concat("process ", std::string(owner), " has the database open for writing (",
                         path, "); open it for reading only, or end that process"));
    }
    const std::string owner = std::to_string(getpid());
    if (ftruncate(fd.get(), 0) != 0) return ErrnoError(errno, "writing", path);
    PULSE_RETURN_IF_ERROR(pulse::WriteAt(fd.get(), owner, 0, path));
    // Unlocked, and not just closed: a process that was forked meanwhile may have it open still.
    return std::shared_ptr<void>(new UniqueFd(std::move(fd)), [](UniqueFd* locked) {
      flock(locked->get(), LOCK_UN);
      delete locked;
    });
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    DIR* dir = opendir(directory.c_str());
    if (dir == nullptr) return ErrnoError(errno, "listing", directory);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(dir);
    return names;
  }
  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return ErrnoError(errno, "removing", path);
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return ErrnoError(errno, "renaming", from);
    return absl::OkStatus();
  }
  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      return ErrnoError(errno, "making the directory", path);
    }
    return absl::OkStatus();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return pulse::SyncDirectory(path);
  }

 private:
  static absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, int flags,
                                                    absl::string_view what) {
    UniqueFd fd = OpenFile(path, flags, 0666);
    if (!fd.valid()) return ErrnoError(errno, what, path);
    return std::make_unique<SystemFile>(std::move(fd), path);
  }
};

}  // namespace

absl::Status Files::Replace(const std::string& directory, const std::string& name,
                            std::string_view content) {
  const std::string path = directory + "/" + name, fresh = path + ".new";
  {
    PULSE_ASSIGN_OR_RETURN(const auto file, Create(fresh));
    PULSE_RETURN_IF_ERROR(file->WriteAt(content, 0));
    PULSE_RETURN_IF_ERROR(file->Sync());
  }
  PULSE_RETURN_IF_ERROR(Rename(fresh, path));
  return SyncDirectory(directory);
}

Files* SystemFiles() {
  static OperatingSystem files;
  return &files;
}

}  // namespace pulse::graph
