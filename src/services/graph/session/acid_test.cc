// The anomalies of LDBC's ACID test suite by name, by statements of Cypher on a store: two or three
// transactions that are interleaved in one order, with snapshot isolation and serializable.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"

namespace pulse::cypher {
namespace {

constexpr auto kRefused = absl::StatusCode::kAborted;

class AcidTest : public ::testing::TestWithParam<bool> {
 protected:
  using Tx = std::unique_ptr<Transaction>;

  AcidTest() {
    graph::StoreOptions options;
    options.files = &files_;
    options.background = false;
    store_ = graph::GraphStore::Open("db", options).value();
    service_ = std::make_unique<GraphService>(store_.get(), ServiceOptions());
  }
  static bool serializable() { return GetParam(); }

  Tx Begin(bool read_only = false) {
    RunOptions options;
    options.read_only = read_only;
    options.serializable = serializable();
    return service_->Begin(Caller(), options).value();
  }
  Tx Reader() { return Begin(true); }
  // The rows, each on a line.
  std::string Run(const Tx& tx, std::string_view text) {
    RowTexts rows;
    Outcome outcome;
    const auto statement = tx->Prepare(text);
    EXPECT_TRUE(statement.ok()) << text << ": " << statement.status();
    if (!statement.ok()) return "";
    const absl::Status status = tx->Run(**statement, nullptr, &rows, &outcome);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
    return rows.Lines();
  }
  static absl::StatusCode Commit(const Tx& tx) {
    uint64_t sequence = 0;
    return tx->Commit(&sequence).code();
  }
  static constexpr auto kDone = absl::StatusCode::kOk;
  // In a transaction of its own.
  std::string Now(std::string_view text) {
    const Tx tx = Begin();
    std::string rows = Run(tx, text);
    EXPECT_EQ(Commit(tx), kDone) << text;
    return rows;
  }

