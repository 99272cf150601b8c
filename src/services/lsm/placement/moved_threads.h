// MovedThreads: has RocksDB's own threads do a flush or a compaction on an embedded agent's CPUs.
// They run there from Move to Back, and nowhere else: threads that RocksDB starts inherit the CPUs
// of whoever starts them.
//
// RocksDB does not tell the end of every job: not of those that end with their database, nor of
// parts that end before they have begun. BackAll brings back the threads of a database that is
// closed; BackHere, at the beginning of a thread's next job, one that is still there from the last.
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

namespace pulse::lsm {

class MovedThreads {
 public:
  // `cpus`: the agent's; none: nothing is moved. `anywhere`: also threads that may run there as it
  // is; others are not moved for that gain nothing.
  explicit MovedThreads(std::vector<int> cpus, bool anywhere = false)
      : cpus_(std::move(cpus)), anywhere_(anywhere) {}
  ~MovedThreads() { BackAll(nullptr); }
  MovedThreads(const MovedThreads&) = delete;
  MovedThreads& operator=(const MovedThreads&) = delete;

  // False also when the kernel has refused to move one.
  bool possible() const { return !cpus_.empty() && !failed_.load(std::memory_order_relaxed); }
  // The calling thread, for the database in `home`. False when it is there already or cannot be
  // moved; why is logged once. `held` is let go when the thread is back, however that comes, or
  // has ended.
  bool Move(const std::string& home, std::shared_ptr<void> held);
  // The calling thread. CPU time since Move, in nanoseconds; nothing if it was not moved by this.
  std::optional<int64_t> Back();
  // CPU time since Move of those that are there, but for `without`.
  int64_t NanosThere(const std::vector<pid_t>& without) const;
  // The calling thread, whoever moved it.
  static void BackHere();
  // All threads of the database in `home`, or of all.
  void BackAll(const std::string* home);

 private:
  const std::vector<int> cpus_;
  const bool anywhere_;
  std::atomic<bool> failed_{false};
};

}  // namespace pulse::lsm
