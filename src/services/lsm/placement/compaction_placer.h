// CompactionPlacer: decides for each compaction of a database which processor does it, and has the
// agent do whole ones. It stands behind RocksDB's CompactionService, which RocksDB asks at the
// beginning of each (sub)compaction, and an EventListener that tells it of levels, inputs and ends.
//
//   placement=host      all on the host
//   placement=split     OffloadIo: the host merges, the agent does the I/O
//   placement=whole     OffloadAll: the agent does all of it; with whole=deep only compactions from
//                       level 1 on, while the host's slots are taken (DComp)
//   placement=adaptive  by placement/rule.h
//
// How the agent does all of a compaction depends on the agent:
//   in a process of its own   DB::OpenAndCompact, as a task (host_task.h, agent_tasks.h)
//   embedded                  RocksDB is told to go on itself, and its thread is migrated to the
//                             agent's CPUs until the compaction has ended. Needs agent_cpus= that
//                             the process does not use otherwise, and agent_nice=0; without these
//                             the agent does the I/O only
//
// RocksDB does here what the agent cannot do or does not finish. The reason is logged once.
//
// Ownership: service and listener share it, through the options of the databases; it keeps their
// FileSystem alive. Thread-safe. A compaction's thread blocks while the agent compacts.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/maker_process.h"
#include "placement/rule.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/placement/agent_backoff.h"
#include "services/lsm/placement/compacting_threads.h"
#include "services/lsm/placement/cpu_load.h"
#include "services/lsm/placement/cpu_share.h"
#include "services/lsm/placement/flush_placement.h"
#include "services/lsm/placement/host_task.h"
#include "services/lsm/placement/pending_ratio.h"
#include "services/lsm/placement/placement_context.h"
#include "services/lsm/placement/thread_migrator.h"

namespace pulse::lsm {

class CompactionPlacer final : public RemoteThreadHooks,
                               public std::enable_shared_from_this<CompactionPlacer> {
 public:
  // `context`: of `fs`. `families`: the column families that are known now.
  CompactionPlacer(std::shared_ptr<FileSystem> fs, PlacementContext* context,
                   const rocksdb::DBOptions& db,
                   const std::vector<rocksdb::ColumnFamilyDescriptor>& families);
  ~CompactionPlacer();

  // RocksDB has begun, or ended, a compaction; or has ended a part of one, on that part's thread.
  void OnBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info);
  void OnPartEnd(bool ok);
  void OnEnd(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info);

  // On a flush's thread: it begins to write its table, or has ended it.
  void OnFlushBegin(const std::string& db);
  void OnFlushEnd() { flushes_.End(); }

  // On the thread of a (sub)compaction: true when the agent has taken it as a task; Wait, with the
  // same arguments, then returns its result. `id` is unique in the life of `db`.
  bool Start(const std::string& db, uint64_t id, const std::string& input);
  bool Wait(const std::string& db, uint64_t id, std::string* result);
  // Tasks under way end soon, without a result. `until_closed`: and none begins until a database is
  // closed.
  void Cancel(bool until_closed);

 private:
  using Key = std::pair<std::string, uint64_t>;  // a database's name and a compaction's number
  struct Compaction {
    std::string family;
    std::string home;         // the database's directory, canonical
    std::string no_task_why;  // not empty: no task can do it
    int from_level = -1;
    bool manual = false;  // the user has asked for it
    placement::Compaction info;
    std::optional<placement::Place> place;  // once decided
    bool migrates = false;                  // OffloadAll: its threads go there; else by tasks
    uint64_t ticket = 0;                    // the rule's
    std::vector<std::string> dirs;          // of its tasks
    // Of its parts (subcompactions), while the place is OffloadAll.
    int parts = 0;             // on the agent, or on their way
    bool part_done = false;    // by the agent
    bool part_failed = false;  // returned, and neither full nor cancelled was the reason
  };
  struct RunningTask {
    std::unique_ptr<HostTask> task;
    std::string family;
    std::string dir;
  };
  // A part of a compaction whose thread is on the agent's CPUs.
  struct MigratedPart {
    Key compaction;
    std::string home;
  };

