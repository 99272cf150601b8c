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

TEST(FlushPlacementTest, BeginEnd_FlushThread_IsOnAgentCpus) {
  const std::vector<int> all = MyCpus();
  AtomicCounters counters;
  FlushPriority first;
  const auto never = [] { return false; };
  ThreadMigrator threads({all.back()}, /*allow_shared_cpus=*/true);
  FlushPlacement placement(FlushMode::kAgent, &threads, never, &first, &counters);
  std::thread([&] {
    placement.Begin("db", /*agent=*/false);
    EXPECT_EQ(MyCpus(), all) << "there is no agent";
    placement.Begin("db", true);
    EXPECT_EQ(MyCpus(), std::vector<int>{all.back()});
    placement.Begin("db", true);  // two databases' listeners, say
    ThreadMigrator others({all.front()}, true);
    FlushPlacement other(FlushMode::kAgent, &others, never, &first, &counters);
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

TEST(FlushPlacementTest, Begin_HostModeMissingOrContendedCpus_ChangesNothing) {
  const std::vector<int> all = MyCpus();
  AtomicCounters counters;
  FlushPriority first;
  const auto always = [] { return true; };
  const auto never = [] { return false; };
  ThreadMigrator there({all.back()}, true), none({CPU_SETSIZE - 1}), no_cpus({});
  FlushPlacement host(FlushMode::kHost, &there, never, &first, &counters);
  FlushPlacement gone(FlushMode::kAgent, &none, never, &first, &counters);
  FlushPlacement nowhere(FlushMode::kAdaptive, &no_cpus, never, &first, &counters);
  FlushPlacement contended(FlushMode::kAdaptive, &there, always, &first, &counters);
  for (FlushPlacement* p : {&host, &gone, &nowhere, &contended}) {
    p->Begin("db", true);
    EXPECT_EQ(MyCpus(), all);
    p->End();
    EXPECT_EQ(MyCpus(), all);
  }
  EXPECT_EQ(counters.agent_flushes, 0u);
  // Contention is for flushes=adaptive alone, and while it lasts.
  FlushPlacement agent(FlushMode::kAgent, &there, always, &first, &counters);
  FlushPlacement adaptive(FlushMode::kAdaptive, &there, never, &first, &counters);
  std::thread([&] {
    for (FlushPlacement* p : {&agent, &adaptive}) {
      p->Begin("db", true);
      EXPECT_EQ(MyCpus(), std::vector<int>{all.back()});
      p->End();
    }
  }).join();
  EXPECT_EQ(counters.agent_flushes, 2u);
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
