#include "services/lsm/placement/compaction_placer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "rocksdb/version.h"
#include "services/lsm/core/host_agent.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/placement/task_directory.h"
#include "services/lsm/placement/whole_task.h"

namespace pulse::lsm {
namespace {

using placement::Place;

constexpr int kMostFailures = 3;  // in a row, of a column family
// How long a task that was given up is waited for, so that its directory can be removed.
constexpr int kCancelWaitMs = 5000;

// RocksDB numbers subcompactions in the lower half, from some version on.
uint64_t CompactionOf(uint64_t id) { return (id >> 32) != 0 ? id >> 32 : id; }

// Does not show that the agent cannot do it: it has no slot free, maybe because of other processes,
// or the compaction was cancelled.
bool IsNoFailure(const absl::Status& why) {
  return ErrnoOf(why) == EBUSY || absl::IsCancelled(why);
}

// Without CPUs of its own an embedded agent may run anywhere, and spares the host nothing.
bool AreSeparate(const std::vector<int>& agent, const std::vector<int>& host) {
  return !agent.empty() && std::none_of(agent.begin(), agent.end(), [&](int cpu) {
    return std::find(host.begin(), host.end(), cpu) != host.end();
  });
}

bool IsDeepOnly(const Options& o) {
  return o.placement == PlacementMode::kOffloadAll && o.offload_all == OffloadAllScope::kDeep;
}

placement::RuleOptions RuleOptionsOf(const Options& o, int cores) {
  placement::RuleOptions c;
  c.keeps_last = !o.socket_path.empty();  // TaskRunner does
  c.host_cores = cores;
  c.agent_tasks = o.tasks();
  // An external agent has one slot more than CPUs, too (Rule::SetAgent).
  c.agent_cores = o.socket_path.empty() ? o.agent_cores() : std::max(1, c.agent_tasks - 1);
  return c;
}

}  // namespace

CompactionPlacer::CompactionPlacer(std::shared_ptr<FileSystem> fs, PlacementContext* context,
                                   const rocksdb::DBOptions& db,
                                   const std::vector<rocksdb::ColumnFamilyDescriptor>& families)
    : fs_(std::move(fs)),
      context_(context),
      options_(context_->session->options()),
      adaptive_(options_.placement == PlacementMode::kAdaptive),
      separate_cpus_(AreSeparate(options_.agent_cpus, host_load_.cpus())),
      // An agent of a lower priority would starve behind RocksDB's threads.
      may_migrate_(options_.agent_nice == 0 && separate_cpus_),
      threads_(options_.flushes == FlushMode::kAgent || separate_cpus_ ? options_.agent_cpus
                                                                       : std::vector<int>(),
               options_.flushes == FlushMode::kAgent),
      flushes_(
          options_.flushes, &threads_,
          [this] {
            std::lock_guard lock(mu_);
            return IsBackingOffLocked();
          },
          &context->flush_priority, &context->session->counters()),
      pending_(options_, families),
      rule_(RuleOptionsOf(options_, host_load_.cores())) {
  for (const rocksdb::ColumnFamilyDescriptor& f : families) {
    if (options_.socket_path.empty()) break;  // a thread can be migrated whatever it compacts
    if (const std::string why = WhyNotOffloadable(db, f.options); !why.empty()) {
      NoteRefusal(f.name, absl::UnimplementedError(why));
    } else if (!f.options.table_properties_collector_factories.empty()) {
      // OPTIONS files of some versions do not name them: the agent would leave them out silently.
      NoteRefusal(f.name,
                  absl::UnimplementedError("the column family has table property collectors"));
    }
  }
  // These hold for every agent.
  unsupported_ = std::move(refused_);
  refused_.clear();
  context_->agent_does_io = options_.placement != PlacementMode::kHost && !IsDeepOnly(options_);
  context_->flush_priority.SetCpus(options_.agent_cores());
  context_->AddCloseListener(this, [this](const std::string& dir, bool unknown_to_all) {
    return OnClosed(dir, unknown_to_all);
  });
}

CompactionPlacer::~CompactionPlacer() {
  if (!maker_.IsThis()) return;
  context_->RemoveCloseListener(this);
  Cancel(true);
  for (const auto& [key, compaction] : compactions_) {
    for (const std::string& dir : compaction.dirs) RemoveTaskDirectory(fs_.get(), dir);
  }
}

void CompactionPlacer::Cancel(bool until_closed) {
  std::lock_guard lock(mu_);
  // Of a database that failed to open nobody would hear that it was closed.
  canceled_ |= until_closed && !homes_.empty();
  ++cancels_;
  for (const auto& [key, running] : tasks_) running.task->Cancel();
}

void CompactionPlacer::EndLocked(const Compaction& compaction) {
  if (!compaction.place) return;
  --(compaction.place == Place::kOffloadAll ? offloaded_all_ : on_host_);
  if (adaptive_) rule_.End(compaction.ticket);
}

bool CompactionPlacer::OnClosed(const std::string& home, bool unknown_to_all) {
  bool known = false;
  std::vector<std::string> dirs;
  {
    std::lock_guard lock(mu_);
    for (auto it = compactions_.begin(); it != compactions_.end();) {
      if (it->second.home != home) {
        ++it;
        continue;
      }
      EndLocked(it->second);
      dirs.insert(dirs.end(), it->second.dirs.begin(), it->second.dirs.end());
      it = compactions_.erase(it);
    }
    std::erase_if(migrated_, [&](const auto& part) { return part.second.home == home; });
    pending_.Forget(home);
    // It may be opened again. A database of another placer does not end this one's cancellation.
    known = homes_.erase(home) > 0;
    if (known || unknown_to_all) canceled_ = false;
  }
  threads_.ReturnAll(&home);
  for (const std::string& dir : dirs) RemoveTaskDirectory(fs_.get(), dir);
  return known;
}

void CompactionPlacer::OnBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  ThreadMigrator::ReturnCallingThread();
  compacting_.End();
  Compaction compaction;
  compaction.home = CanonicalDirectory(db->GetName());
  compaction.family = info.cf_name;
  compaction.from_level = info.base_input_level;
  compaction.manual = info.compaction_reason == rocksdb::CompactionReason::kManualCompaction;
  compaction.info.urgent = info.base_input_level == 0;
  compaction.info.about_to_stall = pending_.WillStallWriters(info);
  // The result of DB::OpenAndCompact names no blob files; RocksDB would delete some that it needs.
  for (const rocksdb::CompactionFileInfo& file : info.input_file_infos) {
    if (file.oldest_blob_file_number != 0) {
      compaction.no_task_why = "the column family has blob files";
    }
  }
  // A TransactionDB sets it after PlaceCompactions.
  if (db->GetDBOptions().allow_2pc) compaction.no_task_why = "the database has two-phase commit";
  const std::string why = compaction.no_task_why;
  pending_.Update(db, compaction.home, info.cf_name);
  {
    std::lock_guard lock(mu_);
    homes_.insert(compaction.home);
    compactions_[{db->GetName(), static_cast<uint64_t>(info.job_id)}] = std::move(compaction);
  }
  if (!why.empty() && !options_.socket_path.empty()) {
    NoteRefusal(info.cf_name, absl::UnimplementedError(why));
  }
}

