// Constraints of relationships, and of the types of properties.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>

#include "base/testing.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_store.h"
#include "services/graph/model/read_counts.h"
#include "services/graph/nodes/index.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph {
namespace {

using cypher::IndexDefinition;
using testing_util::Text;

const IndexDefinition kSince{.name = "since",
                             .label = "KNOWS",
                             .keys = {"since", "by"},
                             .constraint = true,
                             .required = true,
                             .of_edges = true};
const IndexDefinition kWeight{.name = "weight",
                              .label = "KNOWS",
                              .keys = {"w"},
                              .constraint = true,
                              .of_edges = true,
                              .type = "INTEGER"};
const IndexDefinition kTags{.name = "tags",
                            .label = "P",
                            .keys = {"tags"},
                            .constraint = true,
                            .type = "LIST<STRING NOT NULL>"};

// Calls a function once within the next flush.
class MeanwhileEngines : public EngineSource {
 public:
  std::function<void()> meanwhile;
  absl::StatusOr<EngineChoice> Choose(const EngineWork& work) override {
    if (const auto call = std::exchange(meanwhile, nullptr)) call();
    return InlineEngines()->Choose(work);
  }
  void Report(const EngineWork& work, const EngineOutcome& outcome) override {
    InlineEngines()->Report(work, outcome);
  }
};

class ExtendedConstraintsTest : public SimStoreTest {
 protected:
  using Tx = std::unique_ptr<cypher::DatabaseTransaction>;
  using Values = std::initializer_list<std::pair<const char*, Value>>;

