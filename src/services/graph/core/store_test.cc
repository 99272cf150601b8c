// The store's promises one by one: isolation, conflicts, constraints, and
// files.
#include "services/graph/core/store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/testing.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_store.h"
#include "services/graph/model/test_heap.h"

namespace pulse::graph {
namespace {

using testing_util::Text;
using Tx = std::unique_ptr<cypher::DatabaseTransaction>;

class StoreTest : public SimStoreTest {
 protected:
  StoreTest() { Open(); }
  Tx Begin() { return *store_->Begin(); }
  std::shared_ptr<const GraphView> Now() { return *store_->Snapshot(); }
  NodeId MakeNode(const std::string& label = "A", const Properties& properties = {}) {
    Tx tx = Begin();
    const Token token = *tx->AddLabelName(label);
    const NodeId node = *tx->CreateNode({&token, 1}, properties);
    EXPECT_TRUE(tx->Commit().ok());
    return node;
  }
  static EdgeRef Link(cypher::DatabaseTransaction* tx, NodeId from, NodeId to) {
    return *tx->CreateEdge(from, to, *tx->AddTypeName("T"), {});
  }
  static Token Key(GraphTransaction* tx, const char* name) { return *tx->AddKeyName(name); }
  static Value Read(const GraphView& view, NodeId node, const char* key) {
    Properties properties;
    EXPECT_TRUE(view.ReadNodeProperties(node, &properties).ok());
    for (const auto& [token, value] : properties) {
      if (view.KeyName(token) == key) return value;
    }
    return {};
  }
  static uint64_t Degree(const GraphView& view, NodeId node) {
    uint64_t degree = 0;
    EXPECT_TRUE(view.Degrees({&node, 1}, Direction::kBoth, {}, {&degree, 1}).ok());
    return degree;
  }
};

constexpr auto kConflict = absl::StatusCode::kAborted;

// A run that hides relationships of another type does not change how the others are read on.
TEST_F(StoreTest, HubReadInParts_RelationshipsOfAnotherTypeDeleted_EachComesOnce) {
  const NodeId hub = MakeNode("Hub"), other = MakeNode();
  Tx tx = Begin();
  const Token wanted = *tx->AddTypeName("A"), unwanted = *tx->AddTypeName("B");
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(tx->CreateEdge(hub, other, wanted, {}).ok());
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->Flush().ok());
  tx = Begin();
  const EdgeRef gone = *tx->CreateEdge(hub, other, unwanted, {});
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->Flush().ok());
  tx = Begin();
  ASSERT_TRUE(tx->DeleteEdge(gone).ok());
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->Flush().ok());
  const auto view = Now();
  cypher::ExpandPosition at;
  std::set<EdgeId> met;
  size_t count = 0;
  while (at.node == 0) {
    cypher::NeighbourBatch batch;
    ASSERT_TRUE(view->Expand({&hub, 1}, Direction::kOut, {&wanted, 1}, 256, &at, &batch).ok());
    count += batch.size();
    for (size_t i = 0; i < batch.size(); ++i) met.insert(batch.edge[i]);
  }
  EXPECT_EQ(count, 2000u);
  EXPECT_EQ(met.size(), 2000u);
}

TEST_F(StoreTest, SamePropertyTwice_SecondIsAbortedAndNamed) {
  const NodeId node = MakeNode();
  Tx a = Begin(), b = Begin();
  ASSERT_TRUE(a->SetNodeProperty(node, Key(a.get(), "w"), Value::Int(1)).ok());
  ASSERT_TRUE(b->SetNodeProperty(node, Key(b.get(), "w"), Value::Int(2)).ok());
  ASSERT_TRUE(a->Commit().ok());
  const absl::Status status = b->Commit();
  EXPECT_EQ(status.code(), kConflict);
  EXPECT_NE(Text(status).find(Concat("(w) of node ", node)), std::string::npos) << status;
  EXPECT_EQ(Read(*Now(), node, "w").as_int(), 1);
}

