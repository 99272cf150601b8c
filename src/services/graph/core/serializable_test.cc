// Serializable transactions: anomalies that snapshot isolation lets through (write skew, G2-item
// and the predicate anomalies of LDBC's ACID suite), and random histories of lists and sets that
// are appended to, whose dependencies must have no cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/read_set.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::EdgeRef;
using cypher::NodeId;
using cypher::Properties;
using cypher::Token;
using cypher::Value;
using testing_util::TestSeed;
using testing_util::Text;
using Tx = std::unique_ptr<cypher::DatabaseTransaction>;

constexpr auto kAborted = absl::StatusCode::kAborted;

class SerializableTest : public ::testing::Test {
 protected:
  SerializableTest() {
    options_.files = &files_;
    options_.background = false;
    store_ = *GraphStore::Open("db", options_);
  }
  Tx Begin(bool serializable = true) {
    return serializable ? *store_->BeginSerializable() : *store_->Begin();
  }
  NodeId MakeNode(const std::string& label, int64_t value) {
    Tx tx = Begin(false);
    const NodeId node = Add(tx.get(), label, value);
    EXPECT_TRUE(tx->Commit().ok());
    return node;
  }
  static NodeId Add(cypher::DatabaseTransaction* tx, const std::string& label, int64_t value) {
    const Token token = *tx->AddLabelName(label);
    return *tx->CreateNode({&token, 1}, {{*tx->AddKeyName("v"), Value::Int(value)}});
  }
  static int64_t ReadOf(const cypher::DatabaseTransaction& tx, NodeId node) {
    cypher::Column column;
    EXPECT_TRUE(tx.ReadNodeProperty(*tx.FindKey("v"), {&node, 1}, &column).ok());
    return column.ints[0];
  }
  static void Set(cypher::DatabaseTransaction* tx, NodeId node, int64_t value) {
    ASSERT_TRUE(tx->SetNodeProperty(node, *tx->AddKeyName("v"), Value::Int(value)).ok());
  }
  static size_t Count(const cypher::DatabaseTransaction& tx, const std::string& label) {
    const auto token = tx.FindLabel(label);
    if (!token.has_value()) return 0;
    std::array<NodeId, 64> ids;
    size_t count = 0;
    uint64_t position = 0;
    while (const size_t n = *tx.ScanNodes(*token, &position, ids)) count += n;
    return count;
  }

  SimFiles files_;
  StoreOptions options_;
  std::unique_ptr<GraphStore> store_;
};

// Neither commit alone brings the node into what was sought.
TEST_F(SerializableTest, SoughtNode_MadeByTwoOthers_IsAConflict) {
  const NodeId node = MakeNode("B", 0);
  ASSERT_TRUE(store_->CreateIndex({"i", "L", {"v"}}).ok());
  Tx reader = Begin(), labels = Begin(false), sets = Begin(false);
  std::vector<NodeId> found;
  ASSERT_TRUE(
      reader->SeekOne(*reader->FindLabel("L"), *reader->FindKey("v"), Value::Int(7), &found).ok());
  EXPECT_TRUE(found.empty());
  const Token label = *labels->AddLabelName("L");
  ASSERT_TRUE(labels->AddLabel(node, label).ok());
  Set(sets.get(), node, 7);
  ASSERT_TRUE(labels->Commit().ok());
  ASSERT_TRUE(sets->Commit().ok());
  Add(reader.get(), "C", 1);
  EXPECT_EQ(reader->Commit().code(), kAborted);
}

TEST_F(SerializableTest, WriteSkew_IsRefusedAndNamed) {
  for (const bool serializable : {false, true}) {
    const NodeId a = MakeNode("A", 50), b = MakeNode("A", 50);
    Tx one = Begin(serializable), two = Begin(serializable);
    // Each keeps the sum at 0 or more by what it sees.
    if (ReadOf(*one, a) + ReadOf(*one, b) >= 100) Set(one.get(), a, -50);
    if (ReadOf(*two, a) + ReadOf(*two, b) >= 100) Set(two.get(), b, -50);
    ASSERT_TRUE(one->Commit().ok());
    const absl::Status second = two->Commit();
    EXPECT_EQ(second.code(), serializable ? kAborted : absl::StatusCode::kOk);
    if (serializable) {
      EXPECT_NE(Text(second).find(Concat("has read: node ", a)), std::string::npos) << second;
    }
  }
}

