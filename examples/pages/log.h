// The page server's log: records numbered by LSN, one after the other, in files of bounded size in
// a directory of their own; and the checkpoint, behind which recovery begins.
//
// A frame is what one Append brought: checksummed with its first LSN. Sync makes frames durable. A
// frame that is not whole ends the log, if nothing comes after: it was never acknowledged. Opening
// cuts it off and syncs the rest before anything is told of it, so that what is applied to pages is
// never less durable than they are. A hole before a later file is DataLoss.
//
// One thread at a time, but for Truncate and SaveCheckpoint, which another may call. All blocks.
// After a failed write or sync nothing is known of the file's end: every later call fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::pages {

// Consecutive records, as they lie in a message.
struct Frame {
  uint64_t first_lsn = 0;
  uint32_t count = 0;
  std::string records;
  uint64_t last_lsn() const { return first_lsn + count - 1; }
};

struct Checkpoint {
  uint64_t lsn = 0;
  uint64_t pages = 0;
};

class Log {
 public:
  // `told`: each frame with records behind `after`, in order.
  static absl::StatusOr<std::unique_ptr<Log>> Open(const std::string& directory, uint64_t after,
                                                   uint64_t file_bytes,
                                                   const std::function<void(Frame)>& told);

  // Takes the next LSNs.
  absl::Status Append(Frame* frame);
  absl::Status Sync();
  uint64_t next_lsn() const { return next_lsn_; }

  // Removes the files of which all records are at or before `lsn`.
  absl::Status Truncate(uint64_t lsn);

 private:
  Log(std::string directory, uint64_t file_bytes)
      : directory_(std::move(directory)), file_bytes_(file_bytes) {}
  std::string PathOf(uint64_t first_lsn) const;
  absl::Status Recover(uint64_t after, const std::function<void(Frame)>& told);
  absl::Status RecoverFile(uint64_t first, bool last, uint64_t after,
                           const std::function<void(Frame)>& told);
  absl::Status Begin(uint64_t first_lsn);

  const std::string directory_;
  const uint64_t file_bytes_;
  UniqueFd fd_;
  uint64_t bytes_ = 0;  // of the present file
  uint64_t next_lsn_ = 1;
  absl::Status failed_;
  std::mutex mu_;
  std::vector<uint64_t> files_;  // their first LSNs; guarded by mu_
};

// Replaces the checkpoint in `directory`, atomically and durably.
absl::Status SaveCheckpoint(const std::string& directory, const Checkpoint& checkpoint);
// NotFound where there is none yet; DataLoss.
absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& directory);

}  // namespace pulse::pages