TEST_F(StoreTest, DifferentPropertiesOfANode_BothCommit) {
  const NodeId node = MakeNode();
  Tx a = Begin(), b = Begin();
  ASSERT_TRUE(a->SetNodeProperty(node, Key(a.get(), "v"), Value::Int(1)).ok());
  ASSERT_TRUE(b->SetNodeProperty(node, Key(b.get(), "w"), Value::Int(2)).ok());
  EXPECT_TRUE(a->Commit().ok());
  EXPECT_TRUE(b->Commit().ok());
  EXPECT_EQ(Read(*Now(), node, "v").as_int(), 1);
  EXPECT_EQ(Read(*Now(), node, "w").as_int(), 2);
}

TEST_F(StoreTest, InsertsAtOneHub_NeverConflict) {
  const NodeId hub = MakeNode();
  std::vector<Tx> open;
  for (int i = 0; i < 20; ++i) {
    open.push_back(Begin());
    Link(open.back().get(), hub, hub);
  }
  for (Tx& tx : open) EXPECT_TRUE(tx->Commit().ok());
  EXPECT_EQ(Degree(*Now(), hub), 20u);
}

TEST_F(StoreTest, SameEdge_SecondIsAborted) {
  const NodeId node = MakeNode();
  Tx make = Begin();
  const EdgeRef edge = Link(make.get(), node, node);
  ASSERT_TRUE(make->Commit().ok());
  // In memory, and out of a run.
  for (int round = 0; round < 2; ++round) {
    Tx a = Begin(), b = Begin(), c = Begin();
    ASSERT_TRUE(a->SetEdgeProperty(edge, Key(a.get(), "v"), Value::Int(round)).ok());
    ASSERT_TRUE(b->SetEdgeProperty(edge, Key(b.get(), "w"), Value::Int(1)).ok());
    ASSERT_TRUE(c->DeleteEdge(edge).ok());
    EXPECT_TRUE(a->Commit().ok());
    EXPECT_EQ(b->Commit().code(), kConflict);
    EXPECT_EQ(c->Commit().code(), kConflict);
    ASSERT_TRUE(store_->Flush().ok());
  }
}

TEST_F(StoreTest, InsertAgainstDeletionOfAnEndpoint_WhicheverIsSecondIsAborted) {
  for (const bool flush : {false, true}) {
    for (const bool delete_first : {false, true}) {
      const NodeId a = MakeNode(), b = MakeNode();
      Tx insert = Begin(), remove = Begin();
      Link(insert.get(), a, b);
      ASSERT_TRUE(remove->DeleteNode(b).ok());
      ASSERT_TRUE((delete_first ? remove : insert)->Commit().ok());
      if (flush) {
        ASSERT_TRUE(store_->Flush().ok());
      }
      EXPECT_EQ((delete_first ? insert : remove)->Commit().code(), kConflict)
          << flush << delete_first;
    }
  }
}

TEST_F(StoreTest, DeletionOfANodeThatChanged_IsAborted) {
  const NodeId node = MakeNode();
  Tx set = Begin(), remove = Begin();
  ASSERT_TRUE(set->SetNodeProperty(node, Key(set.get(), "w"), Value::Int(1)).ok());
  ASSERT_TRUE(remove->DeleteNode(node).ok());
  ASSERT_TRUE(set->Commit().ok());
  EXPECT_EQ(remove->Commit().code(), kConflict);
  Tx again = Begin(), late = Begin();
  ASSERT_TRUE(again->DeleteNode(node).ok());
  ASSERT_TRUE(late->AddLabel(node, *late->AddLabelName("L")).ok());
  ASSERT_TRUE(again->Commit().ok());
  EXPECT_EQ(late->Commit().code(), kConflict);
}

TEST_F(StoreTest, RolledBack_LeavesNothing) {
  const NodeId node = MakeNode();
  const std::string before = DumpStore(*Now());
  {
    Tx tx = Begin();
    ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "unheard"), Value::Int(1)).ok());
    Link(tx.get(), node, node);
  }
  EXPECT_EQ(DumpStore(*Now()), before);
  EXPECT_TRUE(store_->Names().keys.empty());
}

