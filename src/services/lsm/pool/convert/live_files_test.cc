// What a MANIFEST says against what RocksDB makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_manifest.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/convert/closed_database.h"

namespace pulse::convert {
namespace {

using lsm::test::Framer;
using lsm::test::ScratchDir;
using lsm::test::SmallDbOptions;
using lsm::test::TestDb;
using lsm::test::Varint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::TestSeed;

namespace fs = std::filesystem;

std::set<uint64_t> Numbers(const LiveFiles& live, bool blob) {
  std::set<uint64_t> numbers;
  for (const LiveFile& f : live.files) {
    if (f.blob == blob) numbers.insert(f.number);
  }
  return numbers;
}

std::set<uint64_t> Numbers(const std::vector<std::string>& names, const std::string& suffix) {
  std::set<uint64_t> numbers;
  for (const std::string& name : names) {
    if (name.size() < suffix.size() || name.substr(name.size() - suffix.size()) != suffix) continue;
    numbers.insert(std::stoull(name.substr(name.rfind('/') + 1)));
  }
  return numbers;
}

void CheckAgainstRocksDb(const std::string& path) {
  const auto live = ReadLiveFiles(path + "/CURRENT");
  ASSERT_TRUE(live.ok()) << live.status();
  ASSERT_TRUE(live->known);
  const std::vector<std::string> real = lsm::test::LiveFilesOnStock(path);
  EXPECT_EQ(Numbers(*live, false), Numbers(real, ".sst"));
  EXPECT_EQ(Numbers(*live, true), Numbers(real, ".blob"));
  for (const LiveFile& f : live->files) {
    char name[32];
    std::snprintf(name, sizeof(name), "/%06llu", static_cast<unsigned long long>(f.number));
    EXPECT_EQ(fs::file_size(path + name + (f.blob ? ".blob" : ".sst")), f.size) << name;
  }
}

TEST(LiveFilesTest, LiveFiles_RandomDatabases_AreThoseOfRocksDb) {
  std::mt19937_64 rng(TestSeed());
  for (const bool atomic : {false, true}) {
    ScratchDir dir;
    rocksdb::Options options = SmallDbOptions(nullptr);
    options.atomic_flush = atomic;
    options.enable_blob_files = true;
    options.min_blob_size = 500;
    options.enable_blob_garbage_collection = true;
    options.blob_garbage_collection_age_cutoff = 0.7;
    TestDb db(options, dir / "db", {"a", "b"});
    for (int round = 0; round < 5; ++round) {
      ASSERT_TRUE(db.Open().ok());
      ASSERT_TRUE(db.Fill(&rng, 600, 300, 500).ok());
      ASSERT_TRUE(db.Fill(&rng, 200, 1500, 500).ok());
      ASSERT_TRUE(db.FlushAll().ok());
      if (round % 2 == 1) {
        ASSERT_TRUE(db.CompactAll().ok());
      }
      if (round == 4) {
        ASSERT_TRUE(db->DropColumnFamily(db.family("b")).ok());
      }
      db.Close();
      CheckAgainstRocksDb(dir / "db");
    }
  }
}

class MadeUp : public ::testing::Test {
 protected:
  absl::StatusOr<LiveFiles> Read(const std::string& manifest) {
    std::ofstream(dir_ / "CURRENT") << "MANIFEST-000005\n";
    std::ofstream(dir_ / "MANIFEST-000005") << manifest;
    return ReadLiveFiles(dir_ / "CURRENT");
  }
  static std::string Group(uint32_t left) { return Varint(300) + Varint(left); }

  ScratchDir dir_;
};

TEST_F(MadeUp, AtomicGroup_InParts_CountsOnlyWhenWhole) {
  Framer log;
  log.Add(lsm::test::NewFile4(1));
  log.Add(lsm::test::NewFile4(2) + Group(1));
  auto live = Read(log.bytes());
  ASSERT_TRUE(live.ok() && live->known);
  EXPECT_THAT(Numbers(*live, false), ElementsAre(1));
  log.Add(Varint(6) + Varint(0) + Varint(1) + Group(0));
  live = Read(log.bytes());
  ASSERT_TRUE(live.ok() && live->known);
  EXPECT_THAT(Numbers(*live, false), ElementsAre(2));
}

TEST_F(MadeUp, Family_Dropped_TakesOnlyItsTables) {
  Framer log;
  log.Add(lsm::test::NewFile4(1) + Varint(200) + Varint(7));
  log.Add(lsm::test::NewFile4(2));
  log.Add(Varint(200) + Varint(7) + Varint(202));
  const auto live = Read(log.bytes());
  ASSERT_TRUE(live.ok() && live->known);
  EXPECT_THAT(Numbers(*live, false), ElementsAre(2));
}

TEST_F(MadeUp, TornTail_CutAnywhere_IsIgnored) {
  Framer log;
  log.Add(lsm::test::NewFile4(1));
  const size_t whole = log.bytes().size();
  log.Add(lsm::test::NewFile4(2));
  for (size_t n = whole; n < log.bytes().size(); ++n) {
    const auto live = Read(log.bytes().substr(0, n));
    ASSERT_TRUE(live.ok() && live->known) << n;
    EXPECT_THAT(Numbers(*live, false), ElementsAre(1)) << n;
  }
}

TEST_F(MadeUp, LiveFiles_RecordNotUnderstood_AreNotKnown) {
  Framer log;
  log.Add(lsm::test::NewFile4(1));
  log.Add(Varint(777));
  const auto live = Read(log.bytes());
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_FALSE(live->known);
}

TEST_F(MadeUp, Manifest_MissingOrCurrentDamaged_IsDataLoss) {
  ASSERT_TRUE(Read("").ok());
  fs::remove(dir_ / "MANIFEST-000005");
  auto live = ReadLiveFiles(dir_ / "CURRENT");
  EXPECT_TRUE(absl::IsDataLoss(live.status()));
  EXPECT_THAT(std::string(live.status().message()), HasSubstr("MANIFEST-000005 is missing"));
  for (const char* bad : {"", "MANIFEST-000005", "MANIFEST-../x\n", "something\n"}) {
    std::ofstream(dir_ / "CURRENT") << bad;
    live = ReadLiveFiles(dir_ / "CURRENT");
    EXPECT_TRUE(absl::IsDataLoss(live.status())) << bad;
  }
}

}  // namespace
}  // namespace pulse::convert
