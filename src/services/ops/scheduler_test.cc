// The decisions by simulation: lanes with rates, a clock that jumps from event to event.
#include "services/ops/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/testing.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

constexpr int64_t kSecond = 1'000'000'000;

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
Outcome Simulate(const std::vector<SimulatedEngine>& engines, uint64_t total, uint64_t chunk,
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

double Seconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }

double SumOfRates(const std::vector<SimulatedEngine>& engines) {
  double sum = 0;
  for (const auto& engine : engines) sum += engine.rate * (engine.pipeline ? 1 : engine.lanes);
  return sum;
}

double SlowestChunk(const std::vector<SimulatedEngine>& engines, uint64_t chunk) {
  double slowest = 0;
  for (const auto& engine : engines) {
    slowest = std::max(slowest, static_cast<double>(chunk) / engine.rate);
  }
  return slowest;
}

constexpr uint64_t kChunk = 512 << 10;
constexpr size_t kWide = 1 << 20;

TEST(SchedulerModel, AnyRates_LoseAtMostOneChunkOfTheSlowest) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < testing_util::Rounds(2000); ++round) {
    std::vector<SimulatedEngine> engines(1 + random() % 4);
    for (auto& engine : engines) {
      engine.lanes = 1 + static_cast<int>(random() % 4);
      engine.rate = 1e6 * std::exp2(static_cast<double>(random() % 1000) / 100);
    }
    const uint64_t total = 1 + random() % (400 * kChunk);
    const Outcome outcome = Simulate(engines, total, kChunk, Placement(), kWide, true);
    ASSERT_TRUE(outcome.complete);
    const double ideal = static_cast<double>(total) / SumOfRates(engines);
    // 5 ms: how late a lane that waits looks again.
    EXPECT_LE(Seconds(outcome.end), ideal + SlowestChunk(engines, kChunk) + 0.006)
        << "round " << round << ", " << total << " bytes";
  }
}

TEST(SchedulerModel, UnknownTotal_LosesLittleMore) {
  std::mt19937_64 random(TestSeed() + 1);
  for (int round = 0; round < 500; ++round) {
    std::vector<SimulatedEngine> engines(2);
    engines[0].rate = 4e8;
    engines[1].rate = 4e8 / (1 + static_cast<double>(random() % 50));
    const uint64_t total = 1 + random() % (400 * kChunk);
    const Outcome outcome = Simulate(engines, total, kChunk, Placement(), kWide, false);
    ASSERT_TRUE(outcome.complete);
    const double ideal = static_cast<double>(total) / SumOfRates(engines);
    EXPECT_LE(Seconds(outcome.end), ideal + SlowestChunk(engines, kChunk) + 0.006);
  }
}

TEST(SchedulerModel, MuchSlowerEngine_IsUsedButNotForTheLastChunks) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e9;
  engines[1].rate = 1e8;
  const Outcome outcome = Simulate(engines, 110 * kChunk, kChunk, Placement(), kWide, true);
  ASSERT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.chunks[0] + outcome.chunks[1], 110u);
  EXPECT_GE(outcome.chunks[1], 8u);
  EXPECT_LE(outcome.chunks[1], 10u);
  for (uint64_t chunk = 105; chunk < 110; ++chunk) {
    EXPECT_FALSE(outcome.taken[1].contains(chunk)) << chunk;
  }
}

// As pieces of a compressed file, which say how large they are only when they are read.
TEST(SchedulerModel, ChunksOfOtherSizes_AreSharedAsIfTheirSizeWasKnown) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e9;
  engines[1].rate = 1e8;
  for (const uint64_t expected : {kChunk / 16, kChunk, 16 * kChunk}) {
    const Outcome outcome =
        Simulate(engines, 110 * kChunk, kChunk, Placement(), kWide, true, expected);
    ASSERT_TRUE(outcome.complete);
    EXPECT_GE(outcome.chunks[1], 8u) << expected;
    EXPECT_LE(outcome.chunks[1], 10u) << expected;
    for (uint64_t chunk = 105; chunk < 110; ++chunk) {
      EXPECT_FALSE(outcome.taken[1].contains(chunk)) << expected << ", " << chunk;
    }
  }
}

