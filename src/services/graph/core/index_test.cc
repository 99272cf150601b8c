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

using cypher::Bound;

auto OpenStore(SimFiles* files) {
  StoreOptions options;
  options.files = files;
  options.background = false;
  return GraphStore::Open("db", options);
}

// What a view finds of a range, against its own scan. False: the index does not tell.
bool CheckRange(const cypher::GraphView& view, Token label, Token key, std::vector<Bound> bounds) {
  std::vector<NodeId> all, some(1000), found;
  uint64_t position = 0;
  while (const size_t count = *view.ScanNodes(label, &position, some)) {
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  }
  cypher::Column column;
  EXPECT_TRUE(view.ReadNodeProperty(key, all, &column).ok());
  const auto told = view.SeekRange(label, key, bounds, 1000, &found);
  EXPECT_TRUE(told.ok()) << told.status();
  if (!*told) return false;
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
  EXPECT_EQ(std::adjacent_find(found.begin(), found.end()), found.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const Value value = column.kind == cypher::Column::Kind::kInts
                            ? (column.valid[i] != 0 ? Value::Int(column.ints[i]) : Value())
                            : column.values[i];
    const bool within = std::all_of(bounds.begin(), bounds.end(), [&](const Bound& bound) {
      const int c = cypher::Compare(value, bound.value);
      return c == 0 || c == (bound.kind == Bound::Kind::kAtLeast ? 1 : -1);
    });
    if (within) {
      EXPECT_TRUE(std::binary_search(found.begin(), found.end(), all[i])) << all[i];
    }
  }
  for (const NodeId node : found) {
    EXPECT_TRUE(std::find(all.begin(), all.end(), node) != all.end()) << node;
  }
  return true;
}

std::vector<Bound> Between(int64_t low, int64_t high) {
  return {{Bound::Kind::kAtLeast, Value::Int(low)}, {Bound::Kind::kAtMost, Value::Int(high)}};
}

// Few values: most are of several nodes, and nodes come and go among those that share one.
TEST(IndexTest, RandomChanges_EachValueFindsItsNodes) {
  std::mt19937_64 random(testing_util::TestSeed());
  SimFiles files;
  auto store = OpenStore(&files);
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
    if (round < 100) continue;  // the order is made of a graph that has changed
    EXPECT_TRUE(CheckRange(*view, label, a, Between(va - 2, va + 1)));
    EXPECT_TRUE(CheckRange(*view, label, b, Between(vb, vb + 3)));
    if (old != nullptr) CheckRange(*old, label, a, Between(va - 2, va + 1));
    const auto changing = *(*store)->Begin();
    ASSERT_TRUE(changing->DeleteNode(nodes.begin()->first).ok());
    ASSERT_TRUE(
        changing->SetNodeProperty(std::prev(nodes.end())->first, a, Value::Int(value())).ok());
    ASSERT_TRUE(changing->RemoveLabel(std::next(nodes.begin())->first, label).ok());
    ASSERT_TRUE(changing->CreateNode({&label, 1}, {{a, Value::Int(value())}}).ok());
    EXPECT_TRUE(CheckRange(*changing, label, a, Between(va - 2, va + 1)));
  }
  ASSERT_GT(nodes.size(), 15u);
}

