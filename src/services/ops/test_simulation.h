// Simulations of the scheduler: lanes with rates, and a clock that jumps from event to event.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "services/ops/scheduler.h"

namespace pulse::ops {

constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kChunk = 512 << 10;
constexpr size_t kWide = 1 << 20;  // a window that is never full

struct SimulatedEngine {
  Side side = Side::kHost;
  int lanes = 1;
  double rate = 1e8;      // bytes per second of a lane
  int64_t dies_at = -1;   // its lanes answer no more from then on, and say so
  int64_t hangs_at = -1;  // its lanes answer no more, and say nothing
  int64_t changes_at = -1;
  double rate_after = 0;
  int64_t before = 0;  // what it needs before its first chunk
  // Its lanes are tasks of one pipeline with this rate, each late by the latency.
  bool pipeline = false;
  int64_t latency = 0;
  double rate_beside = 0;  // while the other side is at work; 0: the same
};

struct Outcome {
  int64_t end = 0;               // when the last chunk had its first result
  std::vector<uint64_t> chunks;  // whose result was used, by engine
  std::vector<std::set<uint64_t>> taken;
  uint64_t begun = 0;
  size_t most_ahead = 0;
  bool complete = false;
  std::optional<PaperVerdict> verdict;
};

// Runs `total` bytes in chunks of `chunk`. Every chunk is delivered as soon as those before it are.
// The scheduler expects them to have `expected` bytes; 0: what they have.
inline Outcome Simulate(const std::vector<SimulatedEngine>& engines, uint64_t total, uint64_t chunk,
                        Placement placement, size_t window, bool total_known, uint64_t expected = 0,
                        std::optional<PaperVerdict> verdict = std::nullopt) {
  Scheduler::Options options;
  options.placement = placement;
  options.window = window;
  options.verdict = verdict;
  options.chunk_bytes = expected == 0 ? chunk : expected;
  std::vector<Scheduler::EngineState> states;
  // Engines that were set up.
  std::vector<bool> made(engines.size(), false);
  for (size_t i = 0; i < engines.size(); ++i) {
    states.push_back({engines[i].side,
                      engines[i].lanes,
                      {},
                      [&, i](uint64_t) { return made[i] ? int64_t{0} : engines[i].before; },
                      engines[i].pipeline});
  }
  Scheduler scheduler(options, states);
  if (total_known) scheduler.SetTotal(total);

  struct Lane {
    int engine;
    bool busy = false;
    bool gone = false;
    uint64_t attempt = 0;
    int64_t before = 0;
    uint64_t chunk = 0;
    int64_t done_at = 0;
    bool dies = false;
    bool hangs = false;
  };
  std::vector<Lane> lanes;
  for (size_t i = 0; i < engines.size(); ++i) {
    for (int n = 0; n < engines[i].lanes; ++n) lanes.push_back({static_cast<int>(i)});
  }
  const auto bytes_of = [&](uint64_t number) { return std::min(chunk, total - number * chunk); };
  const uint64_t chunks = (total + chunk - 1) / chunk;
  Outcome outcome;
  outcome.chunks.resize(engines.size());
  outcome.taken.resize(engines.size());
  std::set<uint64_t> done;
  uint64_t delivered = 0;
  int64_t now = 0;
  std::vector<int64_t> free_at(engines.size(), 0);  // pipelines
  const auto begin = [&](Lane& lane, uint64_t number) {
    const SimulatedEngine& engine = engines[static_cast<size_t>(lane.engine)];
    lane.busy = true;
    lane.chunk = number;
    lane.attempt = scheduler.Started(lane.engine, number, bytes_of(number), now);
    scheduler.Loaded(lane.attempt, now);
    const auto of = static_cast<size_t>(lane.engine);
    lane.before = made[of] ? 0 : engine.before;
    made[of] = true;
    const bool changed = engine.changes_at >= 0 && now >= engine.changes_at;
    const bool beside = std::any_of(lanes.begin(), lanes.end(), [&](const Lane& other) {
      return other.busy && engines[static_cast<size_t>(other.engine)].side != engine.side;
    });
    const double rate = changed                            ? engine.rate_after
                        : beside && engine.rate_beside > 0 ? engine.rate_beside
                                                           : engine.rate;
    const auto work = static_cast<int64_t>(static_cast<double>(bytes_of(number)) / rate * 1e9);
    lane.done_at = now + lane.before + work;
    if (engine.pipeline) {
      free_at[of] = std::max(free_at[of], now + lane.before) + work;
      lane.done_at = free_at[of] + engine.latency;
    }
    lane.dies = engine.dies_at >= 0 && lane.done_at >= engine.dies_at;
    if (lane.dies) lane.done_at = std::max(now, engine.dies_at);
    lane.hangs = engine.hangs_at >= 0 && lane.done_at >= engine.hangs_at;
    ++outcome.begun;
    outcome.taken[static_cast<size_t>(lane.engine)].insert(number);
  };
  while (now < int64_t{100'000} * kSecond) {
    bool again = true;
    while (again) {
      again = false;
      for (Lane& lane : lanes) {
        if (lane.busy || lane.gone) continue;
        const auto decision = scheduler.Next(lane.engine, now);
        switch (decision.act) {
          case Scheduler::Act::kTake:
            again = true;
            if (scheduler.claimed() == chunks) {
              scheduler.End();
            } else {
              const uint64_t number = scheduler.claimed();
              if (scheduler.Claimed(lane.engine, bytes_of(number))) begin(lane, number);
              outcome.most_ahead =
                  std::max(outcome.most_ahead, static_cast<size_t>(number - delivered));
            }
            break;
          case Scheduler::Act::kDo:
          case Scheduler::Act::kRedo:
            again = true;
            begin(lane, decision.chunk);
            break;
          case Scheduler::Act::kDone:
            lane.gone = true;
            break;
          case Scheduler::Act::kWait:
            break;
        }
      }
    }
    if (done.size() == chunks) {
      outcome.complete = true;
      outcome.verdict = scheduler.verdict();
      return outcome;
    }
    // The next event; those who wait look again every 5 ms.
    int64_t next = now + 5'000'000;
    for (const Lane& lane : lanes) {
      if (lane.busy && !lane.hangs) next = std::min(next, lane.done_at);
    }
    now = next;
    for (Lane& lane : lanes) {
      if (!lane.busy || lane.hangs || lane.done_at > now) continue;
      lane.busy = false;
      if (lane.dies) {
        scheduler.Lost(lane.attempt);
        lane.gone = true;
        continue;
      }
      if (!scheduler.Finished(lane.attempt, now, lane.before)) continue;
      EXPECT_TRUE(done.insert(lane.chunk).second) << "chunk " << lane.chunk << " was first twice";
      ++outcome.chunks[static_cast<size_t>(lane.engine)];
      outcome.end = now;
      while (done.contains(delivered)) scheduler.Delivered(++delivered);
    }
  }
  return outcome;
}

inline double Seconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }

inline Placement PlacementOf(absl::string_view text) { return *Placement::Parse(text); }

}  // namespace pulse::ops
