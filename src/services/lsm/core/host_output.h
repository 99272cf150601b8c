// OutputFile: one compaction or flush output on its way to disk through a stream. PulseDB III-B and
// III-D.
//
// The writer's thread appends into the queue's arena (the only copy before the device), and hands
// what has reached the write threshold to the agent. Close() queues sync_close and returns; the
// file is durable when the agent has answered. The host owns every byte until then: if the agent
// is lost, the session's watching thread writes what it did not acknowledge (host_rescue.cc), and
// the writer goes on inline.
//
// Threads: Append/Flush/Sync/Truncate/Close/Abandon belong to the writer's thread. The rest may be
// called by any. Functions named ...Locked need HostSession::mu().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stream_copy.h"
#include "base/unique_fd.h"
#include "services/lsm/core/host_session.h"
#include "services/lsm/core/output_target.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {

class OutputFile;

// Where outputs live until they are durable. Implemented by OutputRegistry.
class OutputOwner {
 public:
  virtual ~OutputOwner() = default;
  virtual void OnDurableLocked(OutputFile* file) = 0;
};

class OutputFile : public CompletionTarget {
 public:
  enum class Writer { kAgent, kHost };
  // An output at `path`, new and empty, in `target`. `owner` outlives the file. Inline from the
  // start when the host is to write it, the agent is dead or all its streams are taken.
  static absl::StatusOr<std::shared_ptr<OutputFile>> Create(const std::string& path,
                                                            std::shared_ptr<OutputTarget> target,
                                                            std::shared_ptr<HostSession> session,
                                                            OutputOwner* owner,
                                                            Writer writer = Writer::kAgent);
  ~OutputFile() override;

  void set_preallocation(uint64_t bytes) { preallocation_ = bytes; }
  // What the output is written for. Before the first append.
  void set_purpose(IoPurpose purpose) { purpose_ = purpose; }

  absl::Status Append(const char* data, size_t n) {
    if (n <= room_) {  // the common case of a block: a copy and three additions
      Put(data, n);
      return absl::OkStatus();
    }
    return AppendSlow(data, n);
  }
  // Hands everything appended so far to the agent, the last partial page padded.
  absl::Status Flush();
  // Flush, and promise: the next barrier makes it durable. With `wait`, durable on return.
  absl::Status Sync(bool wait);
  absl::Status Truncate(uint64_t size);
  // Ends the stream: tail, then sync_close. With `wait`, durable on return.
  absl::Status Close(bool wait);

