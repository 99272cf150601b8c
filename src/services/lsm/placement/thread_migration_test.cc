// Whole compactions by RocksDB's own threads, on the CPUs of an agent in the same process.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/testing.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/convenience.h"
#include "rocksdb/rate_limiter.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/placement/cpu_share.h"
#include "services/lsm/placement/flush_priority.h"
#include "services/lsm/placement/test_cpus.h"
#include "services/lsm/placement/test_placed_db.h"
#include "services/lsm/placement/thread_migrator.h"
#include "services/lsm/plugin/pulse_file_system.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

// What RocksDB's threads may use. A sanitizer has threads, too.
std::set<std::string> CpusOfRocksDb() {
  std::set<std::string> all;
  for (const auto& [name, cpus] : CpusOfThreads()) {
    if (name.rfind("rocksdb:", 0) == 0) all.insert(cpus.begin(), cpus.end());
  }
  return all;
}

void EndRocksDbsThreads() {
  for (const auto pool : {rocksdb::Env::LOW, rocksdb::Env::HIGH, rocksdb::Env::BOTTOM}) {
    rocksdb::Env::Default()->SetBackgroundThreads(0, pool);
  }
  EXPECT_TRUE(Eventually([] { return CpusOfRocksDb().empty(); }));
}

// The test, and all that it starts, on all CPUs but the last, which is the agent's. RocksDB's
// threads would stay from test to test.
class ThreadMigrationTest : public testing::Test {
 protected:
  void SetUp() override {
    all_ = MyCpus();
    if (all_.size() < 2) GTEST_SKIP() << "host and agent need a CPU each";
    EndRocksDbsThreads();
    ASSERT_TRUE(SetThreadAffinity({all_.begin(), all_.end() - 1}).ok());
    host_ = CpusOf("thread-self");
  }
  void TearDown() override {
    if (all_.size() < 2) return;
    EXPECT_TRUE(AllAreBack());
    EndRocksDbsThreads();
    ASSERT_TRUE(SetThreadAffinity(all_).ok());
  }
  // A thread that has just ended may still be listed.
  bool AllAreBack() const {
    return Eventually([&] {
      const std::set<std::string> cpus = CpusOfRocksDb();
      return cpus.empty() || cpus == std::set<std::string>{host_};
    });
  }
  std::string Uri(const std::string& more) const {
    return "pulse://?agent_cpus=" + std::to_string(all_.back()) + "&" + more;
  }

  std::vector<int> all_;
  std::string host_;
};

TEST_F(ThreadMigrationTest, Database_EveryPlacement_LosesNothing) {
  for (const char* more : {"placement=whole", "placement=adaptive", "placement=whole&flushes=agent",
                           "placement=whole&whole=deep&host_slots=0"}) {
    SCOPED_TRACE(more);
    ScratchDir dir;
    PlacedDb placed(Embedded(Uri(more)), dir / "db");
    WorkAndCheck(&placed, dir / "db");
    const Stats stats = placed.stats();
    if (std::string(more) != "placement=adaptive") {
      EXPECT_GT(stats.whole_compactions, 0u);
      EXPECT_GT(stats.agent_compaction_nanos, 0u);
    }
    EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
  }
}

TEST_F(ThreadMigrationTest, Pool_OffloadAll_IsMigrated) {
  ScratchDir dir;
  CreatePool(dir / "pool", 256 << 20);
  PlacedDb placed(Embedded(Uri("placement=whole&layout=pool&pool=" +
                               std::filesystem::absolute(dir / "pool").string())),
                  dir / "db");
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
}

