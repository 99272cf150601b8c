#include "services/graph/core/bulk_load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/load/load.h"

namespace pulse::graph {
namespace {

class BulkLoadTest : public ::testing::Test {
 protected:
  BulkLoadTest() {
    std::filesystem::create_directory(dir_.get());
    std::ofstream nodes(dir_.get() + "/p.csv"), edges(dir_.get() + "/k.csv");
    nodes << "id,age\n";
    for (int i = 0; i < kNodes; ++i) nodes << i << "," << i % 90 << "\n";
    edges << "a,b,w\n";
    for (int i = 0; i < kEdges; ++i) {
      edges << i * 7 % kNodes << "," << i * 13 % kNodes << "," << i % 100 << "\n";
      sum_ += i % 100;
    }
    options_.nodes = {{"P", dir_.get() + "/p.csv"}};
    options_.edges = {{"K", dir_.get() + "/k.csv"}};
    Open();
  }
  ~BulkLoadTest() override {
    store_.reset();
    std::filesystem::remove_all(dir_.get());
  }
  void Open() {
    store_.reset();
    auto store = GraphStore::Open(dir_.get() + "/db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // How many relationships there are, and the sum of w.
  std::pair<uint64_t, int64_t> Sum(const GraphView& view) {
    std::pair<uint64_t, int64_t> out;
    const auto key = view.FindKey("w");
    if (!key) return out;
    uint64_t position = 0;
    cypher::Column column;
    while (const size_t n = view.ScanEdgeProperty({}, *key, &position, 500, &column).value_or(0)) {
      out.first += n;
      for (const int64_t w : column.ints) out.second += w;
    }
    return out;
  }
  size_t RunFiles() {
    size_t runs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.get() + "/db")) {
      runs += entry.path().extension() == ".run" ? 1 : 0;
    }
    return runs;
  }

