#include "bench/macro/kv/model/designs.h"

#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"

namespace pulse::kvmodel {
namespace {

StageCosts Costs() { return {{0, 100}, {0, 40}, {0, 10}, {0, 50}, {0, 30}}; }

Machine Cores(int host, int agent, double speed = 1) {
  Machine machine;
  machine.host_cores = host;
  machine.agent_cores = agent;
  machine.agent_speed = speed;
  machine.dma_latency = 500;
  return machine;
}

double Rate(Design design, const Machine& machine, const StageCosts& costs = Costs()) {
  return Simulate(design, machine, costs, {}).per_second / 1e6;
}

TEST(Designs, FullQueues_Throughput_IsThatOfTheSlowestStage) {
  EXPECT_NEAR(Rate(Design::kCpu, Cores(8, 0)), 80, 0.5);
  EXPECT_NEAR(Rate(Design::kDpu, Cores(0, 8, 0.5)), 40, 0.3);
  EXPECT_NEAR(Rate(Design::kShrd, Cores(8, 8, 0.5)), 120, 0.8);
  // The agent: 40 + 10 + 30 ns. With cheaper stages there, the host: 50 ns.
  EXPECT_NEAR(Rate(Design::kLat, Cores(8, 8)), 100, 0.7);
  StageCosts quick = Costs();
  quick.receive.each = 5;
  EXPECT_NEAR(Rate(Design::kLat, Cores(8, 8), quick), 160, 1);
  // One host core for all: 20 million a second, and with two spare ones 10 more each.
  EXPECT_NEAR(Rate(Design::kSav, Cores(8, 8)), 20, 0.2);
  EXPECT_NEAR(Rate(Design::kDual, Cores(8, 8)), 40, 0.4);
  // One weak agent core does not fill it.
  EXPECT_NEAR(Rate(Design::kSav, Cores(8, 1, 0.25)), 1e3 / 320, 0.05);
}

TEST(Designs, OneBatchUnderWay_Throughput_PaysForTheWholeRound) {
  Machine machine = Cores(1, 1);
  machine.slots = 1;
  machine.dma_latency = 7800;
  // Receive, there, process, back, send; the preparation is hidden behind the first transfer.
  const double round = 64 * (40 + 50 + 30) + 2 * 7800;
  EXPECT_NEAR(Rate(Design::kLat, machine), 64e3 / round, 0.02);
}

TEST(Designs, AnyLoad_Requests_AreConserved) {
  for (const Design design : kDesigns) {
    for (const double each : {1e6, 9e6, 40e6}) {
      const Machine machine = Cores(3, 4, 0.5);
      Load load;
      load.rates.assign(EndpointsOf(design, machine), each);
      const Outcome o = Simulate(design, machine, Costs(), load);
      EXPECT_EQ(o.arrived, o.dropped + o.served + o.waiting + o.under_way)
          << DesignName(design) << " at " << each;
      EXPECT_GT(o.served, 0u);
    }
  }
}

TEST(Designs, LoadBelowCapacity_AllIsServed_AndWaitsLittle) {
  const Machine machine = Cores(2, 2);
  Load load;
  load.rates = {2e6, 2e6};
  const Outcome o = Simulate(Design::kLat, machine, Costs(), load);
  EXPECT_EQ(o.dropped, 0u);
  EXPECT_NEAR(o.per_second, 4e6, 0.1e6);
  // One request alone: 40 + 500 + 50 + 500 + 30 ns.
  EXPECT_GE(o.p50_us, 1.12);
  EXPECT_LT(o.p50_us, 1.5);
  EXPECT_NEAR(o.host_busy, 4e6 * 50e-9, 0.01);
}

TEST(Designs, SameSeed_SameFigures_OtherSeedOthers) {
  const Machine machine = Cores(8, 8);
  Load load;
  load.rates.assign(10, 3e6);
  const auto run = [&] { return Simulate(Design::kDual, machine, Costs(), load); };
  const Outcome a = run();
  const Outcome b = run();
  EXPECT_EQ(a.served, b.served);
  EXPECT_EQ(a.mean_us, b.mean_us);
  load.seed = 2;
  EXPECT_NE(run().mean_us, a.mean_us);
}

TEST(Designs, SpareHostCores_LoadTheHostsLink_TransfersTakeLonger) {
  Machine machine = Cores(8, 8);
  machine.dma_latency = 1000;
  machine.pcie_rate = 4;
  machine.packet_request_bytes = 96;
  machine.packet_response_bytes = 96;
  double before = 0;
  for (const int spare : {0, 2, 7}) {
    machine.spare_cores = spare;
    const Outcome o = Simulate(Design::kDual, machine, Costs(), {});
    EXPECT_GT(o.transfer_us, before) << spare;
    before = o.transfer_us;
  }
}

TEST(Designs, HostCores_OfEachDesign_AreThePapers) {
  const auto cores = [](Design design) {
    return Simulate(design, Cores(8, 8), Costs(), {}).host_cores;
  };
  EXPECT_EQ(cores(Design::kShrd), 8);
  EXPECT_EQ(cores(Design::kDual), 3);
  EXPECT_EQ(cores(Design::kCpu), 8);
  EXPECT_EQ(cores(Design::kLat), 8);
  EXPECT_EQ(cores(Design::kSav), 1);
  EXPECT_EQ(cores(Design::kDpu), 0);
}

TEST(Designs, LongerReceiveQueue_FullQueues_RequestsWaitLonger) {
  Machine machine = Cores(1, 0);
  machine.burst = 256;
  const double at_128 = Simulate(Design::kCpu, machine, Costs(), {}).mean_us;
  machine.receive_queue = 256;
  // A whole queue is one batch, and the next one comes while it is served.
  EXPECT_NEAR(at_128, 2 * 128 * 0.1, 0.1);
  EXPECT_NEAR(Simulate(Design::kCpu, machine, Costs(), {}).mean_us, 2 * 256 * 0.1, 0.1);
}

TEST(Designs, Names_ParseBack) {
  for (const Design design : kDesigns) EXPECT_EQ(ParseDesign(DesignName(design)), design);
  EXPECT_EQ(ParseDesign("adaptive"), std::nullopt);
}

}  // namespace
}  // namespace pulse::kvmodel
