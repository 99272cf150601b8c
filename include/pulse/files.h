// PulseDB's file library: files that live in a segment store and are executed on the agent. Nothing
// but opening and closing the library, making a poll group and waiting blocks. DDS sections 4.1
// to 4.3.
//
//   auto library = pulse::files::Library::Open({.socket = "/run/pulse.sock"});
//   auto poll = (*library)->CreatePoll();
//   (*library)->CreateFile(*poll, "logs", "a", /*cookie=*/1);        // returns at once
//   pulse::files::Completion done;
//   auto n = (*library)->PollWait(*poll, &done, 1, pulse::files::kForever);
//   (*library)->WriteFile(done.file, 0, data, size, /*cookie=*/2);   // copied before it returns
//
// examples/files_example.cc is a whole program. The agent is `pulse agent --store PATH`, on a store
// that `pulse pool create` made.
//
// Operations. Each returns at once. OK: accepted, and it will complete exactly once in its poll
// group, with the caller's cookie. IsRetry(status), which is Unavailable: the group's request ring
// or its table of outstanding requests is full; take completions, then try again.
// IsAgentLost(status), which is Aborted: trying again does not help. Any other status: refused,
// nothing was done, nothing will complete. An operation on a file completes in the
// group that the file is in: the one it was opened in, until PollAdd moves it.
//
// Order. Name operations of one group that one thread issued take effect in that order. All else is
// unordered unless one operation had completed before the other was issued: two writes, or a write
// and a read, of the same bytes that are outstanding together leave, or see, either in any mixture
// of blocks of 512 bytes. CloseFile lets what was issued before it in the same group finish.
// Completions come as operations finish, in any order: none waits for another of its group, while
// the group's response space lasts. A read holds its part of that from when the agent takes it,
// also while it waits for a SetSize.
//
// Durability. Directories and names (create, remove, rename) and SetSize are durable once they have
// completed. Data, and a size that a write has raised, are durable once a SyncFile of that file
// that was issued after the write had completed has completed itself. After a power cut, a file has
// at least what was synced; bytes past that are missing, or zeros, or what was written, never
// anything of another file. An agent that is stopped in order (SIGTERM) syncs everything. One that
// is killed loses sizes that were raised and not synced.
//
// Names. Directories are flat: a name of 1 to 1023 bytes without NUL and '/'. Files: 1 to 255 bytes
// without NUL and '/', neither "." nor "..". A removed file lives on until it is closed.
//
// Errors, in the completion unless the library can tell at once:
//   InvalidArgument     a name; an offset beyond 2^63 - 1; more than max_read() or max_write()
//   NotFound            no such directory or file
//   AlreadyExists       there is one of that name
//   FailedPrecondition  the file is closed, the directory not empty
//   ResourceExhausted   the store is full, or too many files are open: names the remedy
//   Internal            the device failed; a failed write leaves its bytes undefined
//   Aborted             the agent was lost: of a completion, whether it was done is not known
//
// A read that reaches past the end is short, and 0 bytes at the end: no error.
//
// The agent is lost when its process ends or it breaks the protocol. Then every outstanding
// operation completes once with Aborted, further ones are refused with it, and so does PollWait
// return it once there is nothing left to report. Open a new library to go on; handles do not
// outlive theirs.
//
// Ownership: the library owns its poll groups. Files are closed when it is closed or destroyed,
// which must be after all calls have returned; that waits until the agent writes to this process's
// memory no more, at most for three seconds: an agent that stands still longer leaves the groups'
// memory mapped. Close says how it went, which the destructor cannot. Buffers of reads belong to
// the library until the completion. Threads: any, at any time, also on the same group and file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#ifndef PULSE_EXPORT
#define PULSE_EXPORT __attribute__((visibility("default")))
#endif