  graph::SimFiles files_;
  std::unique_ptr<graph::GraphStore> store_;
  std::unique_ptr<GraphService> service_;
};

INSTANTIATE_TEST_SUITE_P(Isolation, AcidTest, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Serializable" : "Snapshot");
});

TEST_P(AcidTest, DirtyWriteG0_TwoWritersInTurns_AllIsOfOne) {
  Now("CREATE (:P {id: 1, h: [0]})-[:K {h: [0]}]->(:P {id: 2, h: [0]})");
  const auto append = [&](const Tx& tx, const char* what, const char* number) {
    Run(tx, Concat("MATCH (a:P {id: 1})-[k:K]->(b:P {id: 2}) SET ", what, ".h = ", what, ".h + ",
                   number));
  };
  const Tx one = Begin(), two = Begin();
  append(one, "a", "1");
  append(two, "a", "2");
  append(two, "k", "2");
  append(one, "k", "1");
  append(two, "b", "2");
  append(one, "b", "1");
  EXPECT_EQ(Commit(one), kDone);
  EXPECT_EQ(Commit(two), kRefused);
  const char* const all = "MATCH (a:P {id: 1})-[k:K]->(b) RETURN a.h, k.h, b.h";
  EXPECT_EQ(Now(all), "[0, 1], [0, 1], [0, 1]\n");
  const Tx again = Begin();
  for (const char* what : {"a", "k", "b"}) append(again, what, "2");
  EXPECT_EQ(Commit(again), kDone);
  EXPECT_EQ(Now(all), "[0, 1, 2], [0, 1, 2], [0, 1, 2]\n");
}

TEST_P(AcidTest, AbortedReadG1a_WriterRollsBack_NobodySawIt) {
  Now("CREATE (:P {id: 1, version: 1})");
  const char* const version = "MATCH (p:P {id: 1}) RETURN p.version";
  const Tx before = Reader();
  Tx writer = Begin();
  Run(writer, "MATCH (p:P {id: 1}) SET p.version = 2");
  EXPECT_EQ(Run(writer, version), "2\n");
  const Tx meanwhile = Begin();
  EXPECT_EQ(Run(before, version), "1\n");
  EXPECT_EQ(Run(meanwhile, version), "1\n");
  EXPECT_EQ(Now(version), "1\n");
  writer.reset();
  EXPECT_EQ(Run(before, version), "1\n");
  EXPECT_EQ(Run(meanwhile, version), "1\n");
  EXPECT_EQ(Now(version), "1\n");
}

TEST_P(AcidTest, IntermediateReadG1b_WriterChangesTwice_OnlyTheLastIsSeen) {
  Now("CREATE (:P {id: 1, version: 99})");
  const char* const version = "MATCH (p:P {id: 1}) RETURN p.version";
  const Tx writer = Begin();
  Run(writer, "MATCH (p:P {id: 1}) SET p.version = 100");
  const Tx reader = Reader();
  EXPECT_EQ(Run(reader, version), "99\n");
  EXPECT_EQ(Now(version), "99\n");
  Run(writer, "MATCH (p:P {id: 1}) SET p.version = 101");
  EXPECT_EQ(Now(version), "99\n");
  EXPECT_EQ(Commit(writer), kDone);
  EXPECT_EQ(Run(reader, version), "99\n");
  EXPECT_EQ(Now(version), "101\n");
}

TEST_P(AcidTest, CircularInformationFlowG1c_TwoReadWhatTheOtherWrites_NeitherSeesIt) {
  Now("CREATE (:P {id: 1, version: 0}), (:P {id: 2, version: 0})");
  const Tx one = Begin(), two = Begin();
  Run(one, "MATCH (p:P {id: 1}) SET p.version = 1");
  Run(two, "MATCH (p:P {id: 2}) SET p.version = 2");
  EXPECT_EQ(Run(one, "MATCH (p:P {id: 2}) RETURN p.version"), "0\n");
  EXPECT_EQ(Run(two, "MATCH (p:P {id: 1}) RETURN p.version"), "0\n");
  EXPECT_EQ(Commit(one), kDone);
  EXPECT_EQ(Run(two, "MATCH (p:P {id: 1}) RETURN p.version"), "0\n");
  // Each has read what the other one changed: there is no order of the two.
  EXPECT_EQ(Commit(two), serializable() ? kRefused : kDone);
}

TEST_P(AcidTest, ObservedTransactionVanishes_WritersOneAfterTheOther_EachReaderStaysWithOne) {
  Now("CREATE (a:P {id: 1, v: 0})-[:K]->(b:P {id: 2, v: 0})-[:K]->(c:P {id: 3, v: 0})"
      "-[:K]->(d:P {id: 4, v: 0})-[:K]->(a)");
  const char* const all =
      "MATCH (a:P {id: 1})-[:K]->(b)-[:K]->(c)-[:K]->(d) RETURN a.v, b.v, c.v, d.v";
  const Tx zero = Reader();
  const Tx one = Begin(), rival = Begin();
  Run(one, "MATCH (p:P) WHERE p.id <= 2 SET p.v = 1");
  Run(rival, "MATCH (p:P) WHERE p.id >= 2 SET p.v = 2");
  EXPECT_EQ(Run(zero, all), "0, 0, 0, 0\n");
  Run(one, "MATCH (p:P) WHERE p.id > 2 SET p.v = 1");
  EXPECT_EQ(Commit(one), kDone);
  const Tx first = Reader();
  EXPECT_EQ(Run(first, all), "1, 1, 1, 1\n");
  EXPECT_EQ(Commit(rival), kRefused);
  const Tx two = Begin();
  Run(two, "MATCH (p:P) WHERE p.id >= 2 SET p.v = 2");
  EXPECT_EQ(Run(first, all), "1, 1, 1, 1\n");
  Run(two, "MATCH (p:P {id: 1}) SET p.v = 2");
  EXPECT_EQ(Commit(two), kDone);
  EXPECT_EQ(Now(all), "2, 2, 2, 2\n");
  EXPECT_EQ(Run(first, all), "1, 1, 1, 1\n");
  EXPECT_EQ(Run(zero, all), "0, 0, 0, 0\n");
}

TEST_P(AcidTest, FracturedRead_WriterCommitsBetweenTwoReads_BothAreOfOneState) {
  Now("CREATE (:P {id: 1, v: 0})-[:K {v: 0}]->(:P {id: 2, v: 0})");
  for (const bool read_only : {true, false}) {
    Now("MATCH (a:P {id: 1})-[k:K]->(b) SET a.v = 0, k.v = 0, b.v = 0");
    const Tx reader = Begin(read_only);
    EXPECT_EQ(Run(reader, "MATCH (p:P {id: 1}) RETURN p.v"), "0\n");
    Now("MATCH (a:P {id: 1})-[k:K]->(b) SET a.v = 1, k.v = 1, b.v = 1");
    ASSERT_TRUE(store_->Flush().ok());
    EXPECT_EQ(Run(reader, "MATCH (p:P {id: 2}) RETURN p.v"), "0\n");
    EXPECT_EQ(Run(reader, "MATCH (:P {id: 1})-[k:K]->() RETURN k.v"), "0\n");
    EXPECT_EQ(Commit(reader), kDone);
    EXPECT_EQ(Now("MATCH (a:P {id: 1})-[k:K]->(b) RETURN a.v, k.v, b.v"), "1, 1, 1\n");
  }
}

TEST_P(AcidTest, ItemManyPreceders_ItemChangesBetweenReads_EachReadIsTheSame) {
  Now("CREATE (:P {id: 1, version: 1})");
  const char* const version = "MATCH (p:P {id: 1}) RETURN p.version";
  const Tx reader = Reader(), other = Begin();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(reader, version), "1\n") << i;
    EXPECT_EQ(Run(other, version), "1\n") << i;
    Now("MATCH (p:P {id: 1}) SET p.version = p.version + 1");
  }
  EXPECT_EQ(Commit(other), kDone);
  EXPECT_EQ(Now(version), "4\n");
}

