// Whole compactions: RocksDB on pulse:// with placement=whole and adaptive, against a model, with
// agents that do not know what the database is made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/compaction_filter.h"
#include "rocksdb/comparator.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/transaction_db.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/placement/test_placed_db.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

TEST(WholeTaskTest, AnEmbeddedAgentCompacts) {
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=whole&agent_tasks=2"), dir / "db", nullptr, {"two"});
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
}

TEST(WholeTaskTest, AnEmbeddedAgentCompactsAPool) {
  ScratchDir dir;
  CreatePool(dir / "pool", 256 << 20);
  PlacedDb placed(Embedded("pulse://?placement=whole&layout=pool&pool=" +
                           std::filesystem::absolute(dir / "pool").string()),
                  dir / "db");
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  ASSERT_TRUE(placed.db->Open().ok());
  EXPECT_EQ(placed.db->Difference(), "");
}

// Some are the agent's then, and some are done here.
TEST(WholeTaskTest, SubcompactionsBeyondTheAgentsPlacesAreDoneHere) {
  ScratchDir dir;
  for (const char* mode : {"whole", "adaptive"}) {
    SCOPED_TRACE(mode);
    const std::string path = dir / mode;
    PlacedDb placed(Embedded(std::string("pulse://?agent_tasks=1&placement=") + mode), path,
                    [](rocksdb::Options* o) { o->max_subcompactions = 4; });
    WorkAndCheck(&placed, path);
    EXPECT_EQ(DifferenceOnStock(path, placed.db->model(), placed.options), "");
  }
}

TEST(WholeTaskTest, AnotherProcessCompacts) {
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db", nullptr, {"two"});
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
}

TEST(WholeTaskTest, AdaptivePlacementLosesNothing) {
  ScratchDir dir;
  AgentProcess agent;
  for (const bool external : {false, true}) {
    SCOPED_TRACE(external);
    const std::string path = dir / (external ? "external" : "embedded");
    PlacedDb placed(
        external ? agent.Attach("?placement=adaptive") : Embedded("pulse://?placement=adaptive"),
        path);
    WorkAndCheck(&placed, path);
    EXPECT_EQ(DifferenceOnStock(path, placed.db->model(), placed.options), "");
  }
}

TEST(WholeTaskTest, OnTheHostNothingIsTheAgents) {
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=host"), dir / "db");
  EXPECT_EQ(placed.options.compaction_service, nullptr);
  WorkAndCheck(&placed, dir / "db");
  const Stats s = placed.stats();
  EXPECT_EQ(s.whole_compactions, 0u);
  EXPECT_EQ(s.bytes_persisted, 0u);
  EXPECT_EQ(s.bytes_fetched, 0u);
}

// As DComp has it: level 0 is the host's; deeper ones are the agent's while its slots are taken.
TEST(WholeTaskTest, DeepCompactionsGoWhenTheHostIsTaken) {
  ScratchDir dir;
  for (const int slots : {0, 1000}) {
    SCOPED_TRACE(slots);
    const std::string path = dir / std::to_string(slots);
    PlacedDb placed(
        Embedded("pulse://?placement=whole&whole=deep&host_slots=" + std::to_string(slots)), path);
    WorkAndCheck(&placed, path);
    const Stats s = placed.stats();
    EXPECT_EQ(s.whole_compactions > 0, slots == 0);
    if (slots != 0) {
      EXPECT_EQ(s.bytes_persisted, 0u);  // the rest as stock
    }
  }
}

class BackwardComparator : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "pulse.test.Backward"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    return rocksdb::ReverseBytewiseComparator()->Compare(a, b);
  }
  void FindShortestSeparator(std::string*, const rocksdb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

// The agent cannot make it by name; an embedded one is given it.
TEST(WholeTaskTest, AComparatorThatTheAgentDoesNotKnowKeepsTheFamilyHere) {
  static const BackwardComparator backward;
  const auto change = [](rocksdb::Options* o) {
    o->comparator = &backward;
    o->merge_operator = nullptr;
  };
  ScratchDir dir;
  AgentProcess agent;
  for (const bool external : {true, false}) {
    SCOPED_TRACE(external);
    const std::string path = dir / (external ? "external" : "embedded");
    PlacedDb placed(
        external ? agent.Attach("?placement=whole") : Embedded("pulse://?placement=whole"), path,
        change);
    std::mt19937_64 rng(TestSeed());
    ASSERT_TRUE(placed.db->Open().ok());
    ASSERT_TRUE(placed.db->Fill(&rng, 4000, 500).ok());
    ASSERT_TRUE(placed.db->CompactAll().ok());
    for (const auto& [key, value] : placed.db->model()["default"]) {
      std::string found;
      ASSERT_TRUE((*placed.db)->Get(rocksdb::ReadOptions(), key, &found).ok());
      ASSERT_EQ(found, value);
    }
    EXPECT_EQ(placed.stats().whole_compactions > 0, !external);
    // And it was not asked again and again.
    if (external) {
      EXPECT_LE(placed.stats().whole_returned, 4u);
    }
  }
}

class DropFilter : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "pulse.test.Drop"; }
  bool Filter(int, const rocksdb::Slice& key, const rocksdb::Slice&, std::string*,
              bool*) const override {
    return key.ToString().back() == '7';
  }
};

