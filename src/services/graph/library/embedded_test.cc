#include "services/graph/library/embedded.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "base/testing.h"
#include "services/graph/syntax/error.h"

namespace pulse::graph {
namespace {

using cypher::Column;

constexpr char kLong[] =
    "UNWIND range(1, 10000) AS i UNWIND range(1, 10000) AS j UNWIND range(1, 10000) AS k "
    "RETURN count(*)";

class EmbeddedGraphTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({}); }

  void Open(EmbeddedOptions options) {
    graph_.reset();
    options.store.sync = false;
    auto graph = EmbeddedGraph::Open(path_.get(), options);
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *graph;
  }

  absl::StatusOr<ResultTable> Run(std::string_view text) {
    return graph_->Execute(text, nullptr, {});
  }
  // The only value of a statement.
  Value One(std::string_view text) {
    auto table = Run(text);
    EXPECT_TRUE(table.ok()) << table.status();
    if (!table.ok() || table->rows() != 1 || table->width() != 1) return {};
    return table->At(0, 0);
  }
  static Column Ints(std::vector<int64_t> ints) {
    Column column;
    column.kind = Column::Kind::kInts;
    column.valid.assign(ints.size(), 1);
    column.ints = std::move(ints);
    return column;
  }

  void TearDown() override {
    graph_.reset();
    std::filesystem::remove_all(path_.get());
  }

  testing_util::ScratchPath path_{"embedded-graph"};
  std::shared_ptr<EmbeddedGraph> graph_;
};

