// OutputFile without its agent: the host writes and syncs itself, and keeps late writes of a lost
// agent off the file.
#include <utility>

#include "base/errors.h"
#include "services/lsm/core/host_output.h"
#include "services/lsm/core/thread_waits.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kWriteBehind = uint64_t{1} << 20;

}  // namespace

bool OutputFile::OnAgentDeath() {
  if (finished_ || rescuing_) return false;  // rescuing_: a rescue is under way already
  // Otherwise every request is answered, and the writer goes on inline.
  rescuing_ = closed_ || !unacked_.empty() || (opened_.load() && !open_answered_);
  return rescuing_;
}

void OutputFile::Rescue(OutstandingWork work) {
  {
    std::unique_lock lock(session_->mu());
    session_->WaitForHost(lock, [this] { return path_guards_ == 0; });
  }
  // rescuing_ keeps other threads off target_ and unacked_.
  const bool unanswered = !unacked_.empty();
  // Where all is answered but the end, what may come late is a sync, and a truncation to the size
  // that the file has by then: a copy of gigabytes would be for nothing, and may find no space.
  const bool may_change = unanswered || (opened_.load() && !open_answered_);
  absl::Status st;
  if (work == OutstandingWork::kAnything || (work == OutstandingWork::kUnanswered && may_change))
    st = MoveAside();
  for (const auto& [tag, w] : unacked_) {
    if (st.ok()) st = WriteInline(w.file_offset, w.data, w.length);
  }
  std::unique_lock lock(session_->mu());
  unacked_.clear();
  FailLocked(std::move(st));
  // Even after the agent's process has ended, the kernel may carry out its last requests. They
  // repeat bytes that were just written, so they corrupt only pages that are written once more.
  late_writes_ = unanswered && work == OutstandingWork::kNone;
  if (closed_) FinishInline(lock);
  rescuing_ = false;  // from here on this object may be destroyed
  session_->NotifyLocked();
}

OutputFile::PathGuard::PathGuard(OutputFile* file) : file_(file) {
  if (file_ == nullptr) return;
  std::unique_lock lock(file_->session_->mu());
  file_->session_->WaitForHost(lock, [this] { return !file_->rescuing_; });
  ++file_->path_guards_;  // a rescue that begins now waits
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

// A lost agent that may still run can carry out earlier requests at any time: preallocate, write,
// truncate. It has a descriptor of the output's place, not the path; so the output moves to another
// place, and late requests change only the old one, which has no reader. Needs rescuing_.
absl::Status OutputFile::MoveAside() {
  PULSE_ASSIGN_OR_RETURN(auto reopen, target_->MoveAside(size()));
  if (reopen) generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status OutputFile::WriteInline(uint64_t offset, const char* data, uint64_t length) {
  Add(&session_->counters().bytes_inline, length);
  ThreadWaits::Add(Waited::kBytesInline, length);
  PULSE_RETURN_IF_ERROR(target_->Write(offset, data, length));
  // The device begins now, so that the sync at the end has less to do. That sync reports the
  // errors.
  const uint64_t end = offset + length;
  const uint64_t synced = range_synced_;
  if (target_->WantsWriteBack() && end >= synced + kWriteBehind) {
    target_->StartWriteBack(synced, end - synced);
    range_synced_ = end;
  }
  return absl::OkStatus();
}

// Writes the bytes that the agent refused. For the writer's thread.
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

// Truncates, syncs and closes. Releases the lock meanwhile.
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