TEST_F(StoreTest, SnapshotOfAnEarlierCommit_IsKeptAsFarAsAsked) {
  options_.retain_commits = 3;
  Open();
  const NodeId node = MakeNode();
  const uint64_t first = store_->sequence();
  for (int i = 1; i <= 5; ++i) {
    Tx tx = Begin();
    ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "w"), Value::Int(i)).ok());
    Link(tx.get(), node, node);
    ASSERT_TRUE(tx->Commit().ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(store_->Compact().ok());
    }
  }
  for (uint64_t back = 0; back <= 3; ++back) {
    const auto view = store_->Snapshot(store_->sequence() - back);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(Read(**view, node, "w").as_int(), static_cast<int64_t>(5 - back));
    EXPECT_EQ(Degree(**view, node), 5 - back);
  }
  const auto old = store_->Snapshot(first);
  EXPECT_EQ(old.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(Text(old.status()).find("no longer kept"), std::string::npos);
  EXPECT_EQ(store_->Snapshot(1000).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, Index_FindsWhatASnapshotSees) {
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P");
  const Token key = Key(tx.get(), "k");
  std::vector<NodeId> nodes;
  for (int i = 0; i < 100; ++i) {
    nodes.push_back(*tx->CreateNode({&label, 1}, {{key, Value::Int(i % 10)}}));
  }
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->CreateIndex({"i", "P", {"k"}}).ok());
  const auto seek = [&](const GraphView& view, const Value& value) {
    std::vector<NodeId> found;
    EXPECT_TRUE(view.HasIndex(label, {&key, 1}));
    EXPECT_TRUE(view.Seek(label, {&key, 1}, {&value, 1}, &found).ok());
    return found.size();
  };
  auto before = Now();
  EXPECT_EQ(seek(*before, Value::Int(3)), 10u);
  EXPECT_EQ(seek(*before, Value::Float(3.0)), 10u);
  EXPECT_EQ(seek(*before, Value::Int(77)), 0u);
  EXPECT_EQ(seek(*before, Value()), 0u);
  tx = Begin();
  ASSERT_TRUE(tx->SetNodeProperty(nodes[3], key, Value::Int(77)).ok());
  ASSERT_TRUE(tx->RemoveLabel(nodes[13], label).ok());
  ASSERT_TRUE(tx->DeleteNode(nodes[23]).ok());
  *tx->CreateNode({&label, 1}, {{key, Value::Int(3)}});
  EXPECT_EQ(seek(*tx, Value::Int(3)), 8u);
  EXPECT_EQ(seek(*tx, Value::Int(77)), 1u);
  ASSERT_TRUE(tx->Commit().ok());
  EXPECT_EQ(seek(*Now(), Value::Int(3)), 8u);
  EXPECT_EQ(seek(*before, Value::Int(3)), 10u);
  before.reset();
  for (int round = 0; round < 2; ++round) {
    if (round == 1) {
      ASSERT_TRUE(store_->Close().ok());
    }
    Open();
    ASSERT_EQ(store_->Indexes().size(), 1u);
    EXPECT_EQ(seek(*Now(), Value::Int(3)), 8u);
    EXPECT_EQ(seek(*Now(), Value::Int(77)), 1u);
  }
  ASSERT_TRUE(store_->DropIndex("i").ok());
  EXPECT_EQ(store_->DropIndex("i").code(), absl::StatusCode::kNotFound);
  Open();
  EXPECT_FALSE(Now()->HasIndex(label, {&key, 1}));
}