  ExtendedConstraintsTest() {
    Open();
    const Tx tx = *store_->Begin();
    const Token label = *tx->AddLabelName("P");
    node_ = *tx->CreateNode({&label, 1}, {});
    EXPECT_TRUE(tx->Commit().ok());
  }
  static Properties Of(cypher::DatabaseTransaction* tx, Values values) {
    Properties properties;
    for (const auto& [key, value] : values) properties.emplace_back(*tx->AddKeyName(key), value);
    std::sort(properties.begin(), properties.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return properties;
  }
  EdgeRef Link(cypher::DatabaseTransaction* tx, Values values, const char* type = "KNOWS") {
    return *tx->CreateEdge(node_, node_, *tx->AddTypeName(type), Of(tx, values));
  }
  absl::Status LinkAndCommit(Values values, const char* type = "KNOWS", EdgeRef* edge = nullptr) {
    const Tx tx = *store_->Begin();
    const EdgeRef made = Link(tx.get(), values, type);
    if (edge != nullptr) *edge = made;
    return tx->Commit();
  }
  absl::Status Set(const EdgeRef& edge, const char* key, const Value& value) {
    const Tx tx = *store_->Begin();
    EXPECT_TRUE(tx->SetEdgeProperty(edge, *tx->AddKeyName(key), value).ok());
    return tx->Commit();
  }
  absl::Status SetTags(const Value& value) {
    const Tx tx = *store_->Begin();
    EXPECT_TRUE(tx->SetNodeProperty(node_, *tx->AddKeyName("tags"), value).ok());
    return tx->Commit();
  }
  static void ExpectRefused(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(Text(status).find(why), std::string::npos) << status;
  }
  // As the constraints of a store that was opened anew, by whatever way.
  void ExpectHeld(const std::string& where) {
    SCOPED_TRACE(where);
    EXPECT_EQ(store_->Indexes(), (std::vector<IndexDefinition>{kSince, kWeight, kTags}));
    ExpectRefused(LinkAndCommit({{"since", Value::Int(1)}}), "must have by");
    ExpectRefused(
        LinkAndCommit({{"since", Value::Int(1)}, {"by", Value::Int(2)}, {"w", Value::Float(1)}}),
        "must have w of type INTEGER, and has 1.0");
    ExpectRefused(SetTags(Value::List({Value::Int(1)})), "must have tags of type LIST<STRING");
    EXPECT_TRUE(LinkAndCommit({{"since", Value::Int(1)}, {"by", Value::Int(2)}}).ok());
    EXPECT_TRUE(LinkAndCommit({}, "LIKES").ok());
  }
  uint32_t Format() { return Manifest::Decode(files_.Content("db/MANIFEST"), "M")->format; }

  NodeId node_ = 0;
};

TEST_F(ExtendedConstraintsTest, Relationship_RefusedInEveryWayToBreakIt) {
  ASSERT_TRUE(store_->CreateIndex(kSince).ok());
  ASSERT_TRUE(store_->CreateIndex(kWeight).ok());
  const Value one = Value::Int(1);
  EdgeRef edge;
  ASSERT_TRUE(LinkAndCommit({{"since", one}, {"by", one}}, "KNOWS", &edge).ok());
  ExpectRefused(LinkAndCommit({{"w", one}}),
                "constraint since on [:KNOWS](since, by): relationship");
  ExpectRefused(Set(edge, "by", Value()), Concat("relationship ", edge.id, " from node ", node_,
                                                 " to node ", node_, " must have by"));
  ExpectRefused(Set(edge, "w", Value::String("x")), "must have w of type INTEGER, and has 'x'");
  EXPECT_TRUE(Set(edge, "w", one).ok());
  EXPECT_TRUE(Set(edge, "w", Value()).ok());
  // Also where a run has the relationship, and the log its change.
  ASSERT_TRUE(store_->Flush().ok());
  ExpectRefused(Set(edge, "since", Value()), "must have since");
  ASSERT_TRUE(Set(edge, "since", Value::Int(2)).ok());
  // What is gone at the end, or right again, breaks nothing.
  Tx tx = *store_->Begin();
  const EdgeRef gone = Link(tx.get(), {});
  ASSERT_TRUE(tx->DeleteEdge(gone).ok());
  const EdgeRef late = Link(tx.get(), {{"since", one}});
  ASSERT_TRUE(tx->SetEdgeProperty(late, *tx->AddKeyName("by"), one).ok());
  ASSERT_TRUE(tx->SetEdgeProperty(edge, *tx->AddKeyName("by"), Value()).ok());
  ASSERT_TRUE(tx->DeleteEdge(edge).ok());
  EXPECT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->DropIndex("since").ok());
  EXPECT_TRUE(LinkAndCommit({}).ok());
}

TEST_F(ExtendedConstraintsTest, TypeOfNodes_RefusedInEveryWayToBreakIt) {
  ASSERT_TRUE(store_->CreateIndex(kTags).ok());
  const auto text = Value::String("a");
  EXPECT_TRUE(SetTags(Value::List({text})).ok());
  EXPECT_TRUE(SetTags(Value::List({})).ok());
  ExpectRefused(SetTags(text), Concat("constraint tags on :P(tags): node ", node_));
  EXPECT_TRUE(SetTags(Value()).ok());
  Tx tx = *store_->Begin();
  const NodeId other = *tx->CreateNode({}, Of(tx.get(), {{"tags", text}}));
  ASSERT_TRUE(tx->Commit().ok());
  tx = *store_->Begin();
  ASSERT_TRUE(tx->AddLabel(other, *tx->AddLabelName("P")).ok());
  ExpectRefused(tx->Commit(), "must have tags of type");
  // Each alone is right: a label by one, a value by the other.
  tx = *store_->Begin();
  ASSERT_TRUE(tx->SetNodeProperty(other, *tx->AddKeyName("tags"), Value()).ok());
  ASSERT_TRUE(tx->Commit().ok());
  const Tx a = *store_->Begin(), b = *store_->Begin();
  ASSERT_TRUE(a->AddLabel(other, *a->AddLabelName("P")).ok());
  ASSERT_TRUE(b->SetNodeProperty(other, *b->AddKeyName("tags"), text).ok());
  ASSERT_TRUE(a->Commit().ok());
  ExpectRefused(b->Commit(), "must have tags of type");
}

TEST_F(ExtendedConstraintsTest, Creation_WhatIsThereBreaksIt_IsRefusedByNameAndLeavesNothing) {
  EdgeRef edge;
  ASSERT_TRUE(LinkAndCommit({{"since", Value::Int(1)}, {"w", Value::Int(1)}}, "KNOWS", &edge).ok());
  ASSERT_TRUE(LinkAndCommit({{"w", Value::String("text")}}, "LIKES").ok());
  ASSERT_TRUE(SetTags(Value::Int(1)).ok());
  for (const bool flushed : {false, true}) {
    if (flushed) {
      ASSERT_TRUE(store_->Flush().ok());
    }
    ExpectRefused(store_->CreateIndex(kSince), Concat("relationship ", edge.id));
    ExpectRefused(store_->CreateIndex(kTags), Concat("node ", node_, " must have tags"));
  }
  EXPECT_TRUE(store_->CreateIndex(kWeight).ok());  // the text is of another type of relationship
  ASSERT_TRUE(store_->DropIndex("weight").ok());
  ASSERT_TRUE(Set(edge, "w", Value::Float(0.5)).ok());
  ExpectRefused(store_->CreateIndex(kWeight), "must have w of type INTEGER, and has 0.5");
  EXPECT_TRUE(store_->Indexes().empty());
}

TEST_F(ExtendedConstraintsTest, Creation_WhileATransactionHasWhatBreaksIt_RefusesItsCommit) {
  const Tx before = *store_->Begin();
  Link(before.get(), {});
  const Tx right = *store_->Begin();
  Link(right.get(), {{"since", Value::Int(1)}, {"by", Value::Int(1)}});
  ASSERT_TRUE(store_->CreateIndex(kSince).ok());
  ExpectRefused(before->Commit(), "constraint since");
  EXPECT_TRUE(right->Commit().ok());
}

TEST_F(ExtendedConstraintsTest, Reopened_FromLogOrCheckpointOrBesideTheWriter_TheyHold) {
  for (const auto& one : {kSince, kWeight, kTags}) ASSERT_TRUE(store_->CreateIndex(one).ok());
  ExpectHeld("as they were made");
  StoreOptions reading = options_;
  reading.read_only = true;
  reading.follow = true;
  const auto follower = *GraphStore::Open("db", reading);
  EXPECT_EQ(follower->Indexes(), store_->Indexes());
  Open();
  ExpectHeld("from the log");
  ASSERT_TRUE(store_->Close().ok());
  Open();
  ExpectHeld("from a checkpoint");
  ASSERT_TRUE(store_->DropIndex("tags").ok());
  ASSERT_TRUE(follower->Snapshot().ok());
  EXPECT_EQ(follower->Indexes(), store_->Indexes());
  Open();
  EXPECT_EQ(store_->Indexes(), (std::vector<IndexDefinition>{kSince, kWeight}));
}

TEST_F(ExtendedConstraintsTest, Creation_OfATypeThatRunsDoNotHave_ReadsNoRun) {
  ASSERT_TRUE(LinkAndCommit({{"w", Value::Int(1)}}, "LIKES").ok());
  ASSERT_TRUE(store_->Flush().ok());
  cypher::ReadCounts counts;
  const cypher::CountReadsIn counted(&counts);
  EXPECT_TRUE(store_->CreateIndex(kWeight).ok());
  EXPECT_EQ(counts.run_records, 0u);
  IndexDefinition likes = kWeight;
  likes.name = "likes";
  likes.label = "LIKES";
  EXPECT_TRUE(store_->CreateIndex(likes).ok());
  EXPECT_GT(counts.run_records, 0u);
}

TEST_F(ExtendedConstraintsTest, Creation_OneOfManyBreaksIt_UnlessItIsDeleted) {
  const Value one = Value::Int(1);
  Tx tx = *store_->Begin();
  for (int i = 0; i < 200; ++i) Link(tx.get(), {{"since", one}, {"by", one}});
  const EdgeRef last = Link(tx.get(), {{"since", one}});
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->Flush().ok());
  ExpectRefused(store_->CreateIndex(kSince), Concat("relationship ", last.id, " from"));
  // The run that says so has another type alone.
  tx = *store_->Begin();
  ASSERT_TRUE(tx->DeleteEdge(last).ok());
  Link(tx.get(), {}, "LIKES");
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_TRUE(store_->CreateIndex(kSince).ok());
}

