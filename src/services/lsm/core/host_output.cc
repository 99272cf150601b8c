#include "services/lsm/core/host_output.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/trace.h"
#include "services/lsm/core/thread_activity.h"
#include "services/lsm/core/thread_waits.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kPage = wire::kPage;
// What the host writes itself: direct I/O pays per request, the page cache takes what is still in
// this core's cache.
constexpr uint64_t kInlineDirect = uint64_t{1} << 20;
constexpr uint64_t kInlineBuffered = uint64_t{128} << 10;

uint64_t RoundUp(uint64_t n) { return (n + kPage - 1) / kPage * kPage; }

}  // namespace

absl::StatusOr<std::shared_ptr<OutputFile>> OutputFile::Create(const std::string& path,
                                                               std::shared_ptr<OutputTarget> target,
                                                               std::shared_ptr<HostSession> session,
                                                               OutputOwner* owner, Writer writer) {
  std::shared_ptr<OutputFile> f(new OutputFile(path, std::move(target), std::move(session), owner));
  if (trace::On()) f->piece_begun_ = NowNanos();
  if (writer == Writer::kHost) {
    f->is_output_ = false;
    PULSE_RETURN_IF_ERROR(f->SwitchToInline());
    return f;
  }
  {
    std::lock_guard lock(f->session_->mu());
    f->session_->open_outputs_locked().Begin(NowNanos());
    f->writing_ = true;
  }
  // A flush should not wait behind the rest of a compaction in the same queue.
  auto lease = f->session_->LeaseQueue(/*prefer_idle=*/!ThreadActivity::compacting());
  if (!lease.ok()) {
    LogOnce(absl::StrCat("inline ", lease.status().message()),
            absl::StrCat("writing ", path, " without the agent: ", lease.status().message()));
    PULSE_RETURN_IF_ERROR(f->SwitchToInline());
    return f;
  }
  f->lease_ = *std::move(lease);
  f->queue_ = f->lease_.queue;
  f->connection_ = f->lease_.connection;
  f->pending_ = f->write_ =
      f->queue_->queue.arena() + f->queue_->position % f->queue_->queue.arena_bytes();
  f->agent_fd_ = f->target_->OpenForAgent();
  f->file_ = f->session_->Register(f->connection_.get(), f.get());
  return f;
}

OutputFile::~OutputFile() {
  std::unique_lock lock(session_->mu());
  session_->WaitForHost(lock, [this] { return !rescuing_; });
  if (connection_ != nullptr) connection_->targets.erase(file_);
  ReturnKeptLocked();  // deleted before the agent has taken it: the bytes are not needed
  EndWritingLocked();
}

void OutputFile::EndWritingLocked() {
  if (writing_) session_->open_outputs_locked().End(NowNanos());
  writing_ = false;
}

absl::Status OutputFile::StickyError() {
  std::lock_guard lock(session_->mu());
  // Errors surface early, and the completion ring stays short.
  if (const auto c = connection_; c != nullptr) session_->DrainLocked(c.get());
  return error_;
}

absl::Status OutputFile::AppendSlow(const char* data, size_t n) {
  if (tail_flushed_) PULSE_RETURN_IF_ERROR(RestoreTail());
  while (n > 0) {
    if (room_ == 0) PULSE_RETURN_IF_ERROR(MakeRoom());
    const size_t part = std::min<uint64_t>(n, room_);
    Put(data, part);
    data += part;
    n -= part;
  }
  return absl::OkStatus();
}

