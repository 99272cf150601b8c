// ThreadMigrator: runs a flush or a compaction of RocksDB's own threads on an embedded agent's
// CPUs. A thread has those CPUs from Migrate to Return, and nowhere else: threads that RocksDB
// starts inherit the CPUs of the thread that starts them.
//
// RocksDB does not tell the end of every job: not of one that ends with its database, nor of a part
// that ends before it has begun. ReturnAll returns the threads of a database that is closed;
// ReturnCallingThread, at the beginning of a thread's next job, one that is still there.
//
// Thread-safe; blocks for a system call or two.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/maker_process.h"
namespace pulse::lsm {

class ThreadMigrator {
 public:
  // `cpus`: the agent's; none: nothing is migrated. `allow_shared_cpus`: also threads that may use
  // some of these CPUs already; without it they stay, as they would gain nothing.
  explicit ThreadMigrator(std::vector<int> cpus, bool allow_shared_cpus = false)
      : cpus_(std::move(cpus)), allow_shared_cpus_(allow_shared_cpus) {}
  ~ThreadMigrator() {
    if (maker_.IsThis()) ReturnAll(nullptr);
  }
  ThreadMigrator(const ThreadMigrator&) = delete;
  ThreadMigrator& operator=(const ThreadMigrator&) = delete;

  // False also when the kernel has refused to move a thread.
  bool possible() const { return !cpus_.empty() && !failed_.load(std::memory_order_relaxed); }
  // Moves the calling thread, for the database in `home`. False when it has been moved already, or
  // cannot be; why is logged once. `held` is released when the thread returns, in any way, or ends.
  bool Migrate(const std::string& home, std::shared_ptr<void> held);
  // Returns the calling thread to its former CPUs. Its CPU time since Migrate, in nanoseconds;
  // nullopt if this object has not moved it.
  std::optional<int64_t> Return();
  // Whichever object has moved it.
  static bool IsMigrated(pid_t thread);
  // The calling thread, whichever object moved it.
  static void ReturnCallingThread();
  // All threads of the database in `home`, or of all databases.
  void ReturnAll(const std::string* home);
  // CPU time since Migrate, in nanoseconds, of the threads that are moved now, except `threads`.
  int64_t CpuNanosExcept(const std::vector<pid_t>& threads) const;

 private:
  const MakerProcess maker_;
  const std::vector<int> cpus_;
  const bool allow_shared_cpus_;
  std::atomic<bool> failed_{false};
};

}  // namespace pulse::lsm