TEST_F(SerializableTest, SnapshotTransactionChangedWhatWasRead_IsRefused) {
  const NodeId a = MakeNode("A", 1), b = MakeNode("A", 1);
  Tx one = Begin();
  ReadOf(*one, a);
  Set(one.get(), b, 2);
  Tx other = Begin(false);
  Set(other.get(), a, 3);
  ASSERT_TRUE(other->Commit().ok());
  EXPECT_EQ(one->Commit().code(), kAborted);
}

TEST_F(SerializableTest, DisjointReadsAndWrites_BothCommit) {
  const NodeId a = MakeNode("A", 1), b = MakeNode("A", 1);
  Tx one = Begin(), two = Begin();
  Set(one.get(), a, ReadOf(*one, a) + 1);
  Set(two.get(), b, ReadOf(*two, b) + 1);
  EXPECT_TRUE(one->Commit().ok());
  EXPECT_TRUE(two->Commit().ok());
}

TEST_F(SerializableTest, ReadOnly_IsNeverRefused) {
  const NodeId a = MakeNode("A", 1);
  Tx reader = Begin();
  EXPECT_EQ(ReadOf(*reader, a), 1);
  Tx writer = Begin();
  Set(writer.get(), a, 2);
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(ReadOf(*reader, a), 1);
  EXPECT_TRUE(reader->Commit().ok());
}

TEST_F(SerializableTest, PhantomOfALabel_IsRefused) {
  MakeNode("A", 1);
  for (const std::string label : {"A", "NobodyHasItYet"}) {
    for (const bool serializable : {false, true}) {
      Tx one = Begin(serializable), two = Begin(serializable);
      const size_t seen = Count(*one, label);
      EXPECT_EQ(Count(*two, label), seen);
      Add(one.get(), label, 1);
      Add(two.get(), label, 2);
      ASSERT_TRUE(one->Commit().ok());
      EXPECT_EQ(two->Commit().code(), serializable ? kAborted : absl::StatusCode::kOk) << label;
      if (!serializable && label != "A") break;  // somebody has it now
    }
  }
  // In another order, so that the name is new for the serializable ones.
  Tx one = Begin(), two = Begin();
  EXPECT_EQ(Count(*one, "Fresh") + Count(*two, "Fresh"), 0u);
  Add(one.get(), "Fresh", 1);
  Add(two.get(), "Fresh", 2);
  ASSERT_TRUE(one->Commit().ok());
  EXPECT_EQ(two->Commit().code(), kAborted);
}

// What one has counted by both keys, the other one makes by a change of one of them.
TEST_F(SerializableTest, WriteSkewByAnIndexOfTwoKeys_IsRefused) {
  ASSERT_TRUE(store_->CreateIndex({.name = "i", .label = "A", .keys = {"v", "w"}}).ok());
  const NodeId nodes[] = {MakeNode("A", 1), MakeNode("A", 2)};
  Tx both[] = {Begin(), Begin()};
  for (const int i : {0, 1}) {
    const Token keys[] = {*both[i]->AddKeyName("v"), *both[i]->AddKeyName("w")};
    const Value values[] = {Value::Int(i + 1), Value::Int(3)};
    std::vector<NodeId> found;
    ASSERT_TRUE(both[i]->Seek(*both[i]->FindLabel("A"), keys, values, &found).ok());
    EXPECT_TRUE(found.empty());
    ASSERT_TRUE(both[i]->SetNodeProperty(nodes[1 - i], keys[1], Value::Int(3)).ok());
  }
  EXPECT_TRUE(both[0]->Commit().ok());
  EXPECT_EQ(both[1]->Commit().code(), kAborted);
}

