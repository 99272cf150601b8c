// What the barrier covers and what it leaves alone; and its invariant under random workloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <future>
#include <thread>

#include "base/testing.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

TEST(BarrierScopeTest, OtherFiles_Sync_IsSynchronous) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(11);
  const rocksdb::Options options = SmallDbOptions(rig.env.get());
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ASSERT_TRUE(db.FlushAll().ok());
  const Stats before = rig.stats();
  // From here on everything that goes through the agent would hang.
  rig.script.SetRule([](const IoRequest& r, const std::string&) {
    return Verdict{r.op == IoOp::kRead ? Verdict::kPass : Verdict::kHold};
  });

  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  ASSERT_TRUE(writer.Open(dir / "external.sst").ok());
  ASSERT_TRUE(writer.Put("zzz", "ingested").ok());
  ASSERT_TRUE(writer.Finish().ok());
  // A pool's own syncs do not pass the base file system.
  if (!OnPool()) {
    EXPECT_EQ(rig.trace->Count(Event::kTableSync, "external.sst"), 1u);
  }

  rocksdb::IngestExternalFileOptions ingest;
  ingest.move_files = false;  // a copy, which RocksDB syncs
  ASSERT_TRUE(db->IngestExternalFile({dir / "external.sst"}, ingest).ok());
  db.model()["default"]["zzz"] = "ingested";
  if (!OnPool()) {
    EXPECT_GE(rig.trace->Count(Event::kTableSync, "/db/"), 1u);
  }

  rocksdb::Checkpoint* raw = nullptr;
  ASSERT_TRUE(rocksdb::Checkpoint::Create(db.db(), &raw).ok());
  std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  ASSERT_TRUE(checkpoint->CreateCheckpoint(dir / "checkpoint", ULONG_MAX).ok());

  rocksdb::BackupEngine* engine = nullptr;
  rocksdb::BackupEngineOptions backup(dir / "backup", rig.env.get());
  ASSERT_TRUE(rocksdb::BackupEngine::Open(rig.env.get(), backup, &engine).ok());
  std::unique_ptr<rocksdb::BackupEngine> guard(engine);
  ASSERT_TRUE(engine->CreateNewBackup(db.db()).ok());
  ASSERT_TRUE(engine->VerifyBackup(1, true).ok());

  EXPECT_EQ(rig.script.held(), 0u);
  EXPECT_EQ(rig.stats().files_persisted, before.files_persisted);
  rig.script.Release();
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(DifferenceOnStock(dir / "checkpoint", db.model()), "");
  guard.reset();
  rocksdb::Env* const stock = StockEnv() != nullptr ? StockEnv() : rocksdb::Env::Default();
  ASSERT_TRUE(rocksdb::BackupEngine::Open(
                  stock, rocksdb::BackupEngineOptions(dir / "backup", stock), &engine)
                  .ok());
  guard.reset(engine);
  ASSERT_TRUE(engine->RestoreDBFromLatestBackup(dir / "restored", dir / "restored").ok());
  EXPECT_EQ(DifferenceOnStock(dir / "restored", db.model()), "");
}

