// COMMITTED says which commits a log must have: one that lost them is told from one that was cut by
// a kill.
#include "services/graph/core/committed.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

constexpr char kLog[] = "db/00000001.wal";

class CommittedTest : public ::testing::Test {
 protected:
  CommittedTest() { options_.files = &files_; }
  void Open() { store_ = GraphStore::Open("db", options_).value(); }
  absl::Status Commit() {
    auto tx = *store_->Begin();
    EXPECT_TRUE(tx->CreateNode({}, {}).ok());
    return tx->Commit();
  }
  // What a check finds: the newest commit that is there, and whether one is missing.
  std::pair<uint64_t, absl::Status> Check() {
    const auto committed = ReadCommitted(&files_, "db");
    EXPECT_TRUE(committed.ok() && committed->has_value()) << committed.status();
    StoreOptions reading = options_;
    reading.read_only = true;
    const uint64_t newest = GraphStore::Open("db", reading).value()->sequence();
    return {newest, CheckSyncedIsThere(committed->value_or(Committed()), newest, "db")};
  }

  SimFiles files_;
  StoreOptions options_ = [] {
    StoreOptions options;
    options.background = false;
    return options;
  }();
  std::unique_ptr<GraphStore> store_;
};

TEST_F(CommittedTest, LogThatLostItsEnd_IsFound) {
  Open();
  ASSERT_TRUE(Commit().ok());
  const size_t end_of_first = files_.Content(kLog).size();
  ASSERT_TRUE(Commit().ok());
  const std::string whole = files_.Content(kLog);
  store_.reset();
  EXPECT_TRUE(Check().second.ok()) << Check().second;
  // Cut, and with a byte of its last record changed.
  std::string changed = whole;
  changed.back() ^= 1;
  for (const std::string& damaged : {whole.substr(0, end_of_first), changed}) {
    files_.Content(kLog) = damaged;
    const auto [newest, status] = Check();
    EXPECT_EQ(newest, 1u);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(
        testing_util::Text(status),
        "the log has lost its end: db/COMMITTED says that commit 2 was on the device, and the "
        "newest that is there is 1");
  }
  // Who writes goes on from there.
  Open();
  ASSERT_TRUE(Commit().ok());
  EXPECT_TRUE(Check().second.ok()) << Check().second;
}

TEST_F(CommittedTest, SegmentThatIsGone_IsFound) {
  Open();
  ASSERT_TRUE(Commit().ok());
  ASSERT_TRUE(store_->Checkpoint().ok());
  EXPECT_EQ(Check().first, 1u);
  ASSERT_TRUE(Commit().ok());
  store_.reset();
  files_.names().erase("db/00000002.wal");
  EXPECT_EQ(Check().first, 1u);
  EXPECT_TRUE(absl::IsDataLoss(Check().second)) << Check().second;
}

// Its number is passed, and stands for nothing.
TEST_F(CommittedTest, CommitThatFailed_IsNotMissed) {
  Open();
  ASSERT_TRUE(Commit().ok());
  files_.FailAt(1);
  EXPECT_FALSE(Commit().ok());
  files_.FailAt(0);
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->synced, 1u);
  EXPECT_EQ(Check().first, 1u);
  EXPECT_TRUE(Check().second.ok()) << Check().second;
  ASSERT_TRUE(Commit().ok());
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->synced, 3u);
  store_.reset();
  EXPECT_TRUE(Check().second.ok()) << Check().second;
}

// A power cut may take what nobody synced.
TEST_F(CommittedTest, WithoutSync_OnlyWhatOpeningSyncedCounts) {
  options_.sync = false;
  Open();
  ASSERT_TRUE(Commit().ok());
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->synced, 0u);
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->sequence, 1u);
  store_.reset();
  Open();
  ASSERT_TRUE(Commit().ok());
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->synced, 1u);
}

// Its record may lie there; followers are not told of it.
TEST_F(CommittedTest, SyncThatFailed_IsNotTold) {
  Open();
  ASSERT_TRUE(Commit().ok());
  files_.FailAt(1, 1, true);
  EXPECT_FALSE(Commit().ok());
  files_.FailAt(0);
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->sequence, 1u);
  EXPECT_FALSE(Commit().ok());
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->sequence, 1u);
}

// Older versions wrote numbers of commits that had failed.
TEST_F(CommittedTest, FileOfAnOlderVersion_SaysNothingOfSyncs) {
  Open();
  ASSERT_TRUE(Commit().ok());
  store_.reset();
  files_.Content("db/COMMITTED").resize(24);
  const auto committed = ReadCommitted(&files_, "db").value();
  EXPECT_EQ(committed->sequence, 1u);
  EXPECT_EQ(committed->synced, 0u);
  // One that is half overwritten neither.
  Open();
  files_.Content("db/COMMITTED")[24] ^= 1;
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->sequence, 1u);
  EXPECT_EQ(ReadCommitted(&files_, "db").value()->synced, 0u);
}

TEST_F(CommittedTest, ByteThatChanged_IsNamed) {
  EXPECT_TRUE(CheckCommittedIsWhole(&files_, "db").ok());  // it is not there
  Open();
  ASSERT_TRUE(Commit().ok());
  store_.reset();
  const std::string whole = files_.Content("db/COMMITTED");
  for (size_t i = 0; i < whole.size(); ++i) {
    files_.Content("db/COMMITTED") = whole;
    files_.Content("db/COMMITTED")[i] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(CheckCommittedIsWhole(&files_, "db"))) << i;
  }
  // As older versions and power cuts leave it.
  for (const std::string& sound : {whole, whole.substr(0, 24), std::string(), std::string(40, 0)}) {
    files_.Content("db/COMMITTED") = sound;
    EXPECT_TRUE(CheckCommittedIsWhole(&files_, "db").ok()) << sound.size();
  }
}

}  // namespace
}  // namespace pulse::graph