TEST(SchedulerModel, EqualLanes_RedoNothing) {
  std::vector<SimulatedEngine> engines(1);
  engines[0].lanes = 2;
  const Outcome outcome = Simulate(engines, 101 * kChunk, kChunk, Placement(), 8, true);
  ASSERT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.begun, 101u);
}

TEST(SchedulerModel, NarrowWindow_IsKept) {
  std::mt19937_64 random(TestSeed() + 2);
  for (int round = 0; round < 200; ++round) {
    std::vector<SimulatedEngine> engines(3);
    for (auto& engine : engines) engine.rate = 1e6 * static_cast<double>(1 + random() % 100);
    const size_t window = 1 + random() % 8;
    const Outcome outcome = Simulate(engines, 100 * kChunk, kChunk, Placement(), window, true);
    ASSERT_TRUE(outcome.complete);
    EXPECT_LT(outcome.most_ahead, window);
  }
}

TEST(SchedulerModel, EngineThatDies_ItsChunkIsDoneByOthers) {
  std::mt19937_64 random(TestSeed() + 3);
  for (int round = 0; round < 300; ++round) {
    std::vector<SimulatedEngine> engines(2);
    engines[1].side = Side::kAgent;
    engines[1].lanes = 2;
    engines[1].dies_at = static_cast<int64_t>(random() % (kSecond / 2));
    for (const Placement::Kind kind :
         {Placement::Kind::kAuto, Placement::Kind::kSplit, Placement::Kind::kAgent}) {
      const Outcome outcome =
          Simulate(engines, 200 * kChunk, kChunk, {kind, 60}, 16, round % 2 == 0);
      ASSERT_TRUE(outcome.complete);
      EXPECT_EQ(outcome.chunks[0] + outcome.chunks[1], 200u);
    }
  }
}

// Chunks that wait in a pipeline die, or hang, with it; one that is seen as slow is asked again.
TEST(SchedulerModel, PipelinesThatFail_TheirChunksAreDoneByOthers) {
  std::mt19937_64 random(TestSeed() + 11);
  for (int round = 0; round < 500; ++round) {
    std::vector<SimulatedEngine> engines(2 + random() % 2);
    engines[0].rate = 1e7 * std::exp2(static_cast<double>(random() % 700) / 100);
    for (size_t i = 1; i < engines.size(); ++i) {
      engines[i].side = Side::kAgent;
      engines[i].pipeline = true;
      engines[i].lanes = 1 + static_cast<int>(random() % 16);
      engines[i].rate = 1e7 * std::exp2(static_cast<double>(random() % 800) / 100);
      engines[i].latency = static_cast<int64_t>(random() % 5'000'000);
      const auto when = static_cast<int64_t>(random() % (kSecond / 4));
      if (random() % 3 == 0) engines[i].dies_at = when;
      // What hangs at two engines, a third does not do.
      if (i == 1 && random() % 3 == 0) engines[i].hangs_at = when;
      if (random() % 3 == 0) {
        engines[i].changes_at = when;
        engines[i].rate_after = engines[i].rate / static_cast<double>(1 + random() % 1000);
      }
    }
    const uint64_t chunks = 1 + random() % 300;
    const size_t window = 1 + random() % 64;
    const Outcome outcome =
        Simulate(engines, chunks * kChunk, kChunk, Placement(), window, random() % 2 == 0);
    ASSERT_TRUE(outcome.complete) << "round " << round;
    EXPECT_LE(outcome.most_ahead, window);
  }
}

TEST(SchedulerModel, EngineThatHangs_ItsChunksAreDoneTwice) {
  std::vector<SimulatedEngine> engines(2);
  engines[1].hangs_at = kSecond / 10;
  const Outcome outcome = Simulate(engines, 200 * kChunk, kChunk, Placement(), 16, true);
  ASSERT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.begun, 201u);
  // One lane did nearly everything; all that the hanging one costs is how long it seemed late.
  EXPECT_LE(Seconds(outcome.end), 200 * kChunk / 1e8 + 0.1);
}

TEST(SchedulerModel, EngineThatSlowsDown_IsLeftItsShare) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = engines[1].rate = 1e8;
  engines[1].changes_at = kSecond / 2;
  engines[1].rate_after = 1e6;
  const Outcome outcome = Simulate(engines, 400 * kChunk, kChunk, Placement(), 64, true);
  ASSERT_TRUE(outcome.complete);
  // Half a second of both, then one of them and a little.
  const double rest = 400 * kChunk - 2e8 * 0.5;
  EXPECT_LE(Seconds(outcome.end), 0.5 + rest / 1.01e8 + kChunk / 1e6);
}

