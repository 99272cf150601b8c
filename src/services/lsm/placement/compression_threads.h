// CompressionThreads: the threads that RocksDB starts to compress the blocks of a table
// (CompressionOptions::parallel_threads), on an embedded agent's CPUs. RocksDB offers no way to
// place them, but a thread inherits the CPUs of the one that starts it, and RocksDB starts them
// when it makes a table's builder: between the file's opening and its first block. So the thread
// that opens an output has the agent's CPUs from then until the first of
//   the output's first append, which may come from one of the threads that were started;
//   its own next read of an input;
//   the output's end.
// That is a block's time for each table. Without parallel_threads the output's own thread appends
// first, and goes back with that.
//
// The threads end with their table. Where RocksDB tells nobody of them (before 11.8) their CPU time
// is sampled: what one has used since the last look before its end (2 ms at most, while
// anything is appended) is not counted.
//
// Thread-safe; blocks for a few system calls, and Start::End for the reading of a directory.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "services/lsm/core/counters.h"

namespace pulse::lsm {

class CompressionThreads {
 public:
  // The calling thread has the agent's CPUs for as long as this is not ended.
  class Start {
   public:
    Start(CompressionThreads* threads, const cpu_set_t& former);
    ~Start() { End(); }
    Start(const Start&) = delete;
    Start& operator=(const Start&) = delete;
    // From any thread, more than once. The thread has its former CPUs when it returns.
    void End() { End(/*find_threads=*/true); }

   private:
    friend class CompressionThreads;
    void End(bool find_threads);

    CompressionThreads* const threads_;
    const pid_t thread_;
    const cpu_set_t former_;
    std::mutex mu_;
    bool ended_ = false;
  };

  // `cpus`: the agent's, not empty. `counters` must outlive this object, and this object every
  // Start.
  CompressionThreads(std::vector<int> cpus, AtomicCounters* counters);

  // Null where the calling thread has the agent's CPUs anyhow (a whole compaction), or may use some
  // of them, so that nothing would be gained, or cannot be moved; the last two are logged once.
  std::shared_ptr<Start> Begin();
  // Ends that of the calling thread, if there is one.
  static void EndMine();

  // For a RocksDB that tells of blocks (compression_manager.h), where nothing need be inherited or
  // sampled. Ends that of the calling thread; null if there is none.
  static CompressionThreads* TakeMine();
  // The calling thread has the agent's CPUs until it ends, and its time is counted exactly.
  void Adopt();
  // Counts the CPU time of the calling thread, which was adopted, until now.
  static void CountMine();

  // Counts the time of the threads that there are, if that was not done just now.
  void Sample();
  // At once.
  void SampleNow();

 private:
  bool HasAgentsCpus(pid_t thread) const;
  // The threads that have the name of `maker` and the agent's CPUs, and are not on them for
  // another reason.
  void FindThreads(pid_t maker);

  const std::vector<int> cpus_;
  cpu_set_t set_;
  AtomicCounters* const counters_;
  std::atomic<int64_t> next_sample_{0};
  std::mutex mu_;
  std::map<pid_t, int64_t> threads_;  // CPU time so far
};

}  // namespace pulse::lsm
