#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "pulse/graph.h"
#include "services/graph/library/arrow.h"
#include "services/graph/library/test_c_api.h"

namespace pulse::graph {
namespace {

TEST_F(GraphCApiTest, Load_Columns_AllOrNothing) {
  const int64_t ids[] = {1, 2, 3}, sources[] = {1, 2}, targets[] = {3, 9};
  const uint8_t valid[] = {1, 0, 1};
  const double weights[] = {0.5, 1.5};
  const pulse_graph_column nodes[] = {{"id", PULSE_GRAPH_INTEGER, 0, ids, nullptr},
                                      {"x", PULSE_GRAPH_INTEGER, 0, ids, valid}};
  uint64_t loaded = 0;
  ASSERT_EQ(pulse_graph_load_nodes(graph_, "N", nodes, 2, 3, "id", &loaded, &error_),
            PULSE_GRAPH_OK)
      << error_.message;
  EXPECT_EQ(loaded, 3u);
  EXPECT_EQ(Count("MATCH (n:N) RETURN sum(n.x)"), 4);
  EXPECT_EQ(pulse_graph_load_nodes(graph_, "N", nodes, 2, 3, "id", &loaded, &error_),
            PULSE_GRAPH_INVALID);
  const pulse_graph_ends from = {"N", {"id", PULSE_GRAPH_INTEGER, 0, sources, nullptr}};
  const pulse_graph_ends to = {nullptr, {"id", PULSE_GRAPH_INTEGER, 0, targets, nullptr}};
  const pulse_graph_column w = {"w", PULSE_GRAPH_FLOAT, 0, weights, nullptr};
  EXPECT_EQ(pulse_graph_load_relationships(graph_, "R", &from, &to, &w, 1, 2, nullptr, &error_),
            PULSE_GRAPH_NOT_FOUND);
  EXPECT_EQ(Count("MATCH ()-[r]->() RETURN count(*)"), 0);
  ASSERT_EQ(pulse_graph_load_relationships(graph_, "R", &from, &to, &w, 1, 1, &loaded, &error_),
            PULSE_GRAPH_OK)
      << error_.message;
  EXPECT_EQ(Row("MATCH (:N {id: 1})-[r:R]->(:N {id: 3}) RETURN r.w")[0].as.real, 0.5);
  const pulse_graph_column wrong[] = {{"id", PULSE_GRAPH_STRING, 0, ids, nullptr}};
  EXPECT_EQ(pulse_graph_load_nodes(graph_, "M", wrong, 1, 3, nullptr, nullptr, &error_),
            PULSE_GRAPH_INVALID);
}

TEST_F(GraphCApiTest, LoadRelationshipsArrow_FirstTwoColumns_AreTheKeys) {
  ASSERT_EQ(Run("UNWIND range(1, 3) AS i CREATE (:N {id: i}) CREATE (:M {name: toString(i)})"),
            PULSE_GRAPH_OK);
  ArrowArrayStream stream;
  const auto load = [&](const std::string& query, const char* type, const char* target_key) {
    EXPECT_EQ(Run(query), PULSE_GRAPH_OK) << error_.message;
    EXPECT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK) << error_.message;
    uint64_t loaded = 0;
    const int code = pulse_graph_load_relationships_arrow(graph_, type, "N", "id", nullptr,
                                                          target_key, &stream, &loaded, &error_);
    EXPECT_EQ(stream.release, nullptr) << "not released: " << query;
    EXPECT_EQ(loaded, code == PULSE_GRAPH_OK ? 3u : 0u);
    return code;
  };
  const std::string rows =
      "UNWIND range(1, 3) AS i RETURN i AS x, toString(4 - i) AS y, i * 0.5 AS w";
  ASSERT_EQ(load(rows, "R", "name"), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(Row("MATCH (:N {id: 1})-[r:R]->(:M {name: '3'}) RETURN r.w")[0].as.real, 0.5);
  EXPECT_EQ(Count("MATCH ()-[r]->() WHERE keys(r) = ['w'] RETURN count(r)"), 3);
  EXPECT_EQ(load("UNWIND [1, 9] AS x RETURN x, '1' AS y", "R", "name"), PULSE_GRAPH_NOT_FOUND);
  EXPECT_NE(std::string(error_.message).find("row 1"), std::string::npos) << error_.message;
  EXPECT_EQ(load("RETURN 1 AS x", "R", "name"), PULSE_GRAPH_INVALID);
  EXPECT_NE(std::string(error_.message).find("first two columns"), std::string::npos);
  EXPECT_EQ(load(rows, nullptr, "name"), PULSE_GRAPH_INVALID);
  EXPECT_EQ(load(rows, "R", nullptr), PULSE_GRAPH_INVALID);
  EXPECT_EQ(Count("MATCH ()-[r]->() RETURN count(r)"), 3);
}

// How often somebody asked for rows.
int arrow_reads = 0;
int (*read_arrow)(ArrowArrayStream*, ArrowArray*) = nullptr;

TEST_F(GraphCApiTest, LoadArrow_ArgumentsThatAreWrong_AreRefusedBeforeRowsAreRead) {
  ASSERT_EQ(Run("CREATE (:N {id: 1})"), PULSE_GRAPH_OK);
  ArrowArrayStream stream;
  const auto start = [&](const std::string& query) {
    EXPECT_EQ(Run(query), PULSE_GRAPH_OK) << error_.message;
    EXPECT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK) << error_.message;
    arrow_reads = 0;
    read_arrow = stream.get_next;
    stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
      ++arrow_reads;
      return read_arrow(self, out);
    };
  };
  const auto expect = [&](int code, int expected, int reads, const std::string& why) {
    EXPECT_EQ(code, expected) << why;
    EXPECT_NE(std::string(error_.message).find(why), std::string::npos) << error_.message;
    EXPECT_EQ(arrow_reads, reads) << why;
    EXPECT_EQ(stream.release, nullptr) << why;
  };
  const std::string rows = "UNWIND range(1, 70000) AS x RETURN x, x AS y";
  const auto nodes = [&](const char* label, const char* key) {
    start(rows);
    return pulse_graph_load_nodes_arrow(graph_, label, &stream, key, nullptr, &error_);
  };
  expect(nodes(nullptr, nullptr), PULSE_GRAPH_INVALID, 0, "label");
  expect(nodes("N", "id"), PULSE_GRAPH_INVALID, 0, "there is no column id");
  const auto edges = [&](const char* type, const char* label, const char* key) {
    return pulse_graph_load_relationships_arrow(graph_, type, "N", "id", label, key, &stream,
                                                nullptr, &error_);
  };
  start(rows);
  expect(edges(nullptr, "N", "id"), PULSE_GRAPH_INVALID, 0, "type");
  start(rows);
  expect(edges("R", "N", nullptr), PULSE_GRAPH_INVALID, 0, "target_key");
  start("UNWIND range(1, 70000) AS x RETURN x");
  expect(edges("R", "N", "id"), PULSE_GRAPH_INVALID, 0, "first two columns");
  // Without a row there is nothing to find.
  start(rows);
  expect(edges("R", "M", "id"), PULSE_GRAPH_NOT_FOUND, 1,
         "no node of M has id, which is the key of the target");
  start(rows);
  expect(edges("R", nullptr, "name"), PULSE_GRAPH_NOT_FOUND, 1, "no node has name");
  start("UNWIND [] AS x RETURN x, x AS y");
  EXPECT_EQ(edges("R", "M", "id"), PULSE_GRAPH_OK) << error_.message;
}