TEST(SchedulerModel, Split_EachSideDoesItsPercentage) {
  std::vector<SimulatedEngine> engines(2);
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e7;
  for (const int percent : {0, 1, 30, 50, 99, 100}) {
    const Outcome outcome =
        Simulate(engines, 200 * kChunk, kChunk, {Placement::Kind::kSplit, percent}, 16, true);
    ASSERT_TRUE(outcome.complete);
    EXPECT_EQ(outcome.chunks[1], static_cast<uint64_t>(2 * percent));
  }
}

TEST(SchedulerModel, HostOrAgent_OnlyThatSideWorks) {
  std::vector<SimulatedEngine> engines(2);
  engines[1].side = Side::kAgent;
  const Outcome host =
      Simulate(engines, 50 * kChunk, kChunk, {Placement::Kind::kHost, 0}, 16, true);
  EXPECT_EQ(host.chunks[0], 50u);
  const Outcome agent =
      Simulate(engines, 50 * kChunk, kChunk, {Placement::Kind::kAgent, 0}, 16, true);
  EXPECT_EQ(agent.chunks[1], 50u);
}

// The best of all fixed percentages.
int64_t BestSplit(const std::vector<SimulatedEngine>& engines, uint64_t total, uint64_t chunk,
                  size_t window) {
  int64_t best = INT64_MAX;
  for (int percent = 0; percent <= 100; ++percent) {
    const Placement split{Placement::Kind::kSplit, percent};
    best = std::min(best, Simulate(engines, total, chunk, split, window, true).end);
  }
  return best;
}

// No percentage fits both halves.
TEST(SchedulerModel, SpeedThatChangesOnTheWay_AutoIsAboveTheBestSplit) {
  for (const double factor : {2.0, 4.0, 10.0}) {
    for (const size_t changing : {0u, 1u}) {
      std::vector<SimulatedEngine> engines(2);
      engines[0].rate = engines[1].rate = 1e8;
      engines[1].side = Side::kAgent;
      engines[changing].changes_at = kSecond / 2;
      engines[changing].rate_after = 1e8 / factor;
      const Outcome outcome = Simulate(engines, 400 * kChunk, kChunk, Placement(), 16, true);
      ASSERT_TRUE(outcome.complete);
      EXPECT_LT(outcome.end, BestSplit(engines, 400 * kChunk, kChunk, 16)) << factor;
    }
  }
}