// The first of them waits for the flush, since it raises the format; relationships are read before.
TEST_F(ExtendedConstraintsTest, Creation_WhatIsCommittedMeanwhile_IsChecked) {
  MeanwhileEngines engines;
  options_.engines = &engines;
  Open();
  std::thread creates;
  absl::Status created;
  EdgeRef edge;
  const auto create_while_committing = [&](const Value& value) {
    EXPECT_TRUE(LinkAndCommit({}, "LIKES").ok());
    engines.meanwhile = [&] {
      creates = std::thread([&] { created = store_->CreateIndex(kWeight); });
      // Its names are new.
      EXPECT_TRUE(testing_util::Eventually(
          [&] { return (*store_->Snapshot())->FindKey("w").has_value(); }));
      EXPECT_TRUE(LinkAndCommit({{"w", value}}, "KNOWS", &edge).ok());
    };
    EXPECT_TRUE(store_->Flush().ok());
    creates.join();
  };
  create_while_committing(Value::Float(1.5));
  ExpectRefused(created, Concat("relationship ", edge.id, " from node ", node_, " to node ", node_,
                                " must have w of type INTEGER, and has 1.5"));
  EXPECT_TRUE(store_->Indexes().empty());
  EXPECT_TRUE(BulkLoad::Begin(store_.get()).ok());  // nothing is left of it
  ASSERT_TRUE(Set(edge, "w", Value::Int(2)).ok());
  create_while_committing(Value::Int(1));
  EXPECT_TRUE(created.ok()) << created;
  ExpectRefused(LinkAndCommit({{"w", Value::Float(1)}}), "must have w of type INTEGER");
  ASSERT_TRUE(store_->Close().ok());
  store_.reset();
}