void CompactionPlacer::OnEnd(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  std::unique_lock lock(mu_);
  const Key key = {db->GetName(), static_cast<uint64_t>(info.job_id)};
  // Parts that ended before they had begun; their threads have ended.
  std::erase_if(migrated_, [&](const auto& part) { return part.second.compaction == key; });
  const auto it = compactions_.find(key);
  if (it == compactions_.end()) return;
  const Compaction compaction = std::move(it->second);
  compactions_.erase(it);
  EndLocked(compaction);
  lock.unlock();
  pending_.Update(db, compaction.home, compaction.family);
  for (const std::string& dir : compaction.dirs) RemoveTaskDirectory(fs_.get(), dir);
}

void CompactionPlacer::OnFlushBegin(const std::string& db) {
  ThreadMigrator::ReturnCallingThread();
  compacting_.End();
  ThreadPlacement::Reset(context_);  // the thread may have compacted before
  const std::string home = CanonicalDirectory(db);
  {
    std::lock_guard lock(mu_);
    homes_.insert(home);
  }
  // So that the next compaction's average does not begin long ago.
  if (adaptive_) UpdateForegroundDemand();
  if (options_.flushes == FlushMode::kHost) return;
  const HostSession::Connection agent = context_->session->connection();
  flushes_.Begin(home, agent != nullptr && !agent->dead && agent->link->embedded());
}