TEST_F(StoreTest, IndexOfSeveralKeys_FindsByAllAndByTheFirst) {
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P");
  const std::vector<Token> keys = {Key(tx.get(), "b"), Key(tx.get(), "a")};
  const std::vector<Token> turned = {keys[1], keys[0]};
  const auto make = [&](Tx& in, int b, int a) {
    return *in->CreateNode({&label, 1}, {{keys[0], Value::Int(b)}, {keys[1], Value::Int(a)}});
  };
  std::vector<NodeId> nodes;
  for (int i = 0; i < 60; ++i) nodes.push_back(make(tx, i % 6, i % 10));
  *tx->CreateNode({&label, 1}, {{keys[0], Value::Int(1)}});
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->CreateIndex({"i", "P", {"b", "a"}}).ok());
  const auto seek = [&](const GraphView& view, std::vector<Value> values) {
    std::vector<NodeId> found;
    const std::span<const Token> of(keys.data(), values.size());
    EXPECT_TRUE(view.HasIndex(label, of));
    EXPECT_TRUE(view.Seek(label, of, values, &found).ok());
    std::sort(found.begin(), found.end());
    return found;
  };
  using Nodes = std::vector<NodeId>;
  EXPECT_FALSE(Now()->HasIndex(label, turned));
  EXPECT_FALSE(Now()->HasIndex(label, {&keys[1], 1}));
  EXPECT_EQ(Now()->WideIndexes(label), (std::vector<std::vector<Token>>{keys}));
  EXPECT_TRUE(Now()->WideIndexes(label + 1).empty());
  EXPECT_EQ(seek(*Now(), {Value::Int(1), Value::Int(7)}), (Nodes{nodes[7], nodes[37]}));
  EXPECT_EQ(seek(*Now(), {Value::Int(1)}).size(), 11u);
  EXPECT_EQ(seek(*Now(), {Value::Int(1), Value()}), Nodes());
  EXPECT_EQ(seek(*Now(), {Value(), Value::Int(7)}), Nodes());
  tx = Begin();
  ASSERT_TRUE(tx->SetNodeProperty(nodes[7], keys[1], Value::Int(8)).ok());
  ASSERT_TRUE(tx->SetNodeProperty(nodes[0], keys[0], Value::Int(1)).ok());
  ASSERT_TRUE(tx->SetNodeProperty(nodes[0], keys[1], Value::Float(7)).ok());
  const NodeId added = make(tx, 1, 7);
  for (int round = 0; round < 2; ++round) {
    const auto now = Now();
    const GraphView& view = round == 0 ? static_cast<const GraphView&>(*tx) : *now;
    EXPECT_EQ(seek(view, {Value::Int(1), Value::Int(7)}), (Nodes{nodes[0], nodes[37], added}));
    EXPECT_EQ(seek(view, {Value::Int(1), Value::Int(8)}), (Nodes{nodes[7]}));
    if (round == 0) {
      ASSERT_TRUE(tx->Commit().ok());
    }
  }
}

TEST_F(StoreTest, UniqueConstraint_RefusesEveryWayToBreakIt) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"k", "m"}, true, true, false}).ok());
  EXPECT_EQ(store_->CreateIndex({"u", "Q", {"k"}}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->CreateIndex({"v", "P", {"k", "m"}}).code(), absl::StatusCode::kAlreadyExists);
  const auto make = [&](Tx& tx, const char* label, int k, int m) {
    const Token token = *tx->AddLabelName(label);
    return *tx->CreateNode(
        {&token, 1}, {{Key(tx.get(), "k"), Value::Int(k)}, {Key(tx.get(), "m"), Value::Int(m)}});
  };
  Tx tx = Begin();
  const NodeId first = make(tx, "P", 1, 1);
  make(tx, "P", 1, 2);
  const NodeId other = make(tx, "Q", 1, 1);
  ASSERT_TRUE(tx->Commit().ok());
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(Text(status).find("constraint u on :P(k, m)"), std::string::npos) << status;
  };
  tx = Begin();
  make(tx, "P", 1, 1);
  refused(tx->Commit());
  tx = Begin();
  make(tx, "P", 5, 5);
  make(tx, "P", 5, 5);
  refused(tx->Commit());
  tx = Begin();
  ASSERT_TRUE(tx->AddLabel(other, *tx->AddLabelName("P")).ok());
  refused(tx->Commit());
  // One goes, another one comes.
  tx = Begin();
  ASSERT_TRUE(tx->DeleteNode(first).ok());
  make(tx, "P", 1, 1);
  EXPECT_TRUE(tx->Commit().ok());
  // Each alone is right.
  Tx a = Begin(), b = Begin();
  make(a, "P", 9, 9);
  make(b, "P", 9, 9);
  EXPECT_TRUE(a->Commit().ok());
  EXPECT_EQ(b->Commit().code(), kConflict);
  // Over what there is.
  EXPECT_EQ(store_->CreateIndex({"w", "P", {"k"}, true, true, false}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Indexes().size(), 1u);
}

