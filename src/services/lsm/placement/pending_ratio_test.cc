// The pending-compaction limit, by RocksDB's options, and the ratio, by its own estimate.
#include "services/lsm/placement/pending_ratio.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

PendingRatio RatioOf(const std::string& uri,
                     const std::function<void(rocksdb::ColumnFamilyOptions*)>& change = {}) {
  rocksdb::ColumnFamilyOptions o;
  if (change) change(&o);
  return {ParseOptions(uri).value(), {{"default", rocksdb::ColumnFamilyOptions()}, {"other", o}}};
}

TEST(PendingRatioTest, Limit_LevelCompaction_IsAQuarterOfTheSlowdownLimit) {
  const auto limit = [](uint64_t soft, uint64_t hard, const std::string& more = "") {
    return RatioOf("pulse://?placement=adaptive" + more,
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

TEST(PendingRatioTest, Limit_OtherStyleOrPlacement_IsZero) {
  EXPECT_EQ(RatioOf("pulse://?placement=whole").limit(), 0u);
  EXPECT_EQ(RatioOf("pulse://").limit(), 0u);
  for (const auto style : {rocksdb::kCompactionStyleUniversal, rocksdb::kCompactionStyleFIFO}) {
    EXPECT_EQ(RatioOf("pulse://?placement=adaptive&debt=1G",
                      [&](rocksdb::ColumnFamilyOptions* o) { o->compaction_style = style; })
                  .limit(),
              0u);
  }
}

TEST(PendingRatioTest, WillStallWriters_ManyL0Tables_IsTrue) {
  const auto from_which = [](int trigger, int slowdown) {
    const PendingRatio ratio =
        RatioOf("pulse://?placement=adaptive", [&](rocksdb::ColumnFamilyOptions* o) {
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
      if (ratio.WillStallWriters(info)) return tables;
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
  EXPECT_FALSE(RatioOf("pulse://?placement=adaptive").WillStallWriters(info));
}

TEST(PendingRatioTest, Get_SeveralDatabases_IsTheHighest) {
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
  const auto behind = open("behind"), clean = open("clean");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(behind->Put({}, "key", std::string(10'000, 'x')).ok());
    ASSERT_TRUE(behind->Flush({}).ok());
  }
  PendingRatio ratio(ParseOptions("pulse://?placement=adaptive&debt=1M").value(),
                     {{"default", rocksdb::ColumnFamilyOptions()}});
  EXPECT_LT(ratio.Get(), 0) << "no database yet";
  ratio.Update(clean.get(), "clean", "default");
  EXPECT_EQ(ratio.Get(), 0);
  ratio.Update(behind.get(), "behind", "default");
  EXPECT_GT(ratio.Get(), 0);
  ASSERT_TRUE(behind->CompactRange({}, nullptr, nullptr).ok());
  ratio.Update(behind.get(), "behind", "default");
  EXPECT_EQ(ratio.Get(), 0) << "all is compacted";
  ratio.Update(behind.get(), "behind", "made later");
  EXPECT_GT(ratio.Get(), 1) << "an unknown column family";
  ratio.Update(behind.get(), "behind", "default");
  EXPECT_GT(ratio.Get(), 1);
  ratio.Forget("behind");
  EXPECT_EQ(ratio.Get(), 0);
}

}  // namespace
}  // namespace pulse::lsm::test
