#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "base/testing.h"
#include "pulse/graph.h"
#include "services/graph/library/c_api.h"
#include "services/graph/library/test_c_api.h"

namespace pulse::graph {
namespace {

class GraphEnginesTest : public GraphCApiTest {
 protected:
  void Close() {
    EXPECT_EQ(pulse_graph_close(graph_, &error_), PULSE_GRAPH_OK) << error_.message;
    pulse_graph_free(graph_);
    graph_ = nullptr;
  }
  // The contents of the files, after so many flushes that an opening merges them.
  std::multiset<std::string> FilesWith(const char* engine) {
    // A merge may begin, and end, before the last of the four is closed.
    do {
      MakeFlushes(engine);
    } while (!HasFailure() && graph_->graph->stats().merges != 2);
    EXPECT_EQ(Count("MATCH (:N {i: 3})-[r:R]->(:M) RETURN sum(r.w)"), 286'000);
    std::multiset<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_.get())) {
      if (entry.path().extension() != ".run") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return files;
  }

 private:
  void MakeFlushes(const char* engine) {
    Close();
    std::filesystem::remove_all(path_.get());
    options_.engine = engine;
    for (int round = 0; round < 4; ++round) {
      EXPECT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
      EXPECT_EQ(Run("UNWIND range(1, 1000) AS i "
                    "MERGE (a:N {i: i % 7}) CREATE (a)-[:R {w: i}]->(:M {i: i})"),
                PULSE_GRAPH_OK)
          << error_.message;
      Close();
    }
    EXPECT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
    EXPECT_TRUE(testing_util::Eventually([this] {
      const StoreStats stats = graph_->graph->stats();
      return stats.out_runs == 1 && stats.in_runs == 1;
    }));
  }
};

TEST_F(GraphEnginesTest, Open_WithAnEngine_GivesTheSameFiles) {
  const auto expected = FilesWith(nullptr);
  EXPECT_EQ(expected.size(), 2u);  // one for each direction
  for (const std::string engine : {"threads", "agent", "sim"}) {
    EXPECT_TRUE(FilesWith(engine.c_str()) == expected) << engine;
    const StoreStats stats = graph_->graph->stats();
    ASSERT_EQ(stats.copies.size(), 1u) << engine;
    EXPECT_EQ(stats.copies[0].engine, engine);
    EXPECT_EQ(stats.merges_elsewhere, engine == "agent" ? 2u : 0u);
  }
}

TEST_F(GraphEnginesTest, Open_WithAnEngineThatIsNone_NamesItAndMakesNothing) {
  Close();
  std::filesystem::remove_all(path_.get());
  const auto expect = [this](int code, const std::string& said) {
    EXPECT_EQ(Open(), code) << said;
    EXPECT_NE(std::string(error_.message).find(said), std::string::npos) << error_.message;
    EXPECT_FALSE(std::filesystem::exists(path_.get())) << said;
  };
  options_.engine = "gpu";
  expect(PULSE_GRAPH_INVALID, "no copy engine gpu; there are auto|inline|threads|agent|dsa|sim");
  options_.read_only = 1;
  expect(PULSE_GRAPH_INVALID, "no copy engine gpu");
  options_.read_only = 0;
  options_.engine = "inline";
  options_.engine_cpus = "0";
  expect(PULSE_GRAPH_INVALID, "CPUs of an engine");
  options_.engine = "agent";
  options_.engine_cpus = nullptr;
  options_.agent = "/no/such/agent.sock";
  expect(PULSE_GRAPH_FAILED, "no agent at /no/such/agent.sock");
}

TEST_F(GraphEnginesTest, Open_WithARelativeAgent_IsOfTheDirectoryAtOpening) {
  Close();
  options_.engine = "agent";
  options_.agent = "no-such.sock";
  EXPECT_EQ(Open(), PULSE_GRAPH_FAILED);
  const std::string path = std::filesystem::absolute("no-such.sock");
  EXPECT_NE(std::string(error_.message).find("no agent at " + path + ":"), std::string::npos)
      << error_.message;
}

TEST_F(GraphEnginesTest, NodeMemory_BeyondIt_RefusesByName) {
  Close();
  options_.node_memory = 4096;
  ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
  ASSERT_EQ(Run("CREATE (:N {i: 1})"), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(Run("UNWIND range(1, 1000) AS i CREATE (:N {i: i})"), PULSE_GRAPH_LIMIT);
  EXPECT_NE(std::string(error_.message).find("4096 bytes of memory (node_memory)"),
            std::string::npos)
      << error_.message;
  EXPECT_EQ(Count("MATCH (n:N) RETURN count(n)"), 1);
}

}  // namespace
}  // namespace pulse::graph
