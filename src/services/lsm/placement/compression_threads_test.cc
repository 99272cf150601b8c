// Blocks compressed on the CPUs of an agent in the same process, by threads that RocksDB starts.
#include "services/lsm/placement/compression_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "base/testing.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "rocksdb/version.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/placement/test_cpus.h"
#include "services/lsm/placement/test_placed_db.h"
#include "services/lsm/pool/test_pool.h"

#if PULSE_ROCKSDB_AT_LEAST(11, 8)
#include "rocksdb/advanced_compression.h"
#endif

namespace pulse::lsm::test {
namespace {

// Of those that this RocksDB has.
rocksdb::CompressionType SomeCompression() {
  const std::vector<rocksdb::CompressionType> all = rocksdb::GetSupportedCompressions();
  for (const auto type : {rocksdb::kZSTD, rocksdb::kLZ4Compression, rocksdb::kSnappyCompression}) {
    if (std::find(all.begin(), all.end(), type) != all.end()) return type;
  }
  return rocksdb::kNoCompression;
}

// Notes on which CPUs its thread may run, as the compaction goes on.
class WhereFilter : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "pulse.test.Where"; }
  bool Filter(int, const rocksdb::Slice&, const rocksdb::Slice&, std::string*,
              bool*) const override {
    if (calls_.fetch_add(1) % 16 != 0) return false;
    const std::string mine = CpusOf("thread-self");
    std::lock_guard lock(mu_);
    ++mine_[mine];
    for (const auto& [name, cpus] : CpusOfThreads()) {
      if (name.rfind("rocksdb:low", 0) == 0) all_.insert(cpus.begin(), cpus.end());
    }
    return false;
  }
  // How often the compaction's own threads were on `cpus`.
  int Mine(const std::string& cpus) const {
    std::lock_guard lock(mu_);
    const auto it = mine_.find(cpus);
    return it == mine_.end() ? 0 : it->second;
  }
  // Whether any thread of the compaction's pool was.
  bool Any(const std::string& cpus) const {
    std::lock_guard lock(mu_);
    return all_.count(cpus) != 0;
  }

 private:
  mutable std::atomic<int> calls_{0};
  mutable std::mutex mu_;
  mutable std::map<std::string, int> mine_;
  mutable std::set<std::string> all_;
};

void EndThreads() {
  for (const auto pool : {rocksdb::Env::LOW, rocksdb::Env::HIGH, rocksdb::Env::BOTTOM}) {
    rocksdb::Env::Default()->SetBackgroundThreads(0, pool);
  }
  EXPECT_TRUE(testing_util::Eventually([] {
    for (const auto& [name, cpus] : CpusOfThreads()) {
      if (name.rfind("rocksdb:", 0) == 0) return false;
    }
    return true;
  }));
}

// The test on all CPUs but the last, which is the agent's.
class CompressionThreadsTest : public testing::Test {
 protected:
  void SetUp() override {
    all_ = MyCpus();
    if (all_.size() < 2) GTEST_SKIP() << "host and agent need a CPU each";
    if (SomeCompression() == rocksdb::kNoCompression) {
      GTEST_SKIP() << "this RocksDB has no compression";
    }
    EndThreads();
    ASSERT_TRUE(SetThreadAffinity({all_.begin(), all_.end() - 1}).ok());
    host_ = CpusOf("thread-self");
    agent_ = std::to_string(all_.back());
  }
  void TearDown() override {
    if (host_.empty()) return;
    EXPECT_TRUE(testing_util::Eventually([this] { return AllAreBack(); }));
    EndThreads();
    ASSERT_TRUE(SetThreadAffinity(all_).ok());
  }
  bool AllAreBack() const {
    for (const auto& [name, cpus] : CpusOfThreads()) {
      if (name.rfind("rocksdb:", 0) == 0 && cpus != std::set<std::string>{host_}) return false;
    }
    return true;
  }
  std::string Uri(const std::string& more = "") const {
    return "pulse://?agent_cpus=" + agent_ + "&compression=agent" + more;
  }
  // Compressed, with tables large enough for several blocks.
  static void Compressed(rocksdb::Options* o) {
    o->compression = SomeCompression();
    CompressOnAgent(o->env->GetFileSystem().get(), o);
  }

