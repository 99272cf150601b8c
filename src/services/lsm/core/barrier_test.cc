// The barrier of docs/internals/lsm.md: no durable metadata ever names an output that is not
// durable, and nothing else waits for one. On a real RocksDB over a back-end that holds operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

// Runs `job`, which must not return, nor move metadata, until the held sync_closes are let go.
void ExpectHeld(Rig* rig, size_t held_at_least, const std::function<Status()>& job) {
  rig->script.Hold(IoOp::kSyncClose);
  auto done = std::async(std::launch::async, job);
  ASSERT_TRUE(rig->script.WaitHeld(1));
  const size_t moves = rig->trace->MetadataMoves();
  ASSERT_TRUE(rig->script.WaitHeld(held_at_least));
  EXPECT_TRUE(StaysBlocked(done));
  EXPECT_EQ(rig->trace->MetadataMoves(), moves);
  rig->script.Release();
  const Status s = done.get();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_GT(rig->trace->MetadataMoves(), moves);
}

TEST(BarrierTest, Flush_TableNotDurable_ManifestWaits) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(1);
  TestDb db(SmallDbOptions(rig.env.get()), dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ExpectHeld(&rig, 1, [&] { return db.FlushAll(); });
  EXPECT_EQ(db.Difference(), "");
  EXPECT_GE(rig.stats().barrier_waits, 1u);
  db.Close();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path()}), "");
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

TEST(BarrierTest, Compaction_OutputsNotDurable_ManifestWaits) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(2);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.disable_auto_compactions = true;
  options.max_subcompactions = 4;
  TestDb db(options, dir / "db", {"a", "b"});
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(db.Fill(&rng, 1500, 400).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  // One family's compaction has several outputs; all are on their way before the first is needed.
  ExpectHeld(&rig, 4, [&] { return db.CompactAll(); });
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path()}), "");
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

TEST(BarrierTest, BlobFiles_NotDurable_ManifestWaits) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(3);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.enable_blob_files = true;
  options.min_blob_size = 100;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ExpectHeld(&rig, 2, [&] { return db.FlushAll(); });
  EXPECT_EQ(rig.trace->Count(Event::kDurable, ".blob"), 1u);
  db.Close();
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model(), options), "");
}

TEST(BarrierTest, AtomicFlush_AnyFamilyNotDurable_ManifestWaits) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(4);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.atomic_flush = true;
  TestDb db(options, dir / "db", {"a", "b"});
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ExpectHeld(&rig, 3, [&] {
    return db->Flush(rocksdb::FlushOptions(),
                     {db.family("a"), db.family("b"), db.family("default")});
  });
  EXPECT_EQ(db.Difference(), "");
}

TEST(BarrierTest, RecoveryFlush_TableNotDurable_ManifestWaits) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(5);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.avoid_flush_during_shutdown = true;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  db.Close();
  rig.script.Hold(IoOp::kSyncClose);
  const size_t renames = rig.trace->Count(Event::kMetaSync, "/CURRENT");
  auto done = std::async(std::launch::async, [&] { return db.Open(); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  EXPECT_TRUE(StaysBlocked(done));
  EXPECT_EQ(rig.trace->Count(Event::kMetaSync, "/CURRENT"), renames);
  rig.script.Release();
  const Status s = done.get();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path()}), "");
}

// Puts with a synced log while `job` is held up; both must be done in the end.
void ExpectLogSyncsPass(Rig* rig, TestDb* db, const std::function<Status()>& job) {
  rig->script.Hold(IoOp::kSyncClose);
  auto done = std::async(std::launch::async, job);
  ASSERT_TRUE(rig->script.WaitHeld(1));
  const size_t syncs = rig->trace->Count(Event::kWalSync);
  std::atomic<bool> written{false};
  auto put = std::async(std::launch::async, [&] {
    const Status s = db->Put("default", "synced", "value", /*sync=*/true);
    written = true;
    return s;
  });
  EXPECT_TRUE(Eventually([&] { return written.load(); }));
  EXPECT_GT(rig->trace->Count(Event::kWalSync), syncs);
  EXPECT_TRUE(StaysBlocked(done));
  rig->script.Release();
  EXPECT_TRUE(put.get().ok());
  const Status s = done.get();
  EXPECT_TRUE(s.ok()) << s.ToString();
}

TEST(BarrierTest, LogSync_DuringCompaction_DoesNotWait) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(6);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.disable_auto_compactions = true;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ASSERT_TRUE(db.FlushAll().ok());
  ASSERT_TRUE(db.Put("default", "first", "value", true).ok());
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  std::vector<std::string> names;
  for (const auto& f : files) names.push_back(f.name);
  ExpectLogSyncsPass(&rig, &db,
                     [&] { return db->CompactFiles(rocksdb::CompactionOptions(), names, 1); });
}

TEST(BarrierTest, LogSync_OwnDirectory_DoesNotWaitForFlush) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(6);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.wal_dir = dir / "wal";
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ExpectLogSyncsPass(&rig, &db, [&] { return db.FlushAll(); });
}

