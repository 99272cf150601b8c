// Whole compactions: RocksDB on pulse:// with placement=whole and adaptive, against a model, with
// agents that do not know what the database is made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/utilities/transaction_db.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/placement/test_placed_db.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

TEST(CompactionTaskTest, EmbeddedAgentWithoutCpus_OffloadAll_DoesIoOnly) {
  const std::string all = std::to_string(MyCpus().front());
  for (const std::string& more :
       std::vector<std::string>{"", "&agent_nice=5", "&agent_cpus=" + all}) {
    SCOPED_TRACE(more);
    ScratchDir dir;
    PlacedDb placed(Embedded("pulse://?placement=whole&agent_tasks=2" + more), dir / "db", nullptr,
                    {"two"});
    WorkAndCheck(&placed, dir / "db");
    const Stats stats = placed.stats();
    EXPECT_EQ(stats.whole_compactions, 0u);
    EXPECT_EQ(stats.whole_returned, 0u);
    EXPECT_EQ(stats.agent_compaction_nanos, 0u);
    EXPECT_GT(stats.bytes_persisted, 0u);
    EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
  }
}

TEST(CompactionTaskTest, ExternalAgentAndPool_OffloadAll_DoesIoOnly) {
  ScratchDir dir;
  AgentProcess agent;
  CreatePool(dir / "pool", 256 << 20);
  PlacedDb placed(agent.Attach("?placement=whole&layout=pool&pool=" +
                               std::filesystem::absolute(dir / "pool").string()),
                  dir / "db");
  WorkAndCheck(&placed, dir / "db");
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
  EXPECT_GT(placed.stats().bytes_persisted, 0u);
  ASSERT_TRUE(placed.db->Open().ok());
  EXPECT_EQ(placed.db->Difference(), "");
}

// Some are the agent's then, and some are done here.
TEST(CompactionTaskTest, AllSlotsTaken_Subcompactions_AreDoneOnHost) {
  ScratchDir dir;
  AgentProcess agent;
  for (const char* mode : {"whole", "adaptive"}) {
    SCOPED_TRACE(mode);
    const std::string path = dir / mode;
    PlacedDb placed(agent.Attach(std::string("?placement=") + mode), path,
                    [](rocksdb::Options* o) { o->max_subcompactions = 4; });
    WorkAndCheck(&placed, path);
    EXPECT_EQ(DifferenceOnStock(path, placed.db->model(), placed.options), "");
  }
}

TEST(CompactionTaskTest, ExternalAgent_OffloadAll_LosesNothing) {
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db", nullptr, {"two"});
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().whole_compactions, 0u);
  EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model(), placed.options), "");
}

TEST(CompactionTaskTest, AnyAgent_Adaptive_LosesNothing) {
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

TEST(CompactionTaskTest, PlacementHost_Compactions_UseNoAgent) {
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
TEST(CompactionTaskTest, WholeDeep_HostSlotsTaken_OffloadsDeepOnes) {
  ScratchDir dir;
  AgentProcess agent;
  for (const int slots : {0, 1000}) {
    SCOPED_TRACE(slots);
    const std::string path = dir / std::to_string(slots);
    PlacedDb placed(agent.Attach("?placement=whole&whole=deep&host_slots=" + std::to_string(slots)),
                    path);
    WorkAndCheck(&placed, path);
    const Stats s = placed.stats();
    EXPECT_EQ(s.whole_compactions > 0, slots == 0);
    if (slots != 0) {
      EXPECT_EQ(s.bytes_persisted, 0u);  // the rest as stock
    }
  }
}

// The agent cannot make it by name.
TEST(CompactionTaskTest, UnregisteredComparator_ExternalAgent_StaysOnHost) {
  static const BackwardComparator backward;
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db", [](rocksdb::Options* o) {
    o->comparator = &backward;
    o->merge_operator = nullptr;
  });
  ASSERT_NO_FATAL_FAILURE(placed.FillAndReadBack());
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
  // And it was not asked again and again.
  EXPECT_LE(placed.stats().whole_returned, 4u);
}

class DropFilter : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "pulse.test.Drop"; }
  bool Filter(int, const rocksdb::Slice& key, const rocksdb::Slice&, std::string*,
              bool*) const override {
    return key.ToString().back() == '7';
  }
};

