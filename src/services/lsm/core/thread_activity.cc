#include "services/lsm/core/thread_activity.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

struct State {
  bool compacting = false;
  IoPurpose purpose = IoPurpose::kUnknown;
  // Of ApplyPriority.
  bool lowered = false;
  bool given_up = false;
  int former_nice = 0;
  int former_policy = SCHED_OTHER;
};

thread_local State state;

// Set when a thread that was lowered flushes and could not be raised again: from then on no further
// thread is lowered.
std::atomic<bool> shared_pools{false};

id_t Self() { return static_cast<id_t>(gettid()); }

// RocksDB names the threads of its pools, and threads that they begin inherit the name.
bool IsCompactionThread() {
  char name[16] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0) return false;
  return absl::StartsWith(name, "rocksdb:low") || absl::StartsWith(name, "rocksdb:bot");
}

int PolicyOf(CompactionPriority::Policy policy) {
  switch (policy) {
    case CompactionPriority::Policy::kNormal:
      break;
    case CompactionPriority::Policy::kBatch:
      return SCHED_BATCH;
    case CompactionPriority::Policy::kIdle:
      return SCHED_IDLE;
  }
  return SCHED_OTHER;
}

bool Set(int nice, int policy) {
  const sched_param param{};
  return sched_setscheduler(0, policy, &param) == 0 && setpriority(PRIO_PROCESS, Self(), nice) == 0;
}

void Lower(const CompactionPriority& p) {
  if (!IsCompactionThread()) {
    state.given_up = true;
    LogOnce("compaction priority",
            "compaction_nice= and compaction_sched= are for RocksDB's own background threads; a "
            "compaction on another thread keeps that thread's priority");
    return;
  }
  errno = 0;
  state.former_nice = getpriority(PRIO_PROCESS, Self());
  state.former_policy = sched_getscheduler(0);
  if (errno != 0 || (state.former_policy != SCHED_OTHER && state.former_policy != SCHED_BATCH)) {
    state.given_up = true;  // real time, or idle already: the user's choice
    return;
  }
  // Never raises a thread.
  const int nice = std::max(static_cast<int>(p.nice), state.former_nice);
  const int policy =
      p.policy == CompactionPriority::Policy::kNormal ? state.former_policy : PolicyOf(p.policy);
  state.lowered = true;
  if (!Set(nice, policy)) {
    state.given_up = true;
    LogOnce("compaction priority refused",
            absl::StrCat("the CPU priority of compaction threads cannot be lowered: ",
                         strerror(errno)));
  }
}

void Restore() {
  if (Set(state.former_nice, state.former_policy)) {
    state.lowered = false;
    return;
  }
  state.given_up = true;
  shared_pools.store(true, std::memory_order_relaxed);
  LogOnce("compaction priority shared",
          absl::StrCat("a thread that compacts also flushes, and its CPU priority cannot be raised "
                       "again: ",
                       strerror(errno),
                       ". No further threads are lowered. Give flushes threads of their own "
                       "(max_background_jobs, or SetBackgroundThreads(n, Env::HIGH)), or leave "
                       "compaction_nice= and compaction_sched= out"));
}

}  // namespace

void ThreadActivity::BeginCompactionJob() {
  state.compacting = true;
  state.purpose = IoPurpose::kUnknown;
}

void ThreadActivity::BeginCompactionRead() {
  if (!state.compacting) BeginCompactionJob();
}

void ThreadActivity::End() {
  state.compacting = false;
  state.purpose = IoPurpose::kUnknown;
}

bool ThreadActivity::compacting() { return state.compacting; }

void ThreadActivity::SetPurpose(IoPurpose purpose) {
  state.purpose = purpose;
  state.compacting = purpose == IoPurpose::kBase || purpose == IoPurpose::kDeep;
}

IoPurpose ThreadActivity::ReadPurpose() {
  return state.purpose == IoPurpose::kDeep ? IoPurpose::kDeep : IoPurpose::kBase;
}

void ThreadActivity::ApplyPriority(const CompactionPriority& priority, IoPurpose purpose) {
  if (!priority.wanted() || state.given_up) return;
  const bool compacts = purpose == IoPurpose::kBase || purpose == IoPurpose::kDeep;
  if (compacts && !state.lowered && !shared_pools.load(std::memory_order_relaxed)) Lower(priority);
  if (purpose == IoPurpose::kFlush && state.lowered) Restore();
}

}  // namespace pulse::lsm
