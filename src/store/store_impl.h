// The inside of a Store. Locks, in the order in which they are taken:
//
//   commit_mu_  who leads a commit, and how far it came
//   mu_         the state, the journal's buffer, segments that wait to become free; shared by
//   lookups
//
// A change (Change) applies records to the state and appends them to the buffer, under mu_. A
// commit (store_commit.cc) takes the buffer, writes it as one batch, and then releases the segments
// that its changes have freed. One caller leads, the others wait for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/errors.h"
#include "store/file_device.h"
#include "store/recovery.h"
#include "store/state.h"
#include "store/store.h"

namespace pulse::store {

// What tells stores apart within a process: whether it is a block device; device and inode.
using RegistryKey = std::optional<std::tuple<bool, uint64_t, uint64_t>>;

class Store::Impl {
 public:
  Impl(std::string path, std::shared_ptr<Device> device, bool read_only, Recovered recovered);
  ~Impl();

  // After construction, for a store that is open for writing.
  absl::Status Start();

  // Runs `change` under the exclusive lock, when changes are allowed and there is room in the
  // buffer. A change that returns Retry() has done nothing, and runs again after a commit.
  template <typename F>
  absl::Status Change(F change) {
    std::unique_lock lock(mu_);
    for (int commits = 0;;) {
      PULSE_RETURN_IF_ERROR(Writable());
      if (buffer_.size() <= buffer_limit_) {
        const absl::Status status = change();
        if (!IsRetry(status)) return status;
        if (++commits > kMaxRetries) return StoreFull(1);
      }
      lock.unlock();
      PULSE_RETURN_IF_ERROR(Commit(/*release=*/true));
      lock.lock();
    }
  }

  // OK, or why changes are refused.
  absl::Status Writable() const;
  // Under the exclusive lock. The record must suit the state: if it does not, the store has failed.
  absl::Status Enter(const Record& record);
  // The same for a length, which replaces the length that was entered just before, if it can.
  absl::Status EnterLength(File* file, uint64_t size, uint64_t valid);
  // Takes `count` segments for a file; Retry() when a commit would free enough.
  absl::Status Allocate(const File& file, uint64_t count, std::vector<Run>* runs);
  void GiveBack(const std::vector<Run>& runs);  // what Allocate() took, unused
  // Segments until the file has `count`, as few changes as that takes. Takes the lock.
  absl::Status ReserveSegments(FileId id, uint64_t count);
  // ResourceExhausted when a checkpoint could not hold `growth` more bytes.
  absl::Status CheckMetadataRoom(uint64_t growth) const;
  // Collects what changes have freed.
  void CollectFreed();
  absl::Status Retry() const { return absl::AbortedError("retry after a commit"); }
  static bool IsRetry(const absl::Status& status) { return absl::IsAborted(status); }
  absl::Status EnterTrim(File* file, uint64_t keep);
  absl::Status StoreFull(uint64_t segments) const;

  // Under either lock.
  absl::StatusOr<Directory*> FindDirectory(absl::string_view name) const;
  absl::StatusOr<Entry*> FindEntry(absl::string_view directory, absl::string_view name) const;
  absl::StatusOr<File*> FindFile(FileId file) const;
  Attributes AttributesOf(const File& file) const;
  static int64_t NowOfDay();
  void Map(const File& file, uint64_t offset, uint64_t length, std::vector<Extent>* extents) const;

  // All changes made so far are durable; with `release`, also what waits to become free is.
  absl::Status Commit(bool release);
  void CommitLater(std::function<void(const absl::Status&)> done);
  absl::Status Fail(const absl::Status& status);  // sticky; takes mu_

  const std::string path_;
  const std::shared_ptr<Device> device_;
  const bool read_only_;
  const Superblock superblock_;
  const Geometry geometry_;
  const uint64_t segment_bytes_;
  const uint64_t buffer_limit_;
  RegistryKey registry_key_;  // of a file that is shared within the process

  mutable std::shared_mutex mu_;
  // Below: by mu_.
  std::unique_ptr<State> state_;
  absl::Status failed_;
  std::string buffer_;  // records, after room for a batch's header
  uint32_t buffer_records_ = 0;
  std::optional<std::pair<size_t, FileId>> last_length_;  // the last record, if it is a length
  uint64_t changes_ = 0;
  std::vector<Run> freed_;            // by changes in buffer_
  std::vector<Run> freed_in_flight_;  // by those in the batch being written
  uint64_t pending_segments_ = 0;     // in both
  bool in_flight_ = false;
  std::unordered_map<uint64_t, std::vector<Run>> quarantines_;
  std::unordered_map<uint32_t, uint32_t> held_;  // segment: by how many quarantines
  std::unordered_set<uint32_t> held_free_;       // of these, those that no file has
  uint64_t next_token_ = 1;

  // The journal: changed by the leader, under mu_.
  uint64_t generation_;
  uint64_t sequence_;
  uint64_t journal_used_;
  const uint64_t checkpoint_generation_;  // as it was found
  bool clean_;                            // the last batch says that the store was closed

 private:
  static constexpr int kMaxRetries = 16;

  absl::Status LeadBatch();
  void ReleaseFreed(std::vector<Run>* runs);
  // Of the current state, which contains the batch `sequence`. Under mu_; none may be running.
  void StartCheckpoint(uint64_t sequence);
  void RunCheckpoints();
  void RunLaterCommits();
  void WriteCleanMark();

  std::mutex commit_mu_;
  std::condition_variable commit_cv_;
  bool leading_ = false;  // by commit_mu_
  uint64_t durable_ = 0;  // changes; by commit_mu_
  uint64_t commits_ = 0;  // by commit_mu_
  uint64_t batches_ = 0;  // by mu_

  // The thread that writes checkpoints, and the one that commits for CommitLater.
  // Not one thread, since a commit may have to wait for a checkpoint.
  std::mutex work_mu_;
  std::condition_variable work_cv_;
  std::condition_variable checkpoint_cv_;
  bool stopping_ = false;
  bool checkpoint_running_ = false;
  std::optional<CheckpointImage> checkpoint_;
  uint64_t checkpoints_ = 0;
  std::vector<std::function<void(const absl::Status&)>> later_;
  std::thread checkpoint_thread_;
  std::thread commit_thread_;

  friend class Store;
};

}  // namespace pulse::store