// Called when room_ is used up: at the threshold, at the end of the arena, or for want of space.
absl::Status OutputFile::MakeRoom() {
  PULSE_RETURN_IF_ERROR(StickyError());
  const uint64_t threshold = is_inline() ? inline_bytes_ : session_->options().write_threshold;
  if (!is_inline() && (agent_dead() || Refused())) {
    PULSE_RETURN_IF_ERROR(SwitchToInline());
  } else if (pending() > 0) {
    const bool at_end =
        !is_inline() && write_ == queue_->queue.arena() + queue_->queue.arena_bytes();
    if (pending() >= threshold || at_end) PULSE_RETURN_IF_ERROR(SubmitPending());
  }
  if (is_inline()) {
    room_ = inline_bytes_ - pending();
    return absl::OkStatus();
  }

  const HostQueue& q = queue_->queue;
  const uint64_t arena = q.arena_bytes();
  // position counts up to pending_; the pending bytes come on top.
  const auto free_space = [&] {
    return (q.reclaimed() + arena - queue_->position - pending()) / kPage * kPage;
  };
  if (free_space() == 0) {
    // Pending bytes would never be reclaimed if they were not handed over.
    if (pending() > 0) PULSE_RETURN_IF_ERROR(SubmitPending());
    const int64_t start = NowNanos();
    const trace::Scope traced("wait: queue space", {path_});
    Add(&session_->counters().backpressure_waits, 1);
    {
      std::unique_lock lock(session_->mu());
      session_->Wait(lock, connection_, [&] { return free_space() >= kPage || !error_.ok(); });
    }
    const auto waited = static_cast<uint64_t>(NowNanos() - start);
    Add(&session_->counters().backpressure_nanos, waited);
    ThreadWaits::Add(Waited::kBackpressureWaits, 1);
    ThreadWaits::Add(Waited::kBackpressureNanos, waited);
  }
  const uint64_t contiguous = q.arena() + arena - write_;
  const uint64_t to_threshold = threshold - pending();
  const uint64_t room = std::min({contiguous, free_space(), to_threshold});
  // Completions become visible before the space that they release. So once the answers to all
  // writes from this space are read, none of its bytes is needed for a rescue, and it may be
  // overwritten.
  PULSE_RETURN_IF_ERROR(StickyError());
  if (agent_dead() || Refused()) {
    PULSE_RETURN_IF_ERROR(SwitchToInline());
    room_ = inline_bytes_ - pending();
    return absl::OkStatus();
  }
  room_ = room;
  return absl::OkStatus();
}

bool OutputFile::Refused() {
  std::lock_guard lock(session_->mu());
  return refused_;
}

// Traces the time in which RocksDB merged and encoded this piece. For a thread that writes two
// files in turns (tables and blobs) the time counts once.
void OutputFile::TracePiece(uint64_t bytes) {
  if (!trace::On()) return;
  static thread_local int64_t traced_until = 0;
  const int64_t now = NowNanos();
  if (piece_begun_ != 0) {
    trace::Slice("merge-encode", std::max(piece_begun_, traced_until), now,
                 {path_, file_pos_, bytes});
  }
  traced_until = piece_begun_ = now;
}

// Hands pending_ .. write_ over. Whole pages, except from Flush(), which has padded the last one.
absl::Status OutputFile::SubmitPending() {
  const uint64_t length = pending();
  if (length == 0) return absl::OkStatus();
  TracePiece(length);
  const uint64_t padded = RoundUp(length);
  for (uint64_t done = 0; done < padded;) {
    {
      // Not while a rescue moves the file.
      std::unique_lock lock(session_->mu());
      session_->WaitForHost(lock, [this] { return !rescuing_; });
    }
    auto place = target_->PlaceOf(file_pos_ + done, padded - done);
    if (!place.ok()) {
      std::lock_guard lock(session_->mu());
      FailLocked(place.status());
      return error_;
    }
    bool by_host = false;
    PULSE_RETURN_IF_ERROR(SubmitWrite(pending_ + done, file_pos_ + done, *place, &by_host));
    // The agent releases only space of requests that it has received.
    if (!is_inline() && !by_host) queue_->Advance(place->length);
    done += place->length;
  }
  const uint64_t whole = length / kPage * kPage;
  if (is_inline()) {
    pending_ = write_ = inline_buffer_.get();
  } else {
    const HostQueue& q = queue_->queue;
    pending_ = write_ = q.arena() + queue_->position % q.arena_bytes();
  }
  file_pos_ += whole;
  room_ = 0;
  return absl::OkStatus();
}

