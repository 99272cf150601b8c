// A database whose compactions are placed, against its model.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pulse/rocksdb.h"
#include "rocksdb/comparator.h"
#include "rocksdb/env.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {

struct PlacedDb {
  PlacedDb(std::shared_ptr<rocksdb::FileSystem> file_system, const std::string& path,
           const std::function<void(rocksdb::Options*)>& change = nullptr,
           const std::vector<std::string>& families = {})
      : fs(std::move(file_system)), env(rocksdb::NewCompositeEnv(fs)) {
    rocksdb::Options o = SmallDbOptions(env.get());
    if (change) change(&o);
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {
        {rocksdb::kDefaultColumnFamilyName, o}};
    for (const std::string& f : families) descriptors.emplace_back(f, o);
    const rocksdb::Status s = PlaceCompactions(&o, descriptors);
    EXPECT_TRUE(s.ok()) << s.ToString();
    options = o;
    db = std::make_unique<TestDb>(o, path, families);
  }
  // Writes, overwrites, merges and deletes, with compactions beside; then all of it compacted.
  void Work(std::mt19937_64* rng, int n) {
    for (int i = 0; i < n; ++i) {
      const std::vector<std::string> names = db->families();
      const std::string& f = names[(*rng)() % names.size()];
      const std::string key = "key" + std::to_string((*rng)() % 3000);
      rocksdb::Status s;
      switch ((*rng)() % 20) {
        case 0:
          s = db->Delete(f, key);
          break;
        case 1:
          s = db->Merge(f, key, RandomBytes(rng, 30));
          break;
        case 2:
          s = (*rng)() % 50 == 0 ? db->DeleteRange(f, key, key + "5") : rocksdb::Status::OK();
          break;
        default:
          s = db->Put(f, key, RandomBytes(rng, (*rng)() % 1500));
      }
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }
  // Opens it, fills it and compacts all of it.
  void FillAndCompact() {
    std::mt19937_64 rng(TestSeed());
    ASSERT_TRUE(db->Open().ok());
    ASSERT_TRUE(db->Fill(&rng, 2000, 500).ok());
    ASSERT_TRUE(db->CompactAll().ok());
    EXPECT_EQ(db->Difference(), "");
  }
  // The same for a database whose order is not the model's.
  void FillAndReadBack() {
    std::mt19937_64 rng(TestSeed());
    ASSERT_TRUE(db->Open().ok());
    ASSERT_TRUE(db->Fill(&rng, 4000, 500).ok());
    ASSERT_TRUE(db->CompactAll().ok());
    for (const auto& [key, value] : db->model()["default"]) {
      std::string found;
      ASSERT_TRUE((*db)->Get(rocksdb::ReadOptions(), key, &found).ok());
      ASSERT_EQ(found, value);
    }
  }
  Stats stats() const { return StatsOf(fs.get()); }

  std::shared_ptr<rocksdb::FileSystem> fs;
  std::unique_ptr<rocksdb::Env> env;
  rocksdb::Options options;
  std::unique_ptr<TestDb> db;
};

// One that no agent knows by name.
class BackwardComparator : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "pulse.test.Backward"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    return rocksdb::ReverseBytewiseComparator()->Compare(a, b);
  }
  void FindShortestSeparator(std::string*, const rocksdb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

inline std::shared_ptr<rocksdb::FileSystem> Embedded(const std::string& uri) {
  std::shared_ptr<rocksdb::FileSystem> fs;
  const rocksdb::Status s = NewFileSystem(uri, nullptr, &fs);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return fs;
}

// The same on every kind of agent.
inline void WorkAndCheck(PlacedDb* placed, const std::string& path) {
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed->db->Open().ok());
  placed->Work(&rng, 6000);
  const rocksdb::Snapshot* snapshot = (*placed->db)->GetSnapshot();
  std::string before;
  const std::string key = placed->db->model()["default"].begin()->first;
  ASSERT_TRUE((*placed->db)->Get(rocksdb::ReadOptions(), key, &before).ok());
  placed->Work(&rng, 6000);
  ASSERT_TRUE(placed->db->Put("default", key, "after").ok());
  ASSERT_TRUE(placed->db->CompactAll().ok());
  // What a snapshot sees is not compacted away.
  rocksdb::ReadOptions then;
  then.snapshot = snapshot;
  std::string value;
  ASSERT_TRUE((*placed->db)->Get(then, key, &value).ok());
  EXPECT_EQ(value, before);
  (*placed->db)->ReleaseSnapshot(snapshot);
  EXPECT_EQ(placed->db->Difference(), "");
  placed->db->Close();
  EXPECT_FALSE(std::filesystem::exists(path + "/pulse-tasks"));
}

}  // namespace pulse::lsm::test
