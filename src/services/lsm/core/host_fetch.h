// Fetch: the host's side of reading compaction input ahead. The agent reads chunks of the input
// files into a shared arena while the host merges; RocksDB's reads are then copies from that arena.
// (The third stage, beyond PulseDB's two; docs/internals/architecture.md.)
//
// FetchPool owns the arena, cut into chunks; FetchedFile is one input file with its windows, one
// per sequential reader. A reader that jumps gets a new window. Windows grow as their reader proves
// sequential, and share the pool fairly. When the pool is exhausted, windows idle for a second give
// their chunks back; failing that, Read says "not served" and the caller reads the file itself.
//
// A pool lives and dies with its connection to an agent; FetchSource has the pool of the moment.
//
// Threads: any. Read blocks until the agent has delivered what is asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "services/lsm/core/fetch_input.h"
#include "services/lsm/core/host_session.h"

namespace pulse::lsm {

class FetchedFile;

// A file as it is; with direct I/O if its file system has it and `io` is not buffered.
absl::StatusOr<FetchInput> OpenPlainInput(const std::string& path, IoMode io);

class FetchPool : public std::enable_shared_from_this<FetchPool> {
 public:
  static absl::StatusOr<std::shared_ptr<FetchPool>> Create(std::shared_ptr<HostSession> session,
                                                           HostSession::Connection connection);

  HostSession& session() { return *session_; }
  bool dead() const { return connection_->dead; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }

 private:
  friend class FetchedFile;
  enum class State : uint8_t { kFree, kInFlight, kReady, kOrphan };
  struct Chunk {
    State state = State::kFree;
    uint64_t length = 0;  // asked for
    int64_t result = 0;
    uint64_t generation = 0;
  };

  FetchPool(std::shared_ptr<HostSession> session, HostSession::Connection connection,
            StreamQueue* queue);
  // Locked: session mu.
  int AllocateLocked();
  void ReleaseLocked(int chunk);
  void OnChunkLocked(uint64_t tag, int64_t result);
  void StealIdleLocked();
  size_t FairShareLocked() const;
  absl::Status PushLocked(const wire::Descriptor& d);
  // Waits for room. False when the agent is dead.
  bool PushWaiting(std::unique_lock<std::mutex>& lock, const wire::Descriptor& d);
  void Ring() { connection_->link->kick().Ring(); }

  const std::shared_ptr<HostSession> session_;
  const HostSession::Connection connection_;
  StreamQueue* const queue_;
  const uint64_t chunk_bytes_;
  const uint64_t first_bytes_;
  std::vector<Chunk> chunks_;
  std::vector<int> free_;
  std::vector<FetchedFile*> files_;
  size_t windows_ = 0;
};

class FetchedFile : public CompletionTarget {
 public:
  // Passes `input` to the agent.
  static absl::StatusOr<std::unique_ptr<FetchedFile>> Open(FetchInput input,
                                                           std::shared_ptr<FetchPool> pool);
  ~FetchedFile() override;

  // Reads [offset, offset+n) into `out`. Returns the bytes read (short only at the end of the
  // file), or -1 when not served: then nothing was read. `finished`: no reader is left that was
  // seen to read on; the object may as well go, and with it the agent's descriptor. `purpose`: what
  // the read, and what it makes the agent read ahead, is part of.
  int64_t Read(uint64_t offset, size_t n, char* out, bool* finished,
               IoPurpose purpose = IoPurpose::kUnknown);
  bool dead() const { return pool_->dead(); }

  void OnCompletion(const wire::Completion& c) override;
  bool OnAgentDeath() override { return false; }

 private:
  friend class FetchPool;
  struct Window {
    std::deque<int> chunks;  // consecutive, [start, end) of the file
    uint64_t start = 0;
    uint64_t end = 0;
    size_t depth = 0;  // chunks to keep ahead
    IoPurpose purpose = IoPurpose::kUnknown;
    bool active = false;  // counted in the pool's windows_
    bool busy = false;    // a reader copies from it outside the lock
    int64_t last_used = 0;
  };

  FetchedFile(std::shared_ptr<FetchPool> pool, FetchInput input)
      : pool_(std::move(pool)), input_(std::move(input)), size_(input_.size) {}
  // Where the input's bytes from `offset` on are, and at most how many of `*length` lie together.
  uint64_t PlaceOf(uint64_t offset, uint64_t* length) const;
  Window* FindLocked(uint64_t offset);
  void DropLocked(Window* w);
  void TopUpLocked(Window* w);

  const std::shared_ptr<FetchPool> pool_;
  const FetchInput input_;
  const uint64_t size_;
  uint32_t file_ = 0;
  bool refused_ = false;  // the agent cannot open it
  std::deque<Window> windows_;
};

// The pool of the session's agent of the moment. Thread-safe.
class FetchSource {
 public:
  explicit FetchSource(std::shared_ptr<HostSession> session) : session_(std::move(session)) {}
  ~FetchSource();
  // Begins to make a pool, which takes tens of milliseconds, on a thread of its own: a database has
  // been opened for writing, and compactions will follow. Once; later calls do nothing.
  void Warm();
  // Null while there is no agent, or none that has a pool (then one is being made). Makes one when
  // the agent is new.
  std::shared_ptr<FetchPool> Pool();

 private:
  const std::shared_ptr<HostSession> session_;
  std::mutex mu_;
  std::shared_ptr<FetchPool> pool_;
  HostSession::Connection tried_;  // a pool was asked of this one
  static constexpr int64_t kRetryNanos = 1'000'000'000;
  int failures_ = 0;      // ... so often in vain
  int64_t retry_at_ = 0;  // ... and not again before
  std::once_flag warmed_;
  std::thread warm_;
};

}  // namespace pulse::lsm
