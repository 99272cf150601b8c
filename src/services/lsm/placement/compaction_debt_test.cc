// What may be left for later, by RocksDB's options and its own estimate.
#include "services/lsm/placement/compaction_debt.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

CompactionDebt DebtOf(const std::string& uri,
                      const std::function<void(rocksdb::ColumnFamilyOptions*)>& change = {}) {
  rocksdb::ColumnFamilyOptions o;
  if (change) change(&o);
  return {ParseOptions(uri).value(), {{"default", rocksdb::ColumnFamilyOptions()}, {"other", o}}};
}

TEST(CompactionDebtTest, IsAQuarterOfWhatSlowsWriters) {
  const auto limit = [](uint64_t soft, uint64_t hard, const std::string& more = "") {
    return DebtOf("pulse://?placement=adaptive" + more,
                  [&](rocksdb::ColumnFamilyOptions* o) {
                    o->soft_pending_compaction_bytes_limit = soft;
                    o->hard_pending_compaction_bytes_limit = hard;
                  })
        .limit();
  };
  EXPECT_EQ(limit(64 * kGiB, 256 * kGiB), 16 * kGiB);
  EXPECT_EQ(limit(4 * kGiB, 256 * kGiB), kGiB);
  EXPECT_EQ(limit(64 * kGiB, 8 * kGiB), 2 * kGiB) << "RocksDB takes the lower one";
  EXPECT_EQ(limit(0, 8 * kGiB), 2 * kGiB);
  EXPECT_EQ(limit(0, 0), 16 * kGiB);
  EXPECT_EQ(limit(256 * kGiB, 0), 16 * kGiB) << "the other family's";
  EXPECT_EQ(limit(4 * kGiB, 8 * kGiB, "&debt=3G"), 3 * kGiB);
  EXPECT_EQ(limit(4 * kGiB, 8 * kGiB, "&debt=0"), 0u);
}

TEST(CompactionDebtTest, IsForLevelCompactionAndAdaptivePlacementAlone) {
  EXPECT_EQ(DebtOf("pulse://?placement=whole").limit(), 0u);
  EXPECT_EQ(DebtOf("pulse://").limit(), 0u);
  for (const auto style : {rocksdb::kCompactionStyleUniversal, rocksdb::kCompactionStyleFIFO}) {
    EXPECT_EQ(DebtOf("pulse://?placement=adaptive&debt=1G",
                     [&](rocksdb::ColumnFamilyOptions* o) { o->compaction_style = style; })
                  .limit(),
              0u);
  }
}

TEST(CompactionDebtTest, PressingIsWhatWritersWillSoonWaitFor) {
  const auto from_which = [](int trigger, int slowdown) {
    const CompactionDebt debt =
        DebtOf("pulse://?placement=adaptive", [&](rocksdb::ColumnFamilyOptions* o) {
          o->level0_file_num_compaction_trigger = trigger;
          o->level0_slowdown_writes_trigger = slowdown;
        });
    rocksdb::CompactionJobInfo info;
    info.cf_name = "other";
    rocksdb::CompactionFileInfo file;
    file.level = 1;
    info.input_file_infos.assign(3, file);  // of the level below
    file.level = 0;
    for (int tables = 0; tables < 100; ++tables) {
      if (debt.IsPressing(info)) return tables;
      info.input_file_infos.push_back(file);
    }
    return -1;
  };
  EXPECT_EQ(from_which(4, 20), 16);
  EXPECT_EQ(from_which(8, 4), 8);
  EXPECT_EQ(from_which(4, 1 << 30), -1);
  EXPECT_EQ(from_which(4, -1), 4) << "RocksDB raises it to the trigger";
  rocksdb::CompactionJobInfo info;
  info.cf_name = "new";
  EXPECT_FALSE(DebtOf("pulse://?placement=adaptive").IsPressing(info));
}

TEST(CompactionDebtTest, TheWorstDatabaseCounts) {
  ScratchDir dir;
  const auto open = [&](const std::string& name) {
    rocksdb::Options o;
    o.create_if_missing = true;
    o.disable_auto_compactions = true;
    o.level0_file_num_compaction_trigger = 1;
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(o, dir / name, &db).ok());
    return std::unique_ptr<rocksdb::DB>(db);
  };
  const auto owes = open("owes"), clean = open("clean");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(owes->Put({}, "key", std::string(10'000, 'x')).ok());
    ASSERT_TRUE(owes->Flush({}).ok());
  }
  CompactionDebt debt(ParseOptions("pulse://?placement=adaptive&debt=1M").value(),
                      {{"default", rocksdb::ColumnFamilyOptions()}});
  EXPECT_LT(debt.Owed(), 0) << "nothing is known";
  debt.Note(clean.get(), "clean", "default");
  EXPECT_EQ(debt.Owed(), 0);
  debt.Note(owes.get(), "owes", "default");
  EXPECT_GT(debt.Owed(), 0);
  ASSERT_TRUE(owes->CompactRange({}, nullptr, nullptr).ok());
  debt.Note(owes.get(), "owes", "default");
  EXPECT_EQ(debt.Owed(), 0) << "it is paid";
  debt.Note(owes.get(), "owes", "made later");
  EXPECT_GT(debt.Owed(), 1) << "who knows what that one owes";
  debt.Note(owes.get(), "owes", "default");
  EXPECT_GT(debt.Owed(), 1);
  debt.Forget("owes");
  EXPECT_EQ(debt.Owed(), 0);
}

}  // namespace
}  // namespace pulse::lsm::test
