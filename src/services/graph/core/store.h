// GraphStore: a property graph in a directory. Nodes, and relationships that were not flushed yet,
// are in memory; all other relationships are in sorted runs. Every commit is in a log.
// docs/internals/graph-store.md has the layout and what holds at every moment.
//
// Ownership: outlives its snapshots and transactions. Threads: any. Calls block on I/O. One process
// has a database open for writing; others open it for reading, which shows the state of that
// moment. Sections III and III-A of the DSA paper.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/model/database.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph {

struct StoreOptions {
  bool read_only = false;
  // Where there is no database yet.
  bool create = true;
  // Read-only: each Snapshot() shows what another process has committed until then. What that one
  // has in memory before a flush, this one has, too; past memory_limit, after a bulk load, and
  // where a checkpoint took the log before it was read, the snapshot takes as long as an opening.
  bool follow = false;
  // Read-only: what comes before a damage of the log is shown.
  bool allow_damage = false;
  // Without: a commit survives the end of the process, not that of the system.
  bool sync = true;
  // So many commits before the newest can be read by AT SNAPSHOT. It costs memory and space for
  // what was changed meanwhile.
  uint64_t retain_commits = 0;
  // Of what relationships take in memory before they are flushed. When it is full, a commit waits
  // for a flush; what old snapshots still need is kept beyond it. Nodes and their indexes are not
  // counted: they stay in memory (node_memory). Less than 9 MiB counts as 9 MiB: the chunks that
  // are being filled take 3 of them.
  uint64_t memory_limit = uint64_t{256} << 20;
  // Chunks of layer 0 that are flushed together, 1 MiB of records each; 0: no flush but by
  // Checkpoint() and Close().
  uint32_t flush_chunks = 8;
  // A log longer than this, and than the last checkpoint, begins a new one.
  uint64_t checkpoint_bytes = uint64_t{64} << 20;
  uint64_t log_segment_bytes = uint64_t{64} << 20;
  // Of the log that a checkpoint has left behind, so many bytes are kept, in whole segments, for
  // change feeds that are behind (change_feed.h).
  uint64_t keep_log_bytes = 0;
  // The most that one transaction's changes may take of the heap until it ends, estimated; 0: no
  // limit. Cypher and imports see to it (model/graph.h, ChangeLimit).
  uint64_t transaction_memory = uint64_t{8} << 30;
  // Runs of one level that are merged into the next.
  uint32_t level_runs = 4;
  // Flushes, checkpoints and compactions on a thread of its own; otherwise only when called for.
  bool background = true;
  // For relationships that memory cannot hold: a look-up whose page of a run is not in memory reads
  // that page alone. Otherwise it gets what the kernel reads around it, which is how a graph that
  // fits comes into memory soon.
  bool page_reads = false;
  Files* files = nullptr;  // null: the operating system's
  // Who carries out the copies of flushes and compactions; outlives the store. Null: its own
  // thread.
  EngineSource* engines = nullptr;
  // The most that nodes and their indexes may take, about; 0: no limit. A commit, a bulk load or an
  // index that would go beyond it is ResourceExhausted; what does not add to them is never refused,
  // and a database that has more is opened.
  uint64_t node_memory = 0;
};

struct StoreStats {
  uint64_t sequence = 0;
  uint64_t oldest_snapshot = 0;
  uint64_t log_bytes = 0;
  uint64_t relationships = 0;
  uint64_t node_bytes = 0;  // with indexes, about
  uint64_t edge_bytes = 0;  // of versions in memory
  uint64_t chunk_bytes = 0;
  uint64_t out_runs = 0, in_runs = 0;
  uint64_t run_bytes = 0, run_records = 0;
  uint64_t flushes = 0, checkpoints = 0, merges = 0;
  // Written since it was opened.
  uint64_t bytes_logged = 0, bytes_flushed = 0, bytes_checkpointed = 0, bytes_merged = 0;
  uint64_t merge_bytes_copied = 0, merge_bytes_encoded = 0;
  uint64_t merges_elsewhere = 0;             // by a Merger: the agent
  uint64_t reopened = 0;                     // to follow a writer
  uint64_t merges_fallen_back = 0;           // that it could not do, or not to the end: done here
  std::vector<cypher::EngineCopies> copies;  // by name
  std::string damage;        // of the log, where it was read in spite of it; or its lost end
  absl::Status maintenance;  // the last error of a flush, checkpoint or compaction
};

class StoreImpl;

// A payload of the error of Close() where only the checkpoint failed.
inline constexpr char kCommitsAreDurable[] = "pulse/graph/commits-are-durable";

class GraphStore : public cypher::Database {
 public:
  // NotFound: no database, and none to be made. InvalidArgument: the directory holds something
  // else. FailedPrecondition: another process has it open for writing, or its format is newer.
  // DataLoss: damaged; the message names the file.
  static absl::StatusOr<std::unique_ptr<GraphStore>> Open(const std::string& path,
                                                          const StoreOptions& options = {});
  // As a kill would leave it, but that background work ends first: nothing is flushed.
  ~GraphStore() override;

  absl::StatusOr<std::shared_ptr<const cypher::GraphView>> Snapshot(
      std::optional<uint64_t> sequence = std::nullopt) override;
  uint64_t sequence() const override;
  uint64_t NodeCount() override;
  absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> Begin() override;
  // Waits for the commits that are on their way. Beside it, each commit remembers what it changed.
  absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> BeginSerializable() override;
  absl::Status ChangeSchema(std::span<const cypher::SchemaChange> changes) override;
  std::vector<cypher::IndexDefinition> Indexes() const override;
  cypher::DatabaseNames Names() const override;
  std::vector<cypher::EngineCopies> Copies() const override;

  // Flushes what is in memory and writes a checkpoint: opening it afterwards replays nothing.
  absl::Status Checkpoint();
  // Moves relationships to runs, without a checkpoint.
  absl::Status Flush();
  // Merges all runs of each direction into one.
  absl::Status Compact();
  // Checkpoint(), and no more use. An error with the payload kCommitsAreDurable is one of the
  // checkpoint alone: what was committed is in the log, and stays committed.
  absl::Status Close();
  StoreStats stats() const;

 private:
  friend class BulkLoad;
  GraphStore(std::string path, const StoreOptions& options, std::shared_ptr<StoreImpl> impl);
  static absl::StatusOr<std::shared_ptr<StoreImpl>> OpenImpl(const std::string& path,
                                                             const StoreOptions& options);
  // With `follow`, what was committed until now.
  absl::StatusOr<std::shared_ptr<StoreImpl>> Newest();
  std::shared_ptr<StoreImpl> impl() const {
    std::lock_guard lock(impl_mu_);
    return impl_;
  }

  const std::string path_;
  const StoreOptions options_;
  std::mutex follow_mu_;  // one that follows at a time
  std::atomic<uint64_t> reopened_{0};
  mutable std::mutex impl_mu_;
  std::shared_ptr<StoreImpl> impl_;  // replaced only where it follows
};

}  // namespace pulse::graph