TEST_F(SerializableTest, PhantomOfAnIndexRead_IsRefusedForThatValueOnly) {
  ASSERT_TRUE(store_->CreateIndex({.name = "i", .label = "A", .keys = {"v"}}).ok());
  MakeNode("A", 1);
  const auto race = [&](int64_t sought, int64_t made, bool by_label) {
    Tx one = Begin();
    std::vector<NodeId> found;
    EXPECT_TRUE(
        one->SeekOne(*one->FindLabel("A"), *one->FindKey("v"), Value::Int(sought), &found).ok());
    Add(one.get(), "B", 0);
    Tx two = Begin(false);
    if (by_label) {
      // A node that has the value gets the label.
      const NodeId node = Add(two.get(), "B", made);
      EXPECT_TRUE(two->Commit().ok());
      two = Begin(false);
      EXPECT_TRUE(two->AddLabel(node, *two->AddLabelName("A")).ok());
    } else {
      Add(two.get(), "A", made);
    }
    EXPECT_TRUE(two->Commit().ok());
    return one->Commit().code();
  };
  EXPECT_EQ(race(7, 7, false), kAborted);
  EXPECT_EQ(race(8, 8, true), kAborted);
  EXPECT_EQ(race(9, 10, false), absl::StatusCode::kOk);
}

TEST_F(SerializableTest, RelationshipsReadAndMade_AreRefused) {
  const NodeId a = MakeNode("A", 1), b = MakeNode("A", 1);
  for (const cypher::Direction direction : {cypher::Direction::kOut, cypher::Direction::kIn}) {
    Tx one = Begin();
    uint64_t degree = 0;
    const NodeId node = direction == cypher::Direction::kOut ? a : b;
    ASSERT_TRUE(one->Degrees({&node, 1}, direction, {}, {&degree, 1}).ok());
    Add(one.get(), "B", static_cast<int64_t>(degree));
    Tx two = Begin(false);
    ASSERT_TRUE(two->CreateEdge(a, b, *two->AddTypeName("T"), {}).ok());
    ASSERT_TRUE(two->Commit().ok());
    EXPECT_EQ(one->Commit().code(), kAborted);
  }
  // The other direction of the same nodes is another list.
  Tx one = Begin();
  uint64_t degree = 0;
  ASSERT_TRUE(one->Degrees({&b, 1}, cypher::Direction::kOut, {}, {&degree, 1}).ok());
  Add(one.get(), "B", 0);
  Tx two = Begin(false);
  ASSERT_TRUE(two->CreateEdge(a, b, *two->AddTypeName("T"), {}).ok());
  ASSERT_TRUE(two->Commit().ok());
  EXPECT_TRUE(one->Commit().ok());
}

TEST_F(SerializableTest, PropertyOfARelationshipOrAScanOfThem_IsRefused) {
  const NodeId a = MakeNode("A", 1);
  Tx make = Begin(false);
  const Token type = *make->AddTypeName("T"), key = *make->AddKeyName("v");
  const EdgeRef edge = *make->CreateEdge(a, a, type, {{key, Value::Int(1)}});
  ASSERT_TRUE(make->Commit().ok());
  for (const bool scan : {false, true}) {
    Tx one = Begin();
    cypher::Column column;
    uint64_t position = 0;
    if (scan) {
      ASSERT_TRUE(one->ScanEdgeProperty({&type, 1}, key, &position, 10, &column).ok());
    } else {
      ASSERT_TRUE(one->ReadEdgeProperty(key, {&edge, 1}, &column).ok());
    }
    Add(one.get(), "B", 0);
    Tx two = Begin(false);
    ASSERT_TRUE(two->SetEdgeProperty(edge, key, Value::Int(2)).ok());
    ASSERT_TRUE(two->Commit().ok());
    EXPECT_EQ(one->Commit().code(), kAborted) << scan;
  }
}

TEST_F(SerializableTest, BulkLoadMeanwhile_IsRefused) {
  const NodeId a = MakeNode("A", 1);
  Tx one = Begin();
  ReadOf(*one, a);
  Set(one.get(), a, 2);
  const auto load = *BulkLoad::Begin(store_.get());
  ASSERT_TRUE(load->Commit().ok());
  EXPECT_EQ(one->Commit().code(), kAborted);
}

// --- Random histories ---

// What a committed transaction has read, and which values it has added, by object.
struct Done {
  std::map<int, std::set<int64_t>> reads;
  std::map<int, std::set<int64_t>> adds;
};