double CompactionPlacer::UpdateForegroundDemand() {
  const std::optional<double> busy = host_load_.BusySinceLast();
  std::lock_guard lock(mu_);
  if (busy) foreground_demand_ = ForegroundDemand(*busy, host_load_.cores(), compacting_.Take());
  return foreground_demand_;
}

bool CompactionPlacer::CanOffloadAllLocked(const Compaction& compaction,
                                           const HostSession::Connection& agent, int tasks) {
  if (agent == nullptr || agent->dead) return false;
  const bool wanted = options_.placement == PlacementMode::kOffloadAll;
  bool able = false;
  if (agent->link->embedded()) {
    able = may_migrate_ && threads_.possible();
    if (!may_migrate_ && wanted) {
      LogOnce("whole embedded",
              "no whole compactions: those of an embedded agent need agent_nice=0 and, by "
              "agent_cpus=, CPUs that the process does not use otherwise (taskset); the agent does "
              "the I/O of compactions only, as with placement=split");
    }
  } else if (context_->in_pool) {
    LogOnce("whole pool",
            "whole compactions of a pool are done by an embedded agent only; this one is external, "
            "and compactions stay on the host");
  } else {
    able = compaction.no_task_why.empty() && unsupported_.count(compaction.family) == 0 &&
           refused_.count(compaction.family) == 0;
  }
  if (tasks == 0 && wanted) {
    LogOnce("whole tasks", "the agent runs no whole compactions; start it with --tasks 1 or more");
  }
  return able && tasks > 0 && !canceled_ && !IsBackingOffLocked();
}

Place CompactionPlacer::DecideDeepLocked(const Compaction& compaction, bool can_offload_all,
                                         int tasks) {
  const bool host_is_full = on_host_ >= options_.host_slots;
  return can_offload_all && compaction.from_level > 0 && host_is_full && offloaded_all_ < tasks
             ? Place::kOffloadAll
             : Place::kHost;
}

Place CompactionPlacer::DecideLocked(Compaction* compaction, double foreground_demand) {
  const HostSession::Connection agent = context_->session->connection();
  placement::Load load;
  load.host_busy = foreground_demand;
  load.agent = agent != nullptr && !agent->dead;
  const bool embedded = load.agent && agent->link->embedded();
  if (load.agent && agent_ != agent.get()) {
    // Another agent may be able to do what the last one was not.
    agent_ = agent.get();
    refused_.clear();
    failures_.clear();
  }
  int tasks = options_.tasks();
  if (load.agent && !embedded) {
    tasks = MaxTasks(*agent->link);
    rule_.SetAgent(tasks, CoreSpeed(*agent->link));
  }
  compaction->migrates = embedded;
  load.can_offload_all = CanOffloadAllLocked(*compaction, agent, tasks);
  Place place = Place::kOffloadIo;
  switch (options_.placement) {
    case PlacementMode::kHost:
      place = Place::kHost;
      break;
    case PlacementMode::kOffloadIo:
      break;
    case PlacementMode::kOffloadAll:
      if (IsDeepOnly(options_)) {
        place = DecideDeepLocked(*compaction, load.can_offload_all, tasks);
      } else if (load.can_offload_all) {
        place = Place::kOffloadAll;
      }
      break;
    case PlacementMode::kAdaptive: {
      load.pending_ratio = pending_.Get();
      compaction->ticket = next_ticket_++;
      const placement::Choice choice = rule_.Begin(compaction->ticket, compaction->info, load);
      place = choice.place;
      context_->agent_does_io = rule_.agent_does_io();
      if (!choice.why.empty())
        Log(LogLevel::kInfo, absl::StrCat("placement of compactions: ", choice.why));
      break;
    }
  }
  compaction->place = place;
  ++(place == Place::kOffloadAll ? offloaded_all_ : on_host_);
  return place;
}

