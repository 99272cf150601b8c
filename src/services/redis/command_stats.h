// How often each command was carried out, how long that took, and how often it was refused or
// failed: INFO commandstats and latencystats, LATENCY HISTOGRAM.
//
// Of commands that were carried out together, each is counted with its part of the time.
//
// Threads: any. Each adds to the counters of its shard, so that threads do not fight for a cache
// line; who reads adds them up. A shard has a histogram of a command from its first call on.
// Nothing blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/cycle_rate.h"
#include "services/redis/commands/commands.h"
#include "services/redis/latency_histogram.h"

namespace pulse::redis {

class CommandStats {
 public:
  // `rate`: of the cycles that are added.
  explicit CommandStats(const CycleRate& rate = CycleRate()) : rate_(rate) {}
  ~CommandStats();
  CommandStats(const CommandStats&) = delete;
  CommandStats& operator=(const CommandStats&) = delete;

  // `cycles` for all `calls` together.
  void Add(Command command, uint64_t calls, uint64_t cycles, bool failed) {
    Counts& counts = shards_[Shard()].of_command[static_cast<size_t>(command)];
    counts.calls.fetch_add(calls, std::memory_order_relaxed);
    counts.cycles.fetch_add(cycles, std::memory_order_relaxed);
    if (failed) counts.failed.fetch_add(1, std::memory_order_relaxed);
    if (!keeps_latencies_.load(std::memory_order_relaxed)) return;
    LatencyHistogram* latencies = counts.latencies.load(std::memory_order_acquire);
    if (latencies == nullptr) latencies = MakeLatencies(&counts);
    latencies->Add(calls == 1 ? cycles : cycles / calls, calls);
  }
  // Carried out within another command, whose time has its own.
  void AddWithin(Command command) {
    shards_[Shard()].of_command[static_cast<size_t>(command)].calls.fetch_add(
        1, std::memory_order_relaxed);
  }
  // It was not carried out: wrong arguments, or the user may not.
  void AddRejected(Command command) {
    shards_[Shard()].of_command[static_cast<size_t>(command)].rejected.fetch_add(
        1, std::memory_order_relaxed);
  }
  void Reset();
  // The lines of INFO, of commands that were given at all.
  void Append(std::string* out) const;
  // ... of INFO latencystats.
  void AppendLatencies(std::string* out) const;
  // How many calls took at most so many microseconds, by the bounds that Redis has. False: there
  // were none.
  struct Latencies {
    uint64_t calls = 0;
    std::vector<std::pair<int64_t, uint64_t>> until;  // where it grows
  };
  bool ReadLatencies(Command command, Latencies* latencies) const;

  // CONFIG's latency-tracking.
  bool keeps_latencies() const { return keeps_latencies_.load(std::memory_order_relaxed); }
  void KeepLatencies(bool keep) { keeps_latencies_.store(keep, std::memory_order_relaxed); }
  static constexpr const char* kPercentiles = "50 99 99.9";

 private:
  static constexpr size_t kShards = 8;
  struct Counts {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> cycles{0};
    std::atomic<uint64_t> failed{0};
    std::atomic<uint64_t> rejected{0};
    std::atomic<LatencyHistogram*> latencies{nullptr};  // of the shard
  };
  struct alignas(64) ShardCounts {
    std::array<Counts, kCommands> of_command;
  };
  static size_t Shard();
  static LatencyHistogram* MakeLatencies(Counts* counts);
  // How many calls there are of each class. Returns how many in all.
  uint64_t Sum(Command command, LatencyHistogram::Counts* counts) const;

  std::array<ShardCounts, kShards> shards_;
  std::atomic<bool> keeps_latencies_{true};
  const CycleRate rate_;
};

}  // namespace pulse::redis
