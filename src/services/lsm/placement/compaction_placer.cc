#include "services/lsm/placement/compaction_placer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "rocksdb/version.h"
#include "services/lsm/core/host_registry.h"

namespace pulse::lsm {
namespace {

using placement::Place;
using rocksdb::IOOptions;

constexpr int kMostFailures = 3;
constexpr int kAbandonMs = 5000;
constexpr int kCrowdedMs = 1000;  // as it has little to run on

// RocksDB numbers subcompactions in the lower half, from some version on.
uint64_t JobOf(uint64_t id) { return (id >> 32) != 0 ? id >> 32 : id; }

// The agent runs as many as it may, maybe for other processes.
bool IsFull(const absl::Status& why) { return ErrnoOf(why) == EBUSY; }

// Says nothing of what the agent can do.
bool IsNoFailure(const absl::Status& why) { return IsFull(why) || absl::IsCancelled(why); }

// An embedded agent may run anywhere unless told otherwise; then nothing is spared by it.
bool AreApart(const std::vector<int>& agent, const std::vector<int>& host) {
  return !agent.empty() && std::none_of(agent.begin(), agent.end(), [&](int cpu) {
    return std::find(host.begin(), host.end(), cpu) != host.end();
  });
}

placement::ControllerOptions ControllerOptionsOf(const Options& o, int cores) {
  placement::ControllerOptions c;
  c.keeps_last = !o.socket_path.empty();  // TaskRunner does
  c.host_cores = cores;
  c.agent_tasks = o.tasks();
  // An agent of its own has one place more, too (Controller::SetAgent).
  c.agent_cores = o.socket_path.empty() ? o.agent_cores() : std::max(1, c.agent_tasks - 1);
  return c;
}

}  // namespace

CompactionPlacer::CompactionPlacer(std::shared_ptr<rocksdb::FileSystem> fs,
                                   PlacementContext* context, const rocksdb::DBOptions& db,
                                   const std::vector<rocksdb::ColumnFamilyDescriptor>& families)
    : fs_(std::move(fs)),
      context_(context),
      options_(context_->session->options()),
      agent_load_(options_.agent_cpus),
      apart_(AreApart(options_.agent_cpus, host_load_.cpus())),
      // An agent of a lower priority would starve behind RocksDB's threads.
      may_move_(options_.agent_nice == 0 && apart_),
      threads_(options_.flushes == FlushMode::kAgent || apart_ ? options_.agent_cpus
                                                               : std::vector<int>(),
               options_.flushes == FlushMode::kAgent),
      flushes_(
          options_.flushes, &threads_, [this] { return host_load_.BusyPart(); },
          [this] { return agent_load_.BusyPart(); }, &context->flush_first,
          &context->session->counters()),
      debt_(options_, families),
      directories_(fs_.get()),
      adaptive_(options_.placement == PlacementMode::kAdaptive),
      controller_(ControllerOptionsOf(options_, host_load_.cores())) {
  for (const rocksdb::ColumnFamilyDescriptor& f : families) {
    if (options_.socket_path.empty()) break;  // any compaction can be moved
    if (const std::string why = WhyNotWhole(db, f.options); !why.empty()) {
      Refused(f.name, absl::UnimplementedError(why));
    } else if (!f.options.table_properties_collector_factories.empty()) {
      // OPTIONS files do not name them in all versions: the agent would leave them out in silence.
      Refused(f.name, absl::UnimplementedError("the column family has table property collectors"));
    }
  }
  // These hold for every agent.
  never_ = std::move(not_this_);
  not_this_.clear();
  const bool host =
      options_.placement == PlacementMode::kHost ||
      (options_.placement == PlacementMode::kWhole && options_.whole == WholeMode::kDeep);
  context_->agent_does_io = !host;
  context_->flush_first.SetCpus(options_.agent_cores());
  context_->AddCloseListener(this, [this](const std::string& dir, bool unknown_to_all) {
    return OnClosed(dir, unknown_to_all);
  });
}

CompactionPlacer::~CompactionPlacer() {
  context_->RemoveCloseListener(this);
  Cancel(true);
  for (const auto& [key, job] : jobs_) {
    for (const std::string& dir : job.dirs) directories_.Remove(dir);
  }
}

void CompactionPlacer::Cancel(bool for_good) {
  std::lock_guard lock(mu_);
  canceled_ |= for_good;
  ++cancels_;
  for (const auto& [key, running] : running_) running.task->Cancel();
}

void CompactionPlacer::LeaveLocked(const Job& job, bool well) {
  if (!job.decided) return;
  --(job.place == Place::kWhole ? whole_running_ : host_running_);
  if (adaptive_) {
    // A part of it came back, the others did not: an agent that was full.
    if (job.went_back && job.place == Place::kWhole) controller_.Returned(job.ticket, true);
    controller_.End(job.ticket, NowSeconds(), well);
  }
}

bool CompactionPlacer::OnClosed(const std::string& home, bool unknown_to_all) {
  bool known = false;
  std::vector<std::string> left;
  {
    std::lock_guard lock(mu_);
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      if (it->second.home != home) {
        ++it;
        continue;
      }
      LeaveLocked(it->second, false);
      left.insert(left.end(), it->second.dirs.begin(), it->second.dirs.end());
      it = jobs_.erase(it);
    }
    std::erase_if(parts_, [&](const auto& part) { return part.second.home == home; });
    debt_.Forget(home);
    // It may be opened again. Another placer's says nothing of these.
    known = homes_.erase(home) > 0;
    if (known || unknown_to_all) canceled_ = false;
  }
  threads_.BackAll(&home);
  for (const std::string& dir : left) directories_.Remove(dir);
  return known;
}