bool CompactionPlacer::Start(const std::string& db, uint64_t id, const std::string& input) {
  ThreadMigrator::ReturnCallingThread();  // from a job whose end was not told
  compacting_.End();
  const double foreground_demand = adaptive_ ? UpdateForegroundDemand() : 0;
  const bool deep_only = IsDeepOnly(options_);
  Place place = deep_only ? Place::kHost : Place::kOffloadIo;
  TaskRequest request;
  bool migrates = false;
  uint64_t cancels;
  {
    std::lock_guard lock(mu_);
    cancels = cancels_;
    // Not found: RocksDB does not tell listeners of DB::CompactFiles; its family is not known.
    const auto it = compactions_.find({db, CompactionOf(id)});
    if (it != compactions_.end()) {
      Compaction& compaction = it->second;
      const bool is_first = !compaction.place;
      place = is_first ? DecideLocked(&compaction, foreground_demand) : *compaction.place;
      migrates = compaction.migrates;
      request.column_family = compaction.family;
      request.db = compaction.home;
      request.manual = compaction.manual;
      // Where no compaction of level 0 goes to the agent, no slot is to be kept for one.
      request.urgent = compaction.info.urgent || deep_only;
      if (place == Place::kOffloadAll) ++compaction.parts;
      if (place == Place::kOffloadAll && !is_first && IsBackingOffLocked()) {
        place = Place::kOffloadIo;
        ReturnedLocked(&compaction, /*full=*/true);
        Add(&context_->session->counters().whole_returned, 1);
      }
    }
  }
  ThreadPlacement::SetOnHost(context_, place != Place::kHost && !deep_only);
  if (place != Place::kOffloadAll) {
    compacting_.Begin();
    return false;
  }
  if (migrates) {
    MigrateThread({db, CompactionOf(id)}, request.db);
    return false;
  }
  request.input = input;
  return StartTaskFor({db, id}, std::move(request), cancels);
}

bool CompactionPlacer::StartTaskFor(const Key& part, TaskRequest request, uint64_t cancels) {
  auto dir = MakeTaskDirectory(fs_.get(), request.db);
  if (!dir.ok()) LogOnce("task directory", dir.status().message());
  request.output_dir = dir.ok() ? *dir : "";
  auto task = dir.ok() ? StartTask(request) : dir.status();
  absl::Status why = task.status();
  {
    std::lock_guard lock(mu_);
    Compaction& compaction = compactions_[{part.first, CompactionOf(part.second)}];
    if (task.ok()) compaction.dirs.push_back(*dir);
    // A Cancel since the decision has not found the task among those that run.
    if (task.ok() && (canceled_ || cancels != cancels_)) {
      why = absl::CancelledError("the compaction was cancelled");
    }
    if (why.ok()) {
      tasks_[part] = {*std::move(task), request.column_family, *dir};
      return true;
    }
    ReturnedLocked(&compaction, IsNoFailure(why));
  }
  compacting_.Begin();
  if (task.ok()) (*task)->Abandon(kCancelWaitMs);
  if (dir.ok()) RemoveTaskDirectory(fs_.get(), *dir);
  Add(&context_->session->counters().whole_returned, 1);
  NoteRefusal(request.column_family, why);
  return false;
}

void CompactionPlacer::ReturnedLocked(Compaction* compaction, bool full) {
  --compaction->parts;
  compaction->part_failed |= !full;
  if (compaction->place != Place::kOffloadAll) return;
  // The place stays while the agent has another part of it, or has done one.
  if (compaction->parts > 0 || compaction->part_done) return;
  compaction->place = Place::kOffloadIo;
  --offloaded_all_;
  ++on_host_;
  if (adaptive_) rule_.Returned(compaction->ticket, compaction->part_failed);
}