TEST(WholeTaskTest, ACompactionFilterIsNeverLeftOut) {
  static const DropFilter filter;
  ScratchDir dir;
  AgentProcess agent;
  for (const bool external : {true, false}) {
    SCOPED_TRACE(external);
    const std::string path = dir / (external ? "external" : "embedded");
    PlacedDb placed(
        external ? agent.Attach("?placement=whole") : Embedded("pulse://?placement=whole"), path,
        [](rocksdb::Options* o) { o->compaction_filter = &filter; });
    std::mt19937_64 rng(TestSeed());
    ASSERT_TRUE(placed.db->Open().ok());
    ASSERT_TRUE(placed.db->Fill(&rng, 3000, 500).ok());
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE((*placed.db)->CompactRange(all, nullptr, nullptr).ok());
    for (const auto& [key, value] : placed.db->model()["default"]) {
      std::string found;
      EXPECT_EQ((*placed.db)->Get(rocksdb::ReadOptions(), key, &found).ok(), key.back() != '7');
    }
  }
}

// Those of a remote compaction take it for one that the user has asked for. What a filter does
// then, it must not do in others.
struct Asked {
  std::atomic<int> manual{0}, automatic{0};
  void Count(bool is_manual) { ++(is_manual ? manual : automatic); }
};
class AskedFilterFactory : public rocksdb::CompactionFilterFactory {
 public:
  explicit AskedFilterFactory(Asked* asked) : asked_(asked) {}
  const char* Name() const override { return "pulse.test.AskedFilter"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override {
    asked_->Count(context.is_manual_compaction);
    return nullptr;
  }

 private:
  Asked* const asked_;
};
class AskedPartitionerFactory : public rocksdb::SstPartitionerFactory {
 public:
  explicit AskedPartitionerFactory(Asked* asked) : asked_(asked) {}
  const char* Name() const override { return "pulse.test.AskedPartitioner"; }
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& context) const override {
    asked_->Count(context.is_manual_compaction);
    return nullptr;
  }

 private:
  Asked* const asked_;
};

TEST(WholeTaskTest, FactoriesHearWhetherTheUserHasAskedForTheCompaction) {
  ScratchDir dir;
  Asked filters, partitioners;
  PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db", [&](rocksdb::Options* o) {
    o->compaction_filter_factory = std::make_shared<AskedFilterFactory>(&filters);
    o->sst_partitioner_factory = std::make_shared<AskedPartitionerFactory>(&partitioners);
  });
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  ASSERT_TRUE(placed.db->Fill(&rng, 3000, 500).ok());
  ASSERT_TRUE(placed.db->FlushAll().ok());
  ASSERT_TRUE(Eventually([&] {
    return placed.stats().whole_compactions > 0 && filters.automatic > 0 &&
           partitioners.automatic > 0;
  }));
  EXPECT_EQ(filters.manual.load(), 0);
  EXPECT_EQ(partitioners.manual.load(), 0);
  // It finds nothing to do where an automatic one, which it waited for, has emptied its levels.
  Status s;
  ASSERT_TRUE(Eventually([&] {
    s = placed.db->CompactAll();
    return !s.ok() || (filters.manual > 0 && partitioners.manual > 0);
  }));
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(placed.db->Difference(), "");
  placed.db->Close();
}

// RocksDB's remote compactions would lose them.
TEST(WholeTaskTest, BlobsAndTwoPhaseCommitStayHere) {
  ScratchDir dir;
  const std::vector<std::function<void(rocksdb::Options*)>> changes = {
      [](rocksdb::Options* o) {
        o->enable_blob_files = true;
        o->min_blob_size = 100;
      },
      [](rocksdb::Options* o) { o->allow_2pc = true; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string path = dir / std::to_string(i);
    PlacedDb placed(Embedded("pulse://?placement=whole"), path, changes[i]);
    WorkAndCheck(&placed, path);
    EXPECT_EQ(placed.stats().whole_compactions, 0u);
  }
}

// What utilities, or the user, do to the options after PlaceCompactions.
TEST(WholeTaskTest, ObjectsThatChangedSinceAreNotLeftOut) {
  static const DropFilter filter;
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db");
  rocksdb::Options changed = placed.options;
  changed.compaction_filter = &filter;
  TestDb db(changed, dir / "db");
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 3000, 500).ok());
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_TRUE(db->CompactRange(all, nullptr, nullptr).ok());
  for (const auto& [key, value] : db.model()["default"]) {
    std::string found;
    EXPECT_EQ(db->Get(rocksdb::ReadOptions(), key, &found).ok(), key.back() != '7');
  }
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