void CompactionPlacer::OnBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  MovedThreads::BackHere();
  compacting_.End();
  Job job;
  job.home = CanonicalDirectory(db->GetName());
  job.family = info.cf_name;
  job.from_level = info.base_input_level;
  job.manual = info.compaction_reason == rocksdb::CompactionReason::kManualCompaction;
  job.what.urgent = info.base_input_level == 0;
  job.what.pressing = debt_.IsPressing(info);
  for (const std::string& path : info.input_files) {
    uint64_t size = 0;
    if (fs_->GetFileSize(path, IOOptions(), &size, nullptr).ok()) job.what.bytes += size;
  }
  // RocksDB's result names no blob files, of which some would be deleted.
  for (const rocksdb::CompactionFileInfo& file : info.input_file_infos) {
    if (file.oldest_blob_file_number != 0) job.why_not = "the column family has blob files";
  }
  // A TransactionDB sets it after PlaceCompactions.
  if (db->GetDBOptions().allow_2pc) job.why_not = "the database has two-phase commit";
  const std::string why_not = job.why_not;
  debt_.Note(db, job.home, info.cf_name);
  {
    std::lock_guard lock(mu_);
    homes_.insert(job.home);
    jobs_[{db->GetName(), static_cast<uint64_t>(info.job_id)}] = std::move(job);
  }
  if (!why_not.empty() && !options_.socket_path.empty())
    Refused(info.cf_name, absl::UnimplementedError(why_not));
}

void CompactionPlacer::OnEnd(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  std::unique_lock lock(mu_);
  const Key key = {db->GetName(), static_cast<uint64_t>(info.job_id)};
  // Parts that ended before they had begun; their threads are gone.
  std::erase_if(parts_, [&](const auto& part) { return part.second.job == key; });
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  const Job job = std::move(it->second);
  jobs_.erase(it);
  LeaveLocked(job, info.status.ok());
  lock.unlock();
  debt_.Note(db, job.home, job.family);
  for (const std::string& dir : job.dirs) directories_.Remove(dir);
}

void CompactionPlacer::OnFlushBegin(const std::string& db) {
  MovedThreads::BackHere();
  compacting_.End();
  ThreadPlacement::Reset(context_);  // where a thread compacts, too
  const std::string home = CanonicalDirectory(db);
  {
    std::lock_guard lock(mu_);
    homes_.insert(home);
  }
  if (adaptive_) WantedByOthers();  // lest the next compaction's look is of long ago
  if (options_.flushes == FlushMode::kHost) return;
  const HostSession::Connection agent = context_->session->connection();
  flushes_.Begin(home, agent != nullptr && !agent->dead && agent->link->embedded());
}

double CompactionPlacer::WantedByOthers() {
  const std::optional<double> busy = before_start_.BusySinceLast();
  std::lock_guard lock(mu_);
  if (busy) wanted_by_others_ = lsm::WantedByOthers(*busy, host_load_.cores(), compacting_.Take());
  return wanted_by_others_;
}

