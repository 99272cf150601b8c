// How changes become durable: group commit, the switch between the halves of the journal,
// checkpoints.
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/shortage.h"
#include "store/aligned_buffer.h"
#include "store/store_impl.h"

namespace pulse::store {

absl::Status Store::Impl::Fail(const absl::Status& status) {
  std::unique_lock lock(mu_);
  if (failed_.ok()) {
    failed_ = absl::UnavailableError(absl::StrCat(
        "store ", path_, " takes no more changes since its device failed: ", status.message(),
        "; mend the device, then open the store again: what was committed is there. Until then: ",
        // Whatever it was: nobody should wait for free space, say, to go on with this store.
        std::strerror(EIO), " (errno ", EIO, ")"));
    Log(LogLevel::kError, failed_.message());
  }
  return failed_;
}

absl::Status Store::Impl::Commit(bool release) {
  uint64_t target;
  {
    std::shared_lock lock(mu_);
    if (!failed_.ok()) return failed_;
    target = changes_;
  }
  std::unique_lock lock(commit_mu_);
  if (durable_ >= target && !release) return absl::OkStatus();
  ++commits_;
  while (durable_ < target || release) {
    if (leading_) {
      commit_cv_.wait(lock);
      continue;
    }
    leading_ = true;
    lock.unlock();
    const absl::Status status = LeadBatch();
    lock.lock();
    leading_ = false;
    commit_cv_.notify_all();
    if (!status.ok()) return status;
    release = false;
  }
  return absl::OkStatus();
}

// Called by one thread at a time, without locks.
absl::Status Store::Impl::LeadBatch() {
  const uint64_t capacity =
      superblock_.journal_bytes - kBlock;  // a block is kept for the clean mark
  std::string records;
  BatchHeader header;
  uint64_t offset = 0;
  uint64_t changes = 0;
  std::unique_lock lock(mu_);
  const auto make_durable = [&](std::vector<Run>* freed) {
    ReleaseFreed(freed);
    lock.unlock();
    std::lock_guard commit_lock(commit_mu_);
    durable_ = std::max(durable_, changes);
    return absl::OkStatus();
  };
  for (;;) {
    if (!failed_.ok()) return failed_;
    changes = changes_;
    // Nothing is in flight either, so all that was freed is durably so.
    if (buffer_records_ == 0) return make_durable(&freed_);
    if (journal_used_ + RoundUpToBlock(buffer_.size()) <= capacity) break;
    {
      std::unique_lock work(work_mu_);
      if (checkpoint_running_) {
        // The other half is still needed.
        lock.unlock();
        checkpoint_cv_.wait(work, [this] { return !checkpoint_running_; });
        work.unlock();
        lock.lock();
        continue;
      }
    }
    ++generation_;
    journal_used_ = 0;
    StartCheckpoint(sequence_ + 1);
    break;
  }
  records.swap(buffer_);
  buffer_.assign(sizeof(BatchHeader), '\0');
  header.records = std::exchange(buffer_records_, 0);
  last_length_.reset();
  header.sequence = ++sequence_;
  header.generation = generation_;
  header.payload_bytes = static_cast<uint32_t>(records.size() - sizeof(BatchHeader));
  offset = superblock_.journal_offset[generation_ % 2] + journal_used_;
  journal_used_ += header.total_bytes();
  clean_ = false;
  freed_in_flight_.swap(freed_);
  in_flight_ = true;
  lock.unlock();

  AlignedBuffer batch(records.size());
  std::memcpy(batch.data(), records.data(), records.size());
  SealBatch(header, superblock_, batch.data());
  absl::Status status = device_->Write(offset, batch.data(), batch.size());
  if (status.ok()) status = device_->Sync();
  if (!status.ok()) {
    return Fail(
        absl::InternalError(absl::StrCat("the journal, offset ", offset, ": ", status.message())));
  }

  lock.lock();
  in_flight_ = false;
  ++batches_;
  return make_durable(&freed_in_flight_);
}

void Store::Impl::ReleaseFreed(std::vector<Run>* runs) {
  for (const Run& run : *runs) {
    pending_segments_ -= run.count;
    if (held_.empty()) {
      state_->free_segments().Release(run);
      continue;
    }
    for (uint32_t i = 0; i < run.count; ++i) {
      const uint32_t segment = run.first + i;
      if (held_.count(segment) != 0) {
        held_free_.insert(segment);
      } else {
        state_->free_segments().Release({segment, 1});
      }
    }
  }
  runs->clear();
}

void Store::Impl::StartCheckpoint(uint64_t sequence) {
  CheckpointImage image = MakeCheckpoint(*state_, generation_, sequence);
  std::lock_guard work(work_mu_);
  checkpoint_running_ = true;
  checkpoint_ = std::move(image);
  work_cv_.notify_all();
}

void Store::Impl::RunCheckpoints() {
  std::unique_lock work(work_mu_);
  for (;;) {
    work_cv_.wait(work, [this] { return stopping_ || checkpoint_.has_value(); });
    if (!checkpoint_.has_value()) return;
    const CheckpointImage image = *std::move(checkpoint_);
    checkpoint_.reset();
    work.unlock();
    const absl::Status status = WriteCheckpoint(*device_, superblock_, image);
    if (!status.ok()) {
      Fail(absl::InternalError(absl::StrCat(
               "the checkpoint, offset ", superblock_.checkpoint_offset[image.generation % 2], ": ",
               status.message())))
          .IgnoreError();  // whoever changes something next is told
    }
    work.lock();
    checkpoint_running_ = false;
    if (status.ok()) ++checkpoints_;
    checkpoint_cv_.notify_all();
  }
}

void Store::Impl::CommitLater(std::function<void(const absl::Status&)> done) {
  std::unique_lock work(work_mu_);
  later_.push_back(std::move(done));
  work_cv_.notify_all();
}

void Store::Impl::RunLaterCommits() {
  std::unique_lock work(work_mu_);
  for (;;) {
    work_cv_.wait(work, [this] { return stopping_ || !later_.empty(); });
    if (later_.empty()) return;
    const auto waiting = std::exchange(later_, {});
    work.unlock();
    const absl::Status status = Commit(/*release=*/false);
    for (const auto& done : waiting) done(status);
    work.lock();
  }
}

absl::Status Store::Impl::Start() {
  // A process that was killed may have left batches in the device's cache, which this recovery has
  // taken for durable.
  const absl::Status status = device_->Sync();
  if (!status.ok()) return Fail(status);
  // Now, since a commit that needs a checkpoint cannot do without, nor can what waits for one.
  PULSE_RETURN_IF_ERROR(StartThread(
      "a store's checkpoints", [this] { RunCheckpoints(); }, &checkpoint_thread_));
  pthread_setname_np(checkpoint_thread_.native_handle(), "pulse-st-check");
  PULSE_RETURN_IF_ERROR(StartThread(
      "a store's commits", [this] { RunLaterCommits(); }, &commit_thread_));
  pthread_setname_np(commit_thread_.native_handle(), "pulse-st-commit");
  std::unique_lock lock(mu_);
  if (generation_ != checkpoint_generation_) StartCheckpoint(sequence_);
  return absl::OkStatus();
}

void Store::Impl::WriteCleanMark() {
  if (clean_ || !failed_.ok() || journal_used_ + kBlock > superblock_.journal_bytes) return;
  BatchHeader header;
  header.flags = BatchHeader::kClean;
  header.sequence = ++sequence_;
  header.generation = generation_;
  AlignedBuffer block(kBlock);
  SealBatch(header, superblock_, block.data());
  const uint64_t offset = superblock_.journal_offset[generation_ % 2] + journal_used_;
  absl::Status status = device_->Write(offset, block.data(), kBlock);
  if (status.ok()) status = device_->Sync();
  if (!status.ok()) Fail(status).IgnoreError();  // logged; nothing was lost
}

Store::Impl::~Impl() {
  if (!read_only_) {
    const absl::Status status = Commit(/*release=*/false);
    // What made it fail was logged then.
    if (!status.ok() && !absl::IsUnavailable(status)) {
      Log(LogLevel::kError, absl::StrCat("closing: ", status.message()));
    }
  }
  {
    std::lock_guard work(work_mu_);
    stopping_ = true;
    work_cv_.notify_all();
  }
  if (commit_thread_.joinable()) commit_thread_.join();
  if (checkpoint_thread_.joinable()) checkpoint_thread_.join();
  if (!read_only_) WriteCleanMark();
}

}  // namespace pulse::store