TEST(BarrierScopeTest, Checkpoint_FileInFlight_Waits) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(12);
  TestDb db(SmallDbOptions(rig.env.get()), dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  rocksdb::Checkpoint* raw = nullptr;
  ASSERT_TRUE(rocksdb::Checkpoint::Create(db.db(), &raw).ok());
  std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  rig.script.Hold(IoOp::kSyncClose);
  // It flushes first.
  auto done = std::async(std::launch::async,
                         [&] { return checkpoint->CreateCheckpoint(dir / "checkpoint"); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  EXPECT_TRUE(StaysBlocked(done));
  rig.script.Release();
  EXPECT_TRUE(done.get().ok());
  db.Close();
  EXPECT_EQ(DifferenceOnStock(dir / "checkpoint", db.model()), "");
}

TEST(BarrierScopeTest, OtherDatabase_Metadata_DoesNotWait) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(13);
  TestDb held(SmallDbOptions(rig.env.get()), dir / "held");
  TestDb free(SmallDbOptions(rig.env.get()), dir / "free");
  ASSERT_TRUE(held.Open().ok());
  ASSERT_TRUE(free.Open().ok());
  ASSERT_TRUE(held.Fill(&rng, 100, 1000).ok());
  rig.script.Hold(IoOp::kSyncClose, "/held/");
  auto done = std::async(std::launch::async, [&] { return held.FlushAll(); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(free.Fill(&rng, 500, 1000).ok());
    ASSERT_TRUE(free.FlushAll().ok());
    ASSERT_TRUE(free.CompactAll().ok());
  }
  EXPECT_TRUE(StaysBlocked(done));
  rig.script.Release();
  EXPECT_TRUE(done.get().ok());
  EXPECT_EQ(held.Difference(), "");
  EXPECT_EQ(free.Difference(), "");
}

TEST(BarrierScopeTest, OtherDirectories_OwnOutputs_AreWaitedFor) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(14);
  TestDb db(SmallDbOptions(rig.env.get()), dir / "db", {"a"});
  db.family_options("a").cf_paths.emplace_back(dir / "paths", uint64_t{1} << 40);
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  rig.script.Hold(IoOp::kSyncClose, "/paths/");
  auto done = std::async(std::launch::async,
                         [&] { return db->Flush(rocksdb::FlushOptions(), db.family("a")); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  const size_t moves = rig.trace->MetadataMoves();
  EXPECT_TRUE(StaysBlocked(done));
  EXPECT_EQ(rig.trace->MetadataMoves(), moves);
  rig.script.Release();
  EXPECT_TRUE(done.get().ok());
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path(), dir / "paths"}), "");
}

// What has become of a database whose directory now holds another's tables.
enum class Former { kDestroyed, kClosed, kCheckpoint };

class FormerHomeTest : public ::testing::TestWithParam<Former> {};

