// CompressionShare: how much of one table's compression the thread that merges may do itself. From
// RocksDB 10.7 on that thread compresses a block whenever all places for blocks are taken, so that
// it and the workers are equally busy. Where the workers have the agent's CPUs that is more than
// the host should do: the thread waits for them instead, unless it has used less than its part of
// the CPU time of all of them. Where they do not progress it does not wait: others may have the
// agent's CPUs, or there is nothing left for the workers to do.
//
// Shared by the threads of one table. Thread-safe; BeforeOwnBlock blocks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "base/nanos_clock.h"

namespace pulse::lsm {

class CompressionShare {
 public:
  // The part of a table's CPU time that the merging thread may use before it waits. With the rest
  // of a compaction, which is the host's, that is less than half.
  static constexpr double kHostPart = 0.42;

  // On the thread that merges. The clock is for tests; it tells the calling thread's CPU time.
  explicit CompressionShare(NanosClock cpu = [] { return ThreadCpuNanos(); })
      : cpu_(cpu), start_(cpu()) {}

  // On the merging thread, before it compresses a block.
  void BeforeOwnBlock();
  // On a worker that has compressed a block; `nanos`: its CPU time since its last.
  void OnBlock(int64_t nanos);

 private:
  bool MayCompress() const {
    const auto mine = static_cast<double>(cpu_() - start_);
    const auto theirs = static_cast<double>(workers_.load(std::memory_order_relaxed));
    return mine * (1 - kHostPart) <= theirs * kHostPart;
  }

  const NanosClock cpu_;
  const int64_t start_;
  std::atomic<int64_t> workers_{0};  // CPU time
  std::atomic<uint64_t> blocks_{0};  // that they have compressed
  std::atomic<bool> waiting_{false};
  std::mutex mu_;
  std::condition_variable progress_;
};

}  // namespace pulse::lsm