namespace pulse::files {

// The group has no room: take completions, then try again.
inline bool IsRetry(const absl::Status& status) { return absl::IsUnavailable(status); }
// The agent is lost: open a new library.
inline bool IsAgentLost(const absl::Status& status) { return absl::IsAborted(status); }

enum class File : uint64_t { kNone = 0 };
enum class Poll : uint32_t {};
using RequestId = uint64_t;  // unique among those outstanding in a group; never 0

inline constexpr int64_t kForever = -1;

// How requests and data cross to the agent: the mover; kAgents: as it was started.
enum class Transfer { kAgents, kShared, kVmRead };

struct Options {
  std::string socket;  // of the agent
  Transfer transfer = Transfer::kAgents;
};

struct PollOptions {
  // Shared memory for requests, and for responses: powers of two, 64 KiB to 256 MiB. A write or
  // read moves at most about half of it. Writes wait in the first until they are on the device.
  uint64_t request_bytes = uint64_t{4} << 20;
  uint64_t response_bytes = uint64_t{4} << 20;
  uint32_t max_requests = 1024;  // outstanding; a power of two, at most 32768
};

struct Attributes {
  uint64_t size = 0;       // bytes
  uint64_t allocated = 0;  // bytes of its segments
  int64_t modified_ns =
      0;            // since 1970: creation, SetSize, or when a size raised by writes was synced
  uint64_t id = 0;  // of the file in its store, for good: what pulse/offload.h names files by
};

struct DirectoryEntry {
  std::string name;
  uint64_t size = 0;
  int64_t modified_ns = 0;
};

enum class Operation : uint16_t {
  kNone = 0,
  kCreateDirectory,
  kRemoveDirectory,
  kRenameDirectory,
  kListDirectories,
  kListDirectory,
  kCreateFile,
  kOpenFile,
  kCloseFile,
  kRemoveFile,
  kRenameFile,
  kGetAttributes,
  kSetSize,
  kReserve,
  kSync,
  kRead,
  kWrite,
};

struct Completion {
  RequestId id = 0;
  uint64_t cookie = 0;
  Operation operation = Operation::kNone;
  absl::Status status;
  uint64_t bytes = 0;                   // read or written
  File file = File::kNone;              // that CreateFile or OpenFile opened
  Attributes attributes;                // of CreateFile, OpenFile, GetAttributes
  std::vector<DirectoryEntry> entries;  // of a listing, by name
  bool more = false;                    // the listing goes on after the last entry
  const char* data = nullptr;           // of ReadInPlace: `bytes` bytes, until Release
  uint64_t lease = 0;                   // the library's
};

struct Piece {
  void* data;
  uint64_t size;
};
struct ConstPiece {
  const void* data;
  uint64_t size;
};

class PULSE_EXPORT Library {
 public:
  // Connects; blocks for at most ten seconds. NotFound or Unavailable where no agent listens,
  // FailedPrecondition when it refuses (another version or user, no store, its limits): says why.
  static absl::StatusOr<std::unique_ptr<Library>> Open(const Options& options);
  // Closes.
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Ends the library; all but its destructor and Close are refused from then on. Blocks as said
  // above. Not OK, the first of these that holds: Aborted, the agent was lost before, and what was
  // not synced may be gone; DeadlineExceeded, the agent does not answer; FailedPrecondition, there
  // are operations whose completions nobody took. A second call returns the same.
  absl::Status Close();

  // --- Poll groups. They last as long as the library.
  // Blocks for the agent's answer. ResourceExhausted beyond the agent's limits.
  absl::StatusOr<Poll> CreatePoll(const PollOptions& options = {});
  // Operations on `file` that are issued from now on complete in `poll`.
  absl::Status PollAdd(Poll poll, File file);
  // Takes up to `max` completions; returns as soon as there is one. `timeout_us`: 0 only looks,
  // kForever sleeps until there is one or PollWake; sleeping costs no CPU. 0 after the time-out,
  // and at once, in each thread that waits, when an operation was told to try again and nothing is
  // outstanding. Aborted once the agent was lost and everything has been reported.
  absl::StatusOr<size_t> PollWait(Poll poll, Completion* out, size_t max, int64_t timeout_us);
  // One thread that sleeps in PollWait on the group, now or next, returns.
  void PollWake(Poll poll);
  // Gives back the data of a ReadInPlace, in any order; soon, as the space of later responses is
  // not used again before, nor are there more of them than four times max_requests (1024 at least).
  void Release(Poll poll, Completion* completion);