  std::vector<int> all_;
  std::string host_;
  std::string agent_;
};

TEST_F(CompressionThreadsTest, Compaction_ParallelThreads_RunOnAgentAndStockReads) {
  static const WhereFilter filter;
  ScratchDir dir;
  PlacedDb placed(Embedded(Uri()), dir / "db", [](rocksdb::Options* o) {
    Compressed(o);
    o->compaction_filter = &filter;
  });
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().agent_compression_nanos, 0u);
  EXPECT_TRUE(filter.Any(agent_)) << "no thread was on the agent's CPUs";
  // What merges stays on the host, but for a block of each table.
  EXPECT_GT(filter.Mine(host_), filter.Mine(agent_));
  EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model()), "");
}

TEST_F(CompressionThreadsTest, PlaceCompactions_CompressedFamily_GetsParallelThreads) {
  ScratchDir dir;
  const std::shared_ptr<rocksdb::FileSystem> fs = Embedded(Uri());
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options o = SmallDbOptions(env.get());
  ASSERT_TRUE(PlaceCompactions(&o).ok());
  EXPECT_EQ(o.compression_opts.parallel_threads, 1u) << "without compression";
  o.compression = SomeCompression();
  ASSERT_TRUE(PlaceCompactions(&o).ok());
#if PULSE_ROCKSDB_AT_LEAST(11, 8)
  ASSERT_NE(o.compression_manager, nullptr);
  EXPECT_EQ(std::string(o.compression_manager->CompatibilityName()), "BuiltinV2");
  EXPECT_EQ(std::string(o.compression_manager->Name()), "BuiltinV2")
      << "so that OPTIONS files load";
#else
  EXPECT_EQ(o.compression_opts.parallel_threads, 2u);
#endif
  o.compression_opts.parallel_threads = 5;
  ASSERT_TRUE(PlaceCompactions(&o).ok());
  EXPECT_EQ(o.compression_opts.parallel_threads, 5u) << "the user's own";
}

TEST_F(CompressionThreadsTest, Outputs_EveryKindOfTable_LoseNothing) {
  const auto with_table = [](rocksdb::Options* o, const auto& change) {
    rocksdb::BlockBasedTableOptions table;
    change(&table);
    o->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  };
  struct Kind {
    const char* name;
    std::function<void(rocksdb::Options*)> change;
  };
  const std::vector<Kind> kinds = {
      {"partitioned index and filters",
       [&](rocksdb::Options* o) {
         with_table(o, [](rocksdb::BlockBasedTableOptions* t) {
           t->index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
           t->partition_filters = true;
           t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
         });
       }},
      {"block_align",
       [&](rocksdb::Options* o) {
         o->compression = rocksdb::kNoCompression;
         with_table(o, [](rocksdb::BlockBasedTableOptions* t) { t->block_align = true; });
       }},
      {"a dictionary",
       [](rocksdb::Options* o) {
         o->compression_opts.max_dict_bytes = 4096;
         o->compression_opts.zstd_max_train_bytes = 16 << 10;
       }},
      {"a dictionary without training",
       [](rocksdb::Options* o) { o->compression_opts.max_dict_bytes = 4096; }},
      {"verified compression",
       [&](rocksdb::Options* o) {
         with_table(o, [](rocksdb::BlockBasedTableOptions* t) { t->verify_compression = true; });
       }},
      {"large blocks",
       [&](rocksdb::Options* o) {
         with_table(o, [](rocksdb::BlockBasedTableOptions* t) { t->block_size = 256 << 10; });
       }},
      {"no compression", [](rocksdb::Options* o) { o->compression = rocksdb::kNoCompression; }},
      {"one thread", [](rocksdb::Options* o) { o->compression_opts.parallel_threads = 1; }},
      {"many threads", [](rocksdb::Options* o) { o->compression_opts.parallel_threads = 16; }},
      {"blob files",
       [](rocksdb::Options* o) {
         o->enable_blob_files = true;
         o->min_blob_size = 500;
         o->enable_blob_garbage_collection = true;
       }},
  };
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    ScratchDir dir;
    PlacedDb placed(Embedded(Uri()), dir / "db", [&](rocksdb::Options* o) {
      Compressed(o);
      kind.change(o);
    });
    std::mt19937_64 rng(TestSeed());
    ASSERT_TRUE(placed.db->Open().ok());
    placed.Work(&rng, 3000);
    ASSERT_TRUE(placed.db->CompactAll().ok());
    EXPECT_EQ(placed.db->Difference(), "");
    EXPECT_TRUE(testing_util::Eventually([this] { return AllAreBack(); }));
    placed.db->Close();
    EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model()), "");
  }
}

