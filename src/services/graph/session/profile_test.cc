// What PROFILE says of a store: layers, records, bytes and copies, step by step.
#include <gtest/gtest.h>

#include <functional>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/model/text.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"

namespace pulse::cypher {
namespace {

// Calls a function at the first rows.
class CallingSink : public RowTexts {
 public:
  std::function<void()> call;
  bool OnRows(const GraphView& view, const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    if (call) std::exchange(call, nullptr)();
    return RowTexts::OnRows(view, rows, stride, count, columns);
  }
};

class ProfileTest : public testing::Test {
 protected:
  ProfileTest() {
    options_.files = &files_;
    options_.background = false;
    Open();
  }
  void Open() {
    service_.reset();
    store_.reset();
    store_ = *graph::GraphStore::Open("db", options_);
    service_ = std::make_unique<GraphService>(store_.get(), ServiceOptions());
  }
  void Run(std::string_view text, std::function<void()> at_rows = {}) {
    CallingSink sink;
    sink.call = std::move(at_rows);
    const auto statement = service_->Prepare(text);
    ASSERT_TRUE(statement.ok()) << statement.status();
    const absl::Status status = service_->Run(**statement, {}, {}, &sink, &outcome_);
    ASSERT_TRUE(status.ok()) << status;
  }
  // The number of this name in the first line of the plan that begins with `step`; 0: it has none.
  int64_t Count(const std::string& step, const std::string& name) const {
    const size_t line = ("\n" + outcome_.plan).find("\n" + step);
    EXPECT_NE(line, std::string::npos) << step << " in\n" << outcome_.plan;
    if (line == std::string::npos) return -1;
    const std::string text = outcome_.plan.substr(line, outcome_.plan.find('\n', line) - line);
    const size_t at = text.find(" " + name + "=");
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + name.size() + 2));
  }
  // Ten nodes, and the relationships of each to the next.
  void MakeChain() {
    Run("UNWIND range(0, 9) AS i CREATE (:A {x: i})");
    Link();
  }
  void Link() { Run("MATCH (a:A), (b:A) WHERE b.x = a.x + 1 CREATE (a)-[:R {w: a.x}]->(b)"); }

  graph::SimFiles files_;
  graph::StoreOptions options_;
  std::unique_ptr<graph::GraphStore> store_;
  std::unique_ptr<GraphService> service_;
  Outcome outcome_;
};

constexpr char kWalk[] = "PROFILE MATCH (a:A)-[r:R]->(b:A) RETURN a.x, r.w, b.x";

TEST_F(ProfileTest, Expand_OfEachLayer_CountsLayersAndRecords) {
  MakeChain();
  Run(kWalk);
  EXPECT_EQ(Count("Scan", "Nodes"), 10) << outcome_.plan;
  EXPECT_EQ(Count("Expand", "Chunks"), 1);
  EXPECT_EQ(Count("Expand", "ChunkRecords"), 9);
  EXPECT_EQ(Count("Expand", "Runs"), 0);
  EXPECT_EQ(Count("Project", "Properties"), 27);
  ASSERT_TRUE(store_->Flush().ok());
  Run(kWalk);
  EXPECT_EQ(Count("Expand", "Chunks"), 0) << outcome_.plan;
  EXPECT_EQ(Count("Expand", "Runs"), 1);
  EXPECT_EQ(Count("Expand", "RunRecords"), 9);
  EXPECT_GT(Count("Expand", "RunBytes"), 0);
  EXPECT_GT(Count("Project", "RunBytes"), 0);
  // A second run, and layer 0 again.
  Link();
  ASSERT_TRUE(store_->Flush().ok());
  Link();
  Run(kWalk);
  EXPECT_EQ(Count("Expand", "Chunks"), 1) << outcome_.plan;
  EXPECT_EQ(Count("Expand", "ChunkRecords"), 9);
  EXPECT_EQ(Count("Expand", "Runs"), 2);
  EXPECT_EQ(Count("Expand", "RunRecords"), 18);
  EXPECT_EQ(Count("Expand", "rows"), 27);
  ASSERT_TRUE(store_->Compact().ok());
  Run(kWalk);
  EXPECT_EQ(Count("Expand", "Runs"), 1) << outcome_.plan;
  EXPECT_EQ(Count("Expand", "RunRecords"), 27);
  // What hides older records is read record by record.
  Run("MATCH (:A {x: 0})-[r:R]->() DELETE r");
  Run(kWalk);
  EXPECT_EQ(Count("Expand", "ChunkRecords"), 3) << outcome_.plan;
  EXPECT_EQ(Count("Expand", "RunRecords"), 27);
  EXPECT_EQ(Count("Expand", "rows"), 24);
}