absl::Status OutputFile::SubmitWrite(const char* data, uint64_t offset,
                                     const OutputTarget::Place& place, bool* by_host) {
  const uint64_t length = place.length;
  if (!is_inline()) PULSE_RETURN_IF_ERROR(EnsureOpen());
  StreamFence();  // from here on another thread may read the copied bytes
  const uint64_t tag = next_write_++;
  {
    std::unique_lock lock(session_->mu());
    session_->WaitForHost(lock, [this] { return !rescuing_; });
    if (!error_.ok()) return error_;
    *by_host = is_inline() || refused_ || connection_ == nullptr || connection_->dead;
    if (*by_host) {
      rescuing_ = true;  // keeps a rescue off target_, should the agent be lost meanwhile
    } else {
      unacked_[tag] = {offset, data, length};
    }
  }
  if (*by_host) {
    const int64_t start = trace::On() ? NowNanos() : 0;
    absl::Status st = WriteInline(offset, data, length);
    if (start != 0) trace::Slice("write without agent", start, NowNanos(), {path_, offset, length});
    std::lock_guard lock(session_->mu());
    rescuing_ = false;
    FailLocked(st);
    session_->NotifyLocked();
    return st;
  }
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(Opcode::kWrite);
  d.file = file_;
  d.tag = tag;
  d.file_offset = place.offset;
  d.arena_offset = data - queue_->queue.arena();
  d.length = length;
  d.position = queue_->position + length;
  // An agent that dies now finds the write in unacked_, so it is not lost.
  absl::Status st = session_->Push(lease_.connection, queue_, d);
  if (!st.ok()) return StickyError();
  const uint64_t end = offset + length;
  const uint64_t synced = range_synced_;
  if (target_->WantsWriteBack() && end >= synced + session_->options().sync_interval) {
    const auto run = target_->PlaceOf(synced, end - synced);
    if (run.ok()) {
      Request(Opcode::kRangeSync, kTagRange, run->offset, run->length, 0)
          .IgnoreError();  // the agent is dead
      range_synced_ = synced + run->length;
    }
  }
  Ring();
  Add(&session_->counters().bytes_persisted, length);
  ThreadWaits::Add(Waited::kBytesPersisted, length);
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
  return session_->Push(lease_.connection, queue_, d);
}

absl::Status OutputFile::EnsureOpen() {
  if (opened_) return absl::OkStatus();
  opened_ = true;
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(Opcode::kOpen);
  d.file = file_;
  d.tag = kTagOpen;
  d.length = target_->Preallocate(preallocation_);
  const UniqueFd fd = std::move(agent_fd_);
  absl::Status st = fd.valid() ? PassFile(lease_.connection->link.get(), fd.get(), &d)
                               : ErrnoError(EMFILE, "opening for the agent", path_);
  d.flags |= PurposeFlags(purpose_);
  if (st.ok()) st = session_->Push(lease_.connection, queue_, d);
  if (st.ok()) return st;
  std::unique_lock lock(session_->mu());
  open_answered_ = true;
  refused_ = true;
  // The socket of a dead agent refuses. A living agent that cannot receive the file cannot write
  // it.
  if (!lease_.connection->dead) {
    LogOnce("refused", absl::StrCat("writing ", path_, " without the agent: ", st.message()));
  }
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

// For the writer's thread, before it changes bytes that it has handed over: waits until no write is
// in flight.
absl::Status OutputFile::SettleWrites() {
  if (!is_inline()) {
    std::unique_lock lock(session_->mu());
    session_->Wait(lock, connection_, [&] { return unacked_.empty() || refused_ || !error_.ok(); });
    if (!error_.ok()) return error_;
  }
  if (!is_inline() && (agent_dead() || Refused())) PULSE_RETURN_IF_ERROR(SwitchToInline());
  PULSE_RETURN_IF_ERROR(WaitWritten());
  return LeaveLateWritesBehind();
}

absl::Status OutputFile::RestoreTail() {
  // Two writes of one page must not be in flight together: their order would be anyone's guess.
  PULSE_RETURN_IF_ERROR(SettleWrites());
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
    std::unique_lock lock(session_->mu());
    ++promised_;
    promised_size_ = size();
    if (!wait) return absl::OkStatus();
    session_->Wait(lock, connection_, [&] { return unacked_.empty() || refused_ || !error_.ok(); });
  }
  // Nobody else would write what was refused.
  if (!is_inline() && Refused()) PULSE_RETURN_IF_ERROR(SwitchToInline());
  return WaitDurable();
}