TEST_F(CompressionThreadsTest, Placements_BesideCompression_LoseNothing) {
  ScratchDir pool_dir;
  CreatePool(pool_dir / "pool", 256 << 20);
  const std::string pool = std::filesystem::absolute(pool_dir / "pool").string();
  for (const std::string& more :
       {std::string("&placement=whole"), std::string("&placement=adaptive"),
        std::string("&placement=whole&flushes=agent"), std::string("&flushes=agent"),
        "&layout=pool&pool=" + pool}) {
    SCOPED_TRACE(more);
    ScratchDir dir;
    PlacedDb placed(Embedded(Uri(more)), dir / "db", Compressed);
    WorkAndCheck(&placed, dir / "db");
    if (more.find("pool") != std::string::npos) continue;
    EXPECT_EQ(DifferenceOnStock(dir / "db", placed.db->model()), "");
  }
}

// Only an agent in the process has CPUs for the process's threads: the one that is embedded because
// none answers at the socket.
TEST_F(CompressionThreadsTest, FallbackToEmbeddedAgent_Compresses) {
  ScratchDir dir;
  PlacedDb placed(Embedded("pulse://" + std::filesystem::absolute(dir / "none.sock").string() +
                           "?fallback=embedded&compression=agent&agent_cpus=" + agent_),
                  dir / "db", Compressed);
  WorkAndCheck(&placed, dir / "db");
  EXPECT_GT(placed.stats().agent_compression_nanos, 0u);
}

TEST_F(CompressionThreadsTest, SharedCpus_Compression_StaysAndLosesNothing) {
  ASSERT_TRUE(SetThreadAffinity(all_).ok());
  ScratchDir dir;
  PlacedDb placed(Embedded(Uri()), dir / "db", Compressed);
  WorkAndCheck(&placed, dir / "db");
  EXPECT_EQ(placed.stats().agent_compression_nanos, 0u);
  EndThreads();
  ASSERT_TRUE(SetThreadAffinity({all_.begin(), all_.end() - 1}).ok());
}

TEST_F(CompressionThreadsTest, Start_EndedByAnotherThread_ReturnsItsOwn) {
  AtomicCounters counters;
  CompressionThreads threads({all_.back()}, &counters);
  std::thread([&] {
    const auto start = threads.Begin();
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(CpusOf("thread-self"), agent_);
    std::thread([&] {
      EXPECT_EQ(CpusOf("thread-self"), agent_) << "inherited";
      start->End();
      volatile uint64_t work = 0;
      for (int i = 0; i < 20'000'000; ++i) work = work + 1;
      threads.SampleNow();
    }).join();
    EXPECT_EQ(CpusOf("thread-self"), host_);
    start->End();  // once more
    EXPECT_EQ(CpusOf("thread-self"), host_);
    CompressionThreads::EndMine();
    EXPECT_EQ(CpusOf("thread-self"), host_);
  }).join();
  EXPECT_GT(counters.agent_compression_nanos.load(), 0u);
}

TEST_F(CompressionThreadsTest, Start_NextBegin_EndsTheFormer) {
  AtomicCounters counters;
  CompressionThreads threads({all_.back()}, &counters);
  std::thread([&] {
    const auto first = threads.Begin();
    ASSERT_NE(first, nullptr);
    const auto second = threads.Begin();
    ASSERT_NE(second, nullptr) << "the thread is on the host again when the second begins";
    first->End();
    EXPECT_EQ(CpusOf("thread-self"), agent_);
    second->End();
    EXPECT_EQ(CpusOf("thread-self"), host_);
  }).join();
}

}  // namespace
}  // namespace pulse::lsm::test
