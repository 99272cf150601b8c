// Failing writes and syncs: the job reports them and names the file, durable metadata never does,
// and the database comes back once the fault is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <future>

#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;
using ::testing::HasSubstr;

struct Fault {
  IoOp op;
  int err;
  bool compaction;
  int subcompactions;
};

std::string NameOfFault(const ::testing::TestParamInfo<Fault>& info) {
  const Fault& f = info.param;
  return std::string(f.compaction ? "Compaction" : "Flush") + std::to_string(f.subcompactions) +
         (f.op == IoOp::kWrite ? "Write" : "SyncClose") + (f.err == EIO ? "Eio" : "Enospc");
}

// Resumes as an operator would: again while RocksDB is still cleaning up or recovering by itself;
// by opening the database again where RocksDB calls the error fatal. "" or why it did not succeed.
std::string Recover(TestDb* db, const std::function<Status()>& job) {
  Status s;
  const bool recovered = Eventually(
      [&] {
        if (db->db() != nullptr) {
          s = (*db)->Resume();
          if (s.severity() >= Status::Severity::kFatalError) db->Close();
        }
        if (db->db() == nullptr) s = db->Open();
        if (s.ok()) s = job();
        return s.ok();
      },
      std::chrono::milliseconds(100));
  return recovered ? "" : s.ToString();
}

class FaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultTest, Fault_AnyOperation_IsReportedAndSurvived) {
  const Fault fault = GetParam();
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(7);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.disable_auto_compactions = true;
  options.max_subcompactions = fault.subcompactions;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(db.Fill(&rng, 150, 1000).ok());
    if (fault.compaction || i < 3) {
      ASSERT_TRUE(db.FlushAll().ok());
    }
  }
  const std::vector<std::string> before = LiveFilesOnStock(db.path());

  rig.script.FailFrom(fault.op, fault.compaction ? 3 : 1, fault.err, ".sst");
  const size_t moves = rig.trace->Count(Event::kMetaAppend);
  const Status s = fault.compaction ? db.CompactAll() : db.FlushAll();
  EXPECT_FALSE(s.ok());
  EXPECT_THAT(s.ToString(), HasSubstr(".sst"));
  EXPECT_EQ(rig.trace->Count(Event::kMetaAppend), moves);
  EXPECT_EQ(LiveFilesOnStock(db.path()), before);
  // What is no I/O error must not look like one of another kind: a corruption cannot be resumed.
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  EXPECT_EQ(s.IsNoSpace(), fault.err == ENOSPC) << s.ToString();
  EXPECT_EQ(db.Difference(), "");

  rig.script.Clear();
  ASSERT_EQ(Recover(&db, [&] { return fault.compaction ? db.CompactAll() : db.FlushAll(); }), "");
  EXPECT_TRUE(db.Put("default", "after", "y").ok());
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(rig.trace->CheckBarrier({db.path()}), "");
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::Values(Fault{IoOp::kWrite, EIO, false, 1}, Fault{IoOp::kWrite, ENOSPC, false, 1},
                      Fault{IoOp::kSyncClose, EIO, false, 1},
                      Fault{IoOp::kSyncClose, ENOSPC, false, 1}, Fault{IoOp::kWrite, EIO, true, 1},
                      Fault{IoOp::kWrite, ENOSPC, true, 4}, Fault{IoOp::kSyncClose, EIO, true, 1},
                      Fault{IoOp::kSyncClose, EIO, true, 4},
                      Fault{IoOp::kSyncClose, ENOSPC, true, 4}),
    NameOfFault);

// A number may be used again after a failure: the last word on it counts.
MATCHER_P(DurableAtLast, trace, "") {
  bool durable = true;
  for (const Event& e : trace->Snapshot()) {
    if (e.kind != Event::kDurable && e.kind != Event::kSyncFailed) continue;
    if (e.path.find(arg) != std::string::npos) durable = e.kind == Event::kDurable;
  }
  return durable;
}

class BystanderTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

// Metadata that has nothing to do with a failed output fails with it, in the worst case while it is
// written. RocksDB then keeps all files, also the failed one, until it has begun a new MANIFEST.
TEST_P(BystanderTest, FailedOutput_MetadataWrite_CanBeRecoveredFrom) {
  const auto [err, subcompactions] = GetParam();
  ScratchDir dir;
  Rig rig;
  std::mt19937_64 rng(8);
  rocksdb::Options options = SmallDbOptions(rig.env.get());
  options.disable_auto_compactions = true;
  options.max_subcompactions = subcompactions;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(db.Fill(&rng, 150, 1000).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  rig.script.Hold(IoOp::kSyncClose, ".sst");
  auto compaction = std::async(std::launch::async, [&] { return db.CompactAll(); });
  ASSERT_TRUE(rig.script.WaitHeld(3));
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  auto create = std::async(std::launch::async,
                           [&] { return db->CreateColumnFamily(options, "new", &handle); });
  EXPECT_TRUE(StaysBlocked(create));
  rig.script.Clear();
  rig.script.FailHeld(err);
  const Status created = create.get();
  const Status compacted = compaction.get();
  EXPECT_FALSE(compacted.ok());
  if (handle != nullptr) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  if (created.ok()) db.family_options("new") = options;
  EXPECT_EQ(db.Difference(), "");
  ASSERT_EQ(Recover(&db, [&] { return db.CompactAll(); }), "");
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_THAT(LiveFilesOnStock(db.path()), ::testing::Each(DurableAtLast(rig.trace.get())));
  if (created.ok()) db.model()["new"];
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

std::string NameOfBystander(const ::testing::TestParamInfo<std::tuple<int, int>>& info) {
  return (std::get<0>(info.param) == EIO ? "Eio" : "Enospc") +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, BystanderTest,
                         ::testing::Combine(::testing::Values(ENOSPC, EIO),
                                            ::testing::Values(1, 4)),
                         NameOfBystander);

}  // namespace
}  // namespace pulse::lsm::test