absl::Status OutputFile::Truncate(uint64_t size) {
  if (size == this->size()) return Flush();
  PULSE_RETURN_IF_ERROR(Flush());
  PULSE_RETURN_IF_ERROR(SettleWrites());
  PULSE_RETURN_IF_ERROR(target_->Truncate(this->size(), size));
  if (tail_ == nullptr) tail_ = std::make_unique<std::array<char, kPage>>();
  tail_length_ = size % kPage;
  tail_flushed_ = tail_length_ != 0;
  file_pos_ = size - tail_length_;
  range_synced_ = std::min(range_synced_.load(), file_pos_);
  room_ = 0;
  if (tail_flushed_) PULSE_RETURN_IF_ERROR(target_->Read(file_pos_, tail_->data(), tail_length_));
  size_.store(size, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status OutputFile::Close(bool wait) {
  absl::Status st = Flush();
  if (!is_inline()) {
    if (st.ok()) st = EnsureOpen();  // an empty file is opened for its sync_close
    if (st.ok() && Refused()) st = SwitchToInline();
  }
  if (!is_inline()) {
    bool discard;
    const uint64_t final_size = target_->FinalSize(size());
    {
      std::lock_guard lock(session_->mu());
      EndWritingLocked();
      closed_ = true;  // from here on, a rescue finishes the file, and target_ may go
      discard = !error_.ok();
      if (!discard) sync_asked_ = NowNanos();
    }
    // A failed file will be deleted; the agent only has to let go of it. A dead agent has let go.
    (discard ? Request(Opcode::kDiscard, kTagClose, 0, 0, 0)
             : Request(Opcode::kSyncClose, kTagClose, 0, 0, final_size))
        .IgnoreError();
    Ring();
  }
  const bool was_inline = is_inline();
  LeaveQueue();
  {
    std::unique_lock lock(session_->mu());
    EndWritingLocked();
    session_->WaitForHost(lock, [this] { return !rescuing_; });
    closed_ = true;
    // Inline, or the agent was lost before closed_ was set.
    if (!finished_ && (was_inline || connection_ == nullptr || connection_->dead)) {
      FinishInline(lock);
    }
  }
  if (wait && st.ok()) st = WaitDurable();
  std::lock_guard lock(session_->mu());
  return st.ok() ? error_ : st;
}

void OutputFile::LeaveQueue() {
  room_ = 0;
  pending_ = write_ = nullptr;
  inline_buffer_.reset();
  tail_.reset();  // readers keep this object
  queue_ = nullptr;
  HostSession::Lease lease = std::exchange(lease_, {});
  if (lease.queue == nullptr) return;
  std::lock_guard lock(session_->mu());
  // The arena of a dead agent is never used again: the kernel may still be reading it.
  if (lease.connection->dead) return;
  // Until the agent has taken the file, its bytes must stay where they are.
  if (!finished_ && (!open_answered_ || refused_)) {
    kept_lease_ = std::move(lease);
    if (refused_) RescueRefusedLocked();
  } else {
    session_->ReturnQueueLocked(lease);
  }
}

void OutputFile::ReturnKeptLocked() {
  const HostSession::Lease lease = std::exchange(kept_lease_, {});
  if (lease.queue != nullptr && !lease.connection->dead) session_->ReturnQueueLocked(lease);
}

void OutputFile::RescueRefusedLocked() {
  rescuing_ = true;
  session_->RescueLaterLocked(this);
}

// An agent that has turned the file down does not have it: should it be lost, too, there is nothing
// to rescue, and the file is its writer's alone.
void OutputFile::LeaveRefusingAgent() {
  std::unique_lock lock(session_->mu());
  session_->WaitForHost(lock, [this] { return !rescuing_; });
  if (!refused_ || connection_ == nullptr || connection_->dead) return;
  connection_->targets.erase(file_);
  connection_ = nullptr;
}

// From here on the host writes this file itself, first what the agent did not.
absl::Status OutputFile::SwitchToInline() {
  const bool direct = target_->HostWritesDirect();
  const uint64_t bytes = direct ? kInlineDirect : kInlineBuffered;
  std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(kPage, bytes)), &std::free);
  if (buffer == nullptr) return ErrnoError(ENOMEM, "buffering", path_);
  if (!is_inline()) {
    LeaveRefusingAgent();
    absl::Status st = WriteUnacked();
    if (st.ok()) st = SubmitPending();
    if (!st.ok()) return st;
    if (agent_dead()) {
      queue_ = nullptr;
      lease_ = {};
    } else {
      queue_ = nullptr;
      std::lock_guard lock(session_->mu());
      session_->ReturnQueueLocked(std::exchange(lease_, {}));
    }
  }
  PULSE_RETURN_IF_ERROR(target_->TakeOver());
  range_synced_ = file_pos_;
  inline_buffer_ = std::move(buffer);
  inline_bytes_ = bytes;
  pending_ = write_ = inline_buffer_.get();
  room_ = 0;
  return absl::OkStatus();
}

}  // namespace pulse::lsm