// Deep pipelines and little to do: what waits in one, the other side would have done sooner.
TEST(SchedulerModel, PipelineBesideHost_LosesTwiceItsLatencyAtMost) {
  std::mt19937_64 random(TestSeed() + 10);
  for (int round = 0; round < 100; ++round) {
    std::vector<SimulatedEngine> engines(2);
    engines[0].rate = 5e7 * std::exp2(static_cast<double>(random() % 600) / 100);
    engines[1].side = Side::kAgent;
    engines[1].pipeline = true;
    engines[1].lanes = 8 << (random() % 2);
    engines[1].rate = 1e9 * std::exp2(static_cast<double>(random() % 250) / 100);
    engines[1].latency = static_cast<int64_t>(random() % 700'000);
    const uint64_t total = (16 + random() % 100) * kChunk;
    const auto window = 4 * (static_cast<size_t>(engines[1].lanes) + 1);
    const Outcome outcome = Simulate(engines, total, kChunk, Placement(), window, true);
    ASSERT_TRUE(outcome.complete);
    // Until the first chunk is back, nobody knows how many hide the latency; and the last chunk of
    // a slow host is done again once all else is.
    const double lost = Seconds(outcome.end - BestSplit(engines, total, kChunk, window));
    EXPECT_LE(lost, 2 * Seconds(engines[1].latency) + 3 * kChunk / engines[1].rate + 5e-4)
        << "round " << round << ": host " << engines[0].rate << ", card " << engines[1].rate
        << ", latency " << engines[1].latency << ", " << total << " bytes";
  }
}

// The cards of the profiles that need no set-up, as `pulse bench ops` has them.
TEST(SchedulerModel, CardsOfTheProfiles_NearlyAsGoodAsTheBestSplit) {
  struct Row {
    double host;
    double card;
    int64_t latency;
    int depth;
    uint64_t chunks;
  };
  constexpr uint64_t kMiB = 1 << 20;
  for (const Row& row : {Row{7e7, 2.12e9, 650'000, 8, 35}, Row{5e8, 2.12e9, 650'000, 8, 35},
                         Row{3e8, 1.29e9, 650'000, 8, 35}, Row{8e8, 1.29e9, 650'000, 8, 35},
                         Row{2e9, 1.34e9, 10'000, 8, 16}, Row{3e8, 1.93e9, 300'000, 16, 35},
                         Row{8e8, 1.93e9, 300'000, 16, 35}, Row{3e9, 5.58e9, 190'000, 16, 35},
                         Row{2e9, 1.34e9, 10'000, 16, 16}}) {
    std::vector<SimulatedEngine> engines(2);
    engines[0].rate = row.host;
    engines[1] = {Side::kAgent, row.depth, row.card};
    engines[1].pipeline = true;
    engines[1].latency = row.latency;
    const auto window = 4 * (static_cast<size_t>(row.depth) + 1);
    const uint64_t total = row.chunks * kMiB;
    const Outcome outcome = Simulate(engines, total, kMiB, Placement(), window, true);
    ASSERT_TRUE(outcome.complete);
    EXPECT_LE(0.97 * Seconds(outcome.end), Seconds(BestSplit(engines, total, kMiB, window)))
        << "host " << row.host << ", card " << row.card;
  }
}

Placement PlacementOf(absl::string_view text) { return *Placement::Parse(text); }

TEST(SchedulerModel, SetUp_OnlyForBatchesAboveItsBreakEven) {
  std::mt19937_64 random(TestSeed() + 9);
  for (int round = 0; round < 200; ++round) {
    std::vector<SimulatedEngine> engines(2);
    engines[0].rate = 1e8 * static_cast<double>(1 + random() % 5);
    engines[1].side = Side::kAgent;
    engines[1].rate = 2e9;
    engines[1].before = static_cast<int64_t>(random() % 300 + 50) * 1'000'000;
    // What the host does meanwhile.
    const double even = engines[0].rate * static_cast<double>(engines[1].before) * 1e-9;
    const auto bytes = [&](double times) {
      return static_cast<uint64_t>(times * even / kChunk + 1) * kChunk;
    };
    const Outcome below = Simulate(engines, bytes(0.8), kChunk, Placement(), kWide, true);
    ASSERT_TRUE(below.complete);
    EXPECT_EQ(below.taken[1].size(), 0u) << round;
    const Outcome above = Simulate(engines, bytes(8), kChunk, Placement(), kWide, true);
    ASSERT_TRUE(above.complete);
    EXPECT_GT(above.chunks[1], 0u) << round;
    EXPECT_LT(Seconds(above.end), static_cast<double>(bytes(8)) / engines[0].rate);
  }
}

TEST(SchedulerModel, PaperAndSlowerAgent_C1LeavesItOut) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 2e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 1.9e8;
  const Outcome outcome =
      Simulate(engines, 200 * kChunk, kChunk, PlacementOf("paper"), kWide, true);
  ASSERT_TRUE(outcome.complete);
  // Its first chunk tells.
  EXPECT_EQ(outcome.taken[1].size(), 1u);
  const Outcome together = Simulate(engines, 200 * kChunk, kChunk, Placement(), kWide, true);
  EXPECT_LT(Seconds(together.end), 0.6 * Seconds(outcome.end));
}

TEST(SchedulerModel, PaperAndFasterAgent_BothWork) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e8;
  const Outcome outcome =
      Simulate(engines, 200 * kChunk, kChunk, PlacementOf("paper"), kWide, true);
  ASSERT_TRUE(outcome.complete);
  EXPECT_NEAR(static_cast<double>(outcome.chunks[0]), 50, 3);
  EXPECT_NEAR(static_cast<double>(outcome.chunks[1]), 150, 3);
}

// Both use the same memory, say: together they have less than the agent alone.
TEST(SchedulerModel, PaperAndAgentThatIsFasterAlone_C2StopsSharing) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e8;
  engines[1].rate_beside = 1.5e8;
  const uint64_t total = 400 * kChunk;
  const double alone = static_cast<double>(total) / engines[1].rate;
  const Outcome paper = Simulate(engines, total, kChunk, PlacementOf("paper"), kWide, true);
  ASSERT_TRUE(paper.complete);
  // Only while both are measured.
  EXPECT_LE(paper.chunks[0], 12u);
  EXPECT_LT(Seconds(paper.end), 1.06 * alone);
  // What is left to lanes that pull is slower.
  const Outcome together = Simulate(engines, total, kChunk, Placement(), kWide, true);
  EXPECT_GT(Seconds(together.end), 1.15 * alone);
}