// A directory that once held a database, and now holds another's tables, has no say of its own.
TEST_P(FormerHomeTest, FormerHome_Directory_ChangesItsRole) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(15);
  const rocksdb::Options options = SmallDbOptions(rig.env.get());
  {
    TestDb old(options, dir / (GetParam() == Former::kCheckpoint ? "old" : "paths"));
    ASSERT_TRUE(old.Open().ok());
    ASSERT_TRUE(old.Fill(&rng, 10, 100).ok());
    if (GetParam() == Former::kCheckpoint) {
      rocksdb::Checkpoint* raw = nullptr;
      ASSERT_TRUE(rocksdb::Checkpoint::Create(old.db(), &raw).ok());
      std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
      ASSERT_TRUE(checkpoint->CreateCheckpoint(dir / "paths").ok());
    }
  }
  if (GetParam() == Former::kDestroyed) {
    ASSERT_TRUE(rocksdb::DestroyDB(dir / "paths", options).ok());
  }
  TestDb db(options, dir / "db", {"a"});
  db.family_options("a").cf_paths.emplace_back(dir / "paths", uint64_t{1} << 40);
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  rig.script.Hold(IoOp::kSyncClose, "/paths/");
  auto done = std::async(std::launch::async,
                         [&] { return db->Flush(rocksdb::FlushOptions(), db.family("a")); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  const size_t appends = rig.trace->Count(Event::kMetaAppend);
  // The directory's own fsync waits in any case; so must the MANIFEST, which others write as well.
  rocksdb::ColumnFamilyHandle* b = nullptr;
  auto create =
      std::async(std::launch::async, [&] { return db->CreateColumnFamily(options, "b", &b); });
  EXPECT_TRUE(StaysBlocked(done));
  EXPECT_EQ(rig.trace->Count(Event::kMetaAppend), appends);
  rig.script.Release();
  EXPECT_TRUE(create.get().ok());
  EXPECT_TRUE(done.get().ok());
  EXPECT_TRUE(db->DestroyColumnFamilyHandle(b).ok());
}

INSTANTIATE_TEST_SUITE_P(All, FormerHomeTest,
                         ::testing::Values(Former::kDestroyed, Former::kClosed,
                                           Former::kCheckpoint));

struct Workload {
  const char* name;
  const char* uri;
};

class WorkloadTest : public ::testing::TestWithParam<Workload> {};

// Random writes from several threads, with flushes and compactions at any time, over a back-end
// that delays, shortens and interrupts operations at random.
TEST_P(WorkloadTest, Workload_DurableMetadata_NamesDurableFilesOnly) {
  const uint64_t seed = TestSeed();
  ScratchDir dir;
  Rig rig(MakeOptions(GetParam().uri));
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 32 << 10;
  options.max_bytes_for_level_base = 128 << 10;
  options.max_manifest_file_size = 4 << 10;  // so that MANIFEST and CURRENT change often
  options.max_subcompactions = 3;
  TestDb db(options, dir / "db", {"a", "blob"});
  db.family_options("blob").enable_blob_files = true;
  db.family_options("blob").min_blob_size = 200;
  db.family_options("blob").enable_blob_garbage_collection = true;
  db.family_options("blob").blob_garbage_collection_age_cutoff = 0.5;
  db.family_options("a").cf_paths.emplace_back(dir / "paths", uint64_t{1} << 40);
  ASSERT_TRUE(db.Open().ok());

  auto rng = std::make_shared<std::mt19937_64>(seed);
  rig.script.SetRule([rng](const IoRequest& r, const std::string&) {
    const uint64_t dice = (*rng)() % 100;
    const bool closing = r.op == IoOp::kSyncClose || r.op == IoOp::kClose;
    if (dice < 20) return Verdict{Verdict::kDelay, static_cast<int64_t>((*rng)() % 5000)};
    if (dice < 40 && r.op == IoOp::kWrite) return Verdict{Verdict::kShorten};
    if (dice < 45 && !closing) return Verdict{Verdict::kFail, dice % 2 != 0 ? EINTR : EAGAIN};
    return Verdict{};
  });

  std::atomic<bool> stop{false};
  std::vector<std::thread> jobs;
  for (int t = 0; t < 2; ++t) {
    jobs.emplace_back([&, t] {
      std::mt19937_64 job_rng(seed + 100 + t);
      const std::vector<std::string> names = db.families();
      while (!stop) {
        rocksdb::ColumnFamilyHandle* h = db.family(names[job_rng() % names.size()]);
        const Status s = job_rng() % 2 != 0 ? db->Flush(rocksdb::FlushOptions(), h)
                                            : db->CompactRange(rocksdb::CompactRangeOptions(), h,
                                                               nullptr, nullptr);
        EXPECT_TRUE(s.ok()) << s.ToString();
        testing_util::RandomPause(&job_rng, std::chrono::milliseconds(20));
      }
    });
  }
  std::mt19937_64 writes(seed + 1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(db.Fill(&writes, 200, 50 + writes() % 800, 1000).ok());
    ASSERT_TRUE(db.Delete("a", db.model()["a"].begin()->first).ok());
  }
  stop = true;
  for (auto& t : jobs) t.join();
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  rig.script.Release();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path(), dir / "paths"}), "");
  EXPECT_GT(rig.trace->Count(Event::kDurable), 10u);
  TestDb stock(SmallDbOptions(StockEnv()), db.path(), {"a", "blob"});
  stock.family_options("a").cf_paths.emplace_back(dir / "paths", uint64_t{1} << 40);
  stock.model() = db.model();
  ASSERT_TRUE(stock.Open().ok());
  EXPECT_TRUE(stock->VerifyChecksum().ok());
  EXPECT_EQ(stock.Difference(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, WorkloadTest,
    ::testing::Values(Workload{"threads", "pulse://?engine=threads"},
                      Workload{"uring", "pulse://?engine=io_uring"},
                      Workload{"strict", "pulse://?sync=strict"},
                      Workload{"buffered", "pulse://?io=buffered&sync_interval=16K"},
                      Workload{"vmread", "pulse://?mover=vmread&queue=1M&write_threshold=16K"},
                      Workload{"few_streams", "pulse://?streams=2&queue=1M&write_threshold=4K"}),
    [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace pulse::lsm::test
