// FileEngine: files and their ordering on top of an IoBackend. PulseDB III-B.3 and III-B.4.
//
// Invariants:
//   - a range_sync starts when no write that overlaps its range is in flight on that file; a length
//     of 0 reaches to the end of the file, as in sync_file_range(2)
//   - sync and sync_close start when nothing at all is in flight on that file. Reads overtake them
//     while they wait, but only so many that they do not wait for ever
//   - requests reach the back-end in pieces of kMaxTransfer at most: io_uring's lengths have 32
//     bits, and no request may keep the others of its class from their share
//   - what may start by these rules reaches the back-end in the order of the IoScheduler
//   - operations on different files never wait for each other
//   - after a write, sync or range_sync failed, the file's error is sticky: every later write, sync
//   and
//     sync_close on it reports that first error; sync_close and discard close the descriptor all
//     the same
//   - every operation completes exactly once, through Client::OnIoComplete
//
// Owned and called by one worker thread. Never blocks; what the back-end cannot take at once waits
// in a queue whose length is bounded by the callers' rings. Short transfers and EINTR/EAGAIN are
// continued here.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "uring/io_backend.h"
#include "uring/io_scheduler.h"

namespace pulse {

class FileEngine {
 public:
  static constexpr uint64_t kMaxTransfer = uint64_t{8} << 20;

  class Client {
   public:
    virtual ~Client() = default;
    // `result`: bytes transferred, 0, or -errno. Called from Poll() on the worker's thread; may
    // start further operations.
    virtual void OnIoComplete(uint64_t cookie, int64_t result) = 0;
  };

  class File;

  explicit FileEngine(std::unique_ptr<IoBackend> backend);
  ~FileEngine();
  FileEngine(const FileEngine&) = delete;
  FileEngine& operator=(const FileEngine&) = delete;

  // Takes the descriptor. The File is freed when SyncClose or Discard completes.
  // `pinned` registers the descriptor with the engine, worth it for files with many operations.
  // `sticky`: as above; else a failed write is that write's failure alone, for a descriptor that
  // many files share. `origin` and `io_class`: for whom and as what the file's requests are
  // scheduled; an origin outlives its files. Null: the engine's own.
  File* Open(UniqueFd fd, Client* client, bool pinned, bool sticky = true,
             IoOrigin* origin = nullptr, IoClass io_class = IoClass::kUnknown);

  void Fallocate(File* f, uint64_t bytes, uint64_t cookie);
  // `not_before`: when the buffer's bytes will be there (NowNanos; 0: they are), which the write
  // waits for. For the file's rules it is in flight from now on.
  void Write(File* f, char* buffer, int buffer_index, uint64_t length, uint64_t offset,
             uint64_t cookie, int64_t not_before = 0);
  // `io_class`: another than the file's.
  void Read(File* f, char* buffer, int buffer_index, uint64_t length, uint64_t offset,
            uint64_t cookie, std::optional<IoClass> io_class = std::nullopt);
  void RangeSync(File* f, uint64_t offset, uint64_t length, uint64_t cookie);
  void Sync(File* f, uint64_t cookie);
  // Truncates to `size` unless kNoTruncate, syncs, closes, frees. `f` must not be used afterwards.
  void SyncClose(File* f, uint64_t size, uint64_t cookie);
  // Waits for what is in flight, closes without syncing, frees. `f` must not be used afterwards.
  void Discard(File* f, uint64_t cookie);

  // Completes `cookie` with 0 from a Poll() at or after `when` (NowNanos): for what else the client
  // has under way. `client` must live until then.
  void After(int64_t when, Client* client, uint64_t cookie);

  // Submits what is queued and delivers what has completed. Returns the number of completions.
  size_t Poll();

  // Nothing queued and nothing in flight.
  bool idle() const { return live_ops_ == 0 && later_.empty(); }
  // When Poll() has something to do though no result came in (NowNanos); 0: never.
  int64_t next_due() const { return later_.empty() ? 0 : later_.top().when; }
  // The worker must call Poll() again soon rather than sleep on wait_fd().
  bool needs_polling() {
    return !finished_.empty() || backend_->needs_polling() || scheduler_.Next() != nullptr;
  }
  IoBackend& backend() { return *backend_; }
  IoScheduler* scheduler() { return &scheduler_; }

 private:
  struct Op;
  // An operation whose bytes are on their way, or (op null) a client's cookie.
  struct Later {
    int64_t when;
    Op* op;
    Client* client;
    uint64_t cookie;
    bool operator>(const Later& other) const { return when > other.when; }
  };

  Op* NewOp(File* f, IoOp kind, uint64_t cookie);
  void FreeOp(Op* op);
  void Start(Op* op);     // queue for the back-end
  void Queue(Op* op);     // ... what is left of it
  void Schedule(Op* op);  // start now or defer by the file's rules
  bool MayStart(const Op* op) const;
  void Complete(Op* op, int64_t result);
  void Dispatch();
  size_t StartDue();
  void OnResult(Op* op, int64_t result);

  std::unique_ptr<IoBackend> backend_;
  std::vector<std::unique_ptr<Op>> op_pool_;
  std::vector<Op*> free_ops_;
  IoScheduler scheduler_;  // what waits for the back-end
  IoOrigin own_{&scheduler_};
  std::deque<Op*> finished_;  // completed without I/O; delivered by the next Poll
  std::priority_queue<Later, std::vector<Later>, std::greater<>> later_;
  std::unordered_map<File*, std::unique_ptr<File>> files_;
  size_t live_ops_ = 0;
};

}  // namespace pulse