TEST_P(AcidTest, PredicateManyPreceders_LikesAreAddedBetweenReads_EachReadIsTheSame) {
  Now("CREATE (:Person {id: 1}), (:Person {id: 2}), (:Post {id: 1})");
  const char* const likes = "MATCH (:Person)-[:LIKES]->(:Post {id: 1}) RETURN count(*)";
  const char* const people = "MATCH (p:Person) RETURN count(p)";
  const Tx reader = Reader(), other = Begin();
  for (int i = 0; i < 3; ++i) {
    for (const Tx* tx : {&reader, &other}) {
      EXPECT_EQ(Run(*tx, likes), "0\n") << i;
      EXPECT_EQ(Run(*tx, people), "2\n") << i;
    }
    Now("MATCH (post:Post {id: 1}) CREATE (:Person {id: 3})-[:LIKES]->(post)");
    ASSERT_TRUE(store_->Flush().ok());
  }
  EXPECT_EQ(Commit(other), kDone);
  EXPECT_EQ(Now(likes), "3\n");
  EXPECT_EQ(Now(people), "5\n");
}

TEST_P(AcidTest, LostUpdate_TwoAddToWhatBothHaveRead_SecondIsRefused) {
  Now("CREATE (:P {id: 1, friends: 0})");
  const char* const add = "MATCH (p:P {id: 1}) SET p.friends = p.friends + 1 RETURN p.friends";
  const Tx one = Begin(), two = Begin();
  EXPECT_EQ(Run(one, add), "1\n");
  EXPECT_EQ(Run(two, add), "1\n");
  EXPECT_EQ(Commit(two), kDone);
  EXPECT_EQ(Commit(one), kRefused);
  EXPECT_EQ(Now(add), "2\n");
  EXPECT_EQ(Now("MATCH (p:P {id: 1}) RETURN p.friends"), "2\n");
}

TEST_P(AcidTest, WriteSkew_TwoTakeFromWhatBothHaveSummed_SerializableRefusesTheSecond) {
  Now("CREATE (:P {id: 1, value: 70}), (:P {id: 2, value: 80})");
  const auto take = [](const char* from) {
    return Concat("MATCH (a:P {id: 1}), (b:P {id: 2}) WHERE a.value + b.value >= 100 SET ", from,
                  ".value = ", from, ".value - 100 RETURN ", from, ".value");
  };
  const char* const sum = "MATCH (p:P) RETURN sum(p.value)";
  const Tx one = Begin(), two = Begin();
  EXPECT_EQ(Run(one, take("a")), "-30\n");
  EXPECT_EQ(Run(two, take("b")), "-20\n");
  EXPECT_EQ(Commit(one), kDone);
  if (!serializable()) {
    // What snapshot isolation lets through.
    EXPECT_EQ(Commit(two), kDone);
    EXPECT_EQ(Now(sum), "-50\n");
    return;
  }
  EXPECT_EQ(Commit(two), kRefused);
  EXPECT_EQ(Now(take("b")), "");
  EXPECT_EQ(Now(sum), "50\n");
}

}  // namespace
}  // namespace pulse::cypher