// Objects only grow, so that each read tells of each addition whether it came before or after.
bool HasCycle(const std::vector<Done>& history) {
  const size_t n = history.size();
  std::vector<std::set<size_t>> after(n);
  for (size_t reader = 0; reader < n; ++reader) {
    for (const auto& [object, seen] : history[reader].reads) {
      for (size_t adder = 0; adder < n; ++adder) {
        const auto it = history[adder].adds.find(object);
        if (adder == reader || it == history[adder].adds.end()) continue;
        for (const int64_t value : it->second) {
          if (seen.contains(value)) {
            after[adder].insert(reader);
          } else {
            after[reader].insert(adder);
          }
        }
      }
    }
  }
  std::vector<int> state(n);  // 1: on the path, 2: done
  const std::function<bool(size_t)> visit = [&](size_t at) {
    state[at] = 1;
    for (const size_t next : after[at]) {
      if (state[next] == 1 || (state[next] == 0 && visit(next))) return true;
    }
    state[at] = 2;
    return false;
  };
  for (size_t i = 0; i < n; ++i) {
    if (state[i] == 0 && visit(i)) return true;
  }
  return false;
}

class Histories : public SerializableTest {
 protected:
  // The last one is read by an index.
  static constexpr int kLists = 3, kHubs = 2, kLabelObject = 5, kObjects = 7;
  struct Open {
    Tx tx;
    Done done;
    std::map<int, std::set<int64_t>> own;  // read of a list: what was there and is its own
  };