  // --- Names. `id`, where not null, receives the request's id.
  absl::Status CreateDirectory(Poll poll, std::string_view name, uint64_t cookie,
                               RequestId* id = nullptr);
  absl::Status RemoveDirectory(Poll poll, std::string_view name, uint64_t cookie,
                               RequestId* id = nullptr);  // FailedPrecondition unless empty
  // The target must not exist, or be empty.
  absl::Status RenameDirectory(Poll poll, std::string_view from, std::string_view to,
                               uint64_t cookie, RequestId* id = nullptr);
  // As many names as a response holds, in order, of those after `after`; see Completion::more.
  absl::Status ListDirectories(Poll poll, std::string_view after, uint64_t cookie,
                               RequestId* id = nullptr);
  absl::Status ListDirectory(Poll poll, std::string_view directory, std::string_view after,
                             uint64_t cookie, RequestId* id = nullptr);
  absl::Status CreateFile(Poll poll, std::string_view directory, std::string_view name,
                          uint64_t cookie, RequestId* id = nullptr);  // AlreadyExists
  absl::Status OpenFile(Poll poll, std::string_view directory, std::string_view name,
                        uint64_t cookie, RequestId* id = nullptr);  // NotFound
  absl::Status RemoveFile(Poll poll, std::string_view directory, std::string_view name,
                          uint64_t cookie, RequestId* id = nullptr);
  // Replaces what is at the target, atomically.
  absl::Status RenameFile(Poll poll, std::string_view directory, std::string_view name,
                          std::string_view to_directory, std::string_view to_name, uint64_t cookie,
                          RequestId* id = nullptr);

  // --- Files.
  // The handle is closed when this returns OK; so a second close is refused.
  absl::Status CloseFile(File file, uint64_t cookie, RequestId* id = nullptr);
  absl::Status GetAttributes(File file, uint64_t cookie, RequestId* id = nullptr);
  // Grows by a hole that reads as zeros, or cuts. Waits for reads and writes that are outstanding.
  absl::Status SetSize(File file, uint64_t size, uint64_t cookie, RequestId* id = nullptr);
  // Sets segments aside for `bytes` in all; the size stays.
  absl::Status Reserve(File file, uint64_t bytes, uint64_t cookie, RequestId* id = nullptr);
  absl::Status SyncFile(File file, uint64_t cookie, RequestId* id = nullptr);

  // The agent does I/O in whole blocks of 4 KiB, past the page cache: a write that covers a block
  // in part costs a read of that block, and waits for others in it.
  absl::Status ReadFile(File file, uint64_t offset, void* buffer, uint64_t length, uint64_t cookie,
                        RequestId* id = nullptr);
  absl::Status ReadScatter(File file, uint64_t offset, const Piece* pieces, size_t count,
                           uint64_t cookie, RequestId* id = nullptr);  // at most kMaxPieces
  // Without a copy: Completion::data point into the response, until Release.
  absl::Status ReadInPlace(File file, uint64_t offset, uint64_t length, uint64_t cookie,
                           RequestId* id = nullptr);
  // The data are copied into the request before these return.
  absl::Status WriteFile(File file, uint64_t offset, const void* data, uint64_t length,
                         uint64_t cookie, RequestId* id = nullptr);
  absl::Status WriteGather(File file, uint64_t offset, const ConstPiece* pieces, size_t count,
                           uint64_t cookie, RequestId* id = nullptr);

  static constexpr size_t kMaxPieces = 8;
  // The most that one operation of the group moves, in bytes.
  uint64_t max_read(Poll poll) const;
  uint64_t max_write(Poll poll) const;
  // Accepted and not yet taken by PollWait.
  uint64_t outstanding(Poll poll) const;
  // The agent is gone.
  bool lost() const;
  // Asks the agent for a sign of life. The number has changed since the last call if it has worked
  // since, or answered; one whose device is slow answers, too. A stopped or stuck one does not.
  uint64_t Ping();

  class Impl;

 private:
  explicit Library(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pulse::files
