// COMMITTED: the sequence up to which a database's commits are durable and visible, for processes
// that follow its log. The writer overwrites it after each group of commits, without a sync: after
// a power cut it may be older than the log, never newer. Without it, and where it is older, a
// record of the log that says what had been durable tells as much.
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

class CommittedWriter {
 public:
  static absl::StatusOr<std::unique_ptr<CommittedWriter>> Open(Files* files,
                                                               const std::string& directory);
  absl::Status Write(uint64_t sequence);

 private:
  explicit CommittedWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
  std::unique_ptr<File> file_;
};

// Nothing: it is not there, or is being written.
absl::StatusOr<std::optional<uint64_t>> ReadCommitted(Files* files, const std::string& directory);

}  // namespace pulse::graph
