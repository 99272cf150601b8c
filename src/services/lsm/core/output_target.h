// OutputTarget: where the bytes of an output go. OutputFile knows streams, agents and promises; a
// target knows offsets, room and durability: PlainTarget a file of its own (layout=files),
// PoolTarget segments of a pool (layout=pool).
//
// Ownership: shared, since a barrier may sync an output while its writer closes it; descriptors go
// with the last reference. Threads: Sync and Commit may be called by any thread at any time; the
// rest by one thread at a time (the writer's, or a rescue's), except what is marked "Locked", which
// needs HostSession::mu() and does not block. Errors name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::lsm {

class OutputTarget {
 public:
  virtual ~OutputTarget() = default;

  // For the agent: an open file of its own, so that the kernel reports a write-back error to the
  // host's sync as well as to the agent's. Invalid when it cannot be opened; the host then writes
  // by itself.
  virtual UniqueFd OpenForAgent() = 0;
  // How many bytes the agent is to preallocate, given the size that RocksDB expects. Called once,
  // before the first write.
  virtual uint64_t Preallocate(uint64_t expected) = 0;
  // The size to which the agent's sync_close truncates; ~0: it does not.
  virtual uint64_t FinalSize(uint64_t size) const = 0;
  // Whether readers must use Read until the output is durable. Any thread may then call it.
  virtual bool ServesReads() const { return false; }
  // Whether write-back is to be started while the output is written, by the agent's range_sync or
  // by StartWriteBack.
  virtual bool WantsWriteBack() const = 0;

  // A run of bytes of the output that lie together in what the agent was given.
  struct Place {
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  // The place of the output's bytes [offset, offset+length), or of as many of the first as lie
  // together. Whole pages.
  virtual absl::StatusOr<Place> PlaceOf(uint64_t offset, uint64_t length) = 0;

  // From here on only the host writes. Without an agent, direct I/O would make the merging thread
  // wait for the device at each piece. So what it writes goes into the page cache, as with stock
  // RocksDB, unless the user has asked for direct I/O by name (HostWritesDirect). For the writer's
  // thread, with nothing in flight.
  virtual absl::Status TakeOver() = 0;
  virtual bool HostWritesDirect() const = 0;
  virtual void StartWriteBack(uint64_t offset, uint64_t length) = 0;

  // By the host itself; block. Offsets and lengths of Write are whole pages, and so is its memory.
  virtual absl::Status Write(uint64_t offset, const char* data, uint64_t length) = 0;
  virtual absl::Status Read(uint64_t offset, char* data, uint64_t length) = 0;
  // From `from` bytes to `size`, with zeros if that is more.
  virtual absl::Status Truncate(uint64_t from, uint64_t size) = 0;
  // The output, still open, is durable with its first `size` bytes.
  virtual absl::Status Sync(uint64_t size) = 0;
  // What the agent's sync_close does: the data is durable at its final length.
  virtual absl::Status SyncClose(uint64_t size) = 0;
  // Moves the output, of `size` bytes so far, to another place, so that late writes to the old one
  // cannot corrupt it. True when readers must open the file again.
  virtual absl::StatusOr<bool> MoveAside(uint64_t size) = 0;

  // The data is durable at `size` bytes, by the agent or by SyncClose. False when Commit has to
  // follow.
  virtual bool OnDataDurableLocked(uint64_t size) = 0;
  // The agent has closed what OpenForAgent gave it.
  virtual void OnAgentClosedLocked() {}
  // Makes the file's metadata durable. Blocks.
  virtual absl::Status Commit() { return absl::OkStatus(); }
};

// Makes the target of a new, empty output, given its canonical path.
using TargetMaker =
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<OutputTarget>>(const std::string& path)>;

}  // namespace pulse::lsm