TEST_F(ExtendedConstraintsTest, Creation_InTheNewestFormat_WaitsForNoMaintenance) {
  MeanwhileEngines engines;
  options_.engines = &engines;
  Open();
  ASSERT_TRUE(store_->CreateIndex(kTags).ok());
  ASSERT_TRUE(LinkAndCommit({}, "LIKES").ok());
  std::thread creates;
  std::atomic<bool> created{false};
  bool meanwhile = false;
  engines.meanwhile = [&] {
    creates = std::thread([&] {
      EXPECT_TRUE(store_->CreateIndex(kWeight).ok());
      created = true;
    });
    meanwhile = testing_util::Eventually([&] { return created.load(); });
  };
  ASSERT_TRUE(store_->Flush().ok());
  creates.join();
  EXPECT_TRUE(meanwhile);
  Open();
  EXPECT_EQ(store_->Indexes(), (std::vector<IndexDefinition>{kTags, kWeight}));
  store_.reset();
}

TEST_F(ExtendedConstraintsTest, TypeByAnotherName_IsKeptByTheOneThatIsShown) {
  IndexDefinition weight = kWeight, tags = kTags;
  weight.type = "INT";
  tags.type = "ARRAY<VARCHAR NOT NULL>";
  ASSERT_TRUE(store_->CreateIndex(weight).ok());
  ASSERT_TRUE(store_->CreateIndex(tags).ok());
  const std::vector<IndexDefinition> shown = {kWeight, kTags};
  EXPECT_EQ(store_->Indexes(), shown);
  weight.name = "again";
  EXPECT_EQ(store_->CreateIndex(weight).code(), absl::StatusCode::kAlreadyExists);
  ExpectRefused(LinkAndCommit({{"w", Value::Float(1)}}), "must have w of type INTEGER");
  Open();
  EXPECT_EQ(store_->Indexes(), shown) << "from the log";
  // As logs of older versions have it.
  EXPECT_EQ(Index(tags, 0, {0}).definition(), kTags);
}

