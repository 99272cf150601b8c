// The store behind GraphStore: what is common to opening (store_open.cc), commits
// (store_commit.cc), schema (store_schema.cc) and maintenance (store_flush.cc, store_merge.cc).
//
// Locks, in the order in which they are taken:
//   schema_mu_       one change of the schema at a time
//   maintenance_mu_  one flush, checkpoint or compaction at a time
//   commit_mu_       validation of a commit, the queue, and applying: the tables' one writer
//   view_mu_         sequence, layers and snapshots; held for moments
//
// Invariants.
//   * applied_ <= last_sequence_; what is between them is in the queue or being made durable.
//   * A snapshot of sequence S has layers that hold every record up to S.
//   * Every version of a relationship up to layers_->flushed is in runs; of later ones, all are in
//     chunks, and their properties in tables_.edges.
//   * No snapshot below oldest_ exists or will.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/change_feed.h"
#include "services/graph/core/committed.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/read_set.h"
#include "services/graph/core/store.h"
#include "services/graph/core/transaction.h"
#include "services/graph/core/view.h"
#include "services/graph/core/wal.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph {

class StoreImpl : public TransactionHost {
 public:
  StoreImpl(std::string path, const StoreOptions& options);
  ~StoreImpl() override;

  absl::Status Open();

  absl::StatusOr<std::shared_ptr<const View>> Snapshot(std::optional<uint64_t> sequence);
  uint64_t sequence() const;
  // Read-only: applies what was committed since. False: that has to be read by opening anew.
  absl::StatusOr<bool> Follow();
  absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> Begin();
  absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> BeginSerializable();
  absl::Status ChangeSchema(std::span<const cypher::SchemaChange> changes);
  absl::Status Flush();
  absl::Status Checkpoint();
  absl::Status Compact();
  absl::Status Close();
  StoreStats stats() const;
  std::vector<cypher::EngineCopies> Copies() const {
    const std::lock_guard lock(stats_mu_);
    return stats_.copies;
  }

  // Bulk loads (bulk_load.h).
  absl::Status BeginLoad();
  absl::Status CommitLoad(LoadedGraph* graph);
  // Removes the files of one that was not committed.
  void EndLoad(const LoadedGraph& unused);
  absl::StatusOr<NodeId> ReserveNodeIds(uint64_t count);
  absl::StatusOr<EdgeId> ReserveEdgeIds(uint64_t count);
  absl::StatusOr<std::unique_ptr<File>> CreateLoadFile(std::string* name);
  // Of StoreOptions::node_memory, until the load is shown or ends.
  absl::Status ReserveNodeMemory(uint64_t bytes, LoadedGraph* graph);
  bool LimitsNodes() const { return options_.node_memory != 0 && !options_.read_only; }
  uint64_t MemoryOfNewNode(std::span<const Token> labels, std::string_view properties) const;

  absl::Status CommitWrites(const View& base, const WriteSet& writes,
                            const ReadSet* reads) override;
  absl::StatusOr<NodeId> NewNodeId() override;
  absl::StatusOr<EdgeId> NewEdgeId() override;
  absl::StatusOr<Token> AddName(NameKind kind, std::string_view name, bool* durable) override;
  const Tables& tables() const override { return tables_; }
  uint64_t ChangeLimit() const override { return options_.transaction_memory; }

 private:
  // A commit between its validation and its end.
  struct Pending {
    WalEntry entry;
    std::string payload;
    const WriteSet* writes = nullptr;  // null: a change of the schema
    // Of relationships that it creates; sorted. Found when a deletion first asks.
    std::optional<std::vector<NodeId>> endpoints;
    uint64_t node_memory = 0;  // that it adds, where that is limited
    bool done = false;
    bool leads = false;            // writes what is queued, itself among it
    std::condition_variable turn;  // of either
  };

  // --- Opening ---
  absl::Status CheckIsFree() const;
  absl::Status OpenFiles();
  absl::Status LoadManifest();
  absl::Status LoadCheckpoint();
  absl::Status OpenRuns();
  absl::Status RemoveStrays();
  absl::Status ReadLog();
  bool WantsFlushWhileReading() const;
  std::string PathOf(const std::string& file) const { return path_ + "/" + file; }