  // All that was flushed is in the file (though perhaps not durable): readers may read it.
  absl::Status WaitWritten();
  // Reads what was flushed, `n` bytes of it. False: the file itself is to be read.
  absl::StatusOr<bool> Read(uint64_t offset, size_t n, char* out);
  // Grows when the output moves: readers of what is in flight open it again.
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }
  // While it exists, no rescue touches the path: a rescue could bring back a file that is being
  // deleted or replaced. Its constructor waits for a rescue under way. `file` may be null.
  class PathGuard {
   public:
    explicit PathGuard(OutputFile* file);
    ~PathGuard();
    PathGuard(const PathGuard&) = delete;
    PathGuard& operator=(const PathGuard&) = delete;

   private:
    OutputFile* const file_;
  };
  // A closed file is durable; an open one whose Sync was promised is made so. First error
  // otherwise.
  absl::Status WaitDurable();
  // Waits for the part that other threads and the agent do; WaitDurable does the rest itself.
  absl::Status WaitSettled();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_.load(std::memory_order_relaxed); }
  std::thread::id creator() const { return creator_; }
  // Closed and durable; readers need this object no more.
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Closed, and nothing of it is in flight.
  bool finished_locked() const { return finished_; }
  bool NeedsBarrierLocked() const { return !durable_ && (closed_ || promised_ > synced_); }
  const absl::Status& error_locked() const { return error_; }
  // An error was returned to the writer, so RocksDB will not install this file: barriers ignore it.
  void MarkErrorSeen() { error_seen_.store(true, std::memory_order_release); }
  bool error_seen() const { return error_seen_.load(std::memory_order_acquire); }

  void OnCompletion(const wire::Completion& c) override;
  bool OnAgentDeath() override;
  void Rescue(OutstandingWork work) override;

 private:
  struct Unacked {
    uint64_t file_offset;
    const char* data;
    uint64_t length;
  };
  enum Tag : uint64_t { kTagOpen = 1, kTagClose = 3, kTagRange = 4, kFirstWrite = 16 };

  OutputFile(std::string path, std::shared_ptr<OutputTarget> target,
             std::shared_ptr<HostSession> session, OutputOwner* owner)
      : path_(std::move(path)),
        session_(std::move(session)),
        owner_(owner),
        target_(std::move(target)) {}

  void Put(const char* data, size_t n) {
    if (is_inline()) {
      std::memcpy(write_, data, n);  // this core reads it again soon
    } else {
      StreamCopy(write_, data, n);
    }
    write_ += n;
    room_ -= n;
    size_.store(size_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  absl::Status AppendSlow(const char* data, size_t n);
  absl::Status MakeRoom();
  void TracePiece(uint64_t bytes);
  absl::Status SubmitPending();  // whole pages only, unless the tail was padded by Flush
  // `by_host`: the agent was not asked.
  absl::Status SubmitWrite(const char* data, uint64_t offset, const OutputTarget::Place& place,
                           bool* by_host);
  absl::Status Request(Opcode op, uint64_t tag, uint64_t offset, uint64_t length, uint64_t aux);
  absl::Status RestoreTail();
  absl::Status EnsureOpen();
  void RescueRefusedLocked();
  void ReturnKeptLocked();
  absl::Status SettleWrites();
  bool Refused();
  void LeaveQueue();
  void EndWritingLocked();
  void LeaveRefusingAgent();
  absl::Status SwitchToInline();
  bool agent_dead() const { return lease_.connection->dead; }
  void Ring() { lease_.connection->link->kick().Ring(); }
  uint64_t pending() const { return static_cast<uint64_t>(write_ - pending_); }
  bool is_inline() const { return queue_ == nullptr; }
  absl::Status StickyError();

  // By the host itself (host_rescue.cc).
  absl::Status WriteInline(uint64_t offset, const char* data, uint64_t length);
  absl::Status WriteUnacked();
  void FinishInline(std::unique_lock<std::mutex>& lock);
  absl::Status MoveAside();
  absl::Status LeaveLateWritesBehind();
  void FailLocked(absl::Status st);
  // No completion can follow.
  void FinishLocked(bool ok);
  void DurableLocked();
  void WaitSettled(std::unique_lock<std::mutex>& lock);

  const std::string path_;
  const std::shared_ptr<HostSession> session_;
  OutputOwner* const owner_;
  const std::thread::id creator_ = std::this_thread::get_id();
  // Changed under session_->mu() only; null once it is no longer needed.
  std::shared_ptr<OutputTarget> target_;
  UniqueFd agent_fd_;  // until the agent has it
  uint32_t file_ = 0;
  bool is_output_ = true;  // the agent is to write it, if there is one; counted
  uint64_t preallocation_ = 0;
  IoPurpose purpose_ = IoPurpose::kUnknown;

  // The writer's own.
  HostSession::Lease lease_{};    // empty: inline
  StreamQueue* queue_ = nullptr;  // lease_.queue
  char* pending_ = nullptr;       // first byte not yet handed over; page-aligned
  char* write_ = nullptr;
  uint64_t room_ = 0;                // bytes that may be copied to write_ without a check
  uint64_t file_pos_ = 0;            // file offset of pending_; a multiple of the page
  std::atomic<bool> opened_{false};  // written by the writer
  bool writing_ = false;             // counted as open
  bool tail_flushed_ = false;        // the last page went out padded; its bytes are in tail_
  uint64_t tail_length_ = 0;
  // File offset up to which write-back was asked for. Also a rescue's, which may begin while the
  // writer is between two requests.
  std::atomic<uint64_t> range_synced_{0};
  uint64_t next_write_ = kFirstWrite;
  std::unique_ptr<std::array<char, wire::kPage>> tail_;
  std::unique_ptr<char, decltype(&std::free)> inline_buffer_{nullptr, &std::free};
  uint64_t inline_bytes_ = 0;
  int64_t piece_begun_ = 0;  // when the writer began what is pending

  std::atomic<uint64_t> size_{0};
  std::atomic<bool> done_{false};
  std::atomic<bool> error_seen_{false};

  std::atomic<uint32_t> generation_{0};

  // Guarded by session_->mu().
  HostSession::Connection connection_;  // until finished
  std::map<uint64_t, Unacked> unacked_;
  HostSession::Lease kept_lease_{};  // of a closed file that the agent has not taken yet
  bool open_answered_ = false;
  bool refused_ = false;   // the agent could not take the file: its bytes are written inline
  bool rescuing_ = false;  // target_ and unacked_ belong to one thread, Rescue()'s or the writer's
  bool late_writes_ = false;  // the lost agent may still carry out writes to this place
  int path_guards_ = 0;
  absl::Status error_;
  uint64_t promised_ = 0;  // number of Sync promises made ...
  uint64_t synced_ = 0;    // ... and of those kept
  uint64_t promised_size_ = 0;
  int64_t sync_asked_ = 0;  // when the agent was asked to sync and close; 0: it was not
  bool closed_ = false;
  bool durable_ = false;
  bool finished_ = false;  // no completion can follow
};

}  // namespace pulse::lsm