// A program that knows format 2 refuses format 3, as this one does what is newer than it knows.
TEST_F(ExtendedConstraintsTest, FormatOfTheDatabase_IsRaisedByTheFirstOneThatIsMade) {
  ASSERT_TRUE(store_->CreateIndex({"i", "P", {"a"}}).ok());
  ASSERT_TRUE(LinkAndCommit({}).ok());
  EXPECT_FALSE(store_->CreateIndex(kSince).ok());
  ASSERT_TRUE(store_->Checkpoint().ok());
  EXPECT_EQ(Format(), 2u);
  ASSERT_TRUE(store_->CreateIndex(kTags).ok());
  EXPECT_EQ(Format(), 3u);
  ASSERT_TRUE(store_->DropIndex("tags").ok());
  ASSERT_TRUE(store_->Compact().ok());
  ASSERT_TRUE(store_->Close().ok());
  Open();
  EXPECT_EQ(Format(), 3u);
}

// As a backup may have them that was begun before and ended after the first such constraint.
TEST_F(ExtendedConstraintsTest, ManifestOlderThanTheLog_IsRaisedByOpeningForWriting) {
  ASSERT_TRUE(store_->CreateIndex(kTags).ok());
  store_.reset();
  files_.Content("db/MANIFEST")[8] = 2;
  Open();
  EXPECT_EQ(Format(), 3u);
  EXPECT_EQ(store_->Indexes(), std::vector<IndexDefinition>{kTags});
}

TEST_F(ExtendedConstraintsTest, DefinitionsThatThereAreNot_AreRefused) {
  IndexDefinition unique = kSince, index = kSince, unknown = kTags, wide = kTags, both = kTags;
  unique.unique = true;
  index.constraint = false;
  unknown.type = "NUMBER";
  wide.keys.push_back("more");
  both.required = true;
  for (const IndexDefinition& one : {unique, index, unknown, wide, both}) {
    EXPECT_EQ(store_->CreateIndex(one).code(), absl::StatusCode::kInvalidArgument) << one.name;
  }
}

TEST_F(ExtendedConstraintsTest, OfOneKey_StandBesideOthersAndNotTwice) {
  const IndexDefinition plain{"plain", "P", {"tags"}};
  IndexDefinition edges = kTags, again = kTags;
  edges.name = "edges";
  edges.of_edges = true;  // of a type with the name of the label
  again.name = "again";
  again.type = "STRING";
  for (const auto& one : {plain, kTags, edges}) EXPECT_TRUE(store_->CreateIndex(one).ok());
  EXPECT_EQ(store_->CreateIndex(again).code(), absl::StatusCode::kAlreadyExists);
  // Nodes are found by the index alone.
  ASSERT_TRUE(SetTags(Value::List({Value::String("a")})).ok());
  const auto view = *store_->Snapshot();
  std::vector<NodeId> found;
  const Token key = *view->FindKey("tags");
  const Value value = Value::List({Value::String("a")});
  ASSERT_TRUE(view->Seek(*view->FindLabel("P"), {&key, 1}, {&value, 1}, &found).ok());
  EXPECT_EQ(found, std::vector<NodeId>{node_});
  ASSERT_TRUE(store_->DropIndex("plain").ok());
  EXPECT_FALSE((*store_->Snapshot())->HasIndex(*view->FindLabel("P"), {&key, 1}));
}

TEST_F(ExtendedConstraintsTest, BulkLoad_IsRefused) {
  ASSERT_TRUE(store_->CreateIndex(kWeight).ok());
  ExpectRefused(BulkLoad::Begin(store_.get()).status(), "constraint weight");
}

}  // namespace
}  // namespace pulse::graph
