#include "services/lsm/placement/moved_threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

struct MovedThread {
  const void* owner;
  std::string home;
  cpu_set_t former;
  int64_t cpu_nanos;
  std::shared_ptr<void> held;
};

// Of the process: a thread may serve databases of several owners. Who is in it lives.
struct MovedRegistry {
  std::mutex mu;
  std::map<pid_t, MovedThread> moved;
};

MovedRegistry& AllMoved() {
  static auto* const all = new MovedRegistry;  // RocksDB's threads outlive main
  return *all;
}

// A thread that ends is nobody's any more: its number may be another's at once.
struct Leaver {
  bool moved = false;
  ~Leaver() {
    if (!moved) return;
    std::map<pid_t, MovedThread>::node_type gone;  // after the lock
    std::lock_guard lock(AllMoved().mu);
    gone = AllMoved().moved.extract(gettid());
  }
};
thread_local Leaver leaver;

void Restore(pid_t thread, const cpu_set_t& former) {
  if (sched_setaffinity(thread, sizeof(former), &former) == 0) return;
  LogOnce("moved threads",
          absl::StrCat("a thread of RocksDB's stays on the agent's CPUs: ", strerror(errno),
                       "; use flushes=host and placement=split where the CPUs that a process may "
                       "use change while it runs"));
}

}  // namespace

bool MovedThreads::Move(const std::string& home, std::shared_ptr<void> held) {
  if (!possible()) return false;
  MovedRegistry& all = AllMoved();
  std::lock_guard lock(all.mu);
  if (all.moved.count(gettid()) != 0) return false;
  MovedThread m{this, home, {}, ThreadCpuNanos(), nullptr};
  absl::Status status;
  if (sched_getaffinity(0, sizeof(m.former), &m.former) != 0) {
    status = absl::UnavailableError(strerror(errno));
  } else if (!anywhere_ && std::any_of(cpus_.begin(), cpus_.end(), [&](int cpu) {
               return CPU_ISSET(static_cast<size_t>(cpu), &m.former);
             })) {
    status = absl::FailedPreconditionError(
        absl::StrCat("RocksDB's threads may run on CPUs ", FormatCpuList(cpus_),
                     ", too, which agent_cpus= names; keep the process off them (taskset)"));
  } else {
    status = SetThreadAffinity(cpus_);
  }
  if (!status.ok()) {
    // Another thread may not run there.
    if (!absl::IsFailedPrecondition(status)) failed_.store(true, std::memory_order_relaxed);
    LogOnce("no moved threads",
            absl::StrCat("flushes and compactions stay on the host's CPUs: ", status.message()));
    return false;
  }
  leaver.moved = true;
  m.held = std::move(held);
  all.moved.emplace(gettid(), std::move(m));
  return true;
}

std::optional<int64_t> MovedThreads::Back() {
  std::map<pid_t, MovedThread>::node_type gone;  // after the lock
  MovedRegistry& all = AllMoved();
  std::lock_guard lock(all.mu);
  const auto it = all.moved.find(gettid());
  if (it == all.moved.end() || it->second.owner != this) return std::nullopt;
  const int64_t nanos = ThreadCpuNanos() - it->second.cpu_nanos;
  Restore(0, it->second.former);
  gone = all.moved.extract(it);
  return nanos;
}

int64_t MovedThreads::NanosThere(const std::vector<pid_t>& without) const {
  MovedRegistry& all = AllMoved();
  std::lock_guard lock(all.mu);
  int64_t nanos = 0;
  for (const auto& [thread, m] : all.moved) {
    if (m.owner != this || std::find(without.begin(), without.end(), thread) != without.end()) {
      continue;
    }
    nanos += std::max<int64_t>(0, ThreadCpuNanos(thread) - m.cpu_nanos);
  }
  return nanos;
}

void MovedThreads::BackHere() {
  if (!leaver.moved) return;
  std::map<pid_t, MovedThread>::node_type gone;
  MovedRegistry& all = AllMoved();
  std::lock_guard lock(all.mu);
  const auto it = all.moved.find(gettid());
  if (it == all.moved.end()) return;
  Restore(0, it->second.former);
  gone = all.moved.extract(it);
}

void MovedThreads::BackAll(const std::string* home) {
  std::vector<std::map<pid_t, MovedThread>::node_type> gone;
  MovedRegistry& all = AllMoved();
  std::lock_guard lock(all.mu);
  for (auto it = all.moved.begin(); it != all.moved.end();) {
    const auto next = std::next(it);
    if (it->second.owner == this && (home == nullptr || it->second.home == *home)) {
      Restore(it->first, it->second.former);
      gone.push_back(all.moved.extract(it));
    }
    it = next;
  }
}

}  // namespace pulse::lsm