class MarkCollector : public rocksdb::TablePropertiesCollector {
 public:
  static constexpr char kMark[] = "pulse.test.mark";
  const char* Name() const override { return "pulse.test.MarkCollector"; }
  Status Finish(rocksdb::UserCollectedProperties* properties) override {
    (*properties)[kMark] = "made";
    return Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
};
class MarkCollectorFactory : public rocksdb::TablePropertiesCollectorFactory {
 public:
  const char* Name() const override { return "pulse.test.MarkCollectorFactory"; }
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(
      rocksdb::TablePropertiesCollectorFactory::Context) override {
    return new MarkCollector;
  }
};

TEST(WholeTaskTest, CollectorsOfPropertiesAddedSinceAreNotLeftOut) {
  for (const bool before : {true, false}) {
    SCOPED_TRACE(before);
    ScratchDir dir;
    const auto collects = [](rocksdb::Options* o) {
      o->table_properties_collector_factories = {std::make_shared<MarkCollectorFactory>()};
    };
    PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db", [&](rocksdb::Options* o) {
      if (before) collects(o);
    });
    rocksdb::Options changed = placed.options;
    collects(&changed);
    TestDb db(changed, dir / "db");
    std::mt19937_64 rng(TestSeed());
    ASSERT_TRUE(db.Open().ok());
    ASSERT_TRUE(db.Fill(&rng, 3000, 500).ok());
    ASSERT_TRUE(db.CompactAll().ok());
    rocksdb::TablePropertiesCollection tables;
    ASSERT_TRUE(db->GetPropertiesOfAllTables(&tables).ok());
    EXPECT_FALSE(tables.empty());
    for (const auto& [path, properties] : tables) {
      EXPECT_EQ(properties->user_collected_properties.count(MarkCollector::kMark), 1u) << path;
    }
    EXPECT_EQ(placed.stats().whole_compactions > 0, before);
  }
}