// Who runs again finds what the other one committed; what the snapshot had already stays refused.
TEST_F(StoreTest, UniqueConstraint_BrokenAfterTheSnapshot_IsAConflict) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"k"}, true, true, false}).ok());
  const auto make = [&](Tx& tx, int k) {
    const Token token = *tx->AddLabelName("P");
    return *tx->CreateNode({&token, 1}, {{Key(tx.get(), "k"), Value::Int(k)}});
  };
  const auto set = [&](Tx& tx, NodeId node, const char* key, int value) {
    ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), key), Value::Int(value)).ok());
  };
  Tx tx = Begin();
  const NodeId first = make(tx, 1);
  const NodeId second = make(tx, 2);
  ASSERT_TRUE(tx->Commit().ok());
  // By a node that is new, and by one that changed.
  Tx created = Begin(), changed = Begin(), both = Begin();
  make(created, 3);
  make(changed, 4);
  make(both, 1);
  tx = Begin();
  make(tx, 3);
  set(tx, second, "k", 4);
  // It had this value before, too.
  set(tx, first, "other", 1);
  ASSERT_TRUE(tx->Commit().ok());
  EXPECT_EQ(created->Commit().code(), kConflict);
  EXPECT_EQ(changed->Commit().code(), kConflict);
  EXPECT_EQ(both->Commit().code(), absl::StatusCode::kFailedPrecondition);
  tx = Begin();
  make(tx, 3);
  EXPECT_EQ(tx->Commit().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, RequiredConstraint_NaN_IsAValue) {
  const auto make = [&](double value) {
    Tx tx = Begin();
    const Token label = *tx->AddLabelName("P");
    *tx->CreateNode({&label, 1}, {{Key(tx.get(), "k"), Value::Float(value)}});
    return tx->Commit();
  };
  ASSERT_TRUE(make(std::nan("")).ok());
  EXPECT_TRUE(store_->CreateIndex({"r", "P", {"k"}, true, false, true}).ok());
  EXPECT_TRUE(make(std::nan("")).ok());
  ASSERT_TRUE(store_->DropIndex("r").ok());
  EXPECT_TRUE(store_->CreateIndex({"key", "P", {"k"}, true, true, true}).ok());
  EXPECT_TRUE(make(std::nan("")).ok());
}

TEST_F(StoreTest, RequiredConstraint_RefusesNodesWithoutTheKey) {
  ASSERT_TRUE(store_->CreateIndex({"r", "P", {"k"}, true, false, true}).ok());
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P");
  *tx->CreateNode({&label, 1}, {});
  EXPECT_EQ(tx->Commit().code(), absl::StatusCode::kFailedPrecondition);
  tx = Begin();
  const NodeId node = *tx->CreateNode({&label, 1}, {{Key(tx.get(), "k"), Value::Int(1)}});
  ASSERT_TRUE(tx->Commit().ok());
  tx = Begin();
  ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "k"), Value()).ok());
  EXPECT_EQ(tx->Commit().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, FullDisk_FailsTheCommitAndGoesOnReading) {
  const NodeId node = MakeNode("A", {});
  const std::string before = DumpStore(*Now());
  files_.SetCapacity(4096);
  Tx big = Begin();
  ASSERT_TRUE(
      big->SetNodeProperty(node, Key(big.get(), "w"), Value::String(std::string(9000, 'x'))).ok());
  const absl::Status status = big->Commit();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(DumpStore(*Now()), before);
  Tx small = Begin();
  ASSERT_TRUE(small->SetNodeProperty(node, Key(small.get(), "w"), Value::Int(1)).ok());
  EXPECT_TRUE(small->Commit().ok());
  EXPECT_EQ(Read(*Now(), node, "w").as_int(), 1);
}

TEST_F(StoreTest, NewDatabaseThatFailsAtAnyCall_LeavesNothing) {
  for (uint64_t call = 1;; ++call) {
    SimFiles files;
    StoreOptions options = options_;
    options.files = &files;
    files.FailAt(call);
    const absl::Status opened = GraphStore::Open("db", options).status();
    const bool reached = files.calls() >= call;
    files.FailAt(0);
    if (!reached) {
      EXPECT_GT(call, 8u);
      break;
    }
    if (!opened.ok()) {
      EXPECT_TRUE(files.names().empty()) << call << ": " << files.names().begin()->first;
    }
    EXPECT_TRUE(GraphStore::Open("db", options).ok()) << call;
  }
}

