#include "services/redis/command_stats.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {

size_t CommandStats::Shard() {
  static std::atomic<size_t> next{0};
  thread_local const size_t shard = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return shard;
}

void CommandStats::Reset() {
  for (ShardCounts& shard : shards_) {
    for (Counts& c : shard.of_command) {
      for (auto* counter : {&c.calls, &c.cycles, &c.failed, &c.rejected}) {
        counter->store(0, std::memory_order_relaxed);
      }
    }
  }
}

void CommandStats::Append(std::string* out) const {
  const double cycles_per_micro = rate_.PerNano() * 1e3;
  for (const CommandInfo* command : AllCommands()) {
    if ((command->flags & kPrivate) != 0) continue;
    uint64_t calls = 0;
    uint64_t cycles = 0;
    uint64_t failed = 0;
    uint64_t rejected = 0;
    for (const ShardCounts& shard : shards_) {
      const Counts& c = shard.of_command[static_cast<size_t>(command->id)];
      calls += c.calls.load(std::memory_order_relaxed);
      cycles += c.cycles.load(std::memory_order_relaxed);
      failed += c.failed.load(std::memory_order_relaxed);
      rejected += c.rejected.load(std::memory_order_relaxed);
    }
    if (calls + rejected == 0) continue;
    const double micros = static_cast<double>(cycles) / cycles_per_micro;
    absl::StrAppend(out, "cmdstat_", AbslOf(command->name), ":calls=", calls,
                    ",usec=", static_cast<uint64_t>(micros),
                    absl::StrFormat(",usec_per_call=%.2f",
                                    calls == 0 ? 0 : micros / static_cast<double>(calls)),
                    ",rejected_calls=", rejected, ",failed_calls=", failed, "\r\n");
  }
}

}  // namespace pulse::redis