  // --- Commits ---
  absl::Status Validate(const View& base, const WriteSet& writes) const;
  // That no node was deleted of those that its relationships begin and end at.
  absl::Status ValidateEndpoints(uint64_t since, const WriteSet& writes) const;
  absl::Status ValidateNodes(uint64_t since, const WriteSet& writes) const;
  absl::Status ValidateDeletion(const View& base, NodeId node) const;
  // Of a node as a transaction with this snapshot sees it.
  std::optional<std::vector<Value>> ValuesSeen(const Index& index, NodeId node, uint64_t since,
                                               const WriteSet& writes) const;
  // `since`: of the transaction's snapshot. What broke a constraint after it is Aborted.
  absl::Status ValidateConstraints(uint64_t since, const WriteSet& writes,
                                   std::vector<uint64_t>* claims) const;
  absl::Status ValidateEdgeConstraint(const Index& index, const WriteSet& writes) const;
  // Whether something of this key was claimed by a commit after `since`.
  bool Claimed(uint64_t key, uint64_t since) const {
    const auto it = claims_.find(key);
    return it != claims_.end() && it->second > since;
  }
  absl::Status ValidateReads(uint64_t since, const ReadSet& reads) const;
  // Keeps what a commit changes for the serializable transactions that there are.
  void KeepFootprint(Footprint footprint);
  void EndSerializable(uint64_t since);
  void Claim(const WriteSet& writes, const std::vector<uint64_t>& more, uint64_t sequence);
  void ForgetClaims();
  // Whether a commit creates a relationship of the node.
  static bool Joins(Pending* pending, NodeId node);
  // Writes what is queued, applies it, and makes it visible.
  void Lead(std::unique_lock<std::mutex>* lock);
  absl::StatusOr<uint64_t> NextSequence();
  // Waits until nothing is queued or written, so that the log and the tables are the caller's. New
  // commits wait meanwhile: several writers always have some queued.
  void WaitForQuiet(std::unique_lock<std::mutex>* lock);
  absl::Status WaitForMemory(std::unique_lock<std::mutex>* lock);
  // Nodes and their indexes, about (store_memory.cc).
  uint64_t NodeMemory() const;
  uint64_t MemoryOfVersion(std::span<const Token> labels, std::string_view properties) const;
  // What a commit adds to it; 0 where it takes away more.
  uint64_t AddedNodeMemory(const WriteSet& writes) const;
  // Whether so much more is within StoreOptions::node_memory, as things are.
  absl::Status CompareNodeMemory(uint64_t more) const;
  // The same, once what nobody sees any more is freed.
  absl::Status CheckNodeMemory(uint64_t more);

  // --- Applying; commit_mu_ is held, or nobody else is there yet ---
  absl::Status Apply(uint64_t sequence, std::string_view payload);
  // Brings what Append() reads of both ends into the cache.
  void PrefetchEnds(const EdgeRef& edge) const;
  absl::Status ApplyOperation(uint64_t sequence, const Operation& operation);
  absl::Status ApplyNode(uint64_t sequence, const Operation& operation);
  absl::Status ApplyEdge(uint64_t sequence, const Operation& operation);
  absl::Status ApplyIndex(const Operation& operation);
  void Install(NodeId node, NodeVersion* version);
  // Frees versions that no snapshot sees any more: some of them, or all.
  void PruneNodes();
  void PruneAllNodes();
  // A commit is in the log and only partly in memory: nothing goes on from there.
  void KeepApplyFailure(const absl::Status& applied);
  void AppendRecord(Side side, NodeId node, const Record& record);
  void AddChunk(Side side);
  void InstallLayers(std::shared_ptr<const Layers> layers);
  void CountLabels(std::span<const Token> labels, int64_t by);
  std::shared_ptr<Index> BuildIndex(const IndexDefinition& definition, OperationWriter* log);
  absl::Status CheckExisting(const Index& index) const;
  absl::Status CheckSchemaMayChange() const;
  // Fills edge_checks_; commits go on meanwhile.
  absl::Status CheckEdgesThere(std::span<const cypher::SchemaChange> changes);
  absl::Status PrepareSchema(std::span<const cypher::SchemaChange> changes,
                             std::vector<std::shared_ptr<Index>>* built, OperationWriter* log);
  absl::Status CommitSchema(std::unique_lock<std::mutex>* lock, const std::string& payload);
  // All that was applied up to `sequence` can be seen.
  void Publish(uint64_t sequence);
  // Tells other processes.
  void WriteCommitted(uint64_t sequence);