TEST_F(StoreTest, DamagedFiles_AreNamed) {
  const NodeId node = MakeNode();
  Tx tx = Begin();
  Link(tx.get(), node, node);
  ASSERT_TRUE(tx->Commit().ok());
  tx.reset();
  ASSERT_TRUE(store_->Close().ok());
  store_.reset();
  for (const auto& [name, content] : files_.names()) {
    // COMMITTED is for followers, to whom any damage of it is as if it were not there.
    if (name == "db/LOCK" || name == "db/COMMITTED" || name.ends_with(".wal")) continue;
    for (size_t at = 0; at < content->written.size(); at += 7) {
      const auto copy = files_.AfterKill();
      copy->Content(name)[at] ^= 0x20;
      StoreOptions options = options_;
      options.files = copy.get();
      const auto store = GraphStore::Open("db", options);
      if (store.ok()) {
        // A run's groups and columns are checked when they are read.
        EXPECT_TRUE(name.ends_with(".run")) << name << " at " << at;
        continue;
      }
      EXPECT_NE(Text(store.status()).find(name.substr(3)), std::string::npos) << store.status();
    }
  }
}

TEST_F(StoreTest, Directory_OfOtherFiles_IsRefused) {
  SimFiles files;
  files.Put("db/letter.txt", "hello");
  StoreOptions options = options_;
  options.files = &files;
  EXPECT_EQ(GraphStore::Open("db", options).status().code(), absl::StatusCode::kInvalidArgument);
  options.files = &files_;
  options.read_only = true;
  EXPECT_EQ(GraphStore::Open("other", options).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, ChangeBytes_AreAboutWhatTheHeapHas) {
  constexpr uint64_t kMany = 5000;
  const std::string text(300, 'x');
  const NodeId hub = MakeNode();
  std::vector<NodeId> nodes;
  for (uint64_t i = 0; i < kMany; ++i) nodes.push_back(MakeNode());
  // Of a transaction that does the same to many: what it says, beside what it takes.
  const auto check = [&](const char* what, const auto& change) {
    const Tx tx = Begin();
    EXPECT_EQ(tx->ChangeBytes(), 0u);
    const Token label = *tx->AddLabelName("B"), key = Key(tx.get(), "k");
    const size_t before = HeapBytes();
    for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(change(tx.get(), label, key, i)) << what;
    const uint64_t said = tx->ChangeBytes();
    EXPECT_GE(said, kMany * 40) << what;
    if (before == 0) return;
    const uint64_t taken = HeapBytes() - before;
    // Properties count twice, as Commit() encodes them.
    EXPECT_GE(said, taken / 2) << what;
    EXPECT_LE(said, 3 * taken) << what;
  };
  check("nodes", [&](GraphTransaction* tx, Token label, Token key, uint64_t i) {
    return tx->CreateNode({&label, 1}, {{key, Value::Int(static_cast<int64_t>(i))}}).ok();
  });
  check("nodes with texts", [&](GraphTransaction* tx, Token label, Token key, uint64_t) {
    return tx->CreateNode({&label, 1}, {{key, Value::String(text)}}).ok();
  });
  check("relationships", [&](GraphTransaction* tx, Token, Token key, uint64_t i) {
    return tx->CreateEdge(hub, nodes[i], *tx->AddTypeName("T"), {{key, Value::Int(7)}}).ok();
  });
  check("properties", [&](GraphTransaction* tx, Token, Token key, uint64_t i) {
    return tx->SetNodeProperty(nodes[i], key, Value::String(text)).ok();
  });
  check("labels", [&](GraphTransaction* tx, Token label, Token, uint64_t i) {
    return tx->AddLabel(nodes[i], label).ok();
  });
  check("labels that are removed", [&](GraphTransaction* tx, Token, Token, uint64_t i) {
    return tx->RemoveLabel(nodes[i], *tx->FindLabel("A")).ok();
  });
  check("deletions", [&](GraphTransaction* tx, Token, Token, uint64_t i) {
    return tx->DeleteNode(nodes[i]).ok();
  });
}

TEST_F(StoreTest, ReadOnly_ShowsTheStateAndRefusesWriting) {
  MakeNode();
  const std::string dump = DumpStore(*Now());
  StoreOptions options = options_;
  options.read_only = true;
  const auto reader = GraphStore::Open("db", options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(DumpStore(**(*reader)->Snapshot()), dump);
  EXPECT_EQ((*reader)->Begin().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*reader)->CreateIndex({"i", "A", {"k"}}).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pulse::graph
