// The decisions by simulation, of all placements but `paper`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/testing.h"
#include "services/ops/test_simulation.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

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

TEST(SchedulerModel, EngineThatSlowsDown_GetsASmallerShare) {
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

TEST(Scheduler, LastChunkThatTheFasterEngineRefuses_IsDoneByTheOtherAtOnce) {
  Scheduler::Options options;
  options.chunk_bytes = kChunk;
  constexpr int kHost = 0, kAgent = 1;
  Scheduler scheduler(
      options, {{Side::kHost, 1, {}, nullptr, false}, {Side::kAgent, 1, {}, nullptr, false}});
  scheduler.SetTotal(3 * kChunk);
  int64_t now = 0;
  const auto take = [&](int engine) {
    EXPECT_EQ(scheduler.Next(engine, now).act, Scheduler::Act::kTake);
    const uint64_t chunk = scheduler.claimed();
    EXPECT_TRUE(scheduler.Claimed(engine, kChunk));
    const uint64_t attempt = scheduler.Started(engine, chunk, kChunk, now);
    scheduler.Loaded(attempt, now);
    return attempt;
  };
  const uint64_t slow = take(kHost), fast = take(kAgent);
  EXPECT_TRUE(scheduler.Finished(fast, now += 1'000'000));
  EXPECT_TRUE(scheduler.Finished(slow, now += 1'000'000'000));
  scheduler.Delivered(2);
  EXPECT_EQ(scheduler.Next(kHost, now).act, Scheduler::Act::kWait);
  const uint64_t last = take(kAgent);
  scheduler.End();
  EXPECT_TRUE(scheduler.Refused(last));
  EXPECT_EQ(scheduler.Next(kAgent, now).act, Scheduler::Act::kWait);
  const Scheduler::Decision decision = scheduler.Next(kHost, now);
  EXPECT_EQ(decision.act, Scheduler::Act::kDo);
  EXPECT_EQ(decision.chunk, 2u);
}

}  // namespace
}  // namespace pulse::ops
