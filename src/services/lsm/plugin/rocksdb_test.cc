// RocksDB on pulse://, against a model; and then without the plug-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <thread>

#include "rocksdb/convenience.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/checkpoint.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;
using ::testing::HasSubstr;

struct OpenEnv {
  explicit OpenEnv(const std::string& uri) {
    EXPECT_TRUE(RegisterRocksDb().ok());
    const Status s = rocksdb::Env::CreateFromUri(rocksdb::ConfigOptions(), "", uri, &env, &guard);
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
  Stats stats() const {
    Stats s{};
    EXPECT_TRUE(GetStats(env->GetFileSystem().get(), &s));
    return s;
  }
  rocksdb::Env* env = nullptr;
  std::shared_ptr<rocksdb::Env> guard;
};

std::string Key(uint64_t n) { return "key" + std::to_string(1'000'000 + n); }

// One random operation, or a few.
void Step(TestDb* db, std::mt19937_64* rng) {
  const std::vector<std::string> names = db->families();
  const std::string& family = names[(*rng)() % names.size()];
  rocksdb::ColumnFamilyHandle* h = db->family(family);
  const std::string key = Key((*rng)() % 1500);
  Status s;
  switch ((*rng)() % 200) {
    case 0:
      s = (*db)->Flush(rocksdb::FlushOptions(), h);
      break;
    case 1:
      s = (*db)->CompactRange(rocksdb::CompactRangeOptions(), h, nullptr, nullptr);
      break;
    case 2: {
      const std::string to = Key((*rng)() % 1500);
      s = db->DeleteRange(family, std::min(key, to), std::max(key, to));
      break;
    }
    case 3:
      s = db->Put(family, key, RandomBytes(rng, (*rng)() % 100'000));
      break;
    case 4:
    case 5:
      s = db->Put(family, key, "synced", /*sync=*/true);
      break;
    default:
      switch ((*rng)() % 8) {
        case 0:
          s = db->Delete(family, key);
          break;
        case 1:
          s = db->Merge(family, key, RandomBytes(rng, (*rng)() % 50));
          break;
        default:
          s = db->Put(family, key, RandomBytes(rng, (*rng)() % 1200));
      }
  }
  ASSERT_TRUE(s.ok()) << s.ToString();
  if ((*rng)() % 10 == 0) {
    const auto& keys = db->model()[family];
    std::string value;
    s = (*db)->Get(rocksdb::ReadOptions(), h, key, &value);
    const auto it = keys.find(key);
    if (it == keys.end()) {
      ASSERT_TRUE(s.IsNotFound()) << s.ToString();
    } else {
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_TRUE(value == it->second);
    }
  }
}

struct DbConfig {
  const char* name;
  const char* uri;
};

class RocksDbTest : public ::testing::TestWithParam<DbConfig> {};

TEST_P(RocksDbTest, Database_RandomWork_MatchesTheModel) {
  std::mt19937_64 rng(TestSeed());
  ScratchDir dir;
  OpenEnv pulse(GetParam().uri);
  rocksdb::Options options = SmallDbOptions(pulse.env);
  options.use_direct_reads = rng() % 2 != 0;
  options.paranoid_file_checks = rng() % 2 != 0;
  TestDb db(options, dir / "db", {"blob", "paths", "universal"});
  db.family_options("blob").enable_blob_files = true;
  db.family_options("blob").min_blob_size = 300;
  db.family_options("blob").blob_file_size = 64 << 10;
  db.family_options("blob").enable_blob_garbage_collection = true;
  db.family_options("blob").blob_garbage_collection_age_cutoff = 0.7;
  db.family_options("paths").cf_paths.emplace_back(dir / "paths", uint64_t{1} << 40);
  db.family_options("universal").compaction_style = rocksdb::kCompactionStyleUniversal;
  for (int session = 0; session < 2; ++session) {
    Status s = db.Open();
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_EQ(db.Difference(), "");
    for (int i = 0; i < 2000; ++i) {
      Step(&db, &rng);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(db.Difference(), "");
    s = db->VerifyChecksum();
    EXPECT_TRUE(s.ok()) << s.ToString();
    db.Close();
  }
  EXPECT_GT(pulse.stats().files_persisted, 10u);
  EXPECT_EQ(pulse.stats().failovers, 0u);

  TestDb stock(SmallDbOptions(StockEnv()), db.path(), {"blob", "paths", "universal"});
  stock.family_options("paths").cf_paths.emplace_back(dir / "paths", uint64_t{1} << 40);
  stock.family_options("universal").compaction_style = rocksdb::kCompactionStyleUniversal;
  stock.model() = db.model();
  Status s = stock.Open();
  ASSERT_TRUE(s.ok()) << s.ToString();
  s = stock->VerifyChecksum();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(stock.Difference(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, RocksDbTest,
    ::testing::Values(DbConfig{"defaults", "pulse://"}, DbConfig{"strict", "pulse://?sync=strict"},
                      DbConfig{"threads", "pulse://?engine=threads&queue=1M&write_threshold=16K"},
                      DbConfig{"streams", "pulse://?streams=2"},
                      DbConfig{"buffered", "pulse://?io=buffered&sync_interval=32K"},
                      DbConfig{"vmread", "pulse://?mover=vmread"},
                      DbConfig{"small_fetch",
                               "pulse://?fetch_memory=1M&fetch_chunk=64K&readahead=32K"},
                      DbConfig{"no_fetch", "pulse://?fetch=off"}),
    [](const auto& p) { return p.param.name; });

TEST(RocksDbUseTest, Checkpoint_Opened_IsComplete) {
  ScratchDir dir;
  OpenEnv pulse("pulse://");
  std::mt19937_64 rng(51);
  TestDb db(SmallDbOptions(pulse.env), dir / "db", {"a"});
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(db.Fill(&rng, 1000, 400).ok());
    rocksdb::Checkpoint* raw = nullptr;
    ASSERT_TRUE(rocksdb::Checkpoint::Create(db.db(), &raw).ok());
    std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    const std::string to = dir / ("checkpoint" + std::to_string(i));
    // With and without a flush before.
    const Status s = checkpoint->CreateCheckpoint(to, i % 2 == 0 ? 0 : ULONG_MAX);
    ASSERT_TRUE(s.ok()) << s.ToString();
    const Model then = db.model();
    ASSERT_TRUE(db.Fill(&rng, 500, 400).ok());  // the original goes on
    EXPECT_EQ(DifferenceOnStock(to, then), "");
  }
}

TEST(RocksDbUseTest, Ingest_ExternalFile_IsRead) {
  ScratchDir dir;
  OpenEnv pulse("pulse://");
  std::mt19937_64 rng(52);
  const rocksdb::Options options = SmallDbOptions(pulse.env);
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(db.Fill(&rng, 500, 400).ok());
    const std::string file = dir / ("external" + std::to_string(i) + ".sst");
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    ASSERT_TRUE(writer.Open(file).ok());
    for (int k = 0; k < 1500; k += 3) {
      const std::string value = RandomBytes(&rng, 300);
      ASSERT_TRUE(writer.Put(Key(k), value).ok());
      db.model()["default"][Key(k)] = value;
    }
    ASSERT_TRUE(writer.Finish().ok());
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = i % 2 == 0;
    const Status s = db->IngestExternalFile({file}, ingest);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(db.Difference(), "");
  }
  ASSERT_TRUE(db.CompactAll().ok());
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

TEST(RocksDbUseTest, TwoDatabases_OneFileSystem_MatchTheirModels) {
  const uint64_t seed = TestSeed();
  ScratchDir dir;
  OpenEnv pulse("pulse://?queue=2M&write_threshold=256K&streams=3");
  std::vector<std::unique_ptr<TestDb>> dbs;
  for (const char* name : {"one", "two"}) {
    dbs.push_back(std::make_unique<TestDb>(SmallDbOptions(pulse.env), dir / name,
                                           std::vector<std::string>{"a"}));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < dbs.size(); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 rng(seed + i);
      for (int session = 0; session < 2; ++session) {
        ASSERT_TRUE(dbs[i]->Open().ok());
        for (int n = 0; n < 1500; ++n) {
          Step(dbs[i].get(), &rng);
          if (::testing::Test::HasFatalFailure()) return;
        }
        EXPECT_EQ(dbs[i]->Difference(), "");
        dbs[i]->Close();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (auto& db : dbs) EXPECT_EQ(DifferenceOnStock(db->path(), db->model()), "");
}

TEST(RocksDbUseTest, Iterators_BesideWriters_SeeTheirSnapshot) {
  const uint64_t seed = TestSeed();
  ScratchDir dir;
  OpenEnv pulse("pulse://");
  TestDb db(SmallDbOptions(pulse.env), dir / "db");
  ASSERT_TRUE(db.Open().ok());
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 rng(seed + t);
      while (!stop) {
        rocksdb::ReadOptions read;
        read.readahead_size = rng() % 2 != 0 ? 0 : 100'000;
        read.verify_checksums = true;
        std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(read, db.family("default")));
        it->Seek(Key(rng() % 1500));
        std::string last;
        for (int i = 0; i < 300 && it->Valid(); ++i, it->Next()) {
          EXPECT_LT(last, it->key().ToString());
          last = it->key().ToString();
        }
        EXPECT_TRUE(it->status().ok()) << it->status().ToString();
      }
    });
  }
  std::mt19937_64 rng(seed + 10);
  for (int i = 0; i < 3000; ++i) {
    Step(&db, &rng);
    if (HasFatalFailure()) break;
  }
  stop = true;
  for (auto& t : readers) t.join();
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

TEST(RocksDbUseTest, ExistingDatabase_WithAndWithoutPlugin_Opens) {
  PULSE_SKIP_ON_POOL("stock RocksDB does not take it back; pool_db_test has what it does");
  ScratchDir dir;
  std::mt19937_64 rng(53);
  Model model;
  for (int i = 0; i < 4; ++i) {
    std::unique_ptr<OpenEnv> pulse;
    if (i % 2 != 0) pulse = std::make_unique<OpenEnv>("pulse://");
    TestDb db(SmallDbOptions(i % 2 != 0 ? pulse->env : nullptr), dir / "db");
    if (i > 0) db.model() = model;
    ASSERT_TRUE(db.Open().ok());
    ASSERT_EQ(db.Difference(), "");
    ASSERT_TRUE(db.Fill(&rng, 2000, 300).ok());
    ASSERT_TRUE(db.Delete("default", db.model()["default"].begin()->first).ok());
    if (i > 1) {
      ASSERT_TRUE(db.CompactAll().ok());
    }
    model = db.model();
  }
  EXPECT_EQ(DifferenceOnStock(dir / "db", model), "");
}

// An EnvWrapper hands on the EnvOptions part of file options and nothing else.
TEST(RocksDbUseTest, WrappedEnv_Outputs_GoThroughTheAgent) {
  class Wrapper : public rocksdb::EnvWrapper {
   public:
    using EnvWrapper::EnvWrapper;
    const char* Name() const override { return "Wrapper"; }
  };
  ScratchDir dir;
  OpenEnv pulse("pulse://");
  Wrapper wrapper(pulse.env);
  std::mt19937_64 rng(55);
  const rocksdb::Options options = SmallDbOptions(&wrapper);
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng, 1000, 400).ok());
  ASSERT_TRUE(db.CompactAll().ok());
  const uint64_t outputs = pulse.stats().files_persisted;
  EXPECT_GT(outputs, 0u);
  EXPECT_EQ(db.Difference(), "");
  db.Close();
  // Other writers of tables keep their synchronous Sync.
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  ASSERT_TRUE(writer.Open(dir / "external.sst").ok());
  ASSERT_TRUE(writer.Put("k", "v").ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(pulse.stats().files_persisted, outputs);
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

TEST(RocksDbUseTest, Envs_ManyCreatedAndDestroyed_LeaveNothing) {
  ScratchDir dir;
  std::mt19937_64 rng(54);
  StockEnv();  // lives as long as the process
  const size_t before = testing_util::OpenDescriptors();
  Model model;
  for (int i = 0; i < 8; ++i) {
    OpenEnv pulse(i % 2 != 0 ? "pulse://" : "pulse://?engine=threads");
    TestDb db(SmallDbOptions(pulse.env), dir / "db");
    if (i > 0) db.model() = model;
    ASSERT_TRUE(db.Open().ok());
    ASSERT_TRUE(db.Fill(&rng, 500, 400).ok());
    ASSERT_TRUE(db.FlushAll().ok());
    model = db.model();
  }
  EXPECT_EQ(DifferenceOnStock(dir / "db", model), "");
  // RocksDB's own threads may open a few of their own the first time, and an agent that serves on
  // closes what a client left behind in its own time.
  EXPECT_TRUE(Eventually([&] { return testing_util::OpenDescriptors() <= before + 4; }))
      << testing_util::OpenDescriptors() << " open, " << before << " before";
}

TEST(RocksDbUseTest, Open_BadUri_SaysWhatIsWrong) {
  ASSERT_TRUE(RegisterRocksDb().ok());
  ASSERT_TRUE(RegisterRocksDb().ok());  // idempotent
  rocksdb::Env* env = nullptr;
  std::shared_ptr<rocksdb::Env> guard;
  Status s = rocksdb::Env::CreateFromUri(rocksdb::ConfigOptions(), "", "pulse://?sinc=strict", &env,
                                         &guard);
  EXPECT_FALSE(s.ok());
  EXPECT_THAT(s.ToString(), HasSubstr("sinc"));
  std::shared_ptr<rocksdb::FileSystem> fs;
  s = NewFileSystem("pulse:///no/such/agent.sock", nullptr, &fs);
  EXPECT_FALSE(s.ok());
  EXPECT_THAT(s.ToString(), HasSubstr("/no/such/agent.sock"));
  EXPECT_EQ(fs, nullptr);
  s = NewFileSystem("pulse:///no/such/agent.sock?fallback=embedded", nullptr, &fs);
  EXPECT_TRUE(s.ok()) << s.ToString();
}

}  // namespace
}  // namespace pulse::lsm::test
