// Whole compactions whose agent dies or hangs, that are cancelled, or whose host was killed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/placement/test_placed_db.h"
#include "services/lsm/plugin/placer_hooks.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

// A base that sees each task make its directory, which is just before it begins.
class TaskWatch : public rocksdb::FileSystemWrapper {
 public:
  TaskWatch() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "pulse.test.TaskWatch"; }
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* dbg) override {
    const bool task = path.find("/pulse-tasks/") != std::string::npos;
    if (task && begins) begins();
    const rocksdb::IOStatus s = target()->CreateDir(path, options, dbg);
    if (task) ++begun;
    return s;
  }

  std::function<void()> begins;
  std::atomic<int> begun{0};
};

std::shared_ptr<rocksdb::FileSystem> Watched(const std::string& uri,
                                             const std::shared_ptr<TaskWatch>& watch) {
  std::shared_ptr<rocksdb::FileSystem> fs;
  Status s;
  // The socket file is there a moment before it accepts.
  EXPECT_TRUE(Eventually([&] {
    s = NewFileSystem(uri, watch, &fs);
    return s.ok();
  })) << s.ToString();
  return fs;
}

// Everything is compacted some times over, each time with `mischief` beside it, which begins with a
// task, or soon after; where the agent has just been lost, being slow, there may be none. Then
// `mend`.
void CompactBeside(PlacedDb* placed, TaskWatch* watch, std::mt19937_64* rng,
                   const std::function<void()>& mischief, const std::function<void()>& mend) {
  std::atomic<int> met{0};
  for (int round = 0; round < 3 || (met == 0 && round < 50); ++round) {
    placed->Work(rng, 1500);
    const int before = watch->begun;
    std::mt19937_64 moment((*rng)());
    std::atomic<bool> compacted{false};
    std::thread other([&] {
      Eventually([&] { return watch->begun != before || compacted; });
      if (watch->begun > before) {
        ++met;
        testing_util::RandomPause(&moment, std::chrono::milliseconds(20));
      }
      mischief();
    });
    const Status s = placed->db->CompactAll();
    compacted = true;
    other.join();
    ASSERT_TRUE(s.ok()) << s.ToString();
    mend();
  }
  EXPECT_GT(met.load(), 0) << "or this tests nothing";
  const Stats stats = placed->stats();
  EXPECT_GT(stats.whole_compactions + stats.whole_returned, 0u);
}

TEST(CompactionTaskFaultsTest, AgentDies_DuringTasks_LosesNothing) {
  ScratchDir dir;
  AgentProcess agent;
  const auto watch = std::make_shared<TaskWatch>();
  PlacedDb placed(Watched("pulse://" + agent.socket() + "?placement=whole", watch), dir / "db");
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  uint64_t deaths = 0;
  CompactBeside(
      &placed, watch.get(), &rng, [&] { agent.Kill(); },
      [&] {
        agent.Start();
        ++deaths;
        ASSERT_TRUE(Eventually([&] { return placed.stats().reconnects >= deaths; }));
      });
  placed.Work(&rng, 3000);
  ASSERT_TRUE(placed.db->CompactAll().ok());
  EXPECT_EQ(placed.db->Difference(), "");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  placed.db->Close();
  EXPECT_FALSE(std::filesystem::exists(dir / "db/pulse-tasks"));
  EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
}

TEST(CompactionTaskFaultsTest, AgentHangs_DuringTasks_IsLeftBehind) {
  ScratchDir dir;
  AgentProcess agent;
  const auto watch = std::make_shared<TaskWatch>();
  PlacedDb placed(
      Watched("pulse://" + agent.socket() + "?placement=whole&agent_deadline=400", watch),
      dir / "db");
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  CompactBeside(
      &placed, watch.get(), &rng, [&] { agent.Stop(); }, [&] { agent.Continue(); });
  EXPECT_EQ(placed.db->Difference(), "");
  placed.db->Close();
  EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
}