// The verdict of one stream is that of the next, which is too short to measure.
TEST(SchedulerModel, PaperAndVerdictOfAnEarlierStream_IsActedOn) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e8;
  engines[1].rate_beside = 1.5e8;
  const Outcome first = Simulate(engines, 400 * kChunk, kChunk, PlacementOf("paper"), kWide, true);
  ASSERT_TRUE(first.verdict.has_value());
  EXPECT_FALSE(first.verdict->both);
  const Outcome unknown = Simulate(engines, 40 * kChunk, kChunk, PlacementOf("paper"), kWide, true);
  EXPECT_FALSE(unknown.verdict.has_value());
  EXPECT_GE(unknown.chunks[0], 8u);
  const Outcome known =
      Simulate(engines, 40 * kChunk, kChunk, PlacementOf("paper"), kWide, true, 0, first.verdict);
  ASSERT_TRUE(known.complete);
  // Its first chunk tells that C1 holds.
  EXPECT_LE(known.chunks[0], 2u);
}

// Before a verdict, while the agent is measured alone, and after the verdict that it works alone.
TEST(SchedulerModel, PaperAndAgentThatHangs_HostGoesOn) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e8;
  engines[1].rate_beside = 1.5e8;
  const uint64_t total = 400 * kChunk;
  for (const size_t window : {size_t{8}, kWide}) {
    for (int64_t at = 0; at < 600; at += 7) {
      engines[1].hangs_at = at * (kSecond / 1000);
      const Outcome outcome = Simulate(engines, total, kChunk, PlacementOf("paper"), window, true);
      ASSERT_TRUE(outcome.complete) << at;
      EXPECT_LT(Seconds(outcome.end), static_cast<double>(total) / engines[0].rate + 0.1) << at;
    }
  }
}

// After a verdict's time both are measured again.
TEST(SchedulerModel, PaperAndVerdictThatIsOld_IsAskedAgain) {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e8;
  engines[1].rate_beside = 1.5e8;
  // From then on nothing slows it down.
  engines[1].changes_at = PaperSharing::kVerdictNanos / 2;
  engines[1].rate_after = engines[1].rate;
  const auto total = static_cast<uint64_t>(40 * engines[1].rate);
  const Outcome outcome = Simulate(engines, total, kChunk, PlacementOf("paper"), kWide, true);
  ASSERT_TRUE(outcome.complete);
  // A quarter of the chunks of all but the first ten seconds.
  const double share = static_cast<double>(outcome.chunks[0]) /
                       static_cast<double>(outcome.chunks[0] + outcome.chunks[1]);
  EXPECT_GT(share, 0.15);
  EXPECT_LT(share, 0.22);
}

TEST(SchedulerModel, PaperWithOneSide_WorksWithIt) {
  for (const Side side : {Side::kHost, Side::kAgent}) {
    std::vector<SimulatedEngine> engines(1);
    engines[0].side = side;
    EXPECT_TRUE(Simulate(engines, 50 * kChunk, kChunk, PlacementOf("paper"), kWide, true).complete);
  }
}

TEST(Placement, Parse_AcceptsItsForms) {
  EXPECT_EQ(Placement::Parse("host")->kind, Placement::Kind::kHost);
  EXPECT_EQ(Placement::Parse("agent")->kind, Placement::Kind::kAgent);
  EXPECT_EQ(Placement::Parse("auto")->kind, Placement::Kind::kAuto);
  EXPECT_EQ(Placement::Parse("split=37")->percent, 37);
}

TEST(Placement, Parse_RefusesOthersByName) {
  for (const char* text : {"", "split", "split=", "split=-1", "split=101", "split=x", "both"}) {
    const auto placement = Placement::Parse(text);
    ASSERT_FALSE(placement.ok()) << text;
    EXPECT_NE(placement.status().message().find("placement"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace pulse::ops