// What an agent that opens the database anew cannot do.
TEST_F(ThreadMigrationTest, BlobsFiltersTwoPhaseCommit_OffloadAll_AreMigrated) {
  class KeepAll : public rocksdb::CompactionFilter {
   public:
    const char* Name() const override { return "pulse.test.None"; }
    bool Filter(int, const rocksdb::Slice&, const rocksdb::Slice&, std::string*,
                bool*) const override {
      return false;
    }
  };
  static const KeepAll filter;
  const std::vector<std::function<void(rocksdb::Options*)>> changes = {
      [](rocksdb::Options* o) {
        o->enable_blob_files = true;
        o->min_blob_size = 100;
        o->enable_blob_garbage_collection = true;
      },
      [](rocksdb::Options* o) { o->allow_2pc = true; },
      [](rocksdb::Options* o) { o->compaction_filter = &filter; },
      [](rocksdb::Options* o) {
        o->rate_limiter.reset(rocksdb::NewGenericRateLimiter(int64_t{1} << 30));
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    ScratchDir dir;
    PlacedDb placed(Embedded(Uri("placement=whole&agent_tasks=64")), dir / "db", changes[i]);
    WorkAndCheck(&placed, dir / "db");
    EXPECT_GT(placed.stats().whole_compactions, 0u);
    EXPECT_EQ(placed.stats().whole_returned, 0u);
  }
}

TEST_F(ThreadMigrationTest, UnregisteredComparator_OffloadAll_IsMigrated) {
  static const BackwardComparator backward;
  ScratchDir dir;
  PlacedDb placed(Embedded(Uri("placement=whole")), dir / "db", [](rocksdb::Options* o) {
    o->comparator = &backward;
    o->merge_operator = nullptr;
  });
  ASSERT_NO_FATAL_FAILURE(placed.FillAndReadBack());
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_GT(placed.stats().agent_compaction_nanos, 0u);
}

// No agent answers at the socket: the one that is embedded instead has the threads of RocksDB.
TEST_F(ThreadMigrationTest, FallbackToEmbeddedAgent_OffloadAll_IsMigrated) {
  ScratchDir dir;
  PlacedDb placed(
      Embedded("pulse://" + std::filesystem::absolute(dir / "none.sock").string() +
               "?fallback=embedded&placement=whole&agent_cpus=" + std::to_string(all_.back())),
      dir / "db");
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_GT(placed.stats().agent_compaction_nanos, 0u);
}

// Two parts at the same time, or as good as that.
class MeetingFactory : public rocksdb::CompactionFilterFactory {
 public:
  const char* Name() const override { return "pulse.test.Meeting"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context&) override {
    const int before = ++begun_;
    // The last part of all has nobody to wait for.
    if (!met_) testing_util::Stays([&] { return begun_ == before && !met_; });
    met_ = met_ || begun_ > before;
    return nullptr;
  }

 private:
  std::atomic<int> begun_{0};
  std::atomic<bool> met_{false};
};

TEST_F(ThreadMigrationTest, AllSlotsTaken_Subcompactions_StayOnHost) {
  ScratchDir dir;
  PlacedDb placed(Embedded(Uri("placement=whole&agent_tasks=1")), dir / "db",
                  [](rocksdb::Options* o) {
                    o->max_subcompactions = 4;
                    o->compaction_filter_factory = std::make_shared<MeetingFactory>();
                  });
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_GT(placed.stats().whole_returned, 0u);
}

// Parts that end before RocksDB has said that they begin: their threads are gone, and their places
// must be free.
TEST_F(ThreadMigrationTest, CancelledBeforeBegin_Subcompactions_KeepNoSlot) {
  class Canceller : public rocksdb::EventListener {
   public:
    void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
      if (info.compaction_reason == rocksdb::CompactionReason::kManualCompaction) canceled = true;
    }
    std::atomic<bool> canceled{false};
  };
  const auto canceller = std::make_shared<Canceller>();
  ScratchDir dir;
  PlacedDb placed(Embedded(Uri("placement=whole&agent_tasks=4")), dir / "db",
                  [&](rocksdb::Options* o) {
                    o->max_subcompactions = 4;
                    o->listeners.push_back(canceller);
                  });
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  int cancelled = 0;
  for (int round = 0; round < 4; ++round) {
    placed.Work(&rng, 2000);
    canceller->canceled = false;
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    all.canceled = &canceller->canceled;
    const Status s = (*placed.db)->CompactRange(all, nullptr, nullptr);
    EXPECT_TRUE(s.ok() || s.IsIncomplete()) << s.ToString();
    cancelled += s.ok() ? 0 : 1;
  }
  EXPECT_GT(cancelled, 0) << "or this tests nothing";
  EXPECT_EQ(placed.db->Difference(), "");
  const auto* pulse = placed.fs->CheckedCast<PulseFileSystem>();
  ASSERT_NE(pulse, nullptr);
  (*placed.db)->PauseBackgroundWork();
  EXPECT_EQ(pulse->context().task_slots.taken(), 0);
  (*placed.db)->ContinueBackgroundWork();
  placed.db->Close();
}