Place CompactionPlacer::DecideLocked(Job* job, double wanted) {
  placement::Load load;
  load.host_busy = wanted;
  const HostSession::Connection agent = context_->session->connection();
  load.agent = agent != nullptr && !agent->dead;
  // An embedded agent's, too, if it may run there.
  const bool embedded = load.agent && agent->link->embedded();
  load.apart = load.agent && (!embedded || apart_);
  if (load.agent && agent_ != agent.get()) {
    // What the last one did not know, this one may.
    agent_ = agent.get();
    not_this_.clear();
    failures_.clear();
  }
  int tasks = options_.tasks();
  if (load.agent && !embedded) {
    tasks = agent->link->max_tasks();
    controller_.SetAgent(tasks, agent->link->core_speed());
  }
  job->moves = embedded;
  // The pool's metadata are this process's.
  const bool reachable = load.agent && (embedded || !context_->in_pool);
  if (load.agent && !reachable) {
    LogOnce("whole pool",
            "whole compactions of a pool are done by an embedded agent only; this one is external, "
            "and compactions stay on the host");
  }
  if (embedded && !may_move_ && options_.placement == PlacementMode::kWhole) {
    LogOnce("whole embedded",
            "no whole compactions: those of an embedded agent need agent_nice=0 and, by "
            "agent_cpus=, CPUs that the process does not use otherwise (taskset); the agent does "
            "the I/O of compactions only, as with placement=split");
  }
  const bool can = embedded ? may_move_ && threads_.possible()
                            : job->why_not.empty() && never_.count(job->family) == 0 &&
                                  not_this_.count(job->family) == 0;
  const bool whole = reachable && tasks > 0 && !canceled_ && can && !IsCrowdedLocked();
  if (load.agent && tasks == 0 && options_.placement == PlacementMode::kWhole) {
    LogOnce("whole tasks", "the agent runs no whole compactions; start it with --tasks 1 or more");
  }
  Place place = Place::kSplit;
  switch (options_.placement) {
    case PlacementMode::kHost:
      place = Place::kHost;
      break;
    case PlacementMode::kSplit:
      break;
    case PlacementMode::kWhole:
      if (options_.whole == WholeMode::kDeep) {
        const bool busy_slots = host_running_ >= options_.host_slots;
        place = whole && job->from_level > 0 && busy_slots && whole_running_ < tasks ? Place::kWhole
                                                                                     : Place::kHost;
      } else if (whole) {
        place = Place::kWhole;
      }
      break;
    case PlacementMode::kAdaptive: {
      load.whole = whole;
      load.owed = debt_.Owed();
      job->ticket = next_ticket_++;
      const placement::Choice choice =
          controller_.Begin(job->ticket, job->what, load, NowSeconds());
      place = choice.place;
      context_->agent_does_io = controller_.local() != Place::kHost;
      if (!choice.why.empty())
        Log(LogLevel::kInfo, absl::StrCat("placement of compactions: ", choice.why));
      break;
    }
  }
  job->decided = true;
  job->place = place;
  ++(place == Place::kWhole ? whole_running_ : host_running_);
  return place;
}

bool CompactionPlacer::Start(const std::string& db, uint64_t id, const std::string& input) {
  MovedThreads::BackHere();  // from a job whose end was not told
  compacting_.End();
  const double wanted = adaptive_ ? WantedByOthers() : 0;
  const bool deep =
      options_.placement == PlacementMode::kWhole && options_.whole == WholeMode::kDeep;
  Place place = deep ? Place::kHost : Place::kSplit;
  TaskRequest request;
  std::string& family = request.column_family;
  std::string& home = request.db;
  bool moves = false;
  uint64_t cancels;
  {
    std::lock_guard lock(mu_);
    cancels = cancels_;
    // RocksDB has not told of it (DB::CompactFiles): nobody knows its column family.
    const auto job = jobs_.find({db, JobOf(id)});
    if (job != jobs_.end()) {
      const bool is_first = !job->second.decided;
      place = is_first ? DecideLocked(&job->second, wanted) : job->second.place;
      family = job->second.family;
      home = job->second.home;
      moves = job->second.moves;
      request.manual = job->second.manual;
      // Where none of level 0 comes, no place is to be kept for one.
      request.urgent = job->second.what.urgent || deep;
      if (place == Place::kWhole) ++job->second.tasks;
      if (place == Place::kWhole && !is_first && IsCrowdedLocked()) {
        place = Place::kSplit;
        job->second.went_back = true;
        ReturnedLocked(&job->second, /*full=*/true);
        Add(&context_->session->counters().whole_returned, 1);
      }
    }
  }
  ThreadPlacement::SetOnHost(context_, place != Place::kHost && !deep);
  if (place != Place::kWhole) {
    compacting_.Begin();
    return false;
  }
  if (moves) {
    MoveHere({db, JobOf(id)}, home);
    return false;
  }
  auto dir = directories_.Make(home);
  if (!dir.ok()) LogOnce("task directory", dir.status().message());
  request.output_dir = dir.ok() ? *dir : "";
  request.input = input;
  auto task = dir.ok() ? StartTask(request) : dir.status();
  absl::Status why = task.status();
  {
    std::lock_guard lock(mu_);
    Job& job = jobs_[{db, JobOf(id)}];
    if (task.ok()) job.dirs.push_back(*dir);
    // Since it was decided; Cancel did not find it among those that run.
    if (task.ok() && (canceled_ || cancels != cancels_)) {
      why = absl::CancelledError("the compaction was cancelled");
    }
    if (why.ok()) {
      running_[{db, id}] = {*std::move(task), family, *dir};
      return true;
    }
    ReturnedLocked(&job, IsNoFailure(why));
  }
  compacting_.Begin();
  if (task.ok()) (*task)->Abandon(kAbandonMs);
  if (dir.ok()) directories_.Remove(*dir);
  Add(&context_->session->counters().whole_returned, 1);
  Refused(family, why);
  return false;
}

