// The graph store's log: what makes a commit durable. Records lie in segments NUMBER.wal of one
// directory; each has its length, a CRC-32C and its commit's sequence, and says up to which
// sequence everything was durable when it was written. docs/internals/graph-store.md specifies the
// bytes.
//
// A payload of any size is one entry: it is cut into records of 16 MiB at most. Write() takes the
// entries of all committers that wait and syncs once (group commit is the caller's, commit.h). What
// cannot be written gives an error to its entry alone; what is before it stays, and the log goes
// on. After a sync that failed, nobody knows what is durable: the log refuses all further entries.
//
// Small entries find their place written before, with zeros: a sync then has no new size to write
// to the file system's journal, and takes three quarters of the time. Rolling over and closing cut
// off what is left of the zeros; after a kill they are a torn tail, as any other.
//
// Opening reads everything that is there. A torn tail, also in the middle of an entry, is a clean
// end and is cut off. A damaged record of which a later one says that it had been durable is
// DataLoss, as is a segment that is missing; `allow_damage` ends there instead, for reading only.
//
// Threads: one at a time. Calls block on I/O. Section III-A of the DSA paper ("a WAL log entry").
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/core/wal_records.h"

namespace pulse::graph {

struct WalOptions {
  // A segment that is longer is followed by a new one.
  uint64_t segment_bytes = uint64_t{64} << 20;
  // Without: what was committed survives the end of the process, not that of the system.
  bool sync = true;
  // Of segments that a checkpoint has left behind, so many bytes are kept, for who follows; the
  // newest in any case, until the next checkpoint.
  uint64_t keep_bytes = 0;
  // Zeros are written so far ahead (0: never), in a segment that has come to so much; neither is
  // more than half a segment.
  uint64_t ahead_bytes = uint64_t{256} << 10;
  uint64_t ahead_from = uint64_t{64} << 10;
  // Nothing is written, and nothing cut off.
  bool read_only = false;
  bool allow_damage = false;
};

struct WalEntry {
  uint64_t sequence = 0;  // above those of all entries before
  std::string_view payload;
  absl::Status result;
};

class Wal {
 public:
  ~Wal();
  // A payload lives during the call only. An error ends the reading and is handed on.
  using Replay = std::function<absl::Status(uint64_t sequence, std::string_view payload)>;

  // Reads all segments from `first_segment` on; older ones, which a checkpoint left behind, are
  // removed, but for the newest `keep_bytes`, and one at least. `files` outlives the log.
  static absl::StatusOr<std::unique_ptr<Wal>> Open(Files* files, const std::string& directory,
                                                   uint64_t first_segment,
                                                   const WalOptions& options, const Replay& replay);

  // Fills in the results. Those with OK are durable, with `sync`.
  void Write(std::span<WalEntry*> entries);

  // All that was written is durable, also without `sync`.
  absl::Status Sync();

  // What is written from now on goes to a new segment, whose number is returned: a checkpoint of
  // what was written before needs none before that one.
  absl::StatusOr<uint64_t> Roll();
  // A checkpoint has what is in the segments before `segment`: they are removed, but for the newest
  // `keep_bytes`, and one at least.
  absl::Status RemoveBefore(uint64_t segment);

  uint64_t last_sequence() const { return last_sequence_; }
  // Of all segments that opening reads. Any thread.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Written since it was opened. Any thread.
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  // Not OK after a sync that failed.
  const absl::Status& failure() const { return failure_; }
  // Where a damaged log was read in spite of it; empty otherwise.
  const std::string& damage() const { return damage_; }

 private:
  struct Segment {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };

  Wal(Files* files, std::string directory, const WalOptions& options);
  absl::Status Load(uint64_t first_segment, const Replay& replay);
  absl::Status ReadSegment(uint64_t number, bool last, const Replay& replay);
  absl::Status OpenSegment(uint64_t number);
  absl::Status SyncSegment(uint64_t number);
  // The newest one that was read, for writing; cuts off what is behind its end.
  absl::Status OpenAtEnd();
  absl::Status SyncFile();
  void AddSegment(Segment segment);
  absl::Status TrimKept();
  absl::Status RollIfFull();
  absl::Status WriteAndSync(std::string_view bytes);
  void WriteAhead(uint64_t end, size_t entry);
  absl::Status CutAhead();
  std::string PathOf(uint64_t number) const;

  Files* const files_;
  const std::string directory_;
  const WalOptions options_;
  const std::string zeros_;  // that are written ahead
  std::unique_ptr<File> file_;
  std::deque<Segment> kept_;  // left behind, the oldest first
  uint64_t kept_bytes_ = 0;
  std::vector<Segment> segments_;  // the last one is written to
  uint64_t ahead_ = 0;             // it has zeros up to here, if this is behind its end
  bool no_ahead_ = false;          // they cannot be written
  uint64_t last_sequence_ = 0;
  uint64_t durable_sequence_ = 0;
  absl::Status failure_;
  std::string damage_;
  std::string buffer_;
  std::atomic<uint64_t> bytes_{0}, written_{0};
};

}  // namespace pulse::graph