TEST_F(ProfileTest, Runs_ThatNobodyHasRead_AreCheckedOnce) {
  MakeChain();
  ASSERT_TRUE(store_->Close().ok());
  Open();
  Run(kWalk);
  EXPECT_GT(Count("Expand", "CheckedBytes"), 0) << outcome_.plan;
  EXPECT_GT(Count("Project", "CheckedBytes"), 0);
  Run(kWalk);
  EXPECT_EQ(Count("Total", "CheckedBytes"), 0) << outcome_.plan;
}

TEST_F(ProfileTest, Scans_OfRelationships_CountEachOnce) {
  MakeChain();
  Run("PROFILE MATCH ()-[r:R]->() RETURN sum(r.w)");
  EXPECT_EQ(Count("Total", "ChunkRecords"), 9) << outcome_.plan;
  // Opened anew, there is no layer 0.
  ASSERT_TRUE(store_->Close().ok());
  Open();
  Run("PROFILE MATCH ()-[r:R]->() RETURN sum(r.w)");
  EXPECT_EQ(Count("AggregateColumns", "Properties"), 9) << outcome_.plan;
  EXPECT_EQ(Count("AggregateColumns", "RunRecords"), 0);  // the column alone
  EXPECT_GT(Count("AggregateColumns", "RunBytes"), 0);
  Run("PROFILE MATCH (a:A) WHERE a.x = 3 RETURN [(a)-->(b) | b.x] AS others");
  EXPECT_EQ(Count("Total", "RunRecords"), 1) << outcome_.plan;
}

TEST_F(ProfileTest, Segments_WithoutAMatch_AreNotRead) {
  Run("CREATE (h:Hub) WITH h UNWIND range(0, 9999) AS i CREATE (h)-[:R {w: i, f: i / 2.0}]->(:A)");
  constexpr char kFirst[] = "PROFILE MATCH ()-[r:R]->() WHERE r.w < 100 RETURN sum(r.w)";
  Run(kFirst);
  EXPECT_EQ(Count("ScanProperties", "SkippedSegments"), 0) << outcome_.plan;
  ASSERT_TRUE(store_->Flush().ok());
  // 4,096 relationships each.
  Run(kFirst);
  EXPECT_EQ(Count("ScanProperties", "rows"), 100) << outcome_.plan;
  EXPECT_EQ(Count("ScanProperties", "SkippedSegments"), 2);
  EXPECT_EQ(Count("ScanProperties", "Properties"), 4096);
  Run("PROFILE MATCH ()-[r:R]->() WHERE r.w >= 5000 AND 4500 > r.f RETURN count(r.w)");
  EXPECT_EQ(Count("ScanProperties", "rows"), 4000) << outcome_.plan;
  EXPECT_EQ(Count("ScanProperties", "SkippedSegments"), 1);
  Run("PROFILE MATCH ()-[r:R]->() WHERE r.w = 'none' RETURN count(r.w)");
  EXPECT_EQ(Count("ScanProperties", "SkippedSegments"), 3) << outcome_.plan;
  EXPECT_EQ(Count("ScanProperties", "Properties"), 0);
  // What hides others is looked at one by one.
  Run("MATCH ()-[r:R {w: 7}]->() DELETE r");
  Run(kFirst);
  EXPECT_EQ(Count("ScanProperties", "rows"), 99) << outcome_.plan;
  EXPECT_EQ(Count("ScanProperties", "SkippedSegments"), 0);
}

TEST_F(ProfileTest, Subqueries_CountWhereTheyAreShown) {
  MakeChain();
  ASSERT_TRUE(store_->Flush().ok());
  Run("PROFILE MATCH (a:A) WHERE EXISTS { (a)-[:R]->(:A) } RETURN a.x");
  EXPECT_EQ(Count("Filter", "RunRecords"), 9) << outcome_.plan;
  Run("PROFILE MATCH (a:A) CALL { WITH a MATCH (a)-[r:R]->() RETURN r.w AS w } RETURN a.x, w");
  EXPECT_EQ(Count("  Expand", "RunRecords"), 9) << outcome_.plan;
  EXPECT_EQ(Count("Total", "Properties"), 18);
  EXPECT_EQ(Count("Project", "Properties"), 9);
  Run("PROFILE MATCH (a:A) RETURN COLLECT { MATCH (a)-[r:R]->() RETURN r.w } AS ws");
  EXPECT_EQ(Count("Project", "RunRecords"), 9) << outcome_.plan;
  EXPECT_EQ(Count("Project", "Properties"), 9);
}