// RocksDB tells nobody of compactions that end with their database.
TEST_F(ThreadMigrationTest, DatabaseCloses_MigratedThreads_Return) {
  std::mt19937_64 rng(TestSeed());
  for (int round = 0; round < 6; ++round) {
    ScratchDir dir;
    PlacedDb placed(Embedded(Uri("placement=whole&flushes=agent")), dir / "db");
    ASSERT_TRUE(placed.db->Open().ok());
    placed.Work(&rng, 2500);
    std::thread compacts([&] { placed.db->CompactAll().PermitUncheckedError(); });
    testing_util::RandomPause(&rng, std::chrono::milliseconds(30));
    rocksdb::CancelAllBackgroundWork(placed.db->db(), false);
    compacts.join();
    placed.db->Close();
    EXPECT_TRUE(AllAreBack()) << "round " << round;
    EXPECT_EQ(placed.fs->CheckedCast<PulseFileSystem>()->context().task_slots.taken(), 0);
    ASSERT_TRUE(placed.db->Open().ok());
    ASSERT_TRUE(placed.db->CompactAll().ok());
    EXPECT_EQ(placed.db->Difference(), "");
    placed.db->Close();
  }
}

TEST_F(ThreadMigrationTest, AgentOnHostCpus_OffloadAll_MigratesNothing) {
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=whole&agent_cpus=" + std::to_string(all_.front())),
                  dir / "db");
  ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
  EXPECT_EQ(placed.stats().agent_compaction_nanos, 0u);
  placed.db->Close();
}

TEST(PlaceCompactionsTest, CalledTwice_SameOptions_IsRefused) {
  ScratchDir dir;
  for (const char* placement : {"placement=whole", "placement=split&flushes=agent"}) {
    PlacedDb placed(
        Embedded("pulse://?agent_cpus=" + std::to_string(MyCpus().back()) + "&" + placement),
        dir / "db");
    EXPECT_TRUE(PlaceCompactions(&placed.options).IsInvalidArgument()) << placement;
  }
}

TEST(FlushPriorityTest, YieldToFlushes_FlushRuns_WaitsForALimitedTime) {
  FlushPriority first(testing_util::TestClock::Now);
  first.SetCpus(2);
  std::shared_ptr<void> flush = first.BeginFlush();
  std::thread([&] {
    first.YieldToFlushes(2);  // it has done nothing yet
    testing_util::TestClock::Advance(std::chrono::milliseconds(FlushPriority::kLongestWaitMs));
    first.YieldToFlushes(1);  // there is a CPU for each
    const auto begin = std::chrono::steady_clock::now();
    first.YieldToFlushes(2);  // nobody ends it
    EXPECT_GE(std::chrono::steady_clock::now() - begin,
              std::chrono::milliseconds(FlushPriority::kLongestWaitMs / 2));
    flush.reset();
    first.YieldToFlushes(2);
  }).join();
}

// However a thread comes back.
TEST(ThreadMigratorTest, Return_InAnyWay_ReleasesWhatIsHeld) {
  ThreadMigrator threads({MyCpus().back()}, /*allow_shared_cpus=*/true);
  const auto held = std::make_shared<int>();
  const std::string home = "a", other = "b";
  for (int how = 0; how < 4; ++how) {
    std::thread([&] {
      ASSERT_TRUE(threads.Migrate(home, held));
      EXPECT_EQ(held.use_count(), 2);
      threads.ReturnAll(&other);
      EXPECT_EQ(held.use_count(), 2);
      if (how == 0) {
        EXPECT_TRUE(threads.Return());
      }
      if (how == 1) ThreadMigrator::ReturnCallingThread();
      if (how == 2) threads.ReturnAll(&home);
    }).join();
    EXPECT_EQ(held.use_count(), 1) << how;
  }
  EXPECT_FALSE(ThreadMigrator({CPU_SETSIZE - 1}, true).Migrate(home, held));
  EXPECT_EQ(held.use_count(), 1);
}

// Takes a fifth of a millisecond of CPU for each key: a compaction takes its time however fast the
// machine is.
class SlowFilter : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "pulse.test.Slow"; }
  bool Filter(int, const rocksdb::Slice&, const rocksdb::Slice&, std::string*,
              bool*) const override {
    const int64_t until = ThreadCpuNanos() + 200'000;
    while (ThreadCpuNanos() < until) {
    }
    return false;
  }
};

