// A store on each engine: the same bytes in its runs, the same graph as its oracle, and an agent
// that is killed in the middle of compactions.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/engines/engine_set.h"
#include "services/graph/engines/test_merges.h"

namespace pulse::graph::engines {
namespace {

using testing_util::TestSeed;

std::unique_ptr<EngineSet> OpenSet(EngineSetOptions options) {
  auto set = EngineSet::Open(std::move(options));
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : nullptr;
}

class ScratchStore {
 public:
  explicit ScratchStore(EngineSource* engines) {
    options_.engines = engines;
    options_.background = false;
    options_.sync = false;
    Open();
  }
  ~ScratchStore() {
    store_.reset();
    std::filesystem::remove_all(path_.get());
  }
  void Open() {
    store_.reset();
    auto store = GraphStore::Open(path_.get(), options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  GraphStore& operator*() { return *store_; }
  GraphStore* operator->() { return store_.get(); }
  GraphStore* get() { return store_.get(); }
  // The runs' contents, whatever the files are called.
  std::multiset<std::string> Runs() const {
    std::multiset<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_.get())) {
      if (entry.path().extension() != ".run") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      out.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return out;
  }
  const std::string& path() const { return path_.get(); }

 private:
  const testing_util::ScratchPath path_{"store"};
  StoreOptions options_;
  std::unique_ptr<GraphStore> store_;
};

// Relationships among `nodes` nodes, at random, flushed four times.
void Fill(GraphStore* store, uint64_t seed, uint64_t nodes, uint64_t edges) {
  std::mt19937_64 random(seed);
  std::vector<NodeId> ids;
  for (int part = 0; part < 4; ++part) {
    auto tx = *store->Begin();
    const Token type = *tx->AddTypeName("T"), key = *tx->AddKeyName("w");
    while (ids.size() < nodes) ids.push_back(*tx->CreateNode({}, {}));
    for (uint64_t i = 0; i < edges / 4; ++i) {
      const NodeId source = ids[random() % nodes], target = ids[random() % nodes];
      const auto value = Value::Int(static_cast<int64_t>(random() % 100));
      ASSERT_TRUE(tx->CreateEdge(source, target, type, {{key, value}}).ok());
    }
    ASSERT_TRUE(tx->Commit().ok());
    tx.reset();
    ASSERT_TRUE(store->Flush().ok());
  }
}

int64_t SumOfWeights(GraphStore* store) {
  const auto view = *store->Snapshot();
  const auto key = *view->FindKey("w");
  uint64_t position = 0;
  cypher::Column column;
  int64_t sum = 0;
  while (true) {
    const auto count = view->ScanEdgeProperty({}, key, &position, 4096, &column);
    EXPECT_TRUE(count.ok()) << count.status();
    if (!count.ok() || *count == 0) break;
    for (size_t i = 0; i < *count; ++i) {
      sum += static_cast<int64_t>(ColumnValue(column, i).as_number());
    }
  }
  return sum;
}

// This test comes first: it forks.
TEST(StoreWithAgent, KilledInMidCompaction_LosesNothing) {
  const uint64_t seed = TestSeed();
  AgentProcess agent;
  ScratchStore plain(nullptr);
  Fill(plain.get(), seed, 6000, 60'000);
  const int64_t sum = SumOfWeights(plain.get());
  ASSERT_TRUE(plain->Compact().ok());
  const auto expected = plain.Runs();
  // In the first compaction or in the second: each writes its whole output as one piece.
  for (const int stalls_at : {1, 2}) {
    agent.Kill();
    agent.Start(stalls_at);
    EngineSetOptions options;
    options.kind = EngineKind::kAgent;
    options.agent_socket = agent.socket();
    const auto set = OpenSet(options);
    ASSERT_NE(set, nullptr);
    ScratchStore store(set.get());
    Fill(store.get(), seed, 6000, 60'000);
    absl::Status compacted;
    std::thread compaction([&] { compacted = store->Compact(); });
    agent.AwaitStall();
    agent.Kill();
    compaction.join();
    ASSERT_TRUE(compacted.ok()) << compacted;
    EXPECT_EQ(SumOfWeights(store.get()), sum);
    EXPECT_TRUE(store.Runs() == expected) << "other bytes, " << stalls_at;
    EXPECT_EQ(store->stats().merges_elsewhere, static_cast<uint64_t>(stalls_at - 1));
    EXPECT_EQ(store->stats().merges_fallen_back, static_cast<uint64_t>(3 - stalls_at));
    EXPECT_EQ(set->uses()["agent"].fell_back, static_cast<uint64_t>(3 - stalls_at));
    agent.Start();
    store.Open();
    EXPECT_EQ(SumOfWeights(store.get()), sum) << "reopened";
  }
}

std::vector<std::pair<std::string, EngineSetOptions>> AllEngines(const std::string& socket,
                                                                 uint64_t seed) {
  std::vector<std::pair<std::string, EngineSetOptions>> all;
  const auto add = [&all](const std::string& name, EngineKind kind) {
    all.emplace_back(name, EngineSetOptions{});
    all.back().second.kind = kind;
    return &all.back().second;
  };
  add("inline", EngineKind::kInline);
  add("threads", EngineKind::kThreads)->threads = 2;
  add("agent", EngineKind::kAgent)->agent_socket = socket;
  add("agent, a thread", EngineKind::kAgent)->cpus = "0";
  EngineSetOptions* sim = add("sim", EngineKind::kSim);
  sim->sim = {.bandwidth_gb_s = 5,
              .depth = 7,
              .seed = seed,
              .partial = 300,
              .failing = 200,
              .full = 200,
              .reorder = true};
  add("auto", EngineKind::kAuto)->agent_socket = socket;
  return all;
}

TEST(StoreEngines, EachOfThem_WritesTheSameBytes) {
  const uint64_t seed = TestSeed();
  TestAgent agent;
  std::multiset<std::string> first;
  for (const auto& [name, options] : AllEngines(agent.socket(), seed)) {
    SCOPED_TRACE(name);
    const auto set = OpenSet(options);
    ASSERT_NE(set, nullptr);
    ScratchStore store(set.get());
    constexpr bool kSlow = testing_util::kThreadSanitizer || testing_util::kAddressSanitizer;
    constexpr uint64_t kEdges = kSlow ? 20'000 : 200'000;
    // Hubs: pieces that are long enough for an engine, also in flushes.
    Fill(store.get(), seed, 300, kEdges);
    const auto flushed = store.Runs();
    ASSERT_TRUE(store->Compact().ok());
    auto runs = store.Runs();
    EXPECT_EQ(runs.size(), 2u);
    runs.insert(flushed.begin(), flushed.end());
    if (first.empty()) first = runs;
    EXPECT_TRUE(runs == first) << name << " wrote other bytes";
    EXPECT_EQ(store->stats().merges_fallen_back, 0u);
    EXPECT_EQ(store->stats().merges_elsewhere, name.starts_with("agent") ? 2u
                                               : name == "auto" ? store->stats().merges_elsewhere
                                                                : 0u);
    EXPECT_FALSE(set->Summary().empty());
  }
}

// Random transactions, flushes and compactions against the oracle, with every engine.
TEST(StoreEngines, RandomTransactions_AgreeWithTheOracle) {
  const uint64_t seed = TestSeed();
  TestAgent agent;
  for (const auto& [name, options] : AllEngines(agent.socket(), seed)) {
    SCOPED_TRACE(name);
    const auto set = OpenSet(options);
    ASSERT_NE(set, nullptr);
    ScratchStore store(set.get());
    RandomOps ops(seed);
    Oracle oracle;
    for (int step = 0; step < 60; ++step) {
      auto tx = *store->Begin();
      std::vector<ModelOp> done;
      for (uint64_t i = 0; i < 1 + ops.random()() % 4; ++i) ops.Step(tx.get(), &done);
      ASSERT_TRUE(tx->Commit().ok());
      tx.reset();
      for (const ModelOp& op : done) oracle.Apply(op);
      if (step % 5 == 2) {
        ASSERT_TRUE(store->Flush().ok());
      }
      if (step % 11 == 10) {
        ASSERT_TRUE(store->Compact().ok());
        ASSERT_EQ(DumpStore(**store->Snapshot()), oracle.Dump()) << "step " << step;
      }
      if (step == 40) store.Open();
    }
    ASSERT_EQ(DumpStore(**store->Snapshot()), oracle.Dump());
    EXPECT_EQ(store->stats().merges_fallen_back, 0u);
  }
}

enum class Lie {
  kNothing,    // reports well, and has written nothing
  kOneRun,     // has merged one run, and reports all
  kLess,       // has merged one run, and says so
  kRest,       // has merged one run, and says that it has looked at all
  kStaysOpen,  // has done it all, and may still change it
  kNone,
};

class LyingMerger : public Merger {
 public:
  explicit LyingMerger(Lie lie) : lie_(lie) {}
  absl::StatusOr<MergeStats> Merge(const MergeJob& job) override {
    ++asked_;
    MergeStats stats;
    for (const auto& run : job.runs) stats.records_in += run->info().records;
    stats.records_out = stats.records_in;
    if (lie_ == Lie::kNothing) return stats;
    const auto engine = CreateInlineCopyEngine({});
    const bool whole = lie_ == Lie::kStaysOpen || lie_ == Lie::kNone;
    const auto runs = whole ? job.runs : job.runs.first(1);
    const auto merged = MergeRuns(runs, job.options, engine->get(), job.sink);
    EXPECT_TRUE(merged.ok()) << merged.status();
    if (lie_ == Lie::kOneRun) return stats;
    if (lie_ == Lie::kStaysOpen) {
      open_.emplace_back(fcntl(job.output, F_DUPFD_CLOEXEC, 0));
      EXPECT_TRUE(open_.back().valid());
    }
    MergeStats told = merged->stats;
    if (lie_ == Lie::kRest) told.records_in = stats.records_in;
    return told;
  }
  int asked() const { return asked_; }

 private:
  const Lie lie_;
  int asked_ = 0;
  std::vector<UniqueFd> open_;
};

class LyingEngines : public EngineSource {
 public:
  explicit LyingEngines(Lie lie) : merger_(lie) {}
  absl::StatusOr<EngineChoice> Choose(const EngineWork&) override {
    EngineChoice choice;
    choice.name = "liar";
    choice.merger = &merger_;
    choice.engine = *CreateInlineCopyEngine({});
    return choice;
  }
  void Report(const EngineWork&, const EngineOutcome& outcome) override {
    if (!outcome.fell_back.ok()) why_ = testing_util::Text(outcome.fell_back);
  }
  const LyingMerger& merger() const { return merger_; }
  const std::string& why() const { return why_; }

 private:
  LyingMerger merger_;
  std::string why_;
};

// Whether this file system tells who else writes to a file.
bool HasLeases() {
  const testing_util::ScratchPath path("lease");
  const UniqueFd writing = OpenFile(path.get(), O_RDWR | O_CREAT, 0600);
  const UniqueFd reading = OpenFile(path.get(), O_RDONLY);
  return fcntl(reading.get(), F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
}

void ExpectFoundOut(Lie lie, const std::string& why) {
  SCOPED_TRACE(why);
  const uint64_t seed = TestSeed();
  ScratchStore plain(nullptr);
  Fill(plain.get(), seed, 300, 4000);
  ASSERT_TRUE(plain->Compact().ok());
  LyingEngines engines(lie);
  ScratchStore store(&engines);
  Fill(store.get(), seed, 300, 4000);
  const absl::Status compacted = store->Compact();
  ASSERT_TRUE(compacted.ok()) << compacted;
  EXPECT_TRUE(store.Runs() == plain.Runs());
  EXPECT_EQ(engines.merger().asked(), 2);
  EXPECT_EQ(store->stats().merges_fallen_back, lie == Lie::kNone ? 0u : 2u);
  EXPECT_EQ(store->stats().merges_elsewhere, lie == Lie::kNone ? 2u : 0u);
  EXPECT_THAT(engines.why(), ::testing::HasSubstr(why));
}

TEST(StoreEngines, MergerThatLies_IsFoundOutAndTheStoreMerges) {
  ExpectFoundOut(Lie::kNothing, "too short");
  ExpectFoundOut(Lie::kOneRun, "has 1000 records, and not 4000");
  ExpectFoundOut(Lie::kLess, "1000 records of 4000");
  ExpectFoundOut(Lie::kRest, "of 4000 records it has kept 1000");
  ExpectFoundOut(Lie::kNone, "");
}

TEST(StoreEngines, MergerThatMayStillWrite_IsNotReliedOn) {
  if (!HasLeases()) GTEST_SKIP() << "this file system does not tell who writes to a file";
  ExpectFoundOut(Lie::kStaysOpen, "open for writing");
}

// Files that cannot be opened once more, for want of descriptors.
class FewDescriptors : public SimFiles {
 public:
  bool HasDescriptors() const override { return true; }
  absl::StatusOr<UniqueFd> Descriptor(const std::string& path) override {
    ++asked;
    return ErrnoError(EMFILE, "opening", path);
  }
  int asked = 0;
};

TEST(StoreEngines, NoDescriptorsForAMerger_MergesHereAndAloneNeedsNone) {
  for (const bool elsewhere : {false, true}) {
    FewDescriptors files;
    LyingEngines engines(Lie::kNone);
    StoreOptions options;
    options.files = &files;
    options.background = false;
    if (elsewhere) options.engines = &engines;
    auto store = GraphStore::Open("db", options);
    ASSERT_TRUE(store.ok()) << store.status();
    Fill(store->get(), 1, 300, 4000);
    const int64_t sum = SumOfWeights(store->get());
    const absl::Status compacted = (*store)->Compact();
    ASSERT_TRUE(compacted.ok()) << compacted;
    EXPECT_EQ(SumOfWeights(store->get()), sum);
    EXPECT_EQ(files.asked, elsewhere ? 2 : 0);
    EXPECT_EQ((*store)->stats().merges_fallen_back, elsewhere ? 2u : 0u);
    EXPECT_EQ(engines.merger().asked(), 0);
  }
}

}  // namespace
}  // namespace pulse::graph::engines
