// OutputFile as others than its writer see it: what readers and barriers wait for, and what the
// agent's completions change.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/lsm/core/host_output.h"
#include "services/lsm/core/refusal.h"

namespace pulse::lsm {

absl::Status OutputFile::WaitWritten() {
  std::unique_lock lock(session_->mu());
  const auto written = [&] { return unacked_.empty() || !error_.ok(); };
  session_->Wait(lock, connection_, written);
  // Without the agent, a rescue or the writer itself writes them.
  session_->WaitForHost(lock, written);
  return error_;
}

absl::StatusOr<bool> OutputFile::Read(uint64_t offset, size_t n, char* out) {
  PULSE_RETURN_IF_ERROR(WaitWritten());
  while (true) {
    std::shared_ptr<OutputTarget> target;
    {
      std::lock_guard lock(session_->mu());
      target = target_;
    }
    if (target == nullptr || !target->ServesReads()) return false;
    const uint32_t before = generation();
    PULSE_RETURN_IF_ERROR(target->Read(offset, out, n));
    if (generation() == before) return true;  // else it was read while it moved
  }
}

absl::Status OutputFile::WaitSettled() {
  std::unique_lock lock(session_->mu());
  WaitSettled(lock);
  return error_;
}

void OutputFile::WaitSettled(std::unique_lock<std::mutex>& lock) {
  const auto settled = [&] {
    return finished_ || !error_.ok() || (!closed_ && !rescuing_ && unacked_.empty());
  };
  session_->Wait(lock, connection_, settled);
  session_->WaitForHost(lock, settled);
}

absl::Status OutputFile::WaitDurable() {
  std::unique_lock lock(session_->mu());
  while (true) {
    WaitSettled(lock);
    if (!error_.ok() || durable_) return error_;
    // Its writer may close the file meanwhile.
    const std::shared_ptr<OutputTarget> target = target_;
    if (finished_) {
      lock.unlock();
      absl::Status st = target->Commit();
      lock.lock();
      FailLocked(std::move(st));
      if (error_.ok()) DurableLocked();
      return error_;
    }
    // Still open: keep the promise of Sync from here, since the stream belongs to its writer.
    const uint64_t promise = promised_;
    if (promise == synced_) return absl::OkStatus();
    const uint64_t size = promised_size_;
    const uint32_t generation = generation_;
    lock.unlock();
    absl::Status st = target->Sync(size);
    lock.lock();
    FailLocked(std::move(st));
    if (!error_.ok()) return error_;
    if (generation != generation_ || rescuing_) continue;  // that was its former place
    synced_ = std::max(synced_, promise);
    return absl::OkStatus();
  }
}

void OutputFile::OnCompletion(const wire::Completion& c) {
  if (c.tag >= kFirstWrite) {
    const auto it = unacked_.find(c.tag);
    if (it == unacked_.end()) return;  // not ours: a confused agent
    if (refused_) return;              // it stays for the writer to write
    const bool whole = c.result == static_cast<int64_t>(it->second.length);
    unacked_.erase(it);
    if (!whole) {
      FailLocked(ErrnoError(c.result < 0 ? static_cast<int>(-c.result) : EIO, "writing", path_));
    }
    return;
  }
  if (c.tag == kTagClose && target_ != nullptr) target_->OnAgentClosedLocked();
  if (c.tag == kTagOpen) {
    open_answered_ = true;
    if (c.result < 0 && IsRefusal(static_cast<int>(-c.result))) {
      refused_ = true;
      LogOnce("refused", absl::StrCat("writing ", path_, " without the agent, which ",
                                      WhyRefused(static_cast<int>(-c.result))));
      if (kept_lease_.queue != nullptr) RescueRefusedLocked();
      return;
    }
    ReturnKeptLocked();
  }
  if (refused_) return;
  if (c.result < 0) {
    const char* what = c.tag == kTagOpen ? "handing to the agent" : "syncing";
    FailLocked(ErrnoError(static_cast<int>(-c.result), what, path_));
  }
  if (c.tag == kTagClose && closed_) {
    if (error_.ok() && sync_asked_ != 0) {
      session_->sync_times_locked().Add(NowNanos() - sync_asked_);
    }
    FinishLocked(error_.ok());
  }
}

void OutputFile::FailLocked(absl::Status st) {
  if (st.ok() || !error_.ok()) return;
  error_ = std::move(st);
  session_->NotifyLocked();
}

void OutputFile::FinishLocked(bool ok) {
  if (finished_) return;
  finished_ = true;
  if (ok && is_output_) Add(&session_->counters().files_persisted, 1);
  ReturnKeptLocked();
  if (connection_ != nullptr) {
    connection_->targets.erase(file_);
    connection_ = nullptr;
  }
  agent_fd_.reset();
  session_->NotifyLocked();
  if (!ok) {
    target_.reset();
  } else if (target_->OnDataDurableLocked(size())) {
    DurableLocked();
  }
}

void OutputFile::DurableLocked() {
  if (durable_) return;
  durable_ = true;
  // Readers that the target has served go to the file from now on.
  if (target_->ServesReads()) generation_.fetch_add(1, std::memory_order_release);
  target_.reset();
  done_.store(true, std::memory_order_release);
  session_->NotifyLocked();
  owner_->OnDurableLocked(this);  // may drop the registry's reference
}

}  // namespace pulse::lsm
