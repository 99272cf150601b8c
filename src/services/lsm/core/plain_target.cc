#include "services/lsm/core/plain_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

constexpr size_t kCopyBuffer = size_t{1} << 20;

// Copies the first `length` bytes of `in`, or as many as there are. Shares blocks where the file
// system can.
absl::Status CopyBytes(int in, int out, uint64_t length, const std::string& path) {
  uint64_t done = 0;
  while (done < length) {
    const ssize_t n = copy_file_range(in, nullptr, out, nullptr, length - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return absl::OkStatus();
    if (n < 0) break;  // not on this file system, perhaps: try by hand
    done += static_cast<uint64_t>(n);
  }
  std::vector<char> buffer(done < length ? kCopyBuffer : 0);
  while (done < length) {
    const ssize_t n =
        pread(in, buffer.data(), std::min<uint64_t>(buffer.size(), length - done), done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "reading", path);
    if (n == 0) break;
    PULSE_RETURN_IF_ERROR(WriteAt(out, {buffer.data(), static_cast<size_t>(n)}, done, path));
    done += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

// A file that will take the place of another. Where the file system can, it has no name until then:
// RocksDB takes a .dbtmp of a number that it does not know for a left-over, and may delete it while
// it is being filled; and a host that dies leaves nothing behind.
class Replacement {
 public:
  static absl::StatusOr<Replacement> Create(const std::string& path, mode_t mode) {
    Replacement r(path);
    const std::string dir = path.substr(0, path.rfind('/') + 1);
    r.fd_.reset(open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
    if (r.fd_.valid()) return r;
    r.fd_.reset(open(r.temp_.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, mode));
    if (!r.fd_.valid()) return ErrnoError(errno, "creating", r.temp_);
    r.named_ = true;
    return r;
  }
  Replacement(Replacement&& o) noexcept
      : path_(std::move(o.path_)),
        temp_(std::move(o.temp_)),
        fd_(std::move(o.fd_)),
        named_(std::exchange(o.named_, false)) {}
  ~Replacement() {
    if (named_) unlink(temp_.c_str());
  }

  int fd() const { return fd_.get(); }
  UniqueFd TakeFd() { return std::move(fd_); }

  absl::Status TakePath() {
    if (!named_) {
      const std::string self = absl::StrCat("/proc/self/fd/", fd_.get());
      unlink(temp_.c_str());  // of a process that was killed here
      if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temp_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        return ErrnoError(errno, "naming", temp_);
      }
      named_ = true;
    }
    if (rename(temp_.c_str(), path_.c_str()) != 0) return ErrnoError(errno, "replacing", path_);
    named_ = false;
    return absl::OkStatus();
  }

 private:
  explicit Replacement(const std::string& path)
      : path_(path), temp_(absl::StrCat(path.substr(0, path.rfind('.')), ".dbtmp")) {}

  std::string path_, temp_;
  UniqueFd fd_;
  bool named_ = false;  // temp_ is its name
};

class PlainTarget final : public OutputTarget {
 public:
  PlainTarget(std::string path, UniqueFd fd, IoMode mode, bool direct)
      : path_(std::move(path)),
        mode_(mode),
        direct_(direct),
        fd_(std::make_shared<const UniqueFd>(std::move(fd))) {}

  UniqueFd OpenForAgent() override {
    return UniqueFd(open(path_.c_str(), O_RDWR | O_CLOEXEC | (direct_ ? O_DIRECT : 0)));
  }

  uint64_t Preallocate(uint64_t expected) override { return expected; }
  uint64_t FinalSize(uint64_t size) const override { return size; }
  bool WantsWriteBack() const override { return !direct_; }
  absl::StatusOr<Place> PlaceOf(uint64_t offset, uint64_t length) override {
    return Place{offset, length};
  }
  absl::Status TakeOver() override {
    if (!direct_ || HostWritesDirect()) return absl::OkStatus();
    const auto held = fd();
    const int flags = fcntl(held->get(), F_GETFL);
    if (flags < 0 || fcntl(held->get(), F_SETFL, flags & ~O_DIRECT) != 0) {
      return ErrnoError(errno, "turning off direct I/O", path_);
    }
    direct_ = false;
    return absl::OkStatus();
  }

  bool HostWritesDirect() const override { return direct_ && mode_ == IoMode::kDirect; }
  void StartWriteBack(uint64_t offset, uint64_t length) override {
    (void)sync_file_range(fd()->get(), static_cast<off_t>(offset), static_cast<off_t>(length),
                          SYNC_FILE_RANGE_WRITE);
  }

  absl::Status Write(uint64_t offset, const char* data, uint64_t length) override {
    const auto held = fd();
    return WriteAt(held->get(), {data, length}, offset, path_);
  }

  absl::Status Read(uint64_t offset, char* data, uint64_t length) override {
    // Through a descriptor of its own: fd_ may demand aligned buffers.
    const UniqueFd in(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in.valid() || pread(in.get(), data, length, offset) != static_cast<ssize_t>(length)) {
      return ErrnoError(errno, "reading back", path_);
    }
    return absl::OkStatus();
  }

  absl::Status Truncate(uint64_t, uint64_t size) override {
    if (ftruncate(fd()->get(), size) != 0) return ErrnoError(errno, "truncating", path_);
    return absl::OkStatus();
  }

  absl::Status Sync(uint64_t) override {
    const auto held = fd();
    if (fdatasync(held->get()) != 0) return ErrnoError(errno, "syncing", path_);
    return absl::OkStatus();
  }

  absl::Status SyncClose(uint64_t size) override {
    const auto held = fd();
    if (ftruncate(held->get(), size) != 0 || fdatasync(held->get()) != 0) {
      return ErrnoError(errno, "syncing", path_);
    }
    return absl::OkStatus();
  }

  // Puts a copy in its place (docs/internals/lsm-loss.md, "Late writes").
  absl::StatusOr<bool> MoveAside(uint64_t size) override {
    const auto old = fd();
    struct stat st;
    if (fstat(old->get(), &st) != 0) return ErrnoError(errno, "examining", path_);
    if (st.st_nlink == 0) return false;  // deleted or replaced: nobody looks for it
    // An error of its write-back must not stay behind with the old inode.
    if (!direct_ && fdatasync(old->get()) != 0) return ErrnoError(errno, "syncing", path_);
    // Through a description of its own: fd_ may demand aligned buffers.
    const UniqueFd in(
        open(absl::StrCat("/proc/self/fd/", old->get()).c_str(), O_RDONLY | O_CLOEXEC));
    if (!in.valid()) return ErrnoError(errno, "opening again", path_);
    PULSE_ASSIGN_OR_RETURN(auto out, Replacement::Create(path_, st.st_mode & mode_t{0777}));
    PULSE_RETURN_IF_ERROR(CopyBytes(in.get(), out.fd(), size, path_));
    PULSE_RETURN_IF_ERROR(out.TakePath());
    {
      std::lock_guard lock(mu_);
      fd_ = std::make_shared<const UniqueFd>(out.TakeFd());
    }
    PULSE_RETURN_IF_ERROR(SyncDirectory(path_.substr(0, path_.rfind('/') + 1)));
    return true;
  }

  bool OnDataDurableLocked(uint64_t) override { return true; }

 private:
  // Kept open while it is held, though the output may move meanwhile.
  std::shared_ptr<const UniqueFd> fd() const {
    std::lock_guard lock(mu_);
    return fd_;
  }

  const std::string path_;
  const IoMode mode_;
  std::atomic<bool> direct_;
  mutable std::mutex mu_;  // taken last
  std::shared_ptr<const UniqueFd> fd_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<OutputTarget>> OpenPlainTarget(const std::string& path,
                                                              IoMode mode) {
  const int flags = O_CREAT | O_TRUNC | O_RDWR;
  bool direct = mode != IoMode::kBuffered;
  UniqueFd fd = OpenFile(path, flags | (direct ? O_DIRECT : 0), 0644);
  if (!fd.valid() && direct && errno == EINVAL) {
    if (mode == IoMode::kDirect) {
      return ErrnoError(
          EINVAL, "opening for direct I/O", path,
          "its file system has no direct I/O: use io=auto or io=buffered, or move the "
          "database off it");
    }
    LogOnce(absl::StrCat("direct ", path.substr(0, path.rfind('/'))),
            absl::StrCat("the file system of ", path, " has no direct I/O; using buffered I/O"));
    direct = false;
    fd = OpenFile(path, flags, 0644);
  }
  if (!fd.valid()) return ErrnoError(errno, "creating", path);
  return std::make_shared<PlainTarget>(path, std::move(fd), mode, direct);
}

}  // namespace pulse::lsm
