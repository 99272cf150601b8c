// COMMITTED: the sequence up to which a database's commits are durable and visible, for processes
// that follow its log; and the last one whose record was synced, which no kill and no power cut
// takes away, so that a log that ends before it has lost something. The writer overwrites both
// after each group of commits, without a sync: after a power cut they may be older than the log,
// never newer. Without the file, and where it is older, a record of the log that says what had been
// durable tells followers as much. The writer has it locked, which keeps a second one out also
// where somebody has removed LOCK; nothing replaces the file.
//
// Blocks on I/O. Threads: one for each object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/graph/core/files.h"

namespace pulse::graph {

inline constexpr char kCommittedFile[] = "COMMITTED";

struct Committed {
  uint64_t sequence = 0;
  // The record of this commit, or a checkpoint after it, is on the device. 0: not known, as where
  // older versions wrote the file.
  uint64_t synced = 0;
};

class CommittedWriter {
 public:
  // FailedPrecondition, and by whom, where another writer has it.
  static absl::StatusOr<std::unique_ptr<CommittedWriter>> Open(Files* files,
                                                               const std::string& directory);
  absl::Status Write(const Committed& committed);

 private:
  explicit CommittedWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
  std::unique_ptr<File> file_;
  std::shared_ptr<void> lock_;
};

// Nothing: it is not there, or is being written.
absl::StatusOr<std::optional<Committed>> ReadCommitted(Files* files, const std::string& directory);

// DataLoss where it is there, and is neither whole nor being written.
absl::Status CheckCommittedIsWhole(Files* files, const std::string& directory);

// DataLoss, with both numbers, where a database whose newest commit is `newest` lacks commits that
// were synced before it was opened.
absl::Status CheckSyncedIsThere(const Committed& before, uint64_t newest,
                                const std::string& directory);

}  // namespace pulse::graph
