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

bool Set(int nice) { return setpriority(PRIO_PROCESS, Self(), nice) == 0; }

void Lower(int nice) {
  if (!IsCompactionThread()) {
    state.given_up = true;
    LogOnce(
        "compaction priority",
        "compaction_nice= is for RocksDB's own background threads; a compaction on another thread "
        "keeps that thread's priority");
    return;
  }
  errno = 0;
  state.former_nice = getpriority(PRIO_PROCESS, Self());
  const int policy = sched_getscheduler(0);
  if (errno != 0 || (policy != SCHED_OTHER && policy != SCHED_BATCH)) {
    state.given_up = true;  // real time, or idle already: the user's choice
    return;
  }
  state.lowered = true;
  // Never raises a thread.
  if (!Set(std::max(nice, state.former_nice))) {
    state.given_up = true;
    LogOnce("compaction priority refused",
            absl::StrCat("the CPU priority of compaction threads cannot be lowered: ",
                         strerror(errno)));
  }
}

void Restore() {
  if (Set(state.former_nice)) {
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
                       "compaction_nice= out"));
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

void ThreadActivity::ApplyPriority(int nice, IoPurpose purpose) {
  if (nice == 0 || state.given_up) return;
  const bool compacts = purpose == IoPurpose::kBase || purpose == IoPurpose::kDeep;
  if (compacts && !state.lowered && !shared_pools.load(std::memory_order_relaxed)) Lower(nice);
  if (purpose == IoPurpose::kFlush && state.lowered) Restore();
}

}  // namespace pulse::lsm
