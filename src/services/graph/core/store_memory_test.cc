// The limit of what nodes and their indexes have in memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_store.h"

namespace pulse::graph {
namespace {

constexpr auto kTooMuch = absl::StatusCode::kResourceExhausted;

class StoreMemoryTest : public SimStoreTest {
 protected:
  StoreMemoryTest() {
    options_.node_memory = 10'000;
    Open();
  }
  absl::Status Make(size_t text_bytes, int nodes = 1) {
    auto tx = *store_->Begin();
    const Token label = *tx->AddLabelName("A"), key = *tx->AddKeyName("text");
    for (int i = 0; i < nodes; ++i) {
      const auto made =
          tx->CreateNode({&label, 1}, {{key, Value::String(std::string(text_bytes, 'x'))}});
      if (!made.ok()) return made.status();
    }
    return tx->Commit();
  }
  absl::Status Set(NodeId node, const Value& text) {
    auto tx = *store_->Begin();
    EXPECT_TRUE(tx->SetNodeProperty(node, *tx->AddKeyName("text"), text).ok());
    return tx->Commit();
  }
  absl::Status Delete(NodeId node) {
    auto tx = *store_->Begin();
    EXPECT_TRUE(tx->DeleteNode(node).ok());
    return tx->Commit();
  }
  static Value Bytes(size_t bytes) { return Value::String(std::string(bytes, 'y')); }
};

TEST_F(StoreMemoryTest, CommitBeyondTheLimit_IsRefusedWhole_AndNamesLimitAndRemedy) {
  ASSERT_TRUE(Make(1000, 9).ok());
  const std::string before = DumpStore(**store_->Snapshot());
  const absl::Status status = Make(1000, 2);
  EXPECT_EQ(status.code(), kTooMuch);
  const std::string said = testing_util::Text(status);
  EXPECT_NE(said.find("10000 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find(Concat("have ", store_->stats().node_bytes)), std::string::npos) << said;
  EXPECT_NE(said.find("delete nodes"), std::string::npos) << said;
  EXPECT_EQ(DumpStore(**store_->Snapshot()), before);
  EXPECT_TRUE(Make(100).ok());
  Open();
  EXPECT_EQ(store_->NodeCount(), 10u);
}

TEST_F(StoreMemoryTest, DeletedNodes_MakeRoomForAsMuch) {
  for (NodeId node = 0; node < 10; ++node) {
    ASSERT_TRUE(Make(9000).ok()) << node;
    ASSERT_EQ(Make(9000).code(), kTooMuch);
    // The number of the refused one is used up.
    ASSERT_TRUE(Delete(2 * node).ok()) << node;
  }
}

TEST_F(StoreMemoryTest, NumbersOfRefusedNodes_TakeNothing) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Make(10, 2000).code(), kTooMuch);
  ASSERT_TRUE(Make(10).ok());
  EXPECT_TRUE(Make(9000).ok());
}

TEST_F(StoreMemoryTest, WhatASnapshotStillSees_IsHeld) {
  ASSERT_TRUE(Make(8000).ok());
  auto kept = *store_->Snapshot();
  ASSERT_TRUE(Delete(0).ok());
  EXPECT_EQ(Make(8000).code(), kTooMuch);
  kept.reset();
  EXPECT_TRUE(Make(8000).ok());
}

TEST_F(StoreMemoryTest, WhatOthersChangedMeanwhile_IsNotTheCommits) {
  ASSERT_TRUE(Make(10).ok());
  // The text that came meanwhile stays, and makes no room.
  auto tx = *store_->Begin();
  ASSERT_TRUE(tx->SetNodeProperty(0, *tx->AddKeyName("other"), Value::Int(1)).ok());
  ASSERT_TRUE(tx->CreateNode({}, {{*tx->AddKeyName("text"), Bytes(6000)}}).ok());
  ASSERT_TRUE(Set(0, Bytes(6000)).ok());
  EXPECT_EQ(tx->Commit().code(), kTooMuch);
  // One that went meanwhile does not come back.
  tx = *store_->Begin();
  ASSERT_TRUE(tx->SetNodeProperty(0, *tx->AddKeyName("other"), Value::Int(1)).ok());
  ASSERT_TRUE(Set(0, Bytes(10)).ok());
  EXPECT_TRUE(tx->Commit().ok());
}

TEST_F(StoreMemoryTest, AtTheLimit_OnlyWhatAddsIsRefused) {
  ASSERT_TRUE(Make(9800).ok());
  EXPECT_EQ(Set(0, Bytes(20'000)).code(), kTooMuch);
  EXPECT_TRUE(Set(0, Bytes(9800)).ok());
  auto tx = *store_->Begin();
  ASSERT_TRUE(
      tx->CreateEdge(0, 0, *tx->AddTypeName("T"), {{*tx->AddKeyName("w"), Bytes(50'000)}}).ok());
  EXPECT_TRUE(tx->Commit().ok());
  EXPECT_TRUE(Set(0, Bytes(10)).ok());
  EXPECT_TRUE(Make(5000).ok());
}

TEST_F(StoreMemoryTest, LargerDatabase_IsOpenedReadAndShrunk_ButDoesNotGrow) {
  options_.node_memory = 0;
  Open();
  ASSERT_TRUE(Make(9000, 4).ok());
  for (const bool checkpoint : {false, true}) {
    if (checkpoint) {
      ASSERT_TRUE(store_->Checkpoint().ok());
    }
    options_.node_memory = 10'000;
    Open();
    EXPECT_EQ(store_->NodeCount(), checkpoint ? 3u : 4u);
    EXPECT_EQ(Make(1).code(), kTooMuch);
    EXPECT_TRUE(Delete(checkpoint ? 1 : 0).ok());
    EXPECT_EQ(Make(1).code(), kTooMuch);
  }
  EXPECT_TRUE(Set(2, Bytes(1)).ok());
  EXPECT_TRUE(Set(3, Bytes(1)).ok());
  EXPECT_TRUE(Make(5000).ok());
}

TEST_F(StoreMemoryTest, Indexes_CountWithTheNodes) {
  ASSERT_TRUE(Make(10, 120).ok());
  const uint64_t nodes = store_->stats().node_bytes;
  options_.node_memory = nodes + 1000;
  Open();
  EXPECT_EQ(store_->CreateIndex({"i", "A", {"text"}}).code(), kTooMuch);
  EXPECT_TRUE(store_->Indexes().empty());
  options_.node_memory = nodes + 120 * 60;
  Open();
  ASSERT_TRUE(store_->CreateIndex({"i", "A", {"text"}}).ok());
  const uint64_t both = store_->stats().node_bytes;
  EXPECT_GT(both, nodes + 120 * 20);
  // A node that fits alone does not with its place in the index.
  options_.node_memory = both + 80;
  Open();
  EXPECT_EQ(Make(10).code(), kTooMuch);
  const std::vector<cypher::SchemaChange> drop = {{.drop = true, .index = {"i", "A", {"text"}}}};
  ASSERT_TRUE(store_->ChangeSchema(drop).ok());
  EXPECT_TRUE(Make(10).ok());
}

TEST_F(StoreMemoryTest, NewIndex_HasNothingOfVersionsThatAreFreedForIt) {
  options_.node_memory = 200'000;
  Open();
  ASSERT_TRUE(Make(1000, 120).ok());
  auto kept = *store_->Snapshot();
  auto tx = *store_->Begin();
  for (NodeId node = 0; node < 120; ++node) {
    ASSERT_TRUE(tx->SetNodeProperty(node, *tx->AddKeyName("text"), Bytes(1000)).ok());
  }
  ASSERT_TRUE(tx->Commit().ok());
  tx.reset();
  ASSERT_GT(store_->stats().node_bytes, options_.node_memory);
  kept.reset();
  ASSERT_TRUE(store_->CreateIndex({"i", "A", {"text"}}).ok());
  const uint64_t bytes = store_->stats().node_bytes;
  const std::vector<cypher::SchemaChange> again = {{.drop = true, .index = {"i", "A", {"text"}}},
                                                   {.index = {"i", "A", {"text"}}}};
  ASSERT_TRUE(store_->ChangeSchema(again).ok());
  EXPECT_EQ(store_->stats().node_bytes, bytes);
}

TEST_F(StoreMemoryTest, ManyWriters_NeverGoBeyondTheLimit) {
  options_.node_memory = 200'000;
  Open();
  ASSERT_TRUE(Make(700).ok());
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([this] {
      absl::Status status;
      while (status.ok()) status = Make(700);
      EXPECT_EQ(status.code(), kTooMuch) << status;
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_LE(store_->stats().node_bytes, 200'000u);
  EXPECT_GT(store_->stats().node_bytes, 198'000u);
}

TEST(StoreMemoryLoadTest, LoadBeyondTheLimit_IsRefused_AndGivesBackWhatItReserved) {
  testing_util::ScratchPath dir{"graph-memory"};
  std::filesystem::create_directory(dir.get());
  {
    std::ofstream nodes(dir.get() + "/p.csv");
    nodes << "id,t\n";
    // More than one frame, which is reserved as a whole.
    for (int i = 0; i < 3000; ++i) nodes << i << "," << std::string(1000, 'x') << "\n";
  }
  StoreOptions options;
  options.background = false;
  options.node_memory = 2'500'000;
  LoadOptions load;
  load.nodes = {{"P", dir.get() + "/p.csv"}};
  const auto make = [](GraphStore* store) {
    auto tx = *store->Begin();
    const Value text = Value::String(std::string(2'000'000, 'x'));
    const auto made = tx->CreateNode({}, {{*tx->AddKeyName("t"), text}});
    return made.ok() ? tx->Commit() : made.status();
  };
  {
    auto store = *GraphStore::Open(dir.get() + "/db", options);
    EXPECT_EQ(LoadCsvInto(store.get(), load).status().code(), kTooMuch);
    EXPECT_EQ(store->NodeCount(), 0u);
    EXPECT_TRUE(make(store.get()).ok());
  }
  options.node_memory = 7'500'000;
  auto store = *GraphStore::Open(dir.get() + "/db", options);
  ASSERT_TRUE(LoadCsvInto(store.get(), load).ok());
  EXPECT_EQ(store->NodeCount(), 3001u);
  // What is left is not counted twice, after one that did and one that did not come.
  EXPECT_EQ(LoadCsvInto(store.get(), load).status().code(), kTooMuch);
  EXPECT_TRUE(make(store.get()).ok());
  EXPECT_EQ(make(store.get()).code(), kTooMuch);
  store.reset();
  std::filesystem::remove_all(dir.get());
}

}  // namespace
}  // namespace pulse::graph