  // --- Maintenance; maintenance_mu_ is held ---
  // With a load, what it brings becomes part of the database, too.
  absl::Status FlushLocked(bool checkpoint, LoadedGraph* load = nullptr);
  absl::Status AddLoaded(LoadedGraph* graph, Layers* next, Manifest* manifest);
  void ShowLoaded(LoadedGraph* graph, std::shared_ptr<const Layers> layers);
  absl::Status CompactLocked(bool all);
  absl::Status WriteCheckpoint(const View& view, const std::vector<IndexDefinition>& indexes,
                               const LoadedGraph* load, std::string* file);
  // Nothing where the chunks are empty.
  absl::StatusOr<std::optional<Run>> WriteRun(Side side,
                                              std::span<const std::shared_ptr<L0Chunk>> chunks);
  absl::StatusOr<Run> OpenRun(const ManifestRun& run) const;
  absl::Status MergeSide(Side side, size_t first, size_t count);
  // Makes one run of `inputs`, with whoever is to do it, in a file of which it gives the name.
  absl::StatusOr<MergeStats> MergeToFile(std::span<const Run> inputs, const MergeOptions& options,
                                         std::string* name);
  absl::StatusOr<MergeStats> MergeElsewhere(std::span<const Run> inputs, MergeJob job,
                                            Merger* merger, std::string* name);
  absl::Status CheckMerged(const std::string& name, uint64_t records,
                           const MergeStats& stats) const;
  // An engine has moved `bytes` in a work of this kind.
  void CountCopies(const std::string& engine, EngineWork::Kind kind, uint64_t bytes);
  class NewFiles;  // store_new_files.h
  // Keeps the new files that it names, unless it surely was not written.
  absl::Status WriteManifest(const Manifest& manifest, NewFiles* made);
  // Writes the manifest where it is of an older format than what is to be written needs.
  absl::Status RaiseFormat(uint32_t format);
  std::string NewFile(std::string_view suffix);
  void ListRuns(const Layers& layers, Manifest* manifest) const;
  void RemoveFiles(const std::vector<std::string>& files);
  // Frees what only snapshots that are gone had to read from memory.
  void CutEdges();
  bool WantsFlush() const;
  bool WantsCheckpoint() const;
  void Maintain();
  void WakeMaintenance();
  uint64_t MemoryUsed() const;

  // --- Snapshots; view_mu_ is held ---
  uint64_t RetainedFrom() const;
  void UpdateOldest();

  const std::string path_;
  const StoreOptions options_;
  Files* const files_;
  EngineSource* const engines_;
  std::shared_ptr<void> lock_;
  uint64_t next_file_ = 1;  // maintenance_mu_
  std::atomic<uint64_t> checkpoint_size_{0};
  Tables tables_;
  Manifest manifest_;                // as it is on disk; maintenance_mu_
  std::atomic<uint32_t> format_{0};  // of manifest_
  std::atomic<NodeId> next_node_{0};
  std::atomic<EdgeId> next_edge_{0};

  std::mutex schema_mu_;
  mutable std::mutex maintenance_mu_;

  mutable std::mutex commit_mu_;
  std::condition_variable commit_cv_;
  std::unique_ptr<Wal> wal_;
  std::unique_ptr<ChangeFeed> feed_;  // read-only; maintenance_mu_
  bool stale_ = false;  // ... what comes next is not in this store: it is to be opened anew
  std::unique_ptr<CommittedWriter> committed_;
  bool committed_failed_ = false;
  uint64_t synced_ = 0;    // the last commit whose record is on the device
  bool leading_ = false;   // or somebody was told to; without, nothing is queued
  int quiet_waiters_ = 0;  // new commits wait for these
  bool closed_ = false;
  bool schema_changing_ = false;
  // Of each of the changes that are being prepared: the constraint, where it is one of
  // relationships, and which of these breaks it.
  std::vector<std::pair<std::shared_ptr<const Index>, absl::Status>> edge_checks_;
  // Of the change that is being committed; applying it needs no others.
  std::vector<std::shared_ptr<Index>> built_indexes_;
  int loads_ = 0;
  uint64_t reserved_nodes_ = 0;  // memory of nodes that loads bring
  uint64_t maintenance_rounds_ = 0;
  uint64_t checkpoint_from_ = 0;  // of the log's bytes, after one that failed
  std::vector<Pending*> queue_, in_flight_;
  uint64_t last_sequence_ = 0;
  uint64_t applied_ = 0;
  // Nodes with a version behind their newest one, and the sequence of that one; the oldest first.
  std::deque<std::pair<uint64_t, NodeId>> prunable_;
  // What recent commits changed, by hash: the sequence of the newest one.
  absl::flat_hash_map<uint64_t, uint64_t> claims_;
  size_t forget_claims_at_ = 4096;
  uint64_t last_deletion_ = 0;  // of a node: the newest commit that was claimed with one
  // Snapshots of the serializable transactions that live, and what was committed since the oldest.
  std::multiset<uint64_t> serializable_;
  std::deque<Footprint> footprints_;
  size_t footprint_bytes_ = 0;
  uint64_t footprints_from_ = 0;  // those of later commits are there
  absl::Status apply_failure_;
  std::array<Operation, 16> operations_;  // of Apply()

  mutable std::mutex view_mu_;
  std::condition_variable memory_cv_;
  uint64_t visible_ = 0;
  uint64_t history_from_ = 0;  // older versions were not kept when the store was opened
  std::shared_ptr<const Layers> layers_;
  std::multiset<uint64_t> snapshots_;
  std::atomic<uint64_t> oldest_{0};
  // All layers that somebody may still read.
  std::vector<std::weak_ptr<const Layers>> alive_;

  std::mutex wake_mu_;
  std::condition_variable wake_cv_;
  bool wake_ = false;
  bool stop_ = false;
  std::thread thread_;

  mutable std::mutex stats_mu_;
  StoreStats stats_;
};

}  // namespace pulse::graph