TEST(IndexTest, Range_OfASnapshotBeforeTheOrder_IsNotTold) {
  SimFiles files;
  auto store = OpenStore(&files);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->CreateIndex({"one", "P", {"a"}}).ok());
  const auto add = [&](int from) {
    auto tx = *(*store)->Begin();
    const Token label = *tx->AddLabelName("P"), a = *tx->AddKeyName("a");
    for (int i = from; i < from + 40; ++i) {
      ASSERT_TRUE(tx->CreateNode({&label, 1}, {{a, Value::Int(i)}}).ok());
    }
    ASSERT_TRUE(tx->Commit().ok());
  };
  add(0);
  const std::shared_ptr<const cypher::GraphView> before = *(*store)->Snapshot();
  add(40);
  const std::shared_ptr<const cypher::GraphView> first = *(*store)->Snapshot();
  const Token label = *first->FindLabel("P"), a = *first->FindKey("a");
  EXPECT_TRUE(CheckRange(*first, label, a, Between(30, 50)));
  EXPECT_FALSE(CheckRange(*before, label, a, Between(30, 50)));
  add(80);
  EXPECT_TRUE(CheckRange(*first, label, a, Between(30, 90)));
  std::vector<NodeId> found;
  EXPECT_FALSE(*first->SeekRange(label, a, Between(0, 60), 20, &found));
  const std::vector<Bound> list = {{Bound::Kind::kAtLeast, Value::List({})}};
  EXPECT_FALSE(*first->SeekRange(label, a, list, 1000, &found));
  EXPECT_FALSE(*first->SeekRange(label, *first->FindKey("a") + 1, Between(0, 60), 1000, &found));
}

// The order is made while others commit: nobody misses a node that its snapshot has.
TEST(IndexTest, OrderMadeWhileOthersCommit_HasEveryNode) {
  std::mt19937_64 random(testing_util::TestSeed());
  SimFiles files;
  auto store = OpenStore(&files);
  ASSERT_TRUE(store.ok()) << store.status();
  auto names = *(*store)->Begin();
  const Token label = *names->AddLabelName("P"), a = *names->AddKeyName("a");
  ASSERT_TRUE(names->Commit().ok());
  std::atomic<bool> done = false;
  std::thread writer([&, seed = random()] {
    std::mt19937_64 numbers(seed);
    std::vector<NodeId> nodes;
    while (!done) {
      auto tx = *(*store)->Begin();
      for (int i = 0; i < 4; ++i) {
        const Value value = Value::Int(static_cast<int64_t>(numbers() % 50));
        if (nodes.size() < 200) {
          nodes.push_back(*tx->CreateNode({&label, 1}, {{a, value}}));
        } else {
          ASSERT_TRUE(tx->SetNodeProperty(nodes[numbers() % nodes.size()], a, value).ok());
        }
      }
      ASSERT_TRUE(tx->Commit().ok());
    }
  });
  size_t told = 0;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE((*store)->CreateIndex({"one", "P", {"a"}}).ok());
    for (int k = 0; k < 4; ++k) {
      const auto view = *(*store)->Snapshot();
      const auto low = static_cast<int64_t>(random() % 50);
      told += CheckRange(*view, label, a, Between(low, low + 20)) ? 1 : 0;
    }
    ASSERT_TRUE((*store)->DropIndex("one").ok());
  }
  done = true;
  writer.join();
  EXPECT_EQ(told, 48u);
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

// Whoever makes and deletes nodes of one value, as a lock does, does not look at ever more of them.
TEST(IndexTest, DeletedNodes_LeaveNothingBehindTheOldestSnapshot) {
  SimFiles files;
  auto store = *OpenStore(&files);
  ASSERT_TRUE(store->CreateIndex({"i", "A", {"name"}}).ok());
  const auto round = [&store] {
    auto tx = *store->Begin();
    const Token label = *tx->AddLabelName("A");
    const NodeId node = *tx->CreateNode(
        {&label, 1}, {{*tx->AddKeyName("name"), Value::String(std::string(1000, 'x'))}});
    ASSERT_TRUE(tx->Commit().ok());
    auto second = *store->Begin();
    ASSERT_TRUE(second->DeleteNode(node).ok());
    ASSERT_TRUE(second->Commit().ok());
  };
  for (int i = 0; i < 100; ++i) round();
  // The markers of the deletions stay, and the last node.
  EXPECT_LT(store->stats().node_bytes, 100u * 50 + 3000);
  auto kept = *store->Snapshot();
  round();
  round();
  EXPECT_GT(store->stats().node_bytes, 102u * 24 + 1000);
  kept.reset();
  round();
  EXPECT_LT(store->stats().node_bytes, 103u * 50 + 3000);
}

}  // namespace
}  // namespace pulse::graph