absl::StatusOr<std::string> CompactionPlacer::WaitForTask(HostTask* task, const std::string& dir) {
  std::function<void(double)> on_contention;
  if (adaptive_) on_contention = [this](double share) { OnContention(share); };
  auto done = task->Wait(options_.agent_deadline_ms, on_contention);
  // RocksDB fails a compaction whose result it cannot read. Strings in a result are hexadecimal.
  if (done.ok() && !absl::StrContains(*done, Slice(dir).ToString(/*hex=*/true))) {
    done = absl::InternalError("the agent's result is none of this compaction");
  }
  return done;
}

bool CompactionPlacer::Wait(const std::string& db, uint64_t id, std::string* result) {
  HostTask* task;
  std::string family, dir;
  {
    std::lock_guard lock(mu_);
    const auto it = tasks_.find({db, id});
    if (it == tasks_.end()) return false;
    task = it->second.task.get();
    family = it->second.family;
    dir = it->second.dir;
  }
  auto done = WaitForTask(task, dir);
  // An agent that hangs is not waited for; it hears of the cancellation when it goes on.
  if (!done.ok()) task->Abandon(absl::IsCancelled(done.status()) ? kCancelWaitMs : 0);
  {
    std::lock_guard lock(mu_);
    if (done.ok()) backoff_.OnDone(NowSeconds());
    tasks_.erase({db, id});
    if (done.ok()) failures_.erase(family);
    const auto it = compactions_.find({db, CompactionOf(id)});
    if (it != compactions_.end() && done.ok()) {
      --it->second.parts;
      it->second.part_done = true;
    } else if (it != compactions_.end()) {
      ReturnedLocked(&it->second, IsNoFailure(done.status()));
    }
  }
  if (done.ok()) {
    Add(&context_->session->counters().whole_compactions, 1);
    *result = *std::move(done);
    return true;
  }
  // Its outputs would take the space that the same compaction needs here.
  RemoveTaskDirectory(fs_.get(), dir);
  compacting_.Begin();
  Add(&context_->session->counters().whole_returned, 1);
  NoteRefusal(family, done.status());
  return false;
}

void CompactionPlacer::NoteRefusal(const std::string& family, const absl::Status& why) {
  if (IsNoFailure(why)) return;
  bool never = absl::IsUnimplemented(why) || ErrnoOf(why) == EOPNOTSUPP;
  if (absl::IsInternal(why)) {
    std::lock_guard lock(mu_);
    never |= ++failures_[family] >= kMostFailures;
  }
  if (never) {
    {
      std::lock_guard lock(mu_);
      if (!refused_.insert(family).second) return;
    }
    const bool wanted = options_.placement == PlacementMode::kOffloadAll || adaptive_;
    if (!wanted) return;
    LogOnce(absl::StrCat("whole never ", family, why.message()),
            absl::StrCat(
                "compactions of column family \"", family,
                "\" stay on the host, and are not given to the agent as a whole: ", why.message()));
    return;
  }
  // A full disk's names another file each time.
  const bool full = absl::IsResourceExhausted(why);
  LogOnce(absl::StrCat("whole failed ", full ? absl::string_view(family) : why.message()),
          absl::StrCat("a whole compaction is done by the host after all: ", why.message()));
}

absl::StatusOr<std::unique_ptr<HostTask>> CompactionPlacer::StartTask(TaskRequest request) {
  const HostSession::Connection agent = context_->session->connection();
  if (agent == nullptr || agent->dead) return absl::UnavailableError("there is no agent");
  request.version = rocksdb::GetRocksVersionAsString();
  struct stat info;
  if (stat(request.db.c_str(), &info) != 0) return ErrnoError(errno, "looking at", request.db);
  request.device = info.st_dev;
  request.inode = info.st_ino;
  HostSession& session = *context_->session;
  {
    // So that the watching thread finds out an agent that hangs.
    std::lock_guard lock(session.mu());
    ++agent->attaching;
  }
  auto task = HostTask::Start(
      [&](int memory, int reply) { return SendTask(agent->link.get(), memory, reply); }, request);
  std::lock_guard lock(session.mu());
  --agent->attaching;
  if (absl::IsDeadlineExceeded(task.status())) session.SuspectLocked(agent.get(), task.status());
  return task;
}

}  // namespace pulse::lsm