  static constexpr int kNodes = 3000, kEdges = 20000;
  testing_util::ScratchPath dir_{"graph-bulk"};
  LoadOptions options_;
  int64_t sum_ = 0;
  std::unique_ptr<GraphStore> store_;
};

TEST_F(BulkLoadTest, Committed_IsThereWithWhatWasThereBefore) {
  NodeId first;
  {
    auto tx = *store_->Begin();
    first = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->CreateEdge(first, first, *tx->AddTypeName("K"),
                               {{*tx->AddKeyName("w"), Value::Int(1000)}})
                    .ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  auto before = *store_->Snapshot();
  {
    auto load = BulkLoad::Begin(store_.get());
    ASSERT_TRUE(load.ok()) << load.status();
    EXPECT_EQ(store_->CreateIndex({"i", "P", {"id"}}).code(),
              absl::StatusCode::kFailedPrecondition);
    const auto report = LoadCsv(options_, load->get());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->edges, static_cast<uint64_t>(kEdges));
    EXPECT_EQ(Sum(**store_->Snapshot()).first, 1u);
    const absl::Status committed = (*load)->Commit();
    ASSERT_TRUE(committed.ok()) << committed;
  }
  EXPECT_EQ(Sum(*before).first, 1u);
  EXPECT_EQ(store_->Snapshot(store_->sequence() - 1).status().code(), absl::StatusCode::kNotFound);
  before.reset();
  const auto expected = std::make_pair(uint64_t{kEdges} + 1, sum_ + 1000);
  EXPECT_EQ(Sum(**store_->Snapshot()), expected);
  ASSERT_TRUE(store_->CreateIndex({"i", "P", {"id"}}).ok());
  for (int round = 0; round < 3; ++round) {
    if (round > 0) Open();
    const auto view = *store_->Snapshot();
    EXPECT_EQ(Sum(*view), expected);
    EXPECT_EQ(view->EdgeCount(*view->FindType("K")), expected.first);
    EXPECT_EQ(view->NodeCount(*view->FindLabel("P")), static_cast<uint64_t>(kNodes));
    std::vector<NodeId> found;
    ASSERT_TRUE(
        view->SeekOne(*view->FindLabel("P"), *view->FindKey("id"), Value::Int(7), &found).ok());
    ASSERT_EQ(found.size(), 1u);
    uint64_t degree = 0;
    ASSERT_TRUE(view->Degrees({found.data(), 1}, Direction::kBoth, {}, {&degree, 1}).ok());
    EXPECT_GT(degree, 5u);
    // Its relationships can be changed and deleted as others can.
    auto tx = *store_->Begin();
    cypher::ExpandPosition at;
    cypher::NeighbourBatch batch;
    ASSERT_TRUE(tx->Expand({found.data(), 1}, Direction::kOut, {}, 1, &at, &batch).ok());
    const EdgeRef edge{batch.edge[0], found[0], batch.node[0], batch.type[0]};
    ASSERT_TRUE(tx->SetEdgeProperty(edge, *tx->FindKey("w"), Value::Int(round)).ok());
    ASSERT_TRUE(tx->SetEdgeProperty(edge, *tx->FindKey("w"), Value::Int(0)).ok());
    cypher::Column column;
    ASSERT_TRUE(view->ReadEdgeProperty(*view->FindKey("w"), {&edge, 1}, &column).ok());
    ASSERT_TRUE(tx->SetEdgeProperty(edge, *tx->FindKey("w"), ColumnValue(column, 0)).ok());
    ASSERT_TRUE(tx->Commit().ok());
    if (round == 1) {
      ASSERT_TRUE(store_->Compact().ok());
    }
  }
}

TEST_F(BulkLoadTest, NotCommitted_LeavesNothing) {
  {
    auto load = *BulkLoad::Begin(store_.get());
    ASSERT_TRUE(LoadCsv(options_, load.get()).ok());
    EXPECT_EQ(RunFiles(), 2u);
  }
  EXPECT_EQ(RunFiles(), 0u);
  EXPECT_EQ(DumpStore(**store_->Snapshot()), "");
  EXPECT_TRUE(store_->Names().labels.empty());
  Open();
  EXPECT_EQ(DumpStore(**store_->Snapshot()), "");
}

// What the manifest may name stays.
TEST_F(BulkLoadTest, FaultOfEveryCallOfTheCommit_OpensAgain) {
  for (uint64_t call = 1, failed = call; failed == call; ++call) {
    SimFiles files;
    StoreOptions options;
    options.files = &files;
    options.background = false;
    auto store = *GraphStore::Open("db", options);
    auto load = *BulkLoad::Begin(store.get());
    ASSERT_TRUE(LoadCsv(options_, load.get()).ok());
    files.FailAt(call);
    const bool committed = load->Commit().ok();
    if (files.calls() >= call) failed = call + 1;
    files.FailAt(0);
    load.reset();
    if (call % 2 == 0) {
      EXPECT_TRUE(store->Checkpoint().ok() || !committed);
    }
    const auto after = files.AfterKill();
    options.files = after.get();
    const auto again = GraphStore::Open("db", options);
    ASSERT_TRUE(again.ok()) << "call " << call << ": " << again.status();
    const auto found = Sum(**(*again)->Snapshot());
    if (committed) {
      EXPECT_EQ(found, std::make_pair(uint64_t{kEdges}, sum_)) << call;
    } else {
      EXPECT_TRUE(found.first == 0 || found.first == kEdges) << call;
    }
  }
}

TEST_F(BulkLoadTest, WithAConstraint_IsRefused) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"id"}, true, true, false}).ok());
  EXPECT_EQ(BulkLoad::Begin(store_.get()).status().code(), absl::StatusCode::kFailedPrecondition);
}

// What the nodes and relationships of the database are, in a transaction and after it.
TEST_F(BulkLoadTest, LinesThatBreakAConstraint_AreNamedOrRejected) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"age"}, true, true, false}).ok());
  const absl::Status status = LoadCsvInto(store_.get(), options_).status();
  EXPECT_NE(testing_util::Text(status).find(
                "/p.csv:92: constraint u on :P(age): an earlier line has age = 0 already"),
            std::string::npos)
      << status;
  EXPECT_EQ(DumpStore(**store_->Snapshot()), "");

  options_.reject_path = dir_.get() + "/rejected";
  auto report = LoadCsvInto(store_.get(), options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, 90u);
  EXPECT_EQ(report->violations, kNodes - 90u);
  EXPECT_EQ(report->edges + report->dangling, static_cast<uint64_t>(kEdges));
  EXPECT_EQ(store_->NodeCount(), 90u);
  // Again: each of them is there.
  report = LoadCsvInto(store_.get(), options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, 0u);
  EXPECT_EQ(report->violations, static_cast<uint64_t>(kNodes));
  EXPECT_EQ(store_->NodeCount(), 90u);
}

}  // namespace
}  // namespace pulse::graph
