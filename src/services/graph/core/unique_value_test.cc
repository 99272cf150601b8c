// Unique values that change hands: within one transaction, and between two of which neither sees
// what the other one does.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

using cypher::GraphTransaction;
using cypher::GraphView;
using Tx = std::unique_ptr<cypher::DatabaseTransaction>;

class UniqueValueTest : public ::testing::Test {
 protected:
  UniqueValueTest() {
    StoreOptions options;
    options.files = &files_;
    options.background = false;
    store_ = GraphStore::Open("db", options).value();
  }
  Tx Begin() { return *store_->Begin(); }
  std::shared_ptr<const GraphView> Now() { return *store_->Snapshot(); }
  static Token Key(GraphTransaction* tx, const char* name) { return *tx->AddKeyName(name); }

  SimFiles files_;
  std::unique_ptr<GraphStore> store_;
};

// In one transaction a node gives its value up, in each way, and another one takes it.
TEST_F(UniqueValueTest, GivenUpByTheSameTransaction_MayBeTaken) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"k"}, true, true, false}).ok());
  const Token label = *Begin()->AddLabelName("P");
  const auto make = [&](Tx& tx, int k) {
    return *tx->CreateNode({&label, 1}, {{Key(tx.get(), "k"), Value::Int(k)}});
  };
  const auto set = [&](Tx& tx, NodeId node, const Value& value) {
    ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "k"), value).ok());
  };
  const auto found = [&](const GraphView& view, int k) {
    std::vector<NodeId> nodes;
    EXPECT_TRUE(view.SeekOne(label, *view.FindKey("k"), Value::Int(k), &nodes).ok());
    return nodes;
  };
  using Nodes = std::vector<NodeId>;
  Tx tx = Begin();
  const NodeId a = make(tx, 1), b = make(tx, 2), c = make(tx, 3), d = make(tx, 4);
  ASSERT_TRUE(tx->Commit().ok());
  tx = Begin();
  set(tx, a, Value::Int(10));
  set(tx, b, Value());
  ASSERT_TRUE(tx->RemoveLabel(c, label).ok());
  ASSERT_TRUE(tx->DeleteNode(d).ok());
  const NodeId made[] = {make(tx, 1), make(tx, 2), make(tx, 3), make(tx, 4)};
  for (int k = 1; k <= 4; ++k) EXPECT_EQ(found(*tx, k), Nodes{made[k - 1]});
  ASSERT_TRUE(tx->Commit().ok());
  for (int k = 1; k <= 4; ++k) EXPECT_EQ(found(*Now(), k), Nodes{made[k - 1]});
  EXPECT_EQ(found(*Now(), 10), Nodes{a});
  // Two change places; who then wants it back is refused.
  tx = Begin();
  set(tx, made[0], Value::Int(2));
  set(tx, made[1], Value::Int(1));
  ASSERT_TRUE(tx->Commit().ok());
  EXPECT_EQ(found(*Now(), 1), Nodes{made[1]});
  tx = Begin();
  set(tx, a, Value::Int(1));
  EXPECT_EQ(tx->Commit().code(), absl::StatusCode::kFailedPrecondition);
  // A transaction that has seen the value at the node that lost it, and another that takes it.
  Tx loses = Begin(), takes = Begin();
  set(loses, made[1], Value::Int(11));
  set(takes, a, Value::Int(1));
  ASSERT_TRUE(loses->Commit().ok());
  EXPECT_TRUE(takes->Commit().ok());
  EXPECT_EQ(found(*Now(), 1), Nodes{a});
}

// The value that is in the way came to the transaction's own node by another one: it has not seen
// it, and finds it when it runs again.
TEST_F(UniqueValueTest, BroughtToAnOwnNodeByAnother_IsAConflict) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"k"}, true, true, false}).ok());
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P"), k = Key(tx.get(), "k"), x = Key(tx.get(), "x");
  const NodeId own = *tx->CreateNode({&label, 1}, {{k, Value::Int(1)}});
  ASSERT_TRUE(tx->Commit().ok());
  for (const bool itself : {false, true}) {
    Tx first = Begin();
    ASSERT_TRUE(first->SetNodeProperty(own, x, Value::Int(1)).ok());
    if (itself) {
      // What its own change brings stays refused.
      ASSERT_TRUE(first->SetNodeProperty(own, k, Value::Int(3)).ok());
    }
    ASSERT_TRUE(first->CreateNode({&label, 1}, {{k, Value::Int(itself ? 3 : 2)}}).ok());
    if (!itself) {
      tx = Begin();
      ASSERT_TRUE(tx->SetNodeProperty(own, k, Value::Int(2)).ok());
      ASSERT_TRUE(tx->Commit().ok());
    }
    EXPECT_EQ(first->Commit().code(),
              itself ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kAborted);
  }
}

// Whether a commit that is on its way to the disk gives the value up is known when it is there.
TEST_F(UniqueValueTest, GivenUpByACommitOnItsWay_IsAConflict) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"k"}, true, true, false}).ok());
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P"), k = Key(tx.get(), "k");
  const NodeId changed = *tx->CreateNode({&label, 1}, {{k, Value::Int(1)}});
  const NodeId deleted = *tx->CreateNode({&label, 1}, {{k, Value::Int(2)}});
  ASSERT_TRUE(tx->Commit().ok());
  for (const NodeId node : {changed, deleted}) {
    const Value value = Value::Int(node == changed ? 1 : 2);
    Tx gives = Begin(), takes = Begin();
    ASSERT_TRUE(
        (node == changed ? gives->SetNodeProperty(node, k, Value::Int(7)) : gives->DeleteNode(node))
            .ok());
    ASSERT_TRUE(takes->CreateNode({&label, 1}, {{k, value}}).ok());
    absl::Status meanwhile;
    files_.OnSync([&] { meanwhile = std::exchange(takes, nullptr)->Commit(); });
    ASSERT_TRUE(gives->Commit().ok());
    files_.OnSync(nullptr);
    EXPECT_EQ(meanwhile.code(), absl::StatusCode::kAborted) << meanwhile;
    tx = Begin();
    ASSERT_TRUE(tx->CreateNode({&label, 1}, {{k, value}}).ok());
    EXPECT_TRUE(tx->Commit().ok());
  }
}

}  // namespace
}  // namespace pulse::graph
