// Indexes of one and of two keys under random changes, against what the nodes say.
#include "services/graph/nodes/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

// Few values: most are of several nodes, and nodes come and go among those that share one.
TEST(IndexTest, RandomChanges_EachValueFindsItsNodes) {
  std::mt19937_64 random(testing_util::TestSeed());
  SimFiles files;
  StoreOptions options;
  options.files = &files;
  options.background = false;
  auto store = GraphStore::Open("db", options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->CreateIndex({"one", "P", {"a"}}).ok());
  ASSERT_TRUE((*store)->CreateIndex({"two", "P", {"b", "a"}}).ok());
  std::map<NodeId, std::pair<int, int>> nodes;  // a, b
  const auto value = [&] { return static_cast<int>(random() % 12); };
  std::shared_ptr<const cypher::GraphView> old;  // keeps versions, and with them their entries
  for (int round = 0; round < 300; ++round) {
    auto tx = *(*store)->Begin();
    const Token label = *tx->AddLabelName("P"), a = *tx->AddKeyName("a"), b = *tx->AddKeyName("b");
    for (int i = 0; i < 8; ++i) {
      auto it = nodes.begin();
      if (!nodes.empty()) std::advance(it, random() % nodes.size());
      if (nodes.size() < 20 || (nodes.size() < 60 && random() % 3 == 0)) {
        const int va = value(), vb = value();
        nodes[*tx->CreateNode({&label, 1}, {{a, Value::Int(va)}, {b, Value::Int(vb)}})] = {va, vb};
      } else if (random() % 8 == 0) {
        ASSERT_TRUE(tx->DeleteNode(it->first).ok());
        nodes.erase(it);
      } else {
        it->second.first = value();
        ASSERT_TRUE(tx->SetNodeProperty(it->first, a, Value::Int(it->second.first)).ok());
      }
    }
    ASSERT_TRUE(tx->Commit().ok());
    if (round % 20 == 0) old = round % 40 == 0 ? nullptr : *(*store)->Snapshot();
    const auto view = *(*store)->Snapshot();
    const int va = value(), vb = value();
    std::vector<NodeId> found, expected;
    ASSERT_TRUE(view->SeekOne(label, a, Value::Int(va), &found).ok());
    for (const auto& [node, values] : nodes) {
      if (values.first == va) expected.push_back(node);
    }
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, expected) << "round " << round;
    found.clear();
    expected.clear();
    const Token keys[] = {b, a};
    const Value both[] = {Value::Int(vb), Value::Int(va)};
    ASSERT_TRUE(view->Seek(label, keys, both, &found).ok());
    for (const auto& [node, values] : nodes) {
      if (values == std::pair(va, vb)) expected.push_back(node);
    }
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, expected) << "round " << round;
  }
  ASSERT_GT(nodes.size(), 15u);
}

// Who looks for an index has the list that there was then, whatever is created and dropped
// meanwhile. The sanitizers see whether it is still there.
TEST(IndexTest, CreatedAndDroppedMeanwhile_OthersAreFound) {
  IndexSet set;
  set.Add(std::make_shared<Index>(IndexDefinition{"one", "P", {"a"}}, 1, std::vector<Token>{1}));
  std::atomic<bool> done = false;
  std::thread changes([&] {
    for (int i = 0; i < 2000; ++i) {
      set.Add(std::make_shared<Index>(IndexDefinition{"two", "P", {"b", "a"}}, 1,
                                      std::vector<Token>{2, 1}));
      set.Remove("two");
    }
    done = true;
  });
  const Token key = 1;
  while (!done) {
    EXPECT_NE(set.FindFor(1, {&key, 1}), nullptr);
    EXPECT_NE(set.FindByName("one"), nullptr);
    EXPECT_LE(set.WideFor(1).size(), 1u);
  }
  changes.join();
}

}  // namespace
}  // namespace pulse::graph