// The host is busy, so that compactions go to the agent; and somebody else has the agent's CPU.
class ContendedAgentTest : public ThreadMigrationTest {
 protected:
  void SetUp() override {
    if (!CpuShare::IsSupported()) GTEST_SKIP() << "this kernel keeps no account of it (schedstat)";
    ThreadMigrationTest::SetUp();
    for (const int cpu : all_) {
      if (cpu != all_.back()) on_host_.push_back(std::make_unique<BusyThreads>(1, cpu));
    }
    if (!IsSkipped()) on_agent_ = std::make_unique<BusyThreads>(4, all_.back());
  }
  void TearDown() override {
    on_host_.clear();
    on_agent_.reset();
    ThreadMigrationTest::TearDown();
  }

  std::vector<std::unique_ptr<BusyThreads>> on_host_;
  std::unique_ptr<BusyThreads> on_agent_;
};

// Long ones, which notice while they run, and others, each of which is over before one could tell.
TEST_F(ContendedAgentTest, Contention_NextCompactions_StayOnHostUntilItIsOver) {
  static const SlowFilter filter;
  for (const int keys : {1500, 150}) {
    SCOPED_TRACE(keys);
    ScratchDir dir;
    PlacedDb placed(Embedded(Uri("placement=adaptive")), dir / "db", [&](rocksdb::Options* o) {
      o->compaction_filter = &filter;
      if (keys < 1500) return;
      // Of one long compaction, which is asked for.
      o->write_buffer_size = 4 << 20;
      o->target_file_size_base = 64 << 20;
      o->max_bytes_for_level_base = 256 << 20;
      o->disable_auto_compactions = true;
    });
    ASSERT_TRUE(placed.db->Open().ok());
    std::mt19937_64 rng(TestSeed());
    uint64_t there = 0;
    bool stays = false;
    for (int round = 0; round < 200 && !stays; ++round) {
      ASSERT_TRUE(placed.db->Fill(&rng, keys, 4000, /*key_space=*/keys).ok());
      ASSERT_TRUE(placed.db->CompactAll().ok());
      const Stats stats = placed.stats();
      stays = there > 0 && there == stats.whole_compactions + stats.whole_returned;
      there = stats.whole_compactions + stats.whole_returned;
    }
    EXPECT_GT(there, 0u);
    EXPECT_TRUE(stays) << "of " << there << " there";
    EXPECT_TRUE(AllAreBack());
    // And go there again when it is the agent's alone.
    on_agent_.reset();
    const uint64_t before = placed.stats().whole_compactions;
    for (int round = 0; round < 400 && placed.stats().whole_compactions == before; ++round) {
      ASSERT_TRUE(placed.db->Fill(&rng, 100, 4000).ok());
      ASSERT_TRUE(placed.db->CompactAll().ok());
    }
    EXPECT_GT(placed.stats().whole_compactions, before);
    on_agent_ = std::make_unique<BusyThreads>(4, all_.back());
    EXPECT_EQ(placed.db->Difference(), "");
    placed.db->Close();
    EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
  }
}

TEST_F(ThreadMigrationTest, Return_OtherMigratorsThread_IsRefused) {
  ThreadMigrator one({all_.back()}), two({all_.front()});
  const std::vector<int> mine = MyCpus();
  std::thread([&] {
    EXPECT_FALSE(one.Return());
    ASSERT_TRUE(one.Migrate("a", nullptr));
    EXPECT_EQ(MyCpus(), std::vector<int>{all_.back()});
    EXPECT_FALSE(two.Migrate("a", nullptr));
    EXPECT_FALSE(two.Return());
    const std::string other = "b";
    one.ReturnAll(&other);
    EXPECT_EQ(MyCpus(), std::vector<int>{all_.back()});
    const std::string home = "a";
    one.ReturnAll(&home);
    EXPECT_EQ(MyCpus(), mine);
    EXPECT_FALSE(one.Return()) << "it is back";
    EXPECT_FALSE(two.Migrate("b", nullptr)) << "it may run there as it is";
    ThreadMigrator allow_shared_cpus({all_.front()}, true);
    EXPECT_TRUE(allow_shared_cpus.Migrate("b", nullptr));
    ThreadMigrator::ReturnCallingThread();
    EXPECT_EQ(MyCpus(), mine);
    EXPECT_FALSE(allow_shared_cpus.Return());
    ASSERT_TRUE(one.Migrate("a", nullptr));
  }).join();
  one.ReturnAll(nullptr);  // the thread has ended
}

}  // namespace
}  // namespace pulse::lsm::test