TEST(CompactionTaskTest, CompactionFilter_OffloadAll_IsApplied) {
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

// RocksDB tells those of a remote compaction that the user has asked for it. What a filter does
// then, it must not do in others. They are made in the agent's process, by name, and note in a file
// what they are told: "filter", "partitioner", each with "manual" or "automatic".
constexpr char kToldFile[] = "PULSE_TEST_TOLD_FILE";
void Tell(const std::string& who, bool is_manual) {
  const char* path = std::getenv(kToldFile);
  if (path != nullptr) {
    std::ofstream(path, std::ios::app) << who + (is_manual ? " manual\n" : " automatic\n");
  }
}
class ToldFilterFactory : public rocksdb::CompactionFilterFactory {
 public:
  static constexpr char kName[] = "pulse.test.ToldFilter";
  const char* Name() const override { return kName; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override {
    Tell("filter", context.is_manual_compaction);
    return nullptr;
  }
};
class ToldPartitionerFactory : public rocksdb::SstPartitionerFactory {
 public:
  static constexpr char kName[] = "pulse.test.ToldPartitioner";
  const char* Name() const override { return kName; }
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& context) const override {
    Tell("partitioner", context.is_manual_compaction);
    return nullptr;
  }
};
[[maybe_unused]] const bool kToldFactories = [] {
  rocksdb::ObjectLibrary& library = *rocksdb::ObjectLibrary::Default();
  library.AddFactory<rocksdb::CompactionFilterFactory>(
      ToldFilterFactory::kName,
      [](const std::string&, std::unique_ptr<rocksdb::CompactionFilterFactory>* guard,
         std::string*) {
        *guard = std::make_unique<ToldFilterFactory>();
        return guard->get();
      });
  library.AddFactory<rocksdb::SstPartitionerFactory>(
      ToldPartitionerFactory::kName,
      [](const std::string&, std::unique_ptr<rocksdb::SstPartitionerFactory>* guard, std::string*) {
        *guard = std::make_unique<ToldPartitionerFactory>();
        return guard->get();
      });
  return true;
}();

TEST(CompactionTaskTest, Factories_OffloadAll_HearWhetherManual) {
  ScratchDir dir;
  const std::string file = std::filesystem::absolute(dir / "told").string();
  setenv(kToldFile, file.c_str(), 1);
  AgentProcess agent;
  unsetenv(kToldFile);  // the agent's alone
  const auto told = [&](const std::string& what) {
    std::ifstream in(file);
    int count = 0;
    for (std::string line; std::getline(in, line);) count += line == what ? 1 : 0;
    return count;
  };
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db", [&](rocksdb::Options* o) {
    o->compaction_filter_factory = std::make_shared<ToldFilterFactory>();
    o->sst_partitioner_factory = std::make_shared<ToldPartitionerFactory>();
  });
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(placed.db->Open().ok());
  ASSERT_TRUE(placed.db->Fill(&rng, 3000, 500).ok());
  ASSERT_TRUE(placed.db->FlushAll().ok());
  ASSERT_TRUE(Eventually([&] {
    return placed.stats().whole_compactions > 0 && told("filter automatic") > 0 &&
           told("partitioner automatic") > 0;
  }));
  EXPECT_EQ(told("filter manual"), 0);
  EXPECT_EQ(told("partitioner manual"), 0);
  // It finds nothing to do where an automatic one, which it waited for, has emptied its levels.
  Status s;
  ASSERT_TRUE(Eventually([&] {
    s = placed.db->CompactAll();
    return !s.ok() || (told("filter manual") > 0 && told("partitioner manual") > 0);
  }));
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(placed.db->Difference(), "");
  placed.db->Close();
}

