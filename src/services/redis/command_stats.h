// How often each command was carried out, how long that took, and how often it was refused or
// failed: INFO commandstats.
//
// Threads: any. Each adds to the counters of its shard, so that threads do not fight for a cache
// line; who reads adds them up. Nothing blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/cycle_rate.h"
#include "services/redis/commands/commands.h"

namespace pulse::redis {

class CommandStats {
 public:
  // `cycles` for all `calls` together.
  void Add(Command command, uint64_t calls, uint64_t cycles, bool failed) {
    Counts& counts = shards_[Shard()].of_command[static_cast<size_t>(command)];
    counts.calls.fetch_add(calls, std::memory_order_relaxed);
    counts.cycles.fetch_add(cycles, std::memory_order_relaxed);
    if (failed) counts.failed.fetch_add(1, std::memory_order_relaxed);
  }
  // It was not carried out: wrong arguments, or the user may not.
  void AddRejected(Command command) {
    shards_[Shard()].of_command[static_cast<size_t>(command)].rejected.fetch_add(
        1, std::memory_order_relaxed);
  }
  void Reset();
  // The lines of INFO, of commands that were given at all.
  void Append(std::string* out) const;

 private:
  static constexpr size_t kShards = 8;
  struct Counts {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> cycles{0};
    std::atomic<uint64_t> failed{0};
    std::atomic<uint64_t> rejected{0};
  };
  struct alignas(64) ShardCounts {
    std::array<Counts, kCommands> of_command;
  };
  static size_t Shard();

  std::array<ShardCounts, kShards> shards_;
  CycleRate rate_;
};

}  // namespace pulse::redis