void CompactionPlacer::ReturnedLocked(Job* job, bool full) {
  --job->tasks;
  job->some_failed |= !full;
  if (!job->decided || job->place != Place::kWhole) return;
  // Not while the agent has another part of it, nor when it has done one.
  if (job->tasks > 0 || job->some_done) {
    job->went_back |= full;
    return;
  }
  job->place = Place::kSplit;
  --whole_running_;
  ++host_running_;
  if (adaptive_) {
    controller_.Returned(job->ticket, !job->some_failed);
  }
}

bool CompactionPlacer::Wait(const std::string& db, uint64_t id, std::string* result) {
  HostTask* task;
  std::string family, dir;
  {
    std::lock_guard lock(mu_);
    const auto it = running_.find({db, id});
    if (it == running_.end()) return false;
    task = it->second.task.get();
    family = it->second.family;
    dir = it->second.dir;
  }
  double share = 1;
  std::function<bool(double)> is_too_little;
  if (adaptive_) {
    is_too_little = [this, &share](double now) {
      share = now;
      return IsTooLittle(now);
    };
  }
  auto done = task->Wait(options_.agent_deadline_ms, is_too_little);
  while (IsFull(done.status()) && !ComesBack(share)) {
    done = task->Wait(options_.agent_deadline_ms, is_too_little);
  }
  const bool comes_back = IsFull(done.status());
  if (comes_back) {
    std::lock_guard lock(mu_);
    CrowdedLocked(share);
  }
  // RocksDB gives up a compaction over a result that it cannot read. In it strings are hexadecimal.
  if (done.ok() && !absl::StrContains(*done, rocksdb::Slice(dir).ToString(/*hex=*/true))) {
    done = absl::InternalError("the agent's result is none of this compaction");
  }
  // An agent that hangs is not waited for, and hears of it when it goes on.
  if (!done.ok()) {
    task->Abandon(absl::IsCancelled(done.status()) ? kAbandonMs : comes_back ? kCrowdedMs : 0);
  }
  {
    std::lock_guard lock(mu_);
    if (done.ok()) crowd_.WasDone(NowSeconds());
    running_.erase({db, id});
    const auto job = jobs_.find({db, JobOf(id)});
    if (done.ok()) failures_.erase(family);
    if (job != jobs_.end() && done.ok()) {
      --job->second.tasks;
      job->second.some_done = true;
    } else if (job != jobs_.end()) {
      job->second.went_back |= comes_back;
      ReturnedLocked(&job->second, IsNoFailure(done.status()));
    }
  }
  if (done.ok()) {
    Add(&context_->session->counters().whole_compactions, 1);
    *result = *std::move(done);
    return true;
  }
  // Its outputs would take the room that the same compaction needs here.
  directories_.Remove(dir);
  if (comes_back) {
    IsBack();
  } else {
    compacting_.Begin();
  }
  Add(&context_->session->counters().whole_returned, 1);
  Refused(family, done.status());
  return false;
}

void CompactionPlacer::Refused(const std::string& family, const absl::Status& why) {
  if (absl::IsCancelled(why) || IsFull(why)) return;  // as it should be
  // Whatever it is, the third time is enough.
  bool never = absl::IsUnimplemented(why) || ErrnoOf(why) == EOPNOTSUPP;
  if (absl::IsInternal(why)) {
    std::lock_guard lock(mu_);
    never |= ++failures_[family] >= kMostFailures;
  }
  if (never) {
    {
      std::lock_guard lock(mu_);
      if (!not_this_.insert(family).second) return;
    }
    const bool wanted = options_.placement == PlacementMode::kWhole ||
                        options_.placement == PlacementMode::kAdaptive;
    if (!wanted) return;
    LogOnce(absl::StrCat("whole never ", family, why.message()),
            absl::StrCat(
                "compactions of column family \"", family,
                "\" stay on the host, and are not given to the agent as a whole: ", why.message()));
    return;
  }
  LogOnce(absl::StrCat("whole failed ", why.message()),
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
      [&](int memory, int reply) { return agent->link->StartTask(memory, reply); }, request);
  std::lock_guard lock(session.mu());
  --agent->attaching;
  if (absl::IsDeadlineExceeded(task.status())) session.SuspectLocked(agent.get(), task.status());
  return task;
}

}  // namespace pulse::lsm
