// A store on each engine: the same bytes in its runs, the same graph as its oracle, and an agent
// that is killed in the middle of compactions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "services/graph/core/store.h"
#include "services/graph/core/test_graph_model.h"
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

// One that reports well, and has written nothing, or something else.
class LyingMerger : public Merger {
 public:
  explicit LyingMerger(int kind) : kind_(kind) {}
  absl::StatusOr<MergeStats> Merge(const MergeJob& job) override {
    MergeStats stats;
    for (const auto& run : job.runs) stats.records_in += run->info().records;
    stats.records_out = stats.records_in;
    if (kind_ == 0) return stats;
    const auto engine = CreateInlineCopyEngine({});
    // Of only one of the runs.
    const auto merged = MergeRuns(job.runs.first(1), job.options, engine->get(), job.sink);
    EXPECT_TRUE(merged.ok());
    if (kind_ == 2) return merged->stats;
    return stats;
  }

 private:
  const int kind_;
};

class LyingEngines : public EngineSource {
 public:
  explicit LyingEngines(int kind) : merger_(kind) {}
  absl::StatusOr<EngineChoice> Choose(const EngineWork&) override {
    EngineChoice choice;
    choice.name = "liar";
    choice.merger = &merger_;
    choice.engine = *CreateInlineCopyEngine({});
    return choice;
  }
  void Report(const EngineWork&, const EngineOutcome&) override {}

 private:
  LyingMerger merger_;
};

TEST(StoreEngines, MergerThatLies_IsFoundOutAndTheStoreMerges) {
  const uint64_t seed = TestSeed();
  ScratchStore plain(nullptr);
  Fill(plain.get(), seed, 300, 4000);
  ASSERT_TRUE(plain->Compact().ok());
  for (const int kind : {0, 1, 2}) {
    LyingEngines engines(kind);
    ScratchStore store(&engines);
    Fill(store.get(), seed, 300, 4000);
    const absl::Status compacted = store->Compact();
    ASSERT_TRUE(compacted.ok()) << kind << ": " << compacted;
    EXPECT_TRUE(store.Runs() == plain.Runs()) << kind;
    EXPECT_EQ(store->stats().merges_fallen_back, 2u);
    EXPECT_EQ(store->stats().merges_elsewhere, 0u);
  }
}

}  // namespace
}  // namespace pulse::graph::engines