// The flush begins a new log, whose first sync syncs the directory as well.
TEST(BarrierTest, LogSync_FirstOfALog_DoesNotWaitForFlush) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(6);
  TestDb db(SmallDbOptions(rig.env.get()), dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 100, 1000).ok());
  ExpectLogSyncsPass(&rig, &db, [&] { return db.FlushAll(); });
}

TEST(BarrierTest, SyncStrict_SyncAndClose_Wait) {
  ScratchDir dir;
  Rig rig(MakeOptions("pulse://?sync=strict"));
  const rocksdb::IOOptions io;
  std::unique_ptr<rocksdb::FSWritableFile> f;
  ASSERT_TRUE(rig.pulse->NewWritableFile(dir / "1.sst", OutputOptions(), &f, nullptr).ok());
  ASSERT_TRUE(f->Append("hello", io, nullptr).ok());
  rig.script.Hold(IoOp::kWrite);
  auto sync = std::async(std::launch::async, [&]() -> Status { return f->Sync(io, nullptr); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  EXPECT_TRUE(StaysBlocked(sync));
  rig.script.Release();
  EXPECT_TRUE(sync.get().ok());
  rig.script.Hold(IoOp::kSyncClose);
  auto close = std::async(std::launch::async, [&]() -> Status { return f->Close(io, nullptr); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  EXPECT_TRUE(StaysBlocked(close));
  rig.script.Release();
  EXPECT_TRUE(close.get().ok());
  EXPECT_EQ(ReadRaw(dir / "1.sst"), "hello");
}

TEST(BarrierTest, SyncBarrier_SyncAndClose_DoNotWait) {
  ScratchDir dir;
  Rig rig;
  const rocksdb::IOOptions io;
  rig.script.SetRule([](const IoRequest&, const std::string&) { return Verdict{Verdict::kHold}; });
  std::unique_ptr<rocksdb::FSWritableFile> f;
  ASSERT_TRUE(rig.pulse->NewWritableFile(dir / "1.sst", OutputOptions(), &f, nullptr).ok());
  ASSERT_TRUE(f->Append("hello", io, nullptr).ok());
  EXPECT_TRUE(f->Sync(io, nullptr).ok());
  EXPECT_TRUE(f->Fsync(io, nullptr).ok());
  EXPECT_TRUE(f->Close(io, nullptr).ok());
  rig.script.Release();
}

// A file that was synced and is still open is part of the promise as well.
TEST(BarrierTest, Barrier_OpenFileWithPromisedSync_IsMadeDurable) {
  ScratchDir dir;
  Rig rig;
  const rocksdb::IOOptions io;
  std::unique_ptr<rocksdb::FSWritableFile> manifest;
  ASSERT_TRUE(rig.pulse->NewWritableFile(dir / "MANIFEST-000001", {}, &manifest, nullptr).ok());
  std::unique_ptr<rocksdb::FSWritableFile> f;
  ASSERT_TRUE(rig.pulse->NewWritableFile(dir / "1.sst", OutputOptions(), &f, nullptr).ok());
  ASSERT_TRUE(f->Append("hello", io, nullptr).ok());
  rig.script.Hold(IoOp::kWrite);
  ASSERT_TRUE(f->Sync(io, nullptr).ok());
  auto sync = std::async(std::launch::async,
                         [&]() -> Status { return manifest->Append("edit", io, nullptr); });
  ASSERT_TRUE(rig.script.WaitHeld(1));
  EXPECT_TRUE(StaysBlocked(sync));
  rig.script.Release();
  EXPECT_TRUE(sync.get().ok());
  EXPECT_TRUE(f->Close(io, nullptr).ok());
}

// Writers close while others wait at the barrier: nobody may see a descriptor that is gone.
TEST(BarrierTest, Barrier_RacesWithClose_IsCorrect) {
  ScratchDir dir;
  Rig rig;
  const rocksdb::IOOptions io;
  std::atomic<bool> stop{false};
  std::vector<std::thread> barriers;
  for (int i = 0; i < 3; ++i) {
    barriers.emplace_back([&, i] {
      std::unique_ptr<rocksdb::FSWritableFile> manifest;
      const std::string name = dir / ("MANIFEST-" + std::to_string(i));
      ASSERT_TRUE(rig.pulse->NewWritableFile(name, {}, &manifest, nullptr).ok());
      while (!stop) {
        const rocksdb::IOStatus s = manifest->Append("edit", io, nullptr);
        ASSERT_TRUE(s.ok()) << s.ToString();
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    const std::string name = dir / (std::to_string(i) + ".sst");
    std::unique_ptr<rocksdb::FSWritableFile> f;
    ASSERT_TRUE(rig.pulse->NewWritableFile(name, OutputOptions(), &f, nullptr).ok());
    ASSERT_TRUE(f->Append("hello", io, nullptr).ok());
    ASSERT_TRUE(f->Sync(io, nullptr).ok());
    const rocksdb::IOStatus s = f->Close(io, nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
  stop = true;
  for (auto& t : barriers) t.join();
}

}  // namespace
}  // namespace pulse::lsm::test