// It sets allow_2pc in a copy of its own.
TEST(WholeTaskTest, ATransactionDbStaysHere) {
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db");
  rocksdb::TransactionDB* raw = nullptr;
  const Status s = rocksdb::TransactionDB::Open(placed.options, rocksdb::TransactionDBOptions(),
                                                dir / "db", &raw);
  ASSERT_TRUE(s.ok()) << s.ToString();
  const std::unique_ptr<rocksdb::TransactionDB> db(raw);
  std::mt19937_64 rng(TestSeed());
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(
        db->Put(rocksdb::WriteOptions(), std::to_string(rng() % 1000), RandomBytes(&rng, 500))
            .ok());
  }
  ASSERT_TRUE(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

// RocksDB tells no listener of DB::CompactFiles; its column family is not known.
TEST(WholeTaskTest, FilesThatTheUserPicksAreCompactedHere) {
  static const DropFilter filter;
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db",
                  [](rocksdb::Options* o) { o->disable_auto_compactions = true; }, {"two"});
  placed.db->family_options("two").compaction_filter = &filter;
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  ASSERT_TRUE(placed.db->Fill(&rng, 3000, 500).ok());
  ASSERT_TRUE(placed.db->FlushAll().ok());
  for (const std::string& name : placed.db->families()) {
    rocksdb::ColumnFamilyMetaData meta;
    (*placed.db)->GetColumnFamilyMetaData(placed.db->family(name), &meta);
    std::vector<std::string> files;
    for (const auto& f : meta.levels[0].files) files.push_back(f.name);
    ASSERT_FALSE(files.empty());
    const Status s =
        (*placed.db)->CompactFiles(rocksdb::CompactionOptions(), placed.db->family(name), files, 1);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  for (const std::string& name : placed.db->families()) {
    for (const auto& [key, value] : placed.db->model()[name]) {
      std::string found;
      EXPECT_EQ(
          (*placed.db)->Get(rocksdb::ReadOptions(), placed.db->family(name), key, &found).ok(),
          name != "two" || key.back() != '7')
          << name << " " << key;
    }
  }
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

TEST(WholeTaskTest, WhatIsNotCarriedOverStaysHere) {
  ScratchDir dir;
  const std::vector<std::function<void(rocksdb::Options*)>> changes = {
      [](rocksdb::Options* o) { o->rate_limiter.reset(rocksdb::NewGenericRateLimiter(1 << 30)); },
      [](rocksdb::Options* o) {
        o->sst_file_manager.reset(rocksdb::NewSstFileManager(rocksdb::Env::Default()));
      },
      [](rocksdb::Options* o) {
        o->file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    PlacedDb placed(Embedded("pulse://?placement=whole"), dir / std::to_string(i), changes[i]);
    ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
    EXPECT_EQ(placed.stats().whole_compactions, 0u);
  }
}

// Enabled once, and no longer: the tables still refer to blob files.
TEST(WholeTaskTest, BlobFilesOfThePastStayHere) {
  ScratchDir dir;
  std::mt19937_64 rng(TestSeed());
  Model model;
  {
    PlacedDb placed(Embedded("pulse://"), dir / "db", [](rocksdb::Options* o) {
      o->enable_blob_files = true;
      o->min_blob_size = 100;
    });
    ASSERT_TRUE(placed.db->Open().ok());
    ASSERT_TRUE(placed.db->Fill(&rng, 2000, 600).ok());
    ASSERT_TRUE(placed.db->FlushAll().ok());
    model = placed.db->model();
  }
  PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db");
  placed.db->model() = model;
  ASSERT_TRUE(placed.db->Open().ok());
  ASSERT_TRUE(placed.db->Fill(&rng, 2000, 600).ok());
  ASSERT_TRUE(placed.db->CompactAll().ok());
  EXPECT_EQ(placed.db->Difference(), "");
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

// RocksDB gives up a database when a rename fails; the agent of another process learns from no
// OPTIONS file that outputs go to another disk.
TEST(WholeTaskTest, OutputsMoveToAnotherDisk) {
  std::error_code ec;
  const std::string other = "/dev/shm/pulse-test-" + std::to_string(getpid());
  if (!std::filesystem::create_directory(other, ec)) GTEST_SKIP() << "no second file system";
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole&io=buffered"), dir / "db");
  ASSERT_TRUE(placed.db->Open().ok());
  // Not among the families that PlaceCompactions was given. Flushes go to the first path.
  rocksdb::ColumnFamilyOptions late(placed.options);
  late.cf_paths = {{dir / "db", 1}, {other, uint64_t{1} << 40}};
  late.disable_auto_compactions = true;
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE((*placed.db)->CreateColumnFamily(late, "late", &family).ok());
  std::mt19937_64 rng(TestSeed());
  std::map<std::string, std::string> model;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = std::to_string(rng() % 1000);
    model[key] = RandomBytes(&rng, 400);
    ASSERT_TRUE((*placed.db)->Put(rocksdb::WriteOptions(), family, key, model[key]).ok());
  }
  ASSERT_TRUE((*placed.db)->Flush(rocksdb::FlushOptions(), family).ok());
  rocksdb::CompactRangeOptions all;
  all.target_path_id = 1;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  const Status s = (*placed.db)->CompactRange(all, family, nullptr, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_FALSE(std::filesystem::is_empty(other));
  for (const auto& [key, value] : model) {
    std::string found;
    ASSERT_TRUE((*placed.db)->Get(rocksdb::ReadOptions(), family, key, &found).ok());
    ASSERT_EQ(found, value);
  }
  ASSERT_TRUE((*placed.db)->DestroyColumnFamilyHandle(family).ok());
  placed.db->Close();
  std::filesystem::remove_all(other, ec);
}

TEST(WholeTaskTest, TablesInOtherDirectoriesStayHere) {
  ScratchDir dir;
  std::filesystem::create_directory(dir / "other");
  PlacedDb placed(Embedded("pulse://?placement=whole"), dir / "db", [&](rocksdb::Options* o) {
    o->cf_paths = {{dir / "other", uint64_t{1} << 40}};
  });
  WorkAndCheck(&placed, dir / "db");
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

TEST(WholeTaskTest, PlaceCompactionsSaysWhatIsWrong) {
  rocksdb::Options stock;
  EXPECT_TRUE(PlaceCompactions(&stock).IsInvalidArgument());
  auto fs = Embedded("pulse://?placement=whole");
  const auto env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options twice;
  twice.env = env.get();
  EXPECT_TRUE(PlaceCompactions(&twice).ok());
  EXPECT_TRUE(PlaceCompactions(&twice).IsInvalidArgument());
}

}  // namespace
}  // namespace pulse::lsm::test