TEST_F(GraphCApiTest, Load_Csv_CountsAndRejects) {
  const std::string nodes = path_.get() + "-n.csv", edges = path_.get() + "-e.csv";
  std::ofstream(nodes) << "id|name\n1|Ann\n2|Bob\n";
  std::ofstream(edges) << "from|to\n1|2\n2|7\n";
  const std::string node_file = "P=" + nodes, edge_file = "K=" + edges;
  const char* node_files[] = {node_file.c_str()};
  const char* edge_files[] = {edge_file.c_str()};
  pulse_graph_csv csv;
  pulse_graph_csv_init(&csv);
  csv.nodes = node_files;
  csv.node_count = 1;
  csv.relationships = edge_files;
  csv.relationship_count = 1;
  csv.delimiter = '|';
  pulse_graph_loaded loaded;
  pulse_graph_loaded_init(&loaded);
  EXPECT_EQ(pulse_graph_load_csv(graph_, &csv, &loaded, &error_), PULSE_GRAPH_INVALID);
  const std::string reject = path_.get() + "-r.csv";
  csv.reject = reject.c_str();
  ASSERT_EQ(pulse_graph_load_csv(graph_, &csv, &loaded, &error_), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(loaded.nodes, 2u);
  EXPECT_EQ(loaded.relationships, 1u);
  EXPECT_EQ(loaded.dangling, 1u);
  pulse_graph_stats stats;
  pulse_graph_stats_init(&stats);
  ASSERT_EQ(pulse_graph_statistics(graph_, &stats, &error_), PULSE_GRAPH_OK);
  EXPECT_GT(stats.run_bytes, 0u);
  for (const std::string& file : {nodes, edges, reject}) std::filesystem::remove(file);
}

TEST_F(GraphCApiTest, Load_CsvWithSemicolonsBetweenFields_HasBarsInLists) {
  const std::string nodes = path_.get() + "-n.csv";
  std::ofstream(nodes) << "id;tags:string[]\n1;a|b\n";
  const std::string node_file = "P=" + nodes;
  const char* node_files[] = {node_file.c_str()};
  pulse_graph_csv csv;
  pulse_graph_csv_init(&csv);
  csv.nodes = node_files;
  csv.node_count = 1;
  csv.delimiter = ';';
  ASSERT_EQ(pulse_graph_load_csv(graph_, &csv, nullptr, &error_), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(Count("MATCH (p:P {tags: ['a', 'b']}) RETURN count(*)"), 1);
  std::filesystem::remove(nodes);
}

TEST_F(GraphCApiTest, Load_CsvOfFilesThatAreNull_IsRefused) {
  const char* files[] = {nullptr};
  for (const auto& [list, name] : {std::pair<const char**, const char*>{nullptr, "nodes is NULL"},
                                   {files, "nodes[0] is NULL"}}) {
    pulse_graph_csv csv;
    pulse_graph_csv_init(&csv);
    csv.nodes = list;
    csv.node_count = 1;
    pulse_graph_error_init(&error_);
    EXPECT_EQ(pulse_graph_load_csv(graph_, &csv, nullptr, &error_), PULSE_GRAPH_INVALID);
    EXPECT_STREQ(error_.message, name);
    pulse_graph_csv_init(&csv);
    csv.relationships = list;
    csv.relationship_count = 1;
    EXPECT_EQ(pulse_graph_load_csv(graph_, &csv, nullptr, &error_), PULSE_GRAPH_INVALID);
    EXPECT_NE(std::string(error_.message).find("relationships"), std::string::npos);
  }
}

}  // namespace
}  // namespace pulse::graph
