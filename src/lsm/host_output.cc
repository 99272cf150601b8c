#include "lsm/host_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kPage = wire::kPage;
constexpr uint64_t kInlineBuffer = uint64_t{1} << 20;

uint64_t RoundUp(uint64_t n) { return (n + kPage - 1) / kPage * kPage; }

int OpenRetrying(const std::string& path, int flags) {
  int fd;
  do {
    fd = open(path.c_str(), flags, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

absl::StatusOr<UniqueFd> OpenOutput(const std::string& path, IoMode mode, bool* direct) {
  const int flags = O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC;
  *direct = mode != IoMode::kBuffered;
  UniqueFd fd(OpenRetrying(path, flags | (*direct ? O_DIRECT : 0)));
  if (!fd.valid() && *direct && errno == EINVAL) {
    if (mode == IoMode::kDirect) {
      return ErrnoError(
          EINVAL, "opening for direct I/O", path,
          "its file system has no direct I/O: use io=auto or io=buffered, or move the "
          "database off it");
    }
    LogOnce(absl::StrCat("direct ", path.substr(0, path.rfind('/'))),
            absl::StrCat("the file system of ", path, " has no direct I/O; using buffered I/O"));
    *direct = false;
    fd.reset(OpenRetrying(path, flags));
  }
  if (!fd.valid()) return ErrnoError(errno, "creating", path);
  return fd;
}

}  // namespace

absl::StatusOr<std::shared_ptr<OutputFile>> OutputFile::Create(const std::string& path,
                                                               std::shared_ptr<HostSession> session,
                                                               OutputOwner* owner) {
  std::shared_ptr<OutputFile> f(new OutputFile(path, std::move(session), owner));
  auto fd = OpenOutput(path, f->session_->options().io, &f->direct_);
  if (!fd.ok()) return fd.status();
  f->fd_ = *std::move(fd);
  auto queue = f->session_->LeaseQueue();
  if (queue.ok()) {
    f->queue_ = *queue;
    f->pending_ = f->write_ =
        f->queue_->queue.arena() + f->queue_->position % f->queue_->queue.arena_bytes();
    f->file_ = f->session_->Register(f.get());
  } else {
    LogOnce(absl::StrCat("inline ", queue.status().message()),
            absl::StrCat("writing ", path, " without the agent: ", queue.status().message()));
    f->SwitchToInline();
  }
  return f;
}

OutputFile::~OutputFile() {
  std::unique_lock lock(session_->mu());
  if (file_ != 0) session_->UnregisterLocked(file_);
}

absl::Status OutputFile::StickyError() {
  std::lock_guard lock(session_->mu());
  session_->DrainLocked();  // errors surface early, and the completion ring stays short
  return error_;
}

absl::Status OutputFile::AppendSlow(const char* data, size_t n) {
  if (tail_flushed_) PULSE_RETURN_IF_ERROR(RestoreTail());
  while (n > 0) {
    if (room_ == 0) PULSE_RETURN_IF_ERROR(MakeRoom());
    const size_t part = std::min<uint64_t>(n, room_);
    StreamCopy(write_, data, part);
    write_ += part;
    room_ -= part;
    data += part;
    n -= part;
    size_.store(size_.load(std::memory_order_relaxed) + part, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

// Called when room_ is used up: at the threshold, at the end of the arena, or for want of space.
absl::Status OutputFile::MakeRoom() {
  PULSE_RETURN_IF_ERROR(StickyError());
  const uint64_t threshold = is_inline() ? kInlineBuffer : session_->options().write_threshold;
  if (!is_inline() && session_->dead()) {
    PULSE_RETURN_IF_ERROR(SubmitPending());
    SwitchToInline();
  } else if (pending() > 0) {
    const bool at_end =
        !is_inline() && write_ == queue_->queue.arena() + queue_->queue.arena_bytes();
    if (pending() >= threshold || at_end) PULSE_RETURN_IF_ERROR(SubmitPending());
  }
  if (is_inline()) {
    room_ = kInlineBuffer - pending();
    return absl::OkStatus();
  }

  const HostQueue& q = queue_->queue;
  const uint64_t arena = q.arena_bytes();
  // position counts up to pending_; the pending bytes come on top.
  const auto free_space = [&] {
    return (q.reclaimed() + arena - queue_->position - pending()) / kPage * kPage;
  };
  if (free_space() == 0) {
    // What is pending would never be reclaimed if it were not handed over.
    if (pending() > 0) PULSE_RETURN_IF_ERROR(SubmitPending());
    const int64_t start = NowNanos();
    Add(&session_->counters().backpressure_waits, 1);
    {
      std::unique_lock lock(session_->mu());
      session_->Wait(lock, [&] { return free_space() >= kPage || !error_.ok(); });
    }
    Add(&session_->counters().backpressure_nanos, NowNanos() - start);
    if (session_->dead()) {
      SwitchToInline();
      room_ = kInlineBuffer;
      return StickyError();
    }
    PULSE_RETURN_IF_ERROR(StickyError());
  }
  const uint64_t contiguous = q.arena() + arena - write_;
  const uint64_t to_threshold = threshold - pending();
  room_ = std::min({contiguous, free_space(), to_threshold});
  return absl::OkStatus();
}

// Hands pending_ .. write_ over. Whole pages, except from Flush(), which has padded the last one.
absl::Status OutputFile::SubmitPending() {
  const uint64_t length = pending();
  if (length == 0) return absl::OkStatus();
  const uint64_t padded = RoundUp(length);
  PULSE_RETURN_IF_ERROR(SubmitWrite(pending_, padded));
  const uint64_t whole = length / kPage * kPage;
  if (is_inline()) {
    pending_ = write_ = inline_buffer_.get();
  } else {
    queue_->position += padded;
    const HostQueue& q = queue_->queue;
    pending_ = write_ = q.arena() + queue_->position % q.arena_bytes();
  }
  file_pos_ += whole;
  room_ = 0;
  return absl::OkStatus();
}

absl::Status OutputFile::SubmitWrite(const char* data, uint64_t length) {
  if (is_inline()) {
    absl::Status st = WriteInline(file_pos_, data, length);
    if (!st.ok()) {
      std::lock_guard lock(session_->mu());
      FailLocked(st);
    }
    return st;
  }
  PULSE_RETURN_IF_ERROR(EnsureOpen());
  const uint64_t tag = next_write_++;
  StreamFence();  // from here on another thread may write what was copied, too
  {
    std::lock_guard lock(session_->mu());
    if (!error_.ok()) return error_;
    if (session_->dead()) {
      FailLocked(WriteInline(file_pos_, data, length));
      return error_;
    }
    unacked_[tag] = {file_pos_, data, length};
  }
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(Opcode::kWrite);
  d.file = file_;
  d.tag = tag;
  d.file_offset = file_pos_;
  d.arena_offset = data - queue_->queue.arena();
  d.length = length;
  d.position = queue_->position + length;
  // An agent that dies now finds the write in unacked_, so it is not lost.
  absl::Status st = session_->Push(queue_, d);
  if (!st.ok()) return StickyError();
  const uint64_t end = file_pos_ + length;
  if (!direct_ && end >= range_synced_ + session_->options().sync_interval) {
    st = Request(Opcode::kRangeSync, kTagRange, range_synced_, end - range_synced_, 0);
    range_synced_ = end;
  }
  session_->Ring();
  Add(&session_->counters().bytes_persisted, length);
  return absl::OkStatus();
}

absl::Status OutputFile::Request(Opcode op, uint64_t tag, uint64_t offset, uint64_t length,
                                 uint64_t aux) {
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(op);
  d.file = file_;
  d.tag = tag;
  d.file_offset = offset;
  d.length = length;
  d.aux = aux;
  return session_->Push(queue_, d);
}

absl::Status OutputFile::EnsureOpen() {
  if (opened_) return absl::OkStatus();
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(Opcode::kOpen);
  d.file = file_;
  d.tag = kTagOpen;
  d.length = preallocation_;
  absl::Status st = session_->SendFile(file_, fd_.get(), &d.flags, &d.aux);
  if (st.ok()) st = session_->Push(queue_, d);
  if (!st.ok()) {
    std::unique_lock lock(session_->mu());
    const int err = ErrnoOf(st);
    if (!session_->dead() && err != EPIPE && err != ECONNRESET && err != ENOTCONN) {
      FailLocked(err != 0 ? ErrnoError(err, "handing to the agent", path_) : st);
      return error_;
    }
    // A dead agent's socket refuses; once the death is noticed, the writes go inline.
    session_->Wait(lock, [] { return false; });
  }
  opened_ = true;
  return absl::OkStatus();
}

absl::Status OutputFile::Flush() {
  PULSE_RETURN_IF_ERROR(StickyError());
  const uint64_t length = pending();
  if (length == 0) return absl::OkStatus();
  const uint64_t rest = length % kPage;
  if (rest != 0) {
    // The page goes out padded now and, should more be appended, once more in full.
    if (tail_ == nullptr) tail_ = std::make_unique<std::array<char, kPage>>();
    std::memcpy(tail_->data(), write_ - rest, rest);
    tail_length_ = rest;
    tail_flushed_ = true;
    std::memset(write_, 0, kPage - rest);
  }
  return SubmitPending();
}

absl::Status OutputFile::RestoreTail() {
  // Two writes of one page must not be in flight together: their order would be anyone's guess.
  PULSE_RETURN_IF_ERROR(WaitWritten());
  tail_flushed_ = false;
  PULSE_RETURN_IF_ERROR(MakeRoom());
  std::memcpy(write_, tail_->data(), tail_length_);
  write_ += tail_length_;
  room_ -= tail_length_;
  return absl::OkStatus();
}

absl::Status OutputFile::Sync(bool wait) {
  PULSE_RETURN_IF_ERROR(Flush());
  {
    std::lock_guard lock(session_->mu());
    ++promised_;
  }
  return wait ? WaitDurable() : absl::OkStatus();
}

absl::Status OutputFile::Truncate(uint64_t size) {
  if (size == this->size()) return Flush();
  PULSE_RETURN_IF_ERROR(Flush());
  PULSE_RETURN_IF_ERROR(WaitWritten());
  if (ftruncate(fd_.get(), size) != 0) return ErrnoError(errno, "truncating", path_);
  if (tail_ == nullptr) tail_ = std::make_unique<std::array<char, kPage>>();
  tail_length_ = size % kPage;
  tail_flushed_ = tail_length_ != 0;
  file_pos_ = size - tail_length_;
  range_synced_ = std::min(range_synced_, file_pos_);
  room_ = 0;
  if (tail_flushed_) {
    // Through a descriptor of its own: fd_ may demand aligned buffers.
    UniqueFd in(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in.valid() || pread(in.get(), tail_->data(), tail_length_, file_pos_) !=
                           static_cast<ssize_t>(tail_length_)) {
      return ErrnoError(errno, "reading back", path_);
    }
  }
  size_.store(size, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status OutputFile::Close(bool wait) {
  absl::Status st = Flush();
  if (!is_inline()) {
    if (st.ok()) st = EnsureOpen();  // an empty file is opened for its sync_close
    std::unique_lock lock(session_->mu());
    closed_ = true;
    if (!error_.ok() && !session_->dead()) {
      // The file will be deleted; the agent only has to let go of it.
      lock.unlock();
      Request(Opcode::kDiscard, kTagClose, 0, 0, 0).IgnoreError();  // dead: nothing to let go of
      session_->Ring();
    } else if (!session_->dead()) {
      lock.unlock();
      if (Request(Opcode::kSyncClose, kTagClose, 0, 0, size()).ok()) session_->Ring();
    }
    if (lock.owns_lock()) lock.unlock();
    LeaveQueue();
    lock.lock();
    // Whoever noticed the death may have done so before closed_ was set.
    if (session_->dead() && !finished_) FinishInlineLocked();
  } else {
    std::unique_lock lock(session_->mu());
    closed_ = true;
    FinishInlineLocked();
  }
  if (wait && st.ok()) st = WaitDurable();
  std::lock_guard lock(session_->mu());
  return st.ok() ? error_ : st;
}

void OutputFile::LeaveQueue() {
  room_ = 0;
  pending_ = write_ = nullptr;
  StreamQueue* q = std::exchange(queue_, nullptr);
  // The arena of a dead agent is never used again: the kernel may still be reading it.
  if (!session_->dead()) session_->ReturnQueue(q);
}

void OutputFile::SwitchToInline() {
  inline_buffer_.reset(static_cast<char*>(std::aligned_alloc(kPage, kInlineBuffer)));
  queue_ = nullptr;
  pending_ = write_ = inline_buffer_.get();
  room_ = 0;
}

absl::Status OutputFile::WaitWritten() {
  std::unique_lock lock(session_->mu());
  session_->Wait(lock, [&] { return unacked_.empty() || !error_.ok(); });
  return error_;
}

absl::Status OutputFile::WaitDurable() {
  std::unique_lock lock(session_->mu());
  session_->Wait(lock, [&] { return durable_ || !error_.ok() || (!closed_ && unacked_.empty()); });
  if (!error_.ok() || durable_) return error_;
  // Still open: keep the promise of Sync from here, since the stream belongs to its writer.
  const uint64_t promise = promised_;
  if (promise == synced_) return absl::OkStatus();
  // By a duplicate: its writer may close the file meanwhile.
  const UniqueFd fd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  int rc = fd.valid() ? 0 : errno;
  lock.unlock();
  if (rc == 0 && fdatasync(fd.get()) != 0) rc = errno;
  lock.lock();
  if (rc != 0) FailLocked(ErrnoError(rc, "syncing", path_));
  if (error_.ok()) synced_ = std::max(synced_, promise);
  return error_;
}

void OutputFile::OnCompletion(const wire::Completion& c) {
  if (c.tag >= kFirstWrite) {
    const auto it = unacked_.find(c.tag);
    if (it == unacked_.end()) return;  // not ours: a confused agent
    const bool whole = c.result == static_cast<int64_t>(it->second.length);
    unacked_.erase(it);
    if (!whole) {
      FailLocked(ErrnoError(c.result < 0 ? static_cast<int>(-c.result) : EIO, "writing", path_));
    }
    return;
  }
  if (c.result < 0) {
    const char* what = c.tag == kTagOpen ? "handing to the agent" : "syncing";
    FailLocked(ErrnoError(static_cast<int>(-c.result), what, path_));
  }
  if (c.tag == kTagClose && closed_) FinishLocked(error_.ok());
}

void OutputFile::FailLocked(absl::Status st) {
  if (error_.ok() && !st.ok()) error_ = std::move(st);
}

void OutputFile::FinishLocked(bool ok) {
  if (finished_) return;
  finished_ = true;
  durable_ = ok;
  fd_.reset();
  if (ok) {
    Add(&session_->counters().files_persisted, 1);
    done_.store(true, std::memory_order_release);
  }
  if (file_ != 0) session_->UnregisterLocked(std::exchange(file_, 0));
  if (ok) owner_->OnDurableLocked(this);  // may drop the registry's reference
}

void OutputFile::OnAgentDeath() {
  for (const auto& [tag, w] : unacked_) {
    if (!error_.ok()) break;
    FailLocked(WriteInline(w.file_offset, w.data, w.length));
  }
  unacked_.clear();
  if (closed_) FinishInlineLocked();
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

void OutputFile::FinishInlineLocked() {
  if (finished_) return;
  if (error_.ok() && (ftruncate(fd_.get(), size()) != 0 || fdatasync(fd_.get()) != 0)) {
    FailLocked(ErrnoError(errno, "syncing", path_));
  }
  FinishLocked(error_.ok());
}

}  // namespace pulse::lsm