  void MakeObjects() {
    ASSERT_TRUE(store_->CreateIndex({.name = "i", .label = "K", .keys = {"v"}}).ok());
    objects_.clear();
    for (int i = 0; i < kLists + kHubs; ++i) objects_.push_back(MakeNode("Object", 0));
    MakeNode("L", 0);
    MakeNode("K", 0);
    Tx tx = Begin(false);
    ASSERT_TRUE(tx->CreateEdge(objects_[0], objects_[0], *tx->AddTypeName("T"), {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  std::set<int64_t> ReadObject(const cypher::DatabaseTransaction& tx, int object) {
    std::set<int64_t> out;
    if (object < kLists) {
      Properties properties;
      EXPECT_TRUE(tx.ReadNodeProperties(objects_[static_cast<size_t>(object)], &properties).ok());
      for (const auto& [key, value] : properties) {
        if (tx.KeyName(key) != "list") continue;
        for (const Value& one : value.as_list()) out.insert(one.as_int());
      }
    } else if (object < kLists + kHubs) {
      cypher::NeighbourBatch batch;
      cypher::ExpandPosition at;
      const NodeId hub = objects_[static_cast<size_t>(object)];
      while (at.node < 1) {
        EXPECT_TRUE(tx.Expand({&hub, 1}, cypher::Direction::kOut, {}, 64, &at, &batch).ok());
      }
      for (const auto edge : batch.edge) out.insert(static_cast<int64_t>(edge));
    } else if (object == kLabelObject) {
      std::array<NodeId, 64> ids;
      uint64_t position = 0;
      while (const size_t n = *tx.ScanNodes(*tx.FindLabel("L"), &position, ids))
        for (size_t i = 0; i < n; ++i) out.insert(static_cast<int64_t>(ids[i]));
    } else {
      std::vector<NodeId> found;
      EXPECT_TRUE(tx.SeekOne(*tx.FindLabel("K"), *tx.FindKey("v"), Value::Int(7), &found).ok());
      for (const NodeId node : found) out.insert(static_cast<int64_t>(node));
    }
    return out;
  }
  void Read(Open* open, int object) {
    std::set<int64_t> seen = ReadObject(*open->tx, object);
    for (const int64_t own : open->done.adds[object]) seen.erase(own);
    if (const auto it = open->done.reads.find(object); it != open->done.reads.end()) {
      EXPECT_EQ(it->second, seen) << "a snapshot changed";
    }
    open->done.reads[object] = seen;
  }
  void Append(Open* open, int object) {
    auto* const tx = open->tx.get();
    int64_t value = 0;
    if (object < kLists) {
      Read(open, object);
      cypher::ValueList list;
      for (const int64_t one : ReadObject(*tx, object)) list.push_back(Value::Int(one));
      value = next_value_++;
      list.push_back(Value::Int(value));
      ASSERT_TRUE(tx->SetNodeProperty(objects_[static_cast<size_t>(object)],
                                      *tx->AddKeyName("list"), Value::List(std::move(list)))
                      .ok());
    } else if (object < kLists + kHubs) {
      const NodeId hub = objects_[static_cast<size_t>(object)];
      value = static_cast<int64_t>(tx->CreateEdge(hub, objects_[0], *tx->AddTypeName("T"), {})->id);
    } else {
      value = static_cast<int64_t>(Add(tx, object == kLabelObject ? "L" : "K", 7));
    }
    open->done.adds[object].insert(value);
  }
  // Up to four transactions at a time, step by step.
  std::vector<Done> Run(std::mt19937_64& random, bool serializable, int steps, int* refused) {
    std::vector<Done> history;
    std::vector<Open> open;
    const auto end = [&](size_t at) {
      const absl::Status status = open[at].tx->Commit();
      EXPECT_TRUE(status.ok() || status.code() == kAborted) << status;
      if (status.ok()) {
        history.push_back(open[at].done);
      } else {
        ++*refused;
      }
      open.erase(open.begin() + static_cast<long>(at));
    };
    for (int i = 0; i < steps; ++i) {
      if (open.size() < 4 && random() % 3 == 0) open.push_back({Begin(serializable), {}, {}});
      if (open.empty()) continue;
      const size_t at = random() % open.size();
      const int object = static_cast<int>(random() % kObjects);
      const uint64_t dice = random() % 10;
      if (dice < 4) {
        Read(&open[at], object);
      } else if (dice < 7) {
        Append(&open[at], object);
      } else if (dice == 7) {
        EXPECT_TRUE(store_->Flush().ok());
      } else {
        end(at);
      }
    }
    while (!open.empty()) end(0);
    return history;
  }

  std::vector<NodeId> objects_;
  int64_t next_value_ = 1;
};

TEST_F(Histories, AppendedAtRandom_HaveNoCycle) {
  const uint64_t seed = TestSeed();
  const int rounds = testing_util::LongTests() ? 1000 : 60;
  int cycles = 0, refused = 0, committed = 0;
  for (int i = 0; i < rounds; ++i) {
    SCOPED_TRACE(Concat("seed ", seed + static_cast<uint64_t>(i)));
    for (const bool serializable : {false, true}) {
      SimFiles files;
      options_.files = &files;
      store_ = *GraphStore::Open("db", options_);
      MakeObjects();
      std::mt19937_64 random(seed + static_cast<uint64_t>(i));
      int not_committed = 0;
      const auto history = Run(random, serializable, 120, &not_committed);
      const bool cycle = HasCycle(history);
      if (serializable) {
        EXPECT_FALSE(cycle);
        refused += not_committed;
        committed += static_cast<int>(history.size());
      } else {
        cycles += cycle ? 1 : 0;
      }
      store_.reset();
    }
  }
  // Snapshot isolation has them, so that the check sees them.
  EXPECT_GT(cycles, 0);
  EXPECT_GT(refused, 0);
  EXPECT_GT(committed, refused / 4);
}

TEST(ReadSetTest, MoreThanItKeeps_ConflictsWithEachCommit) {
  const NameTable names;
  Footprint other;
  other.nodes = {1};
  ReadSet seeks;
  for (int64_t i = 0; i < 1'000'000; ++i) seeks.AddSeek(1, 2, Value::Int(i));
  EXPECT_EQ(seeks.Conflict(other, names), std::nullopt);
  for (int64_t i = 1'000'000; i < 1'100'000; ++i) seeks.AddSeek(1, 2, Value::Int(i));
  EXPECT_NE(seeks.Conflict(other, names), std::nullopt);
  ReadSet missing;
  const std::string name(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 20; ++i) missing.AddMissingName(NameKind::kKey, Concat(i, name));
  EXPECT_NE(missing.Conflict(other, names), std::nullopt);
}

}  // namespace
}  // namespace pulse::graph
