// The guard: what a RocksDB without the plug-in makes of a database whose tables are in a pool.
#include "services/lsm/pool/pool_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using ::testing::HasSubstr;

const GuardInfo kInfo{"/mnt/pools/a pool", "0123456789abcdef0123456789abcdef"};

std::set<std::string> Names(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(dir)) names.insert(e.path().filename());
  return names;
}

std::string Content(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

rocksdb::Options PlainOptions() {
  rocksdb::Options options = SmallDbOptions(nullptr);
  options.env = rocksdb::Env::Default();
  return options;
}

// A database of stock RocksDB with one key.
void MakeStockDb(const std::string& path) {
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(PlainOptions(), path, &db).ok());
  EXPECT_TRUE(db->Put(rocksdb::WriteOptions(), "key", "value").ok());
  EXPECT_TRUE(db->Close().ok());
  delete db;
}

std::string OpenOnStock(const std::string& path, bool read_only = false) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status s = read_only ? rocksdb::DB::OpenForReadOnly(PlainOptions(), path, &db)
                                      : rocksdb::DB::Open(PlainOptions(), path, &db);
  std::string value;
  if (s.ok()) value = db->Get(rocksdb::ReadOptions(), "key", &value).ok() ? value : "(no key)";
  delete db;
  return s.ok() ? value : s.ToString();
}

TEST(PoolGuardTest, Guard_Written_SaysInWhichPoolTheTablesAre) {
  ScratchDir dir;
  EXPECT_FALSE(IsGuarded(dir.path()).value());
  EXPECT_TRUE(absl::IsNotFound(ReadGuard(dir.path()).status()));
  ASSERT_TRUE(WriteGuard(dir.path(), kInfo).ok());
  EXPECT_TRUE(IsGuarded(dir.path()).value());
  auto info = ReadGuard(dir.path());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->pool, kInfo.pool);
  EXPECT_EQ(info->pool_id, kInfo.pool_id);
  // The pool has moved.
  ASSERT_TRUE(WriteGuard(dir.path(), {"/elsewhere", kInfo.pool_id}).ok());
  EXPECT_EQ(ReadGuard(dir.path())->pool, "/elsewhere");
  ASSERT_TRUE(DeleteGuard(dir.path()).ok());
  EXPECT_EQ(Names(dir.path()), std::set<std::string>());
}

TEST(PoolGuardTest, ReadGuard_DamagedManifest_IsDataLoss) {
  ScratchDir dir;
  ASSERT_TRUE(WriteGuard(dir.path(), kInfo).ok());
  const std::string good = Content(dir / kGuardManifestName);
  for (const size_t at : {size_t{0}, size_t{12}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] ^= 1;
    std::ofstream(dir / kGuardManifestName) << bad;
    EXPECT_TRUE(absl::IsDataLoss(ReadGuard(dir.path()).status())) << at;
  }
}

TEST(PoolGuardTest, StockRocksDb_GuardedDatabase_RefusesAndChangesNothing) {
  ScratchDir dir;
  MakeStockDb(dir / "db");
  ASSERT_TRUE(WriteGuard(dir / "db", kInfo).ok());
  const std::string real = Content(dir / "db/CURRENT.pulse");
  const std::string manifest = dir / "db/" + real.substr(0, real.size() - 1);
  const std::string before = Content(manifest);
  for (const bool read_only : {true, false}) {
    const std::string said = OpenOnStock(dir / "db", read_only);
    EXPECT_THAT(said, HasSubstr("does not match existing comparator"));
    EXPECT_THAT(said, HasSubstr("pulse://?layout=pool&pool=" + kInfo.pool));
  }
  EXPECT_EQ(Content(dir / "db/CURRENT.pulse"), real);
  EXPECT_EQ(Content(manifest), before);
  ASSERT_TRUE(LiftGuard(dir / "db").ok());
  EXPECT_FALSE(IsGuarded(dir / "db").value());
  EXPECT_EQ(Names(dir / "db").count(kGuardManifestName), 0u);
  EXPECT_EQ(Names(dir / "db").count(kRealCurrentName), 0u);
  EXPECT_EQ(OpenOnStock(dir / "db"), "value");
}

// The states in which a cut may leave a database that is being guarded: stock RocksDB opens each
// but the last, and the guard is made from each.
TEST(PoolGuardTest, WriteGuard_CutAtAnyStep_LeavesADatabase) {
  ScratchDir dir;
  MakeStockDb(dir / "whole");
  ASSERT_TRUE(WriteGuard(dir / "whole", kInfo).ok());
  const std::string real = Content(dir / "whole/CURRENT.pulse");
  for (int step = 0; step < 5; ++step) {
    const std::string db = dir / ("db" + std::to_string(step));
    const auto copy = [&] {
      std::filesystem::remove_all(db);
      std::filesystem::copy(dir / "whole", db);
      if (step < 1) std::filesystem::remove(db + "/" + kGuardManifestName);
      if (step < 2) std::filesystem::remove(db + "/" + kRealCurrentName);
      if (step < 4) std::ofstream(db + "/CURRENT") << real;
      if (step < 4) std::ofstream(db + "/000000.dbtmp") << "MANIFEST";                   // torn
      if (step == 3) std::ofstream(db + "/" + kRealCurrentName) << "MANIFEST-999999\n";  // old
    };
    copy();
    if (step < 4) {
      EXPECT_EQ(OpenOnStock(db), "value") << step;
    }
    copy();
    ASSERT_TRUE(WriteGuard(db, kInfo).ok()) << step;
    EXPECT_TRUE(IsGuarded(db).value());
    EXPECT_EQ(Content(db + "/CURRENT.pulse"), real) << step;
    EXPECT_THAT(OpenOnStock(db), HasSubstr("comparator"));
    ASSERT_TRUE(LiftGuard(db).ok());
    EXPECT_EQ(OpenOnStock(db), "value") << step;
  }
}

}  // namespace
}  // namespace pulse::lsm::test