// RocksDB's remote compactions would lose them.
TEST(CompactionTaskTest, BlobsAndTwoPhaseCommit_ExternalAgent_StayOnHost) {
  ScratchDir dir;
  AgentProcess agent;
  const std::vector<std::function<void(rocksdb::Options*)>> changes = {
      [](rocksdb::Options* o) {
        o->enable_blob_files = true;
        o->min_blob_size = 100;
      },
      [](rocksdb::Options* o) { o->allow_2pc = true; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string path = dir / std::to_string(i);
    PlacedDb placed(agent.Attach("?placement=whole"), path, changes[i]);
    WorkAndCheck(&placed, path);
    EXPECT_EQ(placed.stats().whole_compactions, 0u);
  }
}

// What utilities, or the user, do to the options after PlaceCompactions.
TEST(CompactionTaskTest, FilterAddedLater_ExternalAgent_IsApplied) {
  static const DropFilter filter;
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db");
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

TEST(CompactionTaskTest, PropertyCollectors_ExternalAgent_StayOnHost) {
  for (const bool before : {true, false}) {
    SCOPED_TRACE(before);
    ScratchDir dir;
    AgentProcess agent;
    const auto collects = [](rocksdb::Options* o) {
      o->table_properties_collector_factories = {std::make_shared<MarkCollectorFactory>()};
    };
    PlacedDb placed(agent.Attach("?placement=whole"), dir / "db", [&](rocksdb::Options* o) {
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
    EXPECT_EQ(placed.stats().whole_compactions, 0u);
  }
}

// It sets allow_2pc in a copy of its own.
TEST(CompactionTaskTest, TransactionDb_ExternalAgent_StaysOnHost) {
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db");
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
TEST(CompactionTaskTest, CompactFiles_ExternalAgent_StaysOnHost) {
  static const DropFilter filter;
  ScratchDir dir;
  AgentProcess agent;
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db",
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

TEST(CompactionTaskTest, LimitersAndChecksums_ExternalAgent_StayOnHost) {
  ScratchDir dir;
  AgentProcess agent;
  const std::vector<std::function<void(rocksdb::Options*)>> changes = {
      [](rocksdb::Options* o) { o->rate_limiter.reset(rocksdb::NewGenericRateLimiter(1 << 30)); },
      [](rocksdb::Options* o) {
        o->sst_file_manager.reset(rocksdb::NewSstFileManager(rocksdb::Env::Default()));
      },
      [](rocksdb::Options* o) {
        o->file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    PlacedDb placed(agent.Attach("?placement=whole"), dir / std::to_string(i), changes[i]);
    ASSERT_NO_FATAL_FAILURE(placed.FillAndCompact());
    EXPECT_EQ(placed.stats().whole_compactions, 0u);
  }
}

// Enabled once, and no longer: the tables still refer to blob files.
TEST(CompactionTaskTest, OldBlobFiles_ExternalAgent_StayOnHost) {
  ScratchDir dir;
  AgentProcess agent;
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
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db");
  placed.db->model() = model;
  ASSERT_TRUE(placed.db->Open().ok());
  ASSERT_TRUE(placed.db->Fill(&rng, 2000, 600).ok());
  ASSERT_TRUE(placed.db->CompactAll().ok());
  EXPECT_EQ(placed.db->Difference(), "");
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

// RocksDB gives up a database when a rename fails; the agent of another process learns from no
// OPTIONS file that outputs go to another disk.
TEST(CompactionTaskTest, Outputs_OnAnotherDisk_AreCopied) {
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

TEST(CompactionTaskTest, OtherDirectories_ExternalAgent_StayOnHost) {
  ScratchDir dir;
  AgentProcess agent;
  std::filesystem::create_directory(dir / "other");
  PlacedDb placed(agent.Attach("?placement=whole"), dir / "db", [&](rocksdb::Options* o) {
    o->cf_paths = {{dir / "other", uint64_t{1} << 40}};
  });
  WorkAndCheck(&placed, dir / "db");
  EXPECT_EQ(placed.stats().whole_compactions, 0u);
}

TEST(CompactionTaskTest, PlaceCompactions_WrongOptions_IsRefused) {
  rocksdb::Options stock;
  EXPECT_TRUE(PlaceCompactions(&stock).IsInvalidArgument());
  auto fs = Embedded("pulse://?placement=whole");
  const auto env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options twice;
  twice.env = env.get();
  EXPECT_TRUE(PlaceCompactions(&twice).ok());
  EXPECT_TRUE(PlaceCompactions(&twice).IsInvalidArgument());
}

// As Java's setListeners does, called after env.place.
TEST(CompactionTaskTest, ListenersReplaced_Compactions_AreReportedAsNotPlaced) {
  ScratchDir dir;
  const auto fs = Embedded("pulse://?placement=whole");
  const auto env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options o = SmallDbOptions(env.get());
  ASSERT_TRUE(PlaceCompactions(&o).ok());
  o.listeners.clear();
  TestDb db(o, dir / "db");
  std::mt19937_64 rng(TestSeed());
  testing::internal::CaptureStderr();
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 2000, 500).ok());
  ASSERT_TRUE(db.CompactAll().ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("compactions are not placed"));
  EXPECT_EQ(db.Difference(), "");
}

}  // namespace
}  // namespace pulse::lsm::test
