#include "services/lsm/placement/thread_migrator.h"

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

struct MigratedThread {
  const void* owner;
  std::string home;
  cpu_set_t former;
  int64_t cpu_nanos;
  std::shared_ptr<void> held;
};

// Of the process: a thread may serve databases of several owners. All threads in it are alive.
struct ThreadRegistry {
  std::mutex mu;
  std::map<pid_t, MigratedThread> threads;
};

ThreadRegistry& TheRegistry() {
  static auto* const registry = new ThreadRegistry;  // RocksDB's threads outlive main
  return *registry;
}

// Removes a thread that ends: its number may be given to another thread at once.
struct ThreadEnd {
  bool moved = false;
  ~ThreadEnd() {
    if (!moved) return;
    std::map<pid_t, MigratedThread>::node_type gone;  // after the lock
    std::lock_guard lock(TheRegistry().mu);
    gone = TheRegistry().threads.extract(gettid());
  }
};
thread_local ThreadEnd thread_end;

void Restore(pid_t thread, const cpu_set_t& former) {
  if (sched_setaffinity(thread, sizeof(former), &former) == 0) return;
  LogOnce("migrated threads",
          absl::StrCat("a thread of RocksDB's stays on the agent's CPUs: ", strerror(errno),
                       "; use flushes=host and placement=split where the CPUs that a process may "
                       "use change while it runs"));
}

// Returns the calling thread, if `owner` has moved it; null: whoever has.
std::optional<int64_t> ReturnThread(const void* owner) {
  std::map<pid_t, MigratedThread>::node_type gone;  // after the lock
  ThreadRegistry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  const auto it = registry.threads.find(gettid());
  if (it == registry.threads.end() || (owner != nullptr && it->second.owner != owner)) {
    return std::nullopt;
  }
  const int64_t nanos = ThreadCpuNanos() - it->second.cpu_nanos;
  Restore(0, it->second.former);
  gone = registry.threads.extract(it);
  return nanos;
}

}  // namespace

bool ThreadMigrator::Migrate(const std::string& home, std::shared_ptr<void> held) {
  if (!possible()) return false;
  ThreadRegistry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  if (registry.threads.count(gettid()) != 0) return false;
  MigratedThread m{this, home, {}, ThreadCpuNanos(), nullptr};
  absl::Status status;
  if (sched_getaffinity(0, sizeof(m.former), &m.former) != 0) {
    status = absl::UnavailableError(strerror(errno));
  } else if (!allow_shared_cpus_ && std::any_of(cpus_.begin(), cpus_.end(), [&](int cpu) {
               return CPU_ISSET(static_cast<size_t>(cpu), &m.former);
             })) {
    status = absl::FailedPreconditionError(
        absl::StrCat("RocksDB's threads may run on CPUs ", FormatCpuList(cpus_),
                     ", too, which agent_cpus= names; keep the process off them (taskset)"));
  } else {
    status = SetThreadAffinity(cpus_);
  }
  if (!status.ok()) {
    // FailedPrecondition is about this thread alone.
    if (!absl::IsFailedPrecondition(status)) failed_.store(true, std::memory_order_relaxed);
    LogOnce("no migrated threads",
            absl::StrCat("flushes and compactions stay on the host's CPUs: ", status.message()));
    return false;
  }
  thread_end.moved = true;
  m.held = std::move(held);
  registry.threads.emplace(gettid(), std::move(m));
  return true;
}

std::optional<int64_t> ThreadMigrator::Return() { return ReturnThread(this); }

bool ThreadMigrator::IsMigrated(pid_t thread) {
  std::lock_guard lock(TheRegistry().mu);
  return TheRegistry().threads.count(thread) != 0;
}

void ThreadMigrator::ReturnCallingThread() {
  if (thread_end.moved) ReturnThread(nullptr);
}

int64_t ThreadMigrator::CpuNanosExcept(const std::vector<pid_t>& threads) const {
  ThreadRegistry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  int64_t nanos = 0;
  for (const auto& [thread, m] : registry.threads) {
    if (m.owner != this || std::find(threads.begin(), threads.end(), thread) != threads.end()) {
      continue;
    }
    nanos += std::max<int64_t>(0, ThreadCpuNanos(thread) - m.cpu_nanos);
  }
  return nanos;
}

void ThreadMigrator::ReturnAll(const std::string* home) {
  std::vector<std::map<pid_t, MigratedThread>::node_type> gone;
  ThreadRegistry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  for (auto it = registry.threads.begin(); it != registry.threads.end();) {
    const auto next = std::next(it);
    if (it->second.owner == this && (home == nullptr || it->second.home == *home)) {
      Restore(it->first, it->second.former);
      gone.push_back(registry.threads.extract(it));
    }
    it = next;
  }
}

}  // namespace pulse::lsm
