// Maintenance without space: what it could not finish is not there, and it goes on when there is
// some.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "base/testing.h"
#include "services/graph/core/operations.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/core/wal_records.h"
#include "services/graph/nodes/node_table.h"

namespace pulse::graph {
namespace {

class NoSpaceTest : public ::testing::Test {
 protected:
  NoSpaceTest() { OpenAgain(); }
  void OpenAgain() {
    store_.reset();
    StoreOptions options;
    options.files = &files_;
    options.background = false;
    store_ = GraphStore::Open("db", options).value();
  }
  void Link(int count) {
    auto tx = *store_->Begin();
    const Token type = *tx->AddTypeName("T");
    const NodeId node = *tx->CreateNode({}, {});
    for (int i = 0; i < count; ++i) ASSERT_TRUE(tx->CreateEdge(node, node, type, {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  uint64_t Bytes() {
    uint64_t bytes = 0;
    for (const auto& [name, node] : files_.names()) bytes += node->written.size();
    return bytes;
  }
  uint64_t Files(const std::string& suffix) {
    uint64_t count = 0;
    for (const auto& [name, node] : files_.names()) count += name.ends_with(suffix) ? 1 : 0;
    return count;
  }
  // Until it succeeds: with ever more space, so that each file once finds none.
  template <typename Work>
  void Retry(Work work) {
    int failed = 0;
    for (uint64_t room = 1;; room += 1 + room / 3) {
      files_.SetCapacity(Bytes() + room);
      const absl::Status done = work();
      const StoreStats stats = store_->stats();
      const uint64_t more = Files(".run") + Files(".ckpt") - stats.out_runs - stats.in_runs;
      if (done.ok()) break;
      ++failed;
      EXPECT_TRUE(absl::IsResourceExhausted(done)) << done;
      EXPECT_EQ(more, checkpoints_) << done;
    }
    EXPECT_GT(failed, 2);
    files_.SetCapacity(uint64_t{1} << 40);
  }

  SimFiles files_;
  std::unique_ptr<GraphStore> store_;
  uint64_t checkpoints_ = 0;
};

TEST_F(NoSpaceTest, FlushesAndCompactions_LeaveNoFilesBehind) {
  for (int round = 0; round < 3; ++round) {
    Link(300);
    Retry([this] { return store_->Flush(); });
  }
  Retry([this] { return store_->Compact(); });
  EXPECT_EQ(store_->stats().out_runs, 1u);
}

TEST_F(NoSpaceTest, Checkpoint_LeavesNoFilesBehind) {
  Link(300);
  ASSERT_TRUE(store_->Checkpoint().ok());
  checkpoints_ = Files(".ckpt");
  ASSERT_EQ(checkpoints_, 1u);
  Link(300);
  Retry([this] { return store_->Checkpoint(); });
}

TEST_F(NoSpaceTest, Close_WithoutACheckpoint_LosesNoCommit) {
  Link(300);
  files_.SetCapacity(Bytes() + 1);
  const absl::Status closed = store_->Close();
  EXPECT_TRUE(absl::IsResourceExhausted(closed)) << closed;
  EXPECT_NE(std::string(closed.message()).find("all commits are in the log"), std::string::npos)
      << closed;
  const uint64_t before = store_->stats().relationships;
  EXPECT_GE(before, 300u);
  files_.SetCapacity(uint64_t{1} << 40);
  OpenAgain();
  EXPECT_EQ(store_->stats().relationships, before);
}

// Beside a thread that flushes: it tries again for whoever waits for memory.
TEST(NoSpace, MemoryLimitReached_GoesOnOnceThereIsSpace) {
  class FullFiles : public SimFiles {
   public:
    absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
      if (path.ends_with(".ckpt") && no_checkpoints) return absl::ResourceExhaustedError(path);
      if (path.ends_with(".run") && no_runs) return absl::ResourceExhaustedError(path);
      return SimFiles::Create(path);
    }
    std::atomic<bool> no_checkpoints{true}, no_runs{false};
  };
  FullFiles files;
  StoreOptions options;
  options.files = &files;
  options.memory_limit = 1;  // the least
  options.checkpoint_bytes = 1;
  const auto store = GraphStore::Open("db", options).value();
  const auto commit = [&store] {
    auto tx = *store->Begin();
    const Token type = *tx->AddTypeName("T");
    const NodeId node = *tx->CreateNode({}, {});
    for (int i = 0; i < 10000; ++i) EXPECT_TRUE(tx->CreateEdge(node, node, type, {}).ok());
    return tx->Commit();
  };
  // There is space for flushes.
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(commit().ok());
  EXPECT_GT(store->stats().flushes, 0u);
  EXPECT_EQ(store->stats().checkpoints, 0u);
  files.no_runs = true;
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = commit();
  ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(std::string(status.message()).find("memory limit"), std::string::npos) << status;
  files.no_runs = false;
  EXPECT_TRUE(commit().ok());
}

// Whoever asks for one when there is none left counts on; what is written of that opens again.
TEST_F(NoSpaceTest, NoNumbersLeft_ForNodesOrRelationships_GoesOnWithoutNewOnes) {
  Link(2);
  ASSERT_TRUE(store_->Close().ok());
  OperationWriter counters;
  counters.Counters(NodeTable::kCapacity + 5, kLocalEdgeIds + 5);
  const uint64_t sequence = store_->stats().sequence + 1;
  store_.reset();
  std::string* log = nullptr;  // the last segment
  for (auto& [name, node] : files_.names()) {
    if (name.ends_with(".wal")) log = &node->written;
  }
  AppendWalRecords(sequence, sequence - 1, counters.bytes(), log);
  for (int round = 0; round < 3; ++round) {
    OpenAgain();
    EXPECT_EQ(store_->stats().relationships, 2u);
    auto tx = *store_->Begin();
    EXPECT_TRUE(absl::IsResourceExhausted(tx->CreateNode({}, {}).status()));
    const Token type = *tx->AddTypeName("T");
    EXPECT_TRUE(absl::IsResourceExhausted(tx->CreateEdge(0, 0, type, {}).status()));
    EXPECT_TRUE(tx->SetNodeProperty(0, *tx->AddKeyName("round"), Value::Int(round)).ok());
    EXPECT_TRUE(tx->Commit().ok());
    EXPECT_TRUE(store_->Close().ok());
  }
}

}  // namespace
}  // namespace pulse::graph