TEST(CompactionTaskFaultsTest, Cancel_RunningTasks_AreDoneOnHost) {
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db");
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  std::atomic<bool> stop{false};
  std::thread canceller([&] {
    while (!stop) {
      CancelWholeCompactions(placed.options);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // sleep: tasks begin in between
    }
  });
  placed.Work(&rng, 4000);
  EXPECT_TRUE(placed.db->CompactAll().ok());
  stop = true;
  canceller.join();
  EXPECT_EQ(placed.db->Difference(), "");
  // Nor for ever.
  placed.Work(&rng, 4000);
  EXPECT_TRUE(placed.db->CompactAll().ok());
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  placed.db->Close();
  EXPECT_FALSE(std::filesystem::exists(dir / "db/pulse-tasks"));
}

// A database that closes has its compactions given up until it has closed, whoever else closes.
TEST(CompactionTaskFaultsTest, CancelUntilClosed_AnotherDatabaseCloses_StaysCancelled) {
  ScratchDir dir;
  AgentProcess agent;
  const auto fs = agent.Attach("?placement=whole");
  PlacedDb placed(fs, dir / "db");
  ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  CompactionPlacer* const placer = PlacerOf(placed.options.compaction_service.get());
  ASSERT_NE(placer, nullptr);
  placer->Cancel(/*for_good=*/true);  // as the newest RocksDB does first
  {
    PlacedDb other(fs, dir / "other");
    ASSERT_TRUE(other.db->Open().ok());
    ASSERT_TRUE(other.db->Put("default", "key", "value").ok());
    ASSERT_TRUE((*other.db)->Flush(rocksdb::FlushOptions()).ok());
    other.db->Close();
  }
  const uint64_t before = placed.stats().whole_compactions;
  std::mt19937_64 rng(TestSeed());
  placed.Work(&rng, 3000);
  ASSERT_TRUE(placed.db->CompactAll().ok());
  EXPECT_EQ(placed.stats().whole_compactions, before);
  placed.db->Close();
  ASSERT_TRUE(placed.db->Open().ok());
  placed.Work(&rng, 3000);
  ASSERT_TRUE(placed.db->CompactAll().ok());
  EXPECT_GT(placed.stats().whole_compactions, before);
  EXPECT_EQ(placed.db->Difference(), "");
  placed.db->Close();
}

// Between the decision and the beginning of a task, of which nobody knows yet.
TEST(CompactionTaskFaultsTest, Cancel_WhileATaskBegins_IsNotLost) {
  ScratchDir dir;
  AgentProcess agent;
  const auto watch = std::make_shared<TaskWatch>();
  PlacedDb placed(Watched("pulse://" + agent.socket() + "?placement=whole", watch), dir / "db");
  watch->begins = [&] { CancelWholeCompactions(placed.options); };
  ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
  EXPECT_GT(placed.stats().whole_returned, 0u);
  placed.db->Close();
}

// Also where no compaction is given away any more.
TEST(CompactionTaskFaultsTest, Open_LeftoverTaskDirectories_AreRemoved) {
  for (const char* mode : {"whole", "adaptive", "split", "host"}) {
    SCOPED_TRACE(mode);
    ScratchDir dir;
    PlacedDb placed(Embedded(std::string("pulse://?placement=") + mode), dir / "db");
    ASSERT_TRUE(placed.db->Open().ok());
    ASSERT_TRUE(placed.db->Put("default", "key", "value").ok());
    placed.db->Close();
    const std::string old = dir / "db/pulse-tasks/1-2-3";
    std::filesystem::create_directories(old);
    std::ofstream(old + "/000012.sst") << "half a table";
    ASSERT_TRUE(placed.db->Open().ok());
    EXPECT_FALSE(std::filesystem::exists(dir / "db/pulse-tasks"));
    EXPECT_EQ(placed.db->Difference(), "");
    placed.db->Close();
  }
}

}  // namespace
}  // namespace pulse::lsm::test
