// FlushPlacement: which CPUs flushes run on, and that RocksDB's threads come back from there.
#include "services/lsm/placement/flush_placement.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "services/lsm/core/counters.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/placement/test_cpus.h"
#include "services/lsm/placement/test_placed_db.h"

namespace pulse::lsm::test {
namespace {

TEST(FlushDecision, Update_BusyHostIdleAgent_GoesToAgent) {
  FlushDecision d;
  EXPECT_FALSE(d.Update(0.6, 0, 1)) << "the host has time itself";
  EXPECT_FALSE(d.Update(1, 0.9, 2)) << "nor has the agent";
  EXPECT_TRUE(d.Update(1, 0.5, 3));
  EXPECT_TRUE(d.on_agent());
}

TEST(FlushDecision, Update_OnAgent_StaysUntilAgentIsBusier) {
  for (const auto& [host, agent] : {std::pair{0.9, 1.0}, std::pair{0.6, 0.7}}) {
    FlushDecision d;
    d.Update(1, 0, 1);
    EXPECT_FALSE(d.Update(host, agent, 10));
    EXPECT_TRUE(d.on_agent());
  }
  for (const auto& [host, agent] : {std::pair{0.8, 1.0}, std::pair{0.4, 0.3}}) {
    FlushDecision d;
    d.Update(1, 0, 1);
    EXPECT_TRUE(d.Update(host, agent, 10));
    EXPECT_FALSE(d.on_agent());
  }
}

// Flushes that are most of what keeps either busy.
TEST(FlushDecision, Update_OwnLoad_DoesNotOscillate) {
  FlushDecision d;
  int changes = 0;
  for (int i = 0; i < 100; ++i) {
    const bool there = d.on_agent();
    changes += d.Update(there ? 0.2 : 1, there ? 0.8 : 0, i * 0.1) ? 1 : 0;
  }
  EXPECT_GT(changes, 1) << "or this tests nothing";
  EXPECT_LE(changes, 6) << "in ten seconds";
}

TEST(FlushPlacementTest, BeginEnd_FlushThread_IsOnAgentCpus) {
  const std::vector<int> all = MyCpus();
  AtomicCounters counters;
  FlushPriority first;
  const auto never = [] { return 0.0; };
  ThreadMigrator threads({all.back()}, /*allow_shared_cpus=*/true);
  FlushPlacement placement(FlushMode::kAgent, &threads, never, never, &first, &counters);
  std::thread([&] {
    placement.Begin("db", /*agent=*/false);
    EXPECT_EQ(MyCpus(), all) << "there is no agent";
    placement.Begin("db", true);
    EXPECT_EQ(MyCpus(), std::vector<int>{all.back()});
    placement.Begin("db", true);  // two databases' listeners, say
    ThreadMigrator others({all.front()}, true);
    FlushPlacement other(FlushMode::kAgent, &others, never, never, &first, &counters);
    other.Begin("db", true);
    other.End();
    EXPECT_EQ(MyCpus(), std::vector<int>{all.back()});
    placement.End();
    EXPECT_EQ(MyCpus(), all);
    placement.End();
    EXPECT_EQ(MyCpus(), all);
  }).join();
  EXPECT_EQ(counters.agent_flushes, 1u);
}

TEST(FlushPlacementTest, Begin_HostModeOrMissingCpus_ChangesNothing) {
  const std::vector<int> all = MyCpus();
  AtomicCounters counters;
  FlushPriority first;
  const auto always = [] { return 1.0; };
  const auto never = [] { return 0.0; };
  ThreadMigrator there({all.back()}, true), none({CPU_SETSIZE - 1}), no_cpus({});
  FlushPlacement host(FlushMode::kHost, &there, always, never, &first, &counters);
  FlushPlacement gone(FlushMode::kAgent, &none, always, never, &first, &counters);
  FlushPlacement nowhere(FlushMode::kAdaptive, &no_cpus, always, never, &first, &counters);
  for (FlushPlacement* p : {&host, &gone, &nowhere}) {
    p->Begin("db", true);
    EXPECT_EQ(MyCpus(), all);
    p->End();
    EXPECT_EQ(MyCpus(), all);
  }
  EXPECT_EQ(counters.agent_flushes, 0u);
}

// RocksDB starts threads when it first needs them, on whatever thread that is.
TEST(FlushPlacementTest, RocksDb_AfterFlushes_ThreadsAreBack) {
  const std::string agents = std::to_string(MyCpus().back());
  for (const char* placement : {"host", "split", "whole", "adaptive"}) {
    SCOPED_TRACE(placement);
    ScratchDir dir;
    PlacedDb placed(Embedded(std::string("pulse://?flushes=agent&agent_cpus=") + agents +
                             "&placement=" + placement),
                    dir / "db");
    ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
    EXPECT_GT(placed.stats().agent_flushes, 0u);
    EXPECT_GT(placed.stats().agent_flush_nanos, 0u);
    std::map<std::string, std::set<std::string>> threads = CpusOfThreads();
    for (const char* pool : {"rocksdb:high", "rocksdb:low"}) {
      EXPECT_FALSE(threads[pool].empty()) << pool;
      for (const std::string& cpus : threads[pool]) EXPECT_EQ(cpus, CpusOf("thread-self")) << pool;
    }
    placed.db->Close();
    EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
  }
}

TEST(FlushPlacementTest, RocksDb_FlushesHost_StayOnHost) {
  const std::string agents = std::to_string(MyCpus().back());
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=whole&agent_cpus=" + agents), dir / "db");
  ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
  EXPECT_EQ(placed.stats().agent_flushes, 0u);
  placed.db->Close();
}

}  // namespace
}  // namespace pulse::lsm::test