  // How many of the host's CPUs other work than compactions wants.
  double UpdateForegroundDemand();
  placement::Place DecideLocked(Compaction* compaction, double foreground_demand);
  // Whether the agent can do all of it now; `tasks` is how many it does at a time.
  bool CanOffloadAllLocked(const Compaction& compaction, const HostSession::Connection& agent,
                           int tasks);
  placement::Place DecideDeepLocked(const Compaction& compaction, bool can_offload_all, int tasks);

  // --- migrated_compactions.cc: threads on the agent's CPUs, and contention there.
  // Yields to flushes there; with placement=adaptive, looks for contention.
  void BeforeAppend() override;
  // Migrates the calling thread, if the agent has a slot free; else RocksDB goes on here.
  void MigrateThread(const Key& compaction, const std::string& home);
  // While others have most of the agent's CPUs: the share of a CPU that each compaction there has.
  std::optional<double> ContendedShare();
  std::optional<double> ContendedShareAtEnd();
  std::optional<double> MeasureContentionLocked();
  // From now on the threads in migrated_ are measured.
  void NoteMigratedLocked();
  std::vector<pid_t> MigratedLocked() const;
  // CPU time so far, in nanoseconds, of the agent's work for this process on other threads.
  int64_t ServedNanos(const std::vector<pid_t>& migrated) const;
  // Whether a compaction that has `share` of a CPU there would have half as much again here.
  bool IsHostBetter(double share);
  // Others contend for the agent's CPUs, and a compaction there has had `share` of one: none goes
  // there for a while, if the host is better. Those that are there stay.
  void OnContention(double share);
  bool IsBackingOffLocked() const;

  // The database in `home` was closed: RocksDB does not tell of compactions that end with it. True
  // if this placer knew it; `unknown_to_all` if no placer did, since it neither compacted nor
  // flushed.
  bool OnClosed(const std::string& home, bool unknown_to_all);
  // The compaction no longer counts among those that run.
  void EndLocked(const Compaction& compaction);
  // A part that was to be the agent's is done here. `full`: the agent had no slot free, or it was
  // cancelled; nothing failed.
  void ReturnedLocked(Compaction* compaction, bool full);
  // On the thread of a part that a task is to do. False: RocksDB does it here. `cancels`: as of the
  // decision.
  bool StartTaskFor(const Key& part, TaskRequest request, uint64_t cancels);
  // Waits for the task of a part whose outputs are in `dir`.
  absl::StatusOr<std::string> WaitForTask(HostTask* task, const std::string& dir);
  // `request` has all but the identity of the database and of RocksDB.
  absl::StatusOr<std::unique_ptr<HostTask>> StartTask(TaskRequest request);
  // Remembers and logs why no task did it.
  void NoteRefusal(const std::string& family, const absl::Status& why);

  const std::shared_ptr<FileSystem> fs_;
  PlacementContext* const context_;
  const Options& options_;
  const bool adaptive_;
  CpuLoad host_load_;
  CompactingThreads compacting_;  // on the host
  const bool separate_cpus_;      // none of these is among the host's
  const bool may_migrate_;        // RocksDB's threads to an embedded agent's CPUs
  ThreadMigrator threads_;
  FlushPlacement flushes_;
  PendingRatio pending_;

  std::atomic<int64_t> next_check_{0};  // of contention

  std::mutex mu_;
  placement::Rule rule_;
  std::set<std::string> unsupported_;      // column families that no task can compact
  std::set<std::string> refused_;          // ... that the present agent cannot
  std::map<std::string, int> failures_;    // in a row, of a column family
  const void* agent_ = nullptr;            // the connection that refused_ and failures_ are of
  std::map<Key, Compaction> compactions_;  // under way
  std::map<Key, RunningTask> tasks_;       // by subcompaction
  std::map<pid_t, MigratedPart> migrated_;
  CpuShare migrated_share_;
  int64_t last_migrated_end_ = 0;
  AgentBackoff backoff_;
  double foreground_demand_ = 0;
  int on_host_ = 0;  // compactions
  int offloaded_all_ = 0;
  uint64_t next_ticket_ = 0;
  std::set<std::string> homes_;  // of open databases that have compacted or flushed
  const MakerProcess maker_;
  bool canceled_ = false;  // until a database is closed: RocksDB does not say which closes
  uint64_t cancels_ = 0;   // how often
};

}  // namespace pulse::lsm
