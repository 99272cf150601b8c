// OutputFile without its agent: what the host writes and syncs itself, and how it keeps a lost
// agent's late writes off the file.
#include <utility>

#include "base/errors.h"
#include "services/lsm/core/host_output.h"
#include "services/lsm/core/thread_waits.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kWriteBehind = uint64_t{1} << 20;

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
  // rescuing_ keeps everybody else off target_ and unacked_.
  const bool unanswered = !unacked_.empty();
  absl::Status st;
  if (may_still_write) st = MoveAside();
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
  absl::Status st = MoveAside();
  std::lock_guard lock(session_->mu());
  late_writes_ = false;
  rescuing_ = false;
  FailLocked(std::move(st));
  session_->NotifyLocked();
  return error_;
}

// An agent that is not known to have ended may carry out what it was asked before, at any time:
// preallocate, write, truncate. It was given a place, not the path; so the output gets another
// place, and whatever the agent still does, it does where nobody looks. Needs rescuing_.
absl::Status OutputFile::MoveAside() {
  auto reopen = target_->MoveAside(size());
  if (!reopen.ok()) return reopen.status();
  if (*reopen) generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status OutputFile::WriteInline(uint64_t offset, const char* data, uint64_t length) {
  Add(&session_->counters().bytes_inline, length);
  ThreadWaits::Add(Waited::kBytesInline, length);
  PULSE_RETURN_IF_ERROR(target_->Write(offset, data, length));
  // The device begins now, and little is left for the sync at the end. Its errors are that sync's.
  const uint64_t end = offset + length;
  const uint64_t synced = range_synced_;
  if (target_->WantsWriteBack() && end >= synced + kWriteBehind) {
    target_->StartWriteBack(synced, end - synced);
    range_synced_ = end;
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
    const std::shared_ptr<OutputTarget> target = target_;
    lock.unlock();
    st = target->SyncClose(size());
    lock.lock();
  }
  FailLocked(std::move(st));
  FinishLocked(error_.ok());
}

}  // namespace pulse::lsm