TEST_F(ProfileTest, Indexes_CountSeeks) {
  MakeChain();
  Run("CREATE INDEX FOR (a:A) ON (a.x)");
  Run("PROFILE UNWIND [1, 2, 77] AS x MATCH (a:A {x: x}) RETURN a");
  EXPECT_EQ(Count("Scan", "Seeks"), 3) << outcome_.plan;
  EXPECT_EQ(Count("Scan", "Nodes"), 2);
}

TEST_F(ProfileTest, Threads_OfAnAlgorithm_AreCountedTogether) {
  Run("UNWIND range(1, 30000) AS i CREATE (:A)-[:R]->(:A)");
  ASSERT_TRUE(store_->Flush().ok());
  int64_t hits[2];
  for (const int threads : {1, 4}) {
    Run(Concat("PROFILE CALL algo.pageRank({iterations: 1, threads: ", threads,
               "}) YIELD node RETURN count(*)"));
    EXPECT_EQ(Count("Procedure", "RunRecords"), 30000) << outcome_.plan;
    hits[threads > 1] = Count("Procedure", "Hits");
  }
  EXPECT_EQ(hits[0], hits[1]);
}

TEST_F(ProfileTest, Copies_WhileAQueryRuns_AreNamed) {
  MakeChain();
  Run(kWalk);
  EXPECT_EQ(outcome_.plan.find("Copied"), std::string::npos) << outcome_.plan;
  Run(kWalk, [this] { ASSERT_TRUE(store_->Flush().ok()); });
  // Nine records of 32 bytes in each direction.
  EXPECT_NE(
      outcome_.plan.find("Copied meanwhile by inline: 576 bytes in 2 flushes and 0 compactions\n"),
      std::string::npos)
      << outcome_.plan;
  Run(kWalk);
  EXPECT_EQ(outcome_.plan.find("Copied"), std::string::npos) << outcome_.plan;
  Link();
  ASSERT_TRUE(store_->Flush().ok());
  Run(kWalk, [this] { ASSERT_TRUE(store_->Compact().ok()); });
  EXPECT_NE(outcome_.plan.find(" bytes in 0 flushes and 2 compactions\n"), std::string::npos)
      << outcome_.plan;
  const Value* copied = outcome_.plan_tree.Find("args")->Find("CopiedMeanwhile");
  ASSERT_NE(copied, nullptr);
  EXPECT_GT(copied->Find("inline")->as_int(), 0);
}

TEST_F(ProfileTest, Tree_ForDrivers_HasTheSameNumbers) {
  MakeChain();
  ASSERT_TRUE(store_->Flush().ok());
  Run(kWalk);
  int64_t hits = 0;
  const Value* expand = nullptr;
  for (const Value* at = &outcome_.plan_tree;;) {
    hits += at->Find("dbHits")->as_int();
    if (at->Find("operatorType")->as_string() == "Expand") expand = at;
    const ValueList& children = at->Find("children")->as_list();
    if (children.empty()) break;
    at = &children[0];
  }
  EXPECT_EQ(hits, Count("Total", "Hits"));
  EXPECT_EQ(outcome_.plan_tree.Find("args")->Find("Total")->Find("Hits")->as_int(), hits);
  ASSERT_NE(expand, nullptr);
  EXPECT_EQ(expand->Find("args")->Find("RunRecords")->as_int(), 9);
  EXPECT_EQ(expand->Find("rows")->as_int(), 9);
  Run("EXPLAIN MATCH (a)-->(b) RETURN a");
  EXPECT_EQ(outcome_.plan_tree.Find("dbHits"), nullptr);
}

// Also in a transaction, whose own relationships are in no layer.
TEST_F(ProfileTest, Transactions_CountWhatTheyReadOfTheStore) {
  MakeChain();
  const auto transaction = *service_->Begin({}, {});
  RowTexts sink;
  for (const char* text : {"MATCH (a:A {x: 0}) CREATE (a)-[:R {w: 1}]->(a)", kWalk}) {
    const auto statement = *service_->Prepare(text);
    ASSERT_TRUE(transaction->Run(*statement, nullptr, &sink, &outcome_).ok());
  }
  EXPECT_EQ(Count("Expand", "ChunkRecords"), 9) << outcome_.plan;
  EXPECT_EQ(Count("Expand", "rows"), 10);
}

}  // namespace
}  // namespace pulse::cypher
