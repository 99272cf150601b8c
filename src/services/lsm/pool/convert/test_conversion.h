// A database with two directories, blob files and a log, and a pool that it can move into; for the
// tests of conversions.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/convert/convert.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_guard.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::convert::test {

using lsm::Pool;
using lsm::test::CreatePool;
using lsm::test::Model;
using lsm::test::ScratchDir;
using lsm::test::SmallDbOptions;
using lsm::test::TestDb;
using testing_util::TestSeed;

namespace fs = std::filesystem;

inline std::set<std::string> Names(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& e : fs::directory_iterator(dir)) names.insert(e.path().filename().string());
  return names;
}

inline std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Inverts a byte of a file.
inline void Damage(const std::string& path, uint64_t at) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(~f.get());
  f.seekp(static_cast<std::streamoff>(at));
  f.put(byte);
  ASSERT_TRUE(f.flush().good());
}

class ConvertTest : public ::testing::Test {
 protected:
  void SetUp() override { CreatePool(pool_, 24 << 20); }

  Options MakeOptions() const {
    Options options;
    options.pool = pool_;
    options.database = db_;
    options.db_paths = {more_};
    return options;
  }
  rocksdb::Options DbOptions(rocksdb::Env* env) const {
    rocksdb::Options options = SmallDbOptions(env);
    // Some tables here, some there; and blob files.
    options.db_paths = {{db_, 200 << 10}, {more_, uint64_t{1} << 30}};
    options.enable_blob_files = true;
    options.min_blob_size = 900;
    options.enable_blob_garbage_collection = true;
    options.blob_garbage_collection_age_cutoff = 0.5;
    return options;
  }
  std::unique_ptr<rocksdb::Env> PoolEnv() const {
    std::shared_ptr<rocksdb::FileSystem> fs;
    const rocksdb::Status s = NewFileSystem(
        "pulse://?fetch=off&queue=1M&write_threshold=64K&layout=pool&pool=" + pool_, nullptr, &fs);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return rocksdb::NewCompositeEnv(fs);
  }
  // Opens the database in the layout that its directory says, does `use`, and remembers what it
  // must hold. "" or what is wrong.
  std::string Use(const std::function<rocksdb::Status(TestDb&)>& use = nullptr) {
    std::unique_ptr<rocksdb::Env> env;
    if (Guarded()) env = PoolEnv();
    TestDb db(DbOptions(env.get()), db_, {"other"});
    db.model() = model_;
    db.model()["default"];
    db.model()["other"];
    rocksdb::Status s = db.Open();
    if (!s.ok()) return s.ToString();
    s = db->VerifyChecksum();
    if (!s.ok()) return s.ToString();
    if (std::string difference = db.Difference(); !difference.empty()) return difference;
    if (use != nullptr) s = use(db);
    model_ = db.model();
    return s.ok() ? db.Difference() : s.ToString();
  }
  rocksdb::Status WriteMore(TestDb& db) {
    rocksdb::Status s = db.Fill(&rng_, 200, 300, 300);
    if (s.ok()) s = db.Fill(&rng_, 60, 2000, 300);
    if (s.ok()) s = db.FlushAll();
    // And something that is in the write-ahead log only.
    return s.ok() ? db.Fill(&rng_, 10, 100, 300) : s;
  }
  static rocksdb::Status MoveTo(TestDb& db, const std::string& family, uint32_t path) {
    rocksdb::CompactRangeOptions all;
    all.change_level = true;
    all.target_path_id = path;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    return db->CompactRange(all, db.family(family), nullptr, nullptr);
  }
  void MakeDatabase() {
    fs::create_directory(more_);
    ASSERT_EQ(Use([this](TestDb& db) {
                rocksdb::Status s = WriteMore(db);
                if (s.ok()) s = db.CompactAll();
                if (s.ok()) s = WriteMore(db);
                // Tables in both directories, whatever compactions in the background have done.
                if (s.ok()) s = MoveTo(db, "default", 0);
                if (s.ok()) s = MoveTo(db, "other", 1);
                return s.ok() ? db.Fill(&rng_, 10, 100, 300) : s;
              }),
              "");
    ASSERT_GT(TablesIn(db_), 0u);
    ASSERT_GT(TablesIn(more_), 0u);
  }
  bool Guarded() const {
    const auto guarded = lsm::IsGuarded(db_);
    return guarded.ok() && *guarded;
  }
  std::string OnStock() const {
    rocksdb::Options options = SmallDbOptions(nullptr);
    options.env = rocksdb::Env::Default();
    options.create_if_missing = false;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status s = rocksdb::DB::OpenForReadOnly(options, db_, &db);
    delete db;
    return s.ToString();
  }
  static size_t TablesIn(const std::string& dir) {
    size_t n = 0;
    for (const std::string& name : Names(dir)) n += Pool::MayHold(name) ? 1 : 0;
    return n;
  }
  // Directory -> names.
  std::map<std::string, std::set<std::string>> InPool() const {
    auto store = store::Store::Open(pool_);
    EXPECT_TRUE(store.ok()) << store.status();
    std::map<std::string, std::set<std::string>> found;
    for (const std::string& dir : (*store)->ListDirectories()) {
      const auto files = (*store)->List(dir);
      for (const auto& f : *files) found[dir].insert(f.name);
    }
    return found;
  }
  // Where the first byte of a file of the pool is on the device.
  uint64_t PlaceOf(const std::string& dir, const std::string& name) const {
    auto store = store::Store::Open(pool_);
    EXPECT_TRUE(store.ok()) << store.status();
    std::vector<store::Extent> extents;
    const auto file = (*store)->Lookup(dir, name);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*store)->MapRead(*file, 0, 1, &extents).ok());
    return extents.at(0).device_offset;
  }
  ScratchDir dir_;
  const std::string root_ = fs::canonical(dir_.path()).string();
  const std::string pool_ = root_ + "/the_pool";
  const std::string db_ = root_ + "/db";
  const std::string more_ = root_ + "/more";
  Model model_;
  std::mt19937_64 rng_{TestSeed()};
};

}  // namespace pulse::convert::test
