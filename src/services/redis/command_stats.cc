#include "services/redis/command_stats.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// What Redis counts as its longest.
constexpr double kMostNanos = 1e9;
constexpr double kPercentilesShown[] = {50, 99, 99.9};

// The bounds of LATENCY HISTOGRAM, in nanoseconds: a 128th above 1024, and each the double.
int64_t Bound(int octave) { return (int64_t{1} << octave) + (int64_t{1} << (octave - 7)) - 1; }
int OctaveOf(double nanos) {
  int octave = 10;
  while (static_cast<double>(Bound(octave)) < nanos) ++octave;
  return octave;
}

}  // namespace

CommandStats::~CommandStats() {
  for (ShardCounts& shard : shards_) {
    for (Counts& c : shard.of_command) delete c.latencies.load();
  }
}

LatencyHistogram* CommandStats::MakeLatencies(Counts* counts) {
  auto made = std::make_unique<LatencyHistogram>();
  LatencyHistogram* there = nullptr;
  // Another thread of the shard may have made one.
  if (!counts->latencies.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) {
    return there;
  }
  return made.release();
}

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
      LatencyHistogram* latencies = c.latencies.load(std::memory_order_acquire);
      if (latencies != nullptr) latencies->Clear();
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

uint64_t CommandStats::Sum(Command command, LatencyHistogram::Counts* counts) const {
  for (const ShardCounts& shard : shards_) {
    const Counts& c = shard.of_command[static_cast<size_t>(command)];
    const LatencyHistogram* latencies = c.latencies.load(std::memory_order_acquire);
    if (latencies != nullptr) latencies->AddTo(counts);
  }
  uint64_t calls = 0;
  for (const uint64_t count : *counts) calls += count;
  return calls;
}

void CommandStats::AppendLatencies(std::string* out) const {
  const double cycles_per_nano = rate_.PerNano();
  for (const CommandInfo* command : AllCommands()) {
    LatencyHistogram::Counts counts{};
    const uint64_t calls = (command->flags & kPrivate) != 0 ? 0 : Sum(command->id, &counts);
    if (calls == 0) continue;
    absl::StrAppend(out, "latency_percentiles_usec_", AbslOf(command->name), ":");
    for (const double percentile : kPercentilesShown) {
      const auto rank = std::max<uint64_t>(
          1, static_cast<uint64_t>(std::ceil(static_cast<double>(calls) * percentile / 100)));
      size_t index = 0;
      for (uint64_t seen = counts[0]; seen < rank; seen += counts[index]) ++index;
      const double nanos = std::min(
          static_cast<double>(LatencyHistogram::LastOf(index)) / cycles_per_nano, kMostNanos);
      absl::StrAppend(out, percentile == kPercentilesShown[0] ? "p" : ",p", percentile, "=",
                      absl::StrFormat("%.3f", nanos / 1e3));
    }
    absl::StrAppend(out, "\r\n");
  }
}

bool CommandStats::ReadLatencies(Command command, Latencies* latencies) const {
  const double cycles_per_nano = rate_.PerNano();
  LatencyHistogram::Counts counts{};
  latencies->calls = Sum(command, &counts);
  if (latencies->calls == 0) return false;
  uint64_t seen = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    seen += counts[i];
    const double nanos = static_cast<double>(LatencyHistogram::LastOf(i)) / cycles_per_nano;
    const int64_t micros = Bound(OctaveOf(std::min(nanos, kMostNanos))) / 1000;
    if (latencies->until.empty() || latencies->until.back().first != micros) {
      latencies->until.emplace_back(micros, seen);
    } else {
      latencies->until.back().second = seen;
    }
  }
  return true;
}

}  // namespace pulse::redis
