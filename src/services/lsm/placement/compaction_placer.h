// CompactionPlacer: decides for each compaction of a database where it is done, and has whole ones
// done by the agent. It is RocksDB's CompactionService, which RocksDB asks at the beginning of
// each (sub)compaction; an EventListener beside it tells it of levels, inputs and ends.
//
//   placement=host, split   nothing to decide
//   placement=whole         all on the agent (whole=all), or, as DComp has it (whole=deep), those
//                           from level 1 on while the host's slots are taken
//   placement=adaptive      placement/controller.h, by measurement
//
// How whole compactions are done depends on the agent:
//   in a process of its own   DB::OpenAndCompact, as a task (host_task.h, agent_tasks.h)
//   embedded                  RocksDB is told to go on itself, and its thread is moved to the
//                             agent's CPUs until it has done. Needs agent_cpus= that the process
//                             does not use otherwise, and agent_nice=0; else there are no whole
//                             compactions, and the agent does the I/O only (split)
//
// What the agent cannot do, or does not finish, RocksDB does here. The reason is logged once.
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

#include "placement/controller.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "services/lsm/placement/agent_crowd.h"
#include "services/lsm/placement/agent_tasks.h"
#include "services/lsm/placement/compacting_threads.h"
#include "services/lsm/placement/compaction_debt.h"
#include "services/lsm/placement/cpu_share.h"
#include "services/lsm/placement/flush_placement.h"
#include "services/lsm/placement/host_load.h"
#include "services/lsm/placement/host_task.h"
#include "services/lsm/placement/moved_threads.h"
#include "services/lsm/placement/placement_context.h"
#include "services/lsm/placement/task_directory.h"
#include "services/lsm/placement/whole_task.h"

namespace pulse::lsm {

class CompactionPlacer final : public RemoteThreadHooks,
                               public std::enable_shared_from_this<CompactionPlacer> {
 public:
  // `families`: those that are known.
  CompactionPlacer(std::shared_ptr<rocksdb::FileSystem> fs, PlacementContext* context,
                   const rocksdb::DBOptions& db,
                   const std::vector<rocksdb::ColumnFamilyDescriptor>& families);
  ~CompactionPlacer();

  // RocksDB has begun, or ended, a compaction; or a part of one, on that part's thread.
  void OnBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info);
  void OnPartEnd(bool well);
  void OnEnd(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info);

  // On a flush's thread: its table is begun, or has ended.
  void OnFlushBegin(const std::string& db);
  void OnFlushEnd() { flushes_.End(); }

  // On the thread of a (sub)compaction: true when the agent has taken it; its result is then to be
  // had by Wait, of the same arguments. `id` is unique in the process's life of `db`.
  bool Start(const std::string& db, uint64_t id, const std::string& input);
  bool Wait(const std::string& db, uint64_t id, std::string* result);
  // Whole compactions under way end soon, without a result. `for_good`: until the database is
  // closed there are no further ones.
  void Cancel(bool for_good);

 private:
  using Key = std::pair<std::string, uint64_t>;
  struct Job {
    std::string family;
    std::string why_not;  // not empty: not as a whole
    int from_level = -1;
    bool manual = false;  // the user has asked for it
    placement::Job what;
    bool decided = false;
    bool moves = false;  // as a whole: on this process's threads, and not as tasks
    placement::Place place = placement::Place::kSplit;
    uint64_t ticket = 0;            // the controller's
    int tasks = 0;                  // of its subcompactions, on the agent or on the way to it
    bool some_done = false;         // ... by the agent
    bool went_back = false;         // in part, from the agent to the host, and not for a failure
    bool some_failed = false;       // ... for another reason than that the agent was full
    std::vector<std::string> dirs;  // of its tasks
    std::string home;               // the database's directory, canonical
  };
  struct Running {
    std::unique_ptr<HostTask> task;
    std::string family;
    std::string dir;
  };