TEST_F(EmbeddedGraphTest, ConstraintsOfRelationshipsAndTypes_RefuseEveryStatementThatBreaksThem) {
  ASSERT_TRUE(Run("CREATE (:P {id: 1}), (:P {id: 2})").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT since FOR ()-[r:KNOWS]-() REQUIRE r.since IS NOT NULL").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT date FOR ()-[r:KNOWS]-() REQUIRE r.since IS :: DATE").ok());
  ASSERT_TRUE(Run("CREATE CONSTRAINT id FOR (p:P) REQUIRE p.id IS :: INTEGER").ok());
  const std::string ends = "MATCH (a:P {id: 1}), (b:P {id: 2}) ", r = "MATCH ()-[r:KNOWS]->() ";
  ASSERT_TRUE(Run(ends + "MERGE (a)-[:KNOWS {since: date('2024-02-29')}]->(b)").ok());
  const auto refused = [&](const std::string& text, const char* constraint) {
    const absl::Status status = Run(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text << ": " << status;
    EXPECT_NE(status.message().find(constraint), std::string::npos) << status;
  };
  refused(ends + "CREATE (b)-[:KNOWS]->(a)", "constraint since on [:KNOWS](since): relationship");
  refused(ends + "MERGE (b)-[:KNOWS]->(a)", "constraint since");
  refused(ends + "CREATE (b)-[:KNOWS {since: 2024}]->(a)", "constraint date");
  refused(r + "REMOVE r.since", "constraint since");
  refused(r + "SET r = {w: 1}", "constraint since");
  refused(r + "SET r.since = '2024-02-29'", "constraint date");
  refused("MATCH (p:P {id: 1}) SET p.id = 'x'", "constraint id on :P(id)");
  refused("MERGE (:P {id: 1.0e9})", "constraint id");
  ASSERT_TRUE(Run(ends + "MERGE (b)-[r:KNOWS]->(a) SET r.since = date()").ok());
  ASSERT_TRUE(Run("CREATE (:Q {id: 'x'})-[:LIKES]->(:Q)").ok());
  // Loads, too.
  const auto load = [&](std::vector<std::pair<std::string, Column>> columns) {
    return graph_
        ->LoadEdges("KNOWS", {"P", "id", Ints({1})}, {"P", "id", Ints({1})}, std::move(columns), 1)
        .status();
  };
  EXPECT_EQ(load({}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(load({{"since", Ints({2024})}}).code(), absl::StatusCode::kFailedPrecondition);
  Column texts;
  texts.values = {Value::String("x")};
  EXPECT_EQ(graph_->LoadNodes("P", {{"id", texts}}, 1, "").status().code(),
            absl::StatusCode::kFailedPrecondition);
  refused("CREATE CONSTRAINT FOR ()-[r:LIKES]->() REQUIRE r.w IS NOT NULL", "must have w");
  EXPECT_EQ(One("MATCH ()-[r]->() RETURN count(r)").as_int(), 3);
}

TEST_F(EmbeddedGraphTest, Execute_NodesAndPaths_AreInTheTable) {
  ASSERT_TRUE(Run("CREATE (:A {x: 1})-[:R {w: 2}]->(:B)").ok());
  const auto table = Run("MATCH p = (a:A)-[r]->(b) RETURN [a, {k: r}] AS deep, p");
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->rows(), 1u);
  ASSERT_NE(table->entities(), nullptr);
  ASSERT_EQ(table->entities()->nodes.size(), 2u);
  ASSERT_EQ(table->entities()->edges.size(), 1u);
  const NodeRecord& a = table->entities()->nodes.at(table->At(0, 0).as_list()[0].as_node());
  EXPECT_EQ(table->entities()->labels.at(a.labels.at(0)), "A");
  EXPECT_EQ(table->entities()->keys.at(a.properties.at(0).first), "x");
  EXPECT_EQ(table->outcome().counters.nodes_created, 0u);
}

TEST_F(EmbeddedGraphTest, Execute_ChangesBeyondTheLimit_FailAndCommitNothing) {
  EmbeddedOptions options;
  options.store.transaction_memory = 1 << 20;
  Open(options);
  testing_util::ScratchPath csv("csv");
  {
    std::ofstream file(csv.get());
    for (int i = 0; i < 2'000; ++i) file << i << ',' << std::string(500, 'x') << '\n';
  }
  ASSERT_TRUE(Run("CREATE (:M {x: 0})").ok());
  for (const std::string& statement :
       {std::string("UNWIND range(1, 8000) AS i CREATE (:N {i: i})"),
        "LOAD CSV FROM '" + csv.get() + "' AS row CREATE (:N {i: row[0], t: row[1]})",
        "LOAD CSV FROM '" + csv.get() + "' AS row MERGE (:N {i: row[0], t: row[1]})",
        std::string("UNWIND range(1, 8000) AS i MATCH (m:M) CREATE (m)-[:R {i: i}]->(m)"),
        std::string("UNWIND range(1, 3000) AS i CREATE (n:N) SET n.t = ") +
            "reduce(s = 'x', k IN range(1, 10) | s + s)",
        std::string("UNWIND range(1, 8000) AS i FOREACH (k IN [1] | CREATE (:N))")}) {
    const auto table = Run(statement);
    EXPECT_TRUE(absl::IsResourceExhausted(table.status())) << statement << table.status();
    EXPECT_NE(testing_util::Text(table.status())
                  .find("use LIMIT or several transactions; --transaction-memory"),
              std::string::npos)
        << statement << table.status();
  }
  EXPECT_EQ(One("MATCH (n:N) RETURN count(*)").as_int(), 0);
  EXPECT_EQ(One("MATCH ()-[r]->() RETURN count(r)").as_int(), 0);
  // One property, set again and again, takes what it takes once.
  ASSERT_TRUE(Run("UNWIND range(1, 20000) AS i MATCH (m:M) SET m.x = i").ok());
  EXPECT_EQ(One("MATCH (m:M) RETURN m.x").as_int(), 20000);
  // Labels are changes, too, however they are set and taken away.
  for (int part = 0; part < 5; ++part) {
    ASSERT_TRUE(Run("UNWIND range(1, 2000) AS i CREATE (:L {i: i})").ok());
  }
  for (const char* statement :
       {"MATCH (n:L) SET n:A", "MATCH (n:L) REMOVE n:L", "MERGE (n:L) ON MATCH SET n:A"}) {
    const auto table = Run(statement);
    EXPECT_TRUE(absl::IsResourceExhausted(table.status())) << statement << table.status();
  }
  EXPECT_EQ(One("MATCH (n:L) RETURN count(*)").as_int(), 10'000);
  EXPECT_EQ(One("MATCH (n:A) RETURN count(*)").as_int(), 0);
  // The statements of a transaction count together.
  auto transaction = graph_->Begin({}).value();
  absl::Status status;
  int done = 0;
  for (; done < 20 && status.ok(); ++done) {
    status =
        transaction->Execute("UNWIND range(1, 500) AS i CREATE (:N {i: i})", nullptr, {}).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(done, 2);
  EXPECT_LT(done, 15);
}

TEST_F(EmbeddedGraphTest, Execute_ResultTooLarge_FailsAndCommitsNothing) {
  EmbeddedOptions options;
  options.service.query_memory_bytes = 1 << 20;
  Open(options);
  const auto table = Run(
      "CREATE (:N) WITH 1 AS one UNWIND range(1, 1000) AS i UNWIND range(1, 1000) AS j RETURN i");
  EXPECT_EQ(table.status().code(), absl::StatusCode::kResourceExhausted) << table.status();
  EXPECT_EQ(One("MATCH (n:N) RETURN count(*)").as_int(), 0);
}

TEST_F(EmbeddedGraphTest, Execute_Interrupted_IsCancelled) {
  int asked = 0;
  const std::function<bool()> interrupted = [&asked] { return ++asked == 3; };
  StatementOptions options;
  options.interrupted = &interrupted;
  EXPECT_EQ(graph_->Execute(kLong, nullptr, options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
  auto transaction = graph_->Begin({});
  ASSERT_TRUE(transaction.ok());
  asked = 0;
  EXPECT_TRUE(absl::IsCancelled((*transaction)->Execute(kLong, nullptr, options).status()));
  EXPECT_FALSE((*transaction)->Commit().ok());
}

TEST_F(EmbeddedGraphTest, CallsWithinAStatement_ThatWouldWaitForIt_FailAndMayEndIt) {
  auto transaction = graph_->Begin({});
  ASSERT_TRUE(transaction.ok());
  std::vector<absl::Status> calls;
  const std::function<bool()> within = [&] {
    EXPECT_TRUE((*transaction)->open());
    EXPECT_EQ(One("CREATE (:N) WITH 7 AS x RETURN x").as_int(), 7);
    calls.push_back((*transaction)->Execute("RETURN 1", nullptr, {}).status());
    calls.push_back((*transaction)->Commit());
    calls.push_back((*transaction)->Rollback());
    return false;
  };
  const std::function<bool()> closing = [&] {
    calls.push_back(graph_->Close());
    return false;
  };
  StatementOptions options;
  options.interrupted = &within;
  // It is ended by what was called, and not as interrupted.
  EXPECT_TRUE(absl::IsCancelled((*transaction)->Execute(kLong, nullptr, options).status()));
  EXPECT_TRUE((*transaction)->Rollback().ok());
  options.interrupted = &closing;
  EXPECT_TRUE(absl::IsCancelled(graph_->Execute(kLong, nullptr, options).status()));
  ASSERT_EQ(calls.size(), 4u);
  for (const absl::Status& status : calls) EXPECT_EQ(cypher::InfoOf(status).kind, "Within");
  EXPECT_FALSE((*transaction)->open());
  EXPECT_EQ(One("MATCH (n:N) RETURN count(*)").as_int(), 1);
  EXPECT_TRUE(graph_->Close().ok());
}

TEST_F(EmbeddedGraphTest, Execute_WrongSchemaStatement_SaysWhatWasDone) {
  cypher::Doing doing = cypher::Doing::kQuery;
  StatementOptions options;
  options.doing = &doing;
  const auto status = graph_->Execute("DROP INDEX none", nullptr, options).status();
  EXPECT_EQ(doing, cypher::Doing::kSchema);
  EXPECT_EQ(cypher::FailureOf(status, doing).code, "Neo.ClientError.Schema.IndexNotFound");
}

TEST_F(EmbeddedGraphTest, Close_StatementsAndTransactionsAreOpen_EndsThem) {
  auto transaction = graph_->Begin({});
  ASSERT_TRUE(transaction.ok());
  ASSERT_TRUE((*transaction)->Execute("CREATE (:N)", nullptr, {}).ok());
  absl::Status ended;
  std::thread thread([&] { ended = Run(kLong).status(); });
  ASSERT_TRUE(testing_util::Eventually([&] {
    auto running = Run("SHOW TRANSACTIONS");
    return running.ok() && running->rows() == 3;
  }));
  EXPECT_TRUE(graph_->Close().ok());
  thread.join();
  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  EXPECT_FALSE((*transaction)->open());
  for (const absl::Status& status :
       {Run("RETURN 1").status(), (*transaction)->Commit(), graph_->Begin({}).status(),
        graph_->Checkpoint(), graph_->LoadNodes("N", {}, 0, "").status()}) {
    EXPECT_EQ(cypher::InfoOf(status).kind, "Closed") << status;
  }
  EXPECT_TRUE(graph_->Close().ok());
  transaction->reset();
  Open({});
  EXPECT_EQ(One("MATCH (n:N) RETURN count(*)").as_int(), 0);
}

TEST_F(EmbeddedGraphTest, Load_ByColumns_NodesAreFoundByKey) {
  ASSERT_EQ(*graph_->LoadNodes("N", {{"id", Ints({1, 2, 3})}}, 3, "id"), 3u);
  ASSERT_EQ(*graph_->LoadEdges("E", {"N", "id", Ints({1, 2})}, {"N", "id", Ints({3, 3})},
                               {{"w", Ints({7, 8})}}, 2),
            2u);
  EXPECT_EQ(One("MATCH (:N {id: 2})-[e:E]->(:N {id: 3}) RETURN e.w").as_int(), 8);
  EXPECT_EQ(graph_->Indexes().size(), 1u);
}

TEST_F(EmbeddedGraphTest, Load_WrongKeys_LeaveTheGraphAsItWas) {
  ASSERT_TRUE(graph_->LoadNodes("N", {{"id", Ints({1})}}, 1, "id").ok());
  Column with_null = Ints({2, 3});
  with_null.valid[1] = 0;
  for (const Column& ids : {Ints({2, 1}), Ints({2, 2}), with_null}) {
    const auto loaded = graph_->LoadNodes("N", {{"id", ids}}, 2, "id");
    EXPECT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
  }
  EXPECT_TRUE(absl::IsNotFound(
      graph_->LoadEdges("E", {"N", "id", Ints({1})}, {"N", "id", Ints({9})}, {}, 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      graph_->LoadNodes("N", {{"a", Ints({1})}, {"b", Ints({1, 2})}}, 1, "").status()));
  EXPECT_EQ(One("MATCH (n) RETURN count(*)").as_int(), 1);
  EXPECT_EQ(One("MATCH ()-[e]->() RETURN count(*)").as_int(), 0);
}

TEST_F(EmbeddedGraphTest, Load_SameKeysByTwoThreads_OneIsRefused) {
  std::vector<int64_t> ids(20'000);
  std::iota(ids.begin(), ids.end(), 0);
  for (const char* label : {"A", "B", "C"}) {
    std::atomic<int> loaded{0}, refused{0};
    const auto load = [&] {
      const auto rows = graph_->LoadNodes(label, {{"id", Ints(ids)}}, ids.size(), "id");
      loaded += rows.ok() ? 1 : 0;
      refused += absl::IsInvalidArgument(rows.status()) ? 1 : 0;
    };
    std::thread other(load);
    load();
    other.join();
    EXPECT_EQ(loaded, 1);
    EXPECT_EQ(refused, 1);
  }
  EXPECT_EQ(One("MATCH (n) RETURN count(*)").as_int(), 60'000);
}

TEST_F(EmbeddedGraphTest, Load_Key_MakesTheIndexThatCreateIndexWould) {
  ASSERT_TRUE(Run("CREATE INDEX FOR (n:A) ON (n.B_c)").ok());
  const std::string name = graph_->Indexes().at(0).name;
  ASSERT_TRUE(Run("DROP INDEX " + name).ok());
  ASSERT_TRUE(graph_->LoadNodes("A_B", {{"c", Ints({1})}}, 1, "c").ok());
  ASSERT_TRUE(graph_->LoadNodes("A", {{"B_c", Ints({1})}}, 1, "B_c").ok());
  ASSERT_EQ(graph_->Indexes().size(), 2u);
  EXPECT_EQ(graph_->Indexes().at(1).name, name);
}

TEST_F(EmbeddedGraphTest, Load_NameOfTheIndexIsTaken_LoadsNothing) {
  ASSERT_TRUE(graph_->LoadNodes("N", {{"id", Ints({1})}}, 1, "id").ok());
  const std::string name = graph_->Indexes().at(0).name;
  ASSERT_TRUE(Run("DROP INDEX " + name).ok());
  ASSERT_TRUE(Run("CREATE INDEX " + name + " FOR (n:Other) ON (n.x)").ok());
  const auto loaded = graph_->LoadNodes("N", {{"id", Ints({2})}}, 1, "id");
  EXPECT_TRUE(absl::IsAlreadyExists(loaded.status())) << loaded.status();
  EXPECT_EQ(One("MATCH (n:N) RETURN count(*)").as_int(), 1);
  // As the message says.
  ASSERT_TRUE(Run("CREATE INDEX mine FOR (n:N) ON (n.id)").ok());
  EXPECT_EQ(*graph_->LoadNodes("N", {{"id", Ints({2})}}, 1, "id"), 1u);
}

TEST_F(EmbeddedGraphTest, Load_InterruptedAtAnyPlace_WritesNothing) {
  testing_util::ScratchPath nodes("nodes"), edges("edges");
  std::ofstream(nodes.get()) << "id\n1\n2\n";
  std::ofstream(edges.get()) << "a,b\n1,2\n";
  LoadOptions files;
  files.nodes = {{"F", nodes.get()}};
  files.edges = {{"F", edges.get()}};
  ASSERT_TRUE(graph_->LoadNodes("N", {{"id", Ints({1, 2})}}, 2, "id").ok());
  std::vector<int64_t> many(60'000);  // as a bulk load
  std::iota(many.begin(), many.end(), 0);
  const std::function<absl::Status(const Interrupted*)> loads[] = {
      [&](const Interrupted* i) {
        return graph_->LoadNodes("N", {{"id", Ints({3, 4})}}, 2, "id", i).status();
      },
      [&](const Interrupted* i) {
        return graph_->LoadNodes("N", {{"x", Ints(many)}}, many.size(), "", i).status();
      },
      [&](const Interrupted* i) {
        return graph_->LoadEdges("E", {"N", "id", Ints({1})}, {"", "id", Ints({2})}, {}, 1, i)
            .status();
      },
      [&](const Interrupted* i) {
        files.interrupted = i;
        return graph_->LoadFiles(files).status();
      }};
  constexpr char kNodes[] = "MATCH (n) RETURN count(*)", kEdges[] = "MATCH ()-->() RETURN count(*)";
  for (const auto& load : loads) {
    const int64_t before = One(kNodes).as_int(), edges_before = One(kEdges).as_int();
    int times = 0;
    absl::Status status;
    for (int at = 1; !status.ok() || at == 1; ++at) {
      int asked = 0;
      const Interrupted interrupted = [&] { return ++asked == at; };
      status = load(&interrupted);
      if (status.ok()) break;
      ++times;
      ASSERT_TRUE(absl::IsCancelled(status)) << status;
      ASSERT_EQ(asked, at);
      ASSERT_EQ(One(kNodes).as_int(), before);
      ASSERT_EQ(One(kEdges).as_int(), edges_before);
    }
    EXPECT_GE(times, 2);
    EXPECT_GT(One(kNodes).as_int() + One(kEdges).as_int(), before + edges_before);
  }
}

TEST_F(EmbeddedGraphTest, Close_LoadsRun_EndsThem) {
  testing_util::ScratchPath nodes("nodes");
  std::ofstream(nodes.get()) << "id\n1\n2\n";
  LoadOptions files;
  files.nodes = {{"F", nodes.get()}};
  ASSERT_TRUE(graph_->LoadNodes("N", {{"id", Ints({1})}}, 1, "id").ok());
  const std::function<absl::Status(const Interrupted*)> loads[] = {
      [&](const Interrupted* i) {
        return graph_->LoadNodes("F", {{"id", Ints({3})}}, 1, "id", i).status();
      },
      [&](const Interrupted* i) {
        return graph_->LoadEdges("E", {"N", "id", Ints({1})}, {"N", "id", Ints({1})}, {}, 1, i)
            .status();
      },
      [&](const Interrupted* i) {
        files.interrupted = i;
        return graph_->LoadFiles(files).status();
      }};
  for (const auto& load : loads) {
    std::atomic<bool> within{false};
    const Interrupted until_closed = [&] {
      within = true;
      while (!graph_->closed()) std::this_thread::yield();
      return false;
    };
    absl::Status ended;
    std::thread thread([&] { ended = load(&until_closed); });
    EXPECT_TRUE(testing_util::Eventually([&] { return within.load(); }));
    EXPECT_TRUE(graph_->Close().ok());
    thread.join();
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
    Open({});
    EXPECT_EQ(One("MATCH (n:F) RETURN count(*)").as_int(), 0);
    EXPECT_EQ(One("MATCH ()-->() RETURN count(*)").as_int(), 0);
  }
}

TEST_F(EmbeddedGraphTest, Load_WithinALoadByKey_IsRefused) {
  absl::Status inner;
  const Interrupted within = [&] {
    inner = graph_->LoadNodes("N", {{"id", Ints({2})}}, 1, "id").status();
    return false;
  };
  ASSERT_TRUE(graph_->LoadNodes("N", {{"id", Ints({1})}}, 1, "id", &within).ok());
  EXPECT_EQ(cypher::InfoOf(inner).kind, "Within") << inner;
}

TEST_F(EmbeddedGraphTest, Load_ReadOnly_IsRefused) {
  ASSERT_TRUE(graph_->Close().ok());
  EmbeddedOptions options;
  options.store.read_only = true;
  Open(options);
  const auto loaded = graph_->LoadNodes("N", {{"id", Ints({1})}}, 1, "");
  EXPECT_EQ(cypher::InfoOf(loaded.status()).kind, "ReadOnlyDatabase") << loaded.status();
  EXPECT_TRUE(graph_->Close().ok());
}

}  // namespace
}  // namespace pulse::graph
