// OutputFile without its agent: what the host writes and syncs itself, and how it keeps a lost
// agent's late writes off the file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "lsm/host_output.h"

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
    for (ssize_t at = 0; at < n;) {
      const ssize_t w = pwrite(out, buffer.data() + at, n - at, done + at);
      if (w < 0 && errno == EINTR) continue;
      if (w <= 0) return ErrnoError(w < 0 ? errno : ENOSPC, "writing", path);
      at += w;
    }
    done += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status SyncDirectoryOf(const std::string& path) {
  const std::string dir = path.substr(0, path.rfind('/') + 1);
  const UniqueFd fd(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError(errno, "syncing", dir);
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

}  // namespace

bool OutputFile::OnAgentDeath() {
  if (finished_ || rescuing_) return false;  // or someone is at it already
  // Otherwise the writer finds everything answered, and simply goes on inline.
  rescuing_ = closed_ || !unacked_.empty() || (opened_.load() && !open_answered_);
  return rescuing_;
}

void OutputFile::Rescue(bool may_still_write) {
  {
    std::unique_lock lock(session_->mu());
    session_->WaitForHost(lock, [this] { return path_guards_ == 0; });
  }
  // rescuing_ keeps everybody else off fd_ and unacked_.
  const bool unanswered = !unacked_.empty();
  absl::Status st;
  if (may_still_write) st = MoveToNewInode();
  for (const auto& [tag, w] : unacked_) {
    if (st.ok()) st = WriteInline(w.file_offset, w.data, w.length);
  }
  std::unique_lock lock(session_->mu());
  unacked_.clear();
  FailLocked(std::move(st));
  // Even when its process is gone, the kernel may be busy with its last requests. They repeat what
  // was just written, so they harm only pages that are written once more.
  late_writes_ = unanswered && !may_still_write;
  if (closed_) FinishInline(lock);
  rescuing_ = false;  // from here on this object may go
  session_->NotifyLocked();
}

OutputFile::PathGuard::PathGuard(OutputFile* file) : file_(file) {
  if (file_ == nullptr) return;
  std::unique_lock lock(file_->session_->mu());
  file_->session_->WaitForHost(lock, [this] { return !file_->rescuing_; });
  ++file_->path_guards_;  // a rescue that is asked for now waits
}

OutputFile::PathGuard::~PathGuard() {
  if (file_ == nullptr) return;
  std::lock_guard lock(file_->session_->mu());
  --file_->path_guards_;
  file_->session_->NotifyLocked();
}

// For the writer's thread.
absl::Status OutputFile::LeaveLateWritesBehind() {
  {
    std::unique_lock lock(session_->mu());
    if (!late_writes_) return error_;
    session_->WaitForHost(lock, [this] { return path_guards_ == 0; });
    rescuing_ = true;
  }
  absl::Status st = MoveToNewInode();
  std::lock_guard lock(session_->mu());
  late_writes_ = false;
  rescuing_ = false;
  FailLocked(std::move(st));
  session_->NotifyLocked();
  return error_;
}

// An agent that is not known to have ended may carry out what it was asked before, at any time:
// preallocate, write, truncate. It holds the inode, not the path; so the path gets another inode,
// and whatever the agent still does, it does to a file that nobody sees. Needs rescuing_.
absl::Status OutputFile::MoveToNewInode() {
  struct stat st;
  if (fstat(fd_.get(), &st) != 0) return ErrnoError(errno, "examining", path_);
  if (st.st_nlink == 0) return absl::OkStatus();  // deleted or replaced: nobody looks for it
  // An error of its write-back must not stay behind with the old inode.
  if (!direct_ && fdatasync(fd_.get()) != 0) return ErrnoError(errno, "syncing", path_);
  // Through a description of its own: fd_ may demand aligned buffers.
  const UniqueFd in(open(absl::StrCat("/proc/self/fd/", fd_.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.valid()) return ErrnoError(errno, "opening again", path_);
  auto out = Replacement::Create(path_, st.st_mode & mode_t{0777});
  if (!out.ok()) return out.status();
  PULSE_RETURN_IF_ERROR(CopyBytes(in.get(), out->fd(), size(), path_));
  PULSE_RETURN_IF_ERROR(out->TakePath());
  fd_ = out->TakeFd();
  inode_generation_.fetch_add(1, std::memory_order_release);
  return SyncDirectoryOf(path_);
}

absl::Status OutputFile::WriteInline(uint64_t offset, const char* data, uint64_t length) {
  Add(&session_->counters().bytes_inline, length);
  while (length > 0) {
    const ssize_t n = pwrite(fd_.get(), data, length, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return ErrnoError(n < 0 ? errno : ENOSPC, "writing", path_);
    }
    offset += n;
    data += n;
    length -= n;
  }
  return absl::OkStatus();
}

// What the agent refused. For the writer's thread.
absl::Status OutputFile::WriteUnacked() {
  {
    std::unique_lock lock(session_->mu());
    session_->WaitForHost(lock, [this] { return !rescuing_; });
    if (!error_.ok() || unacked_.empty()) return error_;
    rescuing_ = true;
  }
  absl::Status st;
  for (const auto& [tag, w] : unacked_) {
    if (st.ok()) st = WriteInline(w.file_offset, w.data, w.length);
  }
  std::lock_guard lock(session_->mu());
  unacked_.clear();
  rescuing_ = false;
  FailLocked(std::move(st));
  session_->NotifyLocked();
  return error_;
}

// Truncates, syncs and closes. Gives the lock up meanwhile.
void OutputFile::FinishInline(std::unique_lock<std::mutex>& lock) {
  if (finished_) return;
  absl::Status st = error_;
  if (st.ok()) {
    lock.unlock();
    if (ftruncate(fd_.get(), size()) != 0 || fdatasync(fd_.get()) != 0) {
      st = ErrnoError(errno, "syncing", path_);
    }
    lock.lock();
  }
  FailLocked(std::move(st));
  FinishLocked(error_.ok());
}

}  // namespace pulse::lsm