  // Of a compaction that this thread does on the agent's CPUs.
  struct Part {
    Key job;
    std::string home;
  };

  // Of the host's CPUs, what others than compactions want.
  double WantedByOthers();
  placement::Place DecideLocked(Job* job, double wanted);
  // On a thread that compacts on the agent's CPUs: it waits for flushes there; and where others
  // have come to want those CPUs, it goes on on the host's.
  void BeforeAppend() override;
  // What compactions have of a CPU there, if others have most of it.
  std::optional<double> ShareInACrowd();
  // The same at the end of one that began there.
  std::optional<double> ShareAtTheEnd();
  std::optional<double> LookLocked();
  // What is in parts_ is there, as of now.
  void NoteLocked();
  // Of threads there that are in parts_; and CPU time of those that are not, so far.
  std::vector<pid_t> MovedLocked() const;
  int64_t ServedThere(const std::vector<pid_t>& moved) const;
  // Whether one would have half as much again of the host's.
  bool IsTooLittle(double share);
  // The same, and it will: IsBack is to follow.
  bool ComesBack(double share);
  void IsBack();
  void GoOnHere(double share);
  // None goes to the agent for a while.
  void CrowdedLocked(double share);
  bool IsCrowdedLocked() const;
  // Has RocksDB do what it has asked for on the agent's CPUs, if there is a place free.
  void MoveHere(const Key& job, const std::string& home);
  // The database in `home` was closed: RocksDB does not tell of compactions that end with it. True
  // if it is known here to be one of these; `unknown_to_all` if no placer knows it, as it has
  // neither compacted nor flushed.
  bool OnClosed(const std::string& home, bool unknown_to_all);
  // The job counts no longer among those that run.
  void LeaveLocked(const Job& job, bool well);
  // A task of it, given to the agent, is done here. `full`: the agent had no place free.
  void ReturnedLocked(Job* job, bool full);
  // `request` has all but what says who asks.
  absl::StatusOr<std::unique_ptr<HostTask>> StartTask(TaskRequest request);
  void Refused(const std::string& family, const absl::Status& why);

  const std::shared_ptr<rocksdb::FileSystem> fs_;
  PlacementContext* const context_;
  const Options& options_;
  HostLoad host_load_;
  HostLoad before_start_;         // the host's, for WantedByOthers alone
  CompactingThreads compacting_;  // there
  HostLoad agent_load_;           // of an embedded agent's CPUs
  const bool apart_;              // none of them is among the host's
  // RocksDB's threads may do whole compactions on an embedded agent's CPUs.
  const bool may_move_;
  MovedThreads threads_;
  FlushPlacement flushes_;
  CompactionDebt debt_;
  TaskDirectories directories_;
  const bool adaptive_;
  std::mutex mu_;
  placement::Controller controller_;
  std::set<std::string> never_;          // column families that no agent can compact
  std::set<std::string> not_this_;       // ... that the agent of the moment cannot
  const void* agent_ = nullptr;          // the connection that these are of
  std::map<std::string, int> failures_;  // of a column family, one after the other
  std::map<Key, Job> jobs_;
  std::map<Key, Running> running_;
  double wanted_by_others_ = 0;
  CpuShare moved_share_;  // of what is in parts_
  int64_t left_at_ = 0;   // the last of them, at its end
  std::atomic<int64_t> look_at_{0};
  std::mutex coming_back_mu_;  // before mu_
  std::atomic<int> coming_back_{0};
  AgentCrowd crowd_;
  std::map<pid_t, Part> parts_;
  int host_running_ = 0;
  int whole_running_ = 0;
  uint64_t next_ticket_ = 0;
  std::set<std::string> homes_;  // of databases that are open and have done something
  bool canceled_ = false;        // for good: of one that closes, and nobody says which
  uint64_t cancels_ = 0;         // how often, for good or not
};

}  // namespace pulse::lsm
