#include "services/graph/core/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <list>
#include <mutex>
#include <utility>

#include "base/errors.h"
#include "base/file_calls.h"
#include "base/file_lock.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Absl;

// A pipe in the place of a file must not wait for somebody to write to it.
constexpr int kReading = O_RDONLY | O_NONBLOCK;

// The files that are mapped. Pages that were read count as the process's memory for as long as the
// kernel has room, although they are the cache's: compactions would show as all that they read.
class Mappings {
 public:
  RunBytes Add(RunBytes bytes) {
    const std::lock_guard lock(mu_);
    const auto at = list_.insert(list_.end(), {bytes.data, bytes.size});
    bytes.owner = std::shared_ptr<const void>(
        bytes.data, [this, at, owner = std::move(bytes.owner)](const void*) {
          const std::lock_guard removal(mu_);
          list_.erase(at);
        });
    return bytes;
  }
  // Counts what maintenance writes; now and then all pages go. They are found in the cache again,
  // by a minor fault.
  void CountWrite(size_t bytes) {
    if (written_.fetch_add(bytes, std::memory_order_relaxed) + bytes < kDropEvery) return;
    written_.store(0, std::memory_order_relaxed);
    const std::lock_guard lock(mu_);
    for (const auto& [data, size] : list_) {
      // An advice: where it fails, the pages stay.
      if (size > 0) (void)madvise(const_cast<char*>(data), size, MADV_DONTNEED);
    }
  }

 private:
  static constexpr uint64_t kDropEvery = uint64_t{16} << 20;
  std::mutex mu_;
  std::list<std::pair<const char*, uint64_t>> list_;
  std::atomic<uint64_t> written_{0};
};

Mappings& MappedFiles() {
  static Mappings* const mappings = new Mappings();  // runs may outlive what is static
  return *mappings;
}

class SystemFile : public File {
 public:
  SystemFile(UniqueFd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), is_maintenance_(!path_.ends_with(".wal")) {}

  absl::Status WriteAt(std::string_view bytes, uint64_t offset) override {
    if (is_maintenance_) MappedFiles().CountWrite(bytes.size());
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
  const bool is_maintenance_;  // and not what queries wait for, or wait beside
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
    const UniqueFd fd = OpenFile(path, kReading);
    struct stat st;
    if (!fd.valid() || fstat(fd.get(), &st) != 0) return ErrnoError(errno, "reading", path);
    std::string bytes(static_cast<size_t>(st.st_size), '\0');
    PULSE_ASSIGN_OR_RETURN(const size_t n,
                           ReadAt(fd.get(), bytes.data(), bytes.size(), 0, "reading", path));
    bytes.resize(n);
    return bytes;
  }
  absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                       size_t size) override {
    const UniqueFd fd = OpenFile(path, kReading);
    if (!fd.valid()) return ErrnoError(errno, "reading", path);
    std::string bytes(size, '\0');
    PULSE_ASSIGN_OR_RETURN(const size_t n,
                           ReadAt(fd.get(), bytes.data(), size, offset, "reading", path));
    bytes.resize(n);
    return bytes;
  }
  absl::StatusOr<uint64_t> Size(const std::string& path) override {
    struct stat st;
    if (stat(path.c_str(), &st) != 0) return ErrnoError(errno, "looking at", path);
    return static_cast<uint64_t>(st.st_size);
  }
  absl::StatusOr<RunBytes> Map(const std::string& path) override {
    PULSE_ASSIGN_OR_RETURN(RunBytes bytes, MapRun(path));
    return MappedFiles().Add(std::move(bytes));
  }
  bool HasDescriptors() const override { return true; }
  absl::StatusOr<UniqueFd> Descriptor(const std::string& path) override {
    UniqueFd fd = OpenFile(path, kReading);
    if (!fd.valid()) return ErrnoError(errno, "opening", path);
    return fd;
  }
  absl::Status CheckUnwritten(const std::string& path) override {
    PULSE_ASSIGN_OR_RETURN(const UniqueFd fd, Descriptor(path));
    // A lease for reading is given where nobody can write. Closing gives it back; who opens the
    // file for writing in between has a signal sent here, which is one that is ignored.
    fcntl(fd.get(), F_SETSIG, SIGURG);
    if (fcntl(fd.get(), F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN) {
      return absl::UnavailableError(
          cypher::Concat("somebody still has ", path, " open for writing"));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<void>> Lock(const std::string& path) override {
    return LockNamed(path, 16);
  }
  // After so many tries, it is a file system whose files' numbers are not to be trusted.
  absl::StatusOr<std::shared_ptr<void>> LockNamed(const std::string& path, int tries) {
    // Not through a link: what it names would be emptied.
    UniqueFd fd = Make(path, O_RDWR | O_NOFOLLOW);
    if (!fd.valid()) return ErrnoError(errno, "opening", path);
    PULSE_ASSIGN_OR_RETURN(auto lock, LockForWriter(fd.get(), path));
    // Between opening and locking, its owner may have removed it: others would lock a new one.
    struct stat locked, named;
    const bool is_named = fstat(fd.get(), &locked) == 0 && stat(path.c_str(), &named) == 0 &&
                          locked.st_ino == named.st_ino;
    if (!is_named && tries > 0) {
      lock.reset();
      return LockNamed(path, tries - 1);
    }
    // Only for others' errors. Without space, and in what is no plain file, the lock holds, too.
    const std::string owner = std::to_string(getpid());
    if (ftruncate(fd.get(), 0) == 0) pulse::WriteAt(fd.get(), owner, 0, path).IgnoreError();
    return lock;
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
    if (::remove(path.c_str()) != 0) return ErrnoError(errno, "removing", path);
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return ErrnoError(errno, "renaming", from);
    return absl::OkStatus();
  }
  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) == 0) {
      const UniqueFd made = OpenFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      if (made.valid()) GiveToOwnerOfDirectory(made.get(), path);
    } else if (errno != EEXIST) {
      return ErrnoError(errno, "making the directory", path);
    } else if (struct stat facts; stat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
      return absl::InvalidArgumentError(
          cypher::Concat(path, " is no directory, and holds no graph database"));
    }
    return absl::OkStatus();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return pulse::SyncDirectory(path);
  }

 private:
  // Opens the file, and makes it if it is missing. Only what is made here is given away: what is
  // there may be a link to any file of root's.
  static UniqueFd Make(const std::string& path, int flags) {
    UniqueFd fd = OpenFile(path, flags | O_CREAT | O_EXCL, 0666);
    if (fd.valid()) {
      GiveToOwnerOfDirectory(fd.get(), path);
    } else if (errno == EEXIST) {
      fd = OpenFile(path, flags | O_CREAT, 0666);
    }
    return fd;
  }
  static absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, int flags,
                                                    absl::string_view what) {
    UniqueFd fd = (flags & O_CREAT) != 0 ? Make(path, flags) : OpenFile(path, flags);
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

absl::StatusOr<std::shared_ptr<void>> LockForWriter(int fd, const std::string& path) {
  auto lock = TryLockFile(fd, path);
  if (!lock.ok() || *lock != nullptr) return lock;
  return absl::FailedPreconditionError(
      cypher::Concat(NameLockHolder(fd), " has the database open for writing (", path,
                     "); open it for reading only, or end that process"));
}

Files* SystemFiles() {
  static OperatingSystem files;
  return &files;
}

}  // namespace pulse::graph
