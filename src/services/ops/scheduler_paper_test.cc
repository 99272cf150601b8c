// Placement `paper` by simulation: C1 and C2 of the co-processing paper.
#include <gtest/gtest.h>

#include "services/ops/test_simulation.h"

namespace pulse::ops {
namespace {

// Three times as fast as the host when it is alone.
std::vector<SimulatedEngine> FasterAgent() {
  std::vector<SimulatedEngine> engines(2);
  engines[0].rate = 1e8;
  engines[1].side = Side::kAgent;
  engines[1].rate = 3e8;
  return engines;
}

// Both use the same memory, say: together they have less than the agent alone.
std::vector<SimulatedEngine> AgentThatIsFasterAlone() {
  std::vector<SimulatedEngine> engines = FasterAgent();
  engines[1].rate_beside = 1.5e8;
  return engines;
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
  const std::vector<SimulatedEngine> engines = FasterAgent();
  const Outcome outcome =
      Simulate(engines, 200 * kChunk, kChunk, PlacementOf("paper"), kWide, true);
  ASSERT_TRUE(outcome.complete);
  EXPECT_NEAR(static_cast<double>(outcome.chunks[0]), 50, 3);
  EXPECT_NEAR(static_cast<double>(outcome.chunks[1]), 150, 3);
}

TEST(SchedulerModel, PaperAndAgentThatIsFasterAlone_C2StopsSharing) {
  std::vector<SimulatedEngine> engines = AgentThatIsFasterAlone();
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
  std::vector<SimulatedEngine> engines = AgentThatIsFasterAlone();
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
  std::vector<SimulatedEngine> engines = AgentThatIsFasterAlone();
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
  std::vector<SimulatedEngine> engines = AgentThatIsFasterAlone();
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

}  // namespace
}  // namespace pulse::ops
