// Outputs that fail after Close: whose business that is, and whose it is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <future>
#include <thread>

#include "services/lsm/core/manifest_records.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_manifest.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Status;
using ::testing::HasSubstr;

class FailedOutputTest : public ::testing::Test {
 protected:
  std::unique_ptr<FSWritableFile> Open(const std::string& path,
                                       const rocksdb::FileOptions& options = {}) {
    std::unique_ptr<FSWritableFile> f;
    const IOStatus s = rig_.pulse->NewWritableFile(path, options, &f, nullptr);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return f;
  }
  // Closed with success, and failed afterwards.
  void MakeFailed(const std::string& path) {
    rig_.script.Hold(IoOp::kSyncClose, path);
    auto f = Open(path, OutputOptions());
    ASSERT_TRUE(f->Append("hello", kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    ASSERT_TRUE(rig_.script.WaitHeld(1));
    rig_.script.Clear();
    rig_.script.FailHeld(EIO);
    ASSERT_TRUE(Eventually([&] { return rig_.trace->Count(Event::kSyncFailed, path) > 0; }));
  }
  IOStatus Append(const std::string& manifest, const std::string& bytes) {
    return Open(manifest)->Append(bytes, kIo, nullptr);
  }
  rocksdb::FileLock* Lock(const std::string& dir) {
    std::filesystem::create_directories(dir);
    rocksdb::FileLock* lock = nullptr;
    EXPECT_TRUE(rig_.pulse->LockFile(dir + "/LOCK", kIo, &lock, nullptr).ok());
    return lock;
  }
  void Unlock(rocksdb::FileLock* lock) {
    EXPECT_TRUE(rig_.pulse->UnlockFile(lock, kIo, nullptr).ok());
  }

  ScratchDir dir_;
  Rig rig_;
};

TEST_F(FailedOutputTest, FailedOutput_Manifests_OnlyTheNamingOneFails) {
  MakeFailed(dir_ / "000007.sst");
  auto manifest = Open(dir_ / "MANIFEST-000001");
  EXPECT_TRUE(manifest->Append(Naming(8), kIo, nullptr).ok());
  EXPECT_TRUE(manifest->Sync(kIo, nullptr).ok());
  const IOStatus s = manifest->Append(Naming(7), kIo, nullptr);
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  EXPECT_THAT(s.ToString(), HasSubstr("000007.sst"));
  // What was to be written is missing in this one, so nobody knows what it says from here on.
  EXPECT_FALSE(manifest->Append(Naming(8), kIo, nullptr).ok());
  EXPECT_FALSE(manifest->Sync(kIo, nullptr).ok());
  // A new one takes its place.
  manifest = Open(dir_ / "MANIFEST-000002");
  EXPECT_TRUE(manifest->Append(Naming(8) + Naming(9), kIo, nullptr).ok());
  EXPECT_TRUE(manifest->Fsync(kIo, nullptr).ok());
  auto current = Open(dir_ / "000002.dbtmp");
  EXPECT_TRUE(current->Append("MANIFEST-000002\n", kIo, nullptr).ok());
  EXPECT_TRUE(current->Sync(kIo, nullptr).ok());
  EXPECT_TRUE(current->Close(kIo, nullptr).ok());
  EXPECT_TRUE(rig_.pulse->RenameFile(dir_ / "000002.dbtmp", dir_ / "CURRENT", kIo, nullptr).ok());
}

TEST_F(FailedOutputTest, FailedOutput_RecordInPieces_Fails) {
  MakeFailed(dir_ / "000300.sst");
  Framer log;
  for (int i = 0; i < 2000; ++i) log.Add(NewFile4(i == 1500 ? 300 : 1000 + i));
  std::mt19937_64 rng(TestSeed());
  for (int round = 0; round < 10; ++round) {
    auto manifest = Open(dir_ / "MANIFEST-000001");
    Status s;
    size_t at = 0;
    while (s.ok() && at < log.bytes().size()) {
      // The first fragment is whole, as RocksDB's is.
      const std::string piece = log.bytes().substr(at, (at == 0 ? 100 : 1) + rng() % 5000);
      s = manifest->Append(piece, kIo, nullptr);
      at += piece.size();
    }
    EXPECT_FALSE(s.ok());
    // The record was never completed on disk.
    ManifestRecords records;
    std::vector<uint64_t> added;
    EXPECT_TRUE(records.Append(ReadRaw(dir_ / "MANIFEST-000001"), &added));
    EXPECT_THAT(added, ::testing::Not(::testing::Contains(300)));
  }
}

TEST_F(FailedOutputTest, FailedOutput_BlobFile_Fails) {
  MakeFailed(dir_ / "000007.blob");
  Framer other;
  other.Add(Varint(400) + BlobFile(8));
  EXPECT_TRUE(Append(dir_ / "MANIFEST-000001", other.bytes()).ok());
  Framer same;
  same.Add(NewFile4(6) + Varint(400) + BlobFile(7));
  EXPECT_FALSE(Append(dir_ / "MANIFEST-000001", same.bytes()).ok());
}

TEST_F(FailedOutputTest, FailedOutput_UnknownRecord_Fails) {
  MakeFailed(dir_ / "000007.sst");
  EXPECT_FALSE(Append(dir_ / "MANIFEST-000001", "not a log, but longer than a header").ok());
  Framer unknown;
  unknown.Add(Varint(12) + Varint(3));
  EXPECT_FALSE(Append(dir_ / "MANIFEST-000001", unknown.bytes()).ok());
  auto manifest = Open(dir_ / "MANIFEST-000001");
  EXPECT_FALSE(manifest->PositionedAppend(Naming(8), 0, kIo, nullptr).ok());
  // What failed and has no number could be meant by anything.
  EXPECT_TRUE(rig_.pulse->DeleteFile(dir_ / "000007.sst", kIo, nullptr).ok());
  EXPECT_TRUE(Append(dir_ / "MANIFEST-000001", unknown.bytes()).ok());
  MakeFailed(dir_ / "table.sst");
  EXPECT_FALSE(Append(dir_ / "MANIFEST-000001", Naming(8)).ok());
}

TEST_F(FailedOutputTest, FailedOutput_EncryptedManifest_Fails) {
  MakeFailed(dir_ / "000007.sst");
  std::mt19937_64 rng(TestSeed());
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(Append(dir_ / "MANIFEST-000001", Encrypted(Naming(7), &rng)).ok());
  }
}

TEST_F(FailedOutputTest, FailedOutput_ReopenedManifest_Fails) {
  {
    auto manifest = Open(dir_ / "MANIFEST-000001");
    ASSERT_TRUE(manifest->Append(Naming(5) + Naming(6), kIo, nullptr).ok());
    ASSERT_TRUE(manifest->Close(kIo, nullptr).ok());
  }
  MakeFailed(dir_ / "000007.sst");
  std::unique_ptr<FSWritableFile> manifest;
  ASSERT_TRUE(
      rig_.pulse->ReopenWritableFile(dir_ / "MANIFEST-000001", {}, &manifest, nullptr).ok());
  EXPECT_TRUE(manifest->Append(Naming(8), kIo, nullptr).ok());
  EXPECT_FALSE(manifest->Append(Naming(7), kIo, nullptr).ok());
}

// The progress of a compaction (RocksDB 11.x) is durable metadata that names outputs.
TEST_F(FailedOutputTest, FailedOutput_CompactionProgress_Fails) {
  for (const char* name : {"COMPACTION_PROGRESS-17", "COMPACTION_PROGRESS-17.dbtmp"}) {
    const std::string table = dir_ / "000007.sst";
    rig_.script.Hold(IoOp::kSyncClose);
    auto f = Open(table, OutputOptions());
    ASSERT_TRUE(f->Append("hello", kIo, nullptr).ok());
    ASSERT_TRUE(f->Close(kIo, nullptr).ok());
    ASSERT_TRUE(rig_.script.WaitHeld(1));
    auto progress = Open(dir_ / name);
    auto append =
        std::async(std::launch::async, [&] { return progress->Append("edit", kIo, nullptr); });
    EXPECT_TRUE(StaysBlocked(append));
    rig_.script.Clear();
    rig_.script.FailHeld(EIO);
    EXPECT_FALSE(append.get().ok());
    EXPECT_FALSE(progress->Sync(kIo, nullptr).ok());
    EXPECT_TRUE(progress->Close(kIo, nullptr).ok());
    EXPECT_FALSE(
        rig_.pulse->RenameFile(dir_ / name, dir_ / "COMPACTION_PROGRESS-18", kIo, nullptr).ok());
    EXPECT_TRUE(rig_.pulse->DeleteFile(table, kIo, nullptr).ok());
    progress = Open(dir_ / name);
    EXPECT_TRUE(progress->Append("edit", kIo, nullptr).ok());
    EXPECT_TRUE(progress->Sync(kIo, nullptr).ok());
  }
}

TEST_F(FailedOutputTest, FailedOutput_DirectorySync_TellsItsJobOnce) {
  std::unique_ptr<rocksdb::FSDirectory> d;
  ASSERT_TRUE(rig_.pulse->NewDirectory(dir_.path(), kIo, &d, nullptr).ok());
  // Another job's thread, with an output of its own.
  const auto other_job = [&] {
    auto f = Open(dir_ / "000008.sst", OutputOptions());
    EXPECT_TRUE(f->Close(kIo, nullptr).ok());
    return d->Fsync(kIo, nullptr);
  };
  MakeFailed(dir_ / "000007.sst");
  auto other = std::async(std::launch::async, other_job);
  EXPECT_TRUE(other.get().ok());
  EXPECT_TRUE(d->Fsync(kIo, nullptr).IsIOError());
  // The same thread's next job.
  EXPECT_TRUE(d->Fsync(kIo, nullptr).ok());
}

// A subcompaction's thread ends before its job syncs the directory.
TEST_F(FailedOutputTest, FailedOutput_EndedThread_ItsJobIsTold) {
  std::unique_ptr<rocksdb::FSDirectory> d;
  ASSERT_TRUE(rig_.pulse->NewDirectory(dir_.path(), kIo, &d, nullptr).ok());
  std::thread sub([&] { MakeFailed(dir_ / "000007.sst"); });
  sub.join();
  auto f = Open(dir_ / "000008.sst", OutputOptions());
  EXPECT_TRUE(f->Close(kIo, nullptr).ok());
  EXPECT_TRUE(d->Fsync(kIo, nullptr).IsIOError());
  EXPECT_FALSE(Append(dir_ / "MANIFEST-000001", Naming(7)).ok());
}

// In db_paths, whose directory does not say whose an output is.
TEST_F(FailedOutputTest, FailedOutput_DatabasesClose_IsForgotten) {
  std::filesystem::create_directory(dir_ / "paths");
  rocksdb::FileLock* a = Lock(dir_ / "a");
  MakeFailed(dir_ / "paths/000007.sst");
  // b was opened later: it is none of its outputs.
  rocksdb::FileLock* b = Lock(dir_ / "b");
  EXPECT_FALSE(Append(dir_ / "a/MANIFEST-000001", Naming(7)).ok());
  EXPECT_TRUE(Append(dir_ / "b/MANIFEST-000001", Naming(7)).ok());
  MakeFailed(dir_ / "paths/000009.sst");  // a's or b's
  EXPECT_FALSE(Append(dir_ / "b/MANIFEST-000001", Naming(9)).ok());
  Unlock(a);
  EXPECT_TRUE(Append(dir_ / "b/MANIFEST-000001", Naming(7)).ok());
  EXPECT_FALSE(Append(dir_ / "b/MANIFEST-000001", Naming(9)).ok());
  a = Lock(dir_ / "a");
  EXPECT_TRUE(Append(dir_ / "a/MANIFEST-000002", Naming(7)).ok());
  Unlock(a);
  Unlock(b);
  b = Lock(dir_ / "b");
  EXPECT_TRUE(Append(dir_ / "b/MANIFEST-000001", Naming(9)).ok());
  Unlock(b);
}

// On a real database: a flush beside a compaction whose outputs fail.
TEST(FailedOutputDbTest, FailedOutput_ConcurrentFlush_Succeeds) {
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(9);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.disable_auto_compactions = true;
  options.max_subcompactions = 1;
  TestDb db(options, dir / "db", {"a"});
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(db.Fill(&rng, 300, 1000).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  ASSERT_TRUE(db.Put("a", "key", "value").ok());
  rig.script.Hold(IoOp::kSyncClose, ".sst");
  auto compaction = std::async(std::launch::async, [&]() -> Status {
    return db->CompactRange(rocksdb::CompactRangeOptions(), db.family("default"), nullptr, nullptr);
  });
  ASSERT_TRUE(rig.script.WaitHeld(2));
  rig.script.Clear();  // what is held stays held
  const size_t durable = rig.trace->Count(Event::kDurable);
  auto flush = std::async(std::launch::async, [&]() -> Status {
    return db->Flush(rocksdb::FlushOptions(), db.family("a"));
  });
  ASSERT_TRUE(Eventually([&] { return rig.trace->Count(Event::kDurable) > durable; }));
  EXPECT_TRUE(StaysBlocked(flush));
  rig.script.FailHeld(ENOSPC);
  EXPECT_FALSE(compaction.get().ok());
  const Status flushed = flush.get();
  EXPECT_TRUE(flushed.ok()) << flushed.ToString();
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path()}), "");
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

}  // namespace
}  // namespace pulse::lsm::test
