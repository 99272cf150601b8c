#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "pulse/graph.h"
#include "services/graph/library/arrow.h"
#include "services/graph/library/test_c_api.h"

namespace pulse::graph {
namespace {

constexpr char kEndless[] =
    "UNWIND range(1, 10000) AS i UNWIND range(1, 10000) AS j UNWIND range(1, 10000) AS k "
    "RETURN count(*)";

TEST_F(GraphCApiTest, Values_OfEveryTypeAsParameters_AreReturnedUnchanged) {
  const pulse_graph_value items[] = {pulse_graph_integer(1), pulse_graph_string("zw\xC3\xB6lf", 6)};
  const pulse_graph_entry entries[] = {{"b", SIZE_MAX, pulse_graph_list(items, 2)},
                                       {"a", 1, pulse_graph_boolean(7)}};
  const pulse_graph_datetime zoned = {1'000'000'000, 5, 0, "Europe/Lisbon"};
  const pulse_graph_datetime offset = {-1, 999'999'999, -3600, nullptr};
  const pulse_graph_duration duration = {-1, 2, -3, 4, 0};
  std::vector<pulse_graph_value> given = {{},
                                          pulse_graph_boolean(1),
                                          pulse_graph_integer(INT64_MIN),
                                          pulse_graph_float(-0.5),
                                          pulse_graph_string("", 0),
                                          pulse_graph_list(nullptr, 0),
                                          pulse_graph_map(entries, 2)};
  pulse_graph_value value = {};
  const auto temporal = [&](int type, int64_t number, int32_t extra) {
    value.type = type;
    value.as.integer = number;
    value.extra = extra;
    given.push_back(value);
  };
  temporal(PULSE_GRAPH_DATE, -719'000, 0);
  temporal(PULSE_GRAPH_LOCAL_TIME, 86'399'999'999'999, 0);
  temporal(PULSE_GRAPH_TIME, 1, -64'800);
  temporal(PULSE_GRAPH_LOCAL_DATETIME, -5, 7);
  value.extra = 0;
  value.type = PULSE_GRAPH_DATETIME;
  value.as.datetime = &zoned;
  given.push_back(value);
  value.as.datetime = &offset;
  given.push_back(value);
  value.type = PULSE_GRAPH_DURATION;
  value.as.duration = &duration;
  given.push_back(value);
  given.push_back(pulse_graph_bytes("\xff\0x", 3));
  given.push_back(pulse_graph_bytes(nullptr, 0));
  const pulse_graph_point flat = {1, 2, 99, 7203, 0}, high = {1, 2, 3, 4979, 0};
  value.type = PULSE_GRAPH_POINT;
  value.as.point = &flat;
  given.push_back(value);
  value.as.point = &high;
  given.push_back(value);

  const pulse_graph_value* row =
      Row("RETURN $all", {{"all", SIZE_MAX, pulse_graph_list(given.data(), given.size())}});
  ASSERT_EQ(row[0].type, PULSE_GRAPH_LIST);
  ASSERT_EQ(row[0].size, given.size());
  const pulse_graph_value* got = row[0].as.items;
  for (size_t i = 0; i < given.size(); ++i) EXPECT_EQ(got[i].type, given[i].type) << i;
  EXPECT_EQ(got[1].as.integer, 1);
  EXPECT_EQ(got[2].as.integer, INT64_MIN);
  EXPECT_EQ(got[3].as.real, -0.5);
  EXPECT_STREQ(got[4].as.text, "");
  EXPECT_EQ(got[5].size, 0u);
  ASSERT_EQ(got[6].size, 2u);
  EXPECT_STREQ(got[6].as.entries[0].key, "a");
  EXPECT_EQ(got[6].as.entries[0].value.as.integer, 1);
  EXPECT_STREQ(got[6].as.entries[1].value.as.items[1].as.text, "zw\xC3\xB6lf");
  EXPECT_EQ(got[7].as.integer, -719'000);
  EXPECT_EQ(got[8].as.integer, 86'399'999'999'999);
  EXPECT_EQ(got[9].extra, -64'800);
  EXPECT_EQ(got[10].as.integer, -5);
  EXPECT_EQ(got[10].extra, 7);
  EXPECT_EQ(got[11].as.datetime->seconds, zoned.seconds);
  EXPECT_EQ(got[11].as.datetime->offset, 3600);  // of that zone at that time
  EXPECT_STREQ(got[11].as.datetime->zone, zoned.zone);
  EXPECT_EQ(got[12].as.datetime->offset, -3600);
  EXPECT_EQ(got[12].as.datetime->zone, nullptr);
  EXPECT_EQ(got[13].as.duration->months, -1);
  EXPECT_EQ(got[13].as.duration->nanos, 4);
  ASSERT_EQ(got[14].size, 3u);
  EXPECT_EQ(std::memcmp(got[14].as.bytes, "\xff\0x", 3), 0);
  EXPECT_EQ(got[15].size, 0u);
  EXPECT_EQ(got[16].as.point->srid, 7203);
  EXPECT_EQ(got[16].as.point->y, 2);
  EXPECT_EQ(got[16].as.point->z, 0);
  EXPECT_EQ(got[17].as.point->srid, 4979);
  EXPECT_EQ(got[17].as.point->z, 3);
}

TEST_F(GraphCApiTest, Values_NodesAndPaths_HaveWhatTheyWere) {
  ASSERT_EQ(Run("CREATE (:A:B {x: 1})-[:R {w: 2}]->(:C)"), PULSE_GRAPH_OK);
  const pulse_graph_value* row = Row("MATCH p = (a:A)-[r]->(c) RETURN a, r, p, [a]");
  ASSERT_EQ(row[0].type, PULSE_GRAPH_NODE);
  const pulse_graph_node& a = *row[0].as.node;
  ASSERT_EQ(a.label_count, 2u);
  EXPECT_EQ(std::string(a.labels[0]) + a.labels[1], "AB");
  ASSERT_EQ(a.property_count, 1u);
  EXPECT_STREQ(a.properties[0].key, "x");
  EXPECT_EQ(a.properties[0].value.as.integer, 1);
  ASSERT_EQ(row[1].type, PULSE_GRAPH_RELATIONSHIP);
  const pulse_graph_relationship& r = *row[1].as.relationship;
  EXPECT_EQ(r.start, a.id);
  EXPECT_STREQ(r.type, "R");
  EXPECT_EQ(r.properties[0].value.as.integer, 2);
  ASSERT_EQ(row[2].type, PULSE_GRAPH_PATH);
  ASSERT_EQ(row[2].as.path->length, 1u);
  EXPECT_EQ(row[2].as.path->nodes[1].id, r.end);
  EXPECT_EQ(row[2].as.path->relationships[0].id, r.id);
  EXPECT_EQ(row[3].as.items[0].as.node->id, a.id);
  // Deleted by the statement that returns it.
  row = Row("MATCH (a:A) DETACH DELETE a RETURN a");
  EXPECT_EQ(row[0].as.node->label_count + row[0].as.node->property_count, 0u);
}

TEST_F(GraphCApiTest, Rows_ByNumberAndInTurn_AreThose) {
  ASSERT_EQ(Run("UNWIND range(0, 9) AS x RETURN x, toString(x) AS text"), PULSE_GRAPH_OK);
  EXPECT_EQ(pulse_graph_rows(result_), 10u);
  EXPECT_EQ(pulse_graph_columns(result_), 2u);
  EXPECT_STREQ(pulse_graph_column_name(result_, 1), "text");
  EXPECT_EQ(pulse_graph_column_name(result_, 2), nullptr);
  EXPECT_EQ(pulse_graph_next(result_)[0].as.integer, 0);
  const char* three = pulse_graph_row(result_, 3)[1].as.text;
  EXPECT_EQ(pulse_graph_next(result_)[0].as.integer, 4);
  EXPECT_STREQ(three, "3");  // strings stay
  EXPECT_EQ(pulse_graph_row(result_, 10), nullptr);
  EXPECT_EQ(pulse_graph_next(result_)[0].as.integer, 5);
}

TEST_F(GraphCApiTest, Columns_OfNumbers_AreFilled) {
  ASSERT_EQ(Run("UNWIND [1, null, true, date('1970-01-03')] AS x RETURN x"), PULSE_GRAPH_OK);
  int64_t ints[4];
  uint8_t valid[4];
  ASSERT_EQ(pulse_graph_column_integers(result_, 0, ints, valid, &error_), PULSE_GRAPH_OK);
  EXPECT_EQ(std::vector<int64_t>(ints, ints + 4), (std::vector<int64_t>{1, 0, 1, 2}));
  EXPECT_EQ(std::vector<int>(valid, valid + 4), (std::vector<int>{1, 0, 1, 1}));
  // A null that cannot be said, a type that is none, a column that is none.
  EXPECT_EQ(pulse_graph_column_integers(result_, 0, ints, nullptr, &error_), PULSE_GRAPH_INVALID);
  double floats[4];
  EXPECT_EQ(pulse_graph_column_floats(result_, 0, floats, valid, &error_), PULSE_GRAPH_INVALID);
  EXPECT_NE(std::string(error_.message).find("row 2"), std::string::npos) << error_.message;
  EXPECT_EQ(pulse_graph_column_floats(result_, 1, floats, valid, &error_), PULSE_GRAPH_INVALID);
  ASSERT_EQ(Run("UNWIND [1, 2.5] AS x RETURN x"), PULSE_GRAPH_OK);
  ASSERT_EQ(pulse_graph_column_floats(result_, 0, floats, nullptr, &error_), PULSE_GRAPH_OK);
  EXPECT_EQ(floats[0] + floats[1], 3.5);
}

TEST_F(GraphCApiTest, Arrow_ResultOfOneGraph_LoadsIntoAnother) {
  ASSERT_EQ(Run("UNWIND range(1, 70000) AS id RETURN id, toString(id) AS name, id * 0.5 AS half"),
            PULSE_GRAPH_OK);
  ArrowArrayStream stream;
  ASSERT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK);
  uint64_t loaded = 0;
  ASSERT_EQ(pulse_graph_load_nodes_arrow(graph_, "N", &stream, "id", &loaded, &error_),
            PULSE_GRAPH_OK)
      << error_.message;
  EXPECT_EQ(loaded, 70'000u);
  EXPECT_EQ(stream.release, nullptr);
  const pulse_graph_value* row = Row("MATCH (n:N {id: 69999}) RETURN n.name, n.half");
  EXPECT_STREQ(row[0].as.text, "69999");
  EXPECT_EQ(row[1].as.real, 34'999.5);
  ASSERT_EQ(Run("UNWIND [1, 'a'] AS x RETURN x"), PULSE_GRAPH_OK);
  EXPECT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_INVALID);
}

TEST_F(GraphCApiTest, Arrow_Bytes_AreBinary) {
  const pulse_graph_value bytes = pulse_graph_bytes("\xff\0x", 3);
  ASSERT_EQ(Run("UNWIND [$b, null] AS x RETURN x, [$b] AS l", {{"b", SIZE_MAX, bytes}}),
            PULSE_GRAPH_OK);
  ArrowArrayStream stream;
  ASSERT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK);
  ArrowSchema schema;
  ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
  EXPECT_STREQ(schema.children[0]->format, "z");
  schema.release(&schema);
  uint64_t loaded = 0;
  ASSERT_EQ(pulse_graph_load_nodes_arrow(graph_, "N", &stream, nullptr, &loaded, &error_),
            PULSE_GRAPH_OK)
      << error_.message;
  const pulse_graph_value* row =
      Row("MATCH (n:N {x: $b}) RETURN n.x, n.l = [$b]", {{"b", SIZE_MAX, bytes}});
  ASSERT_EQ(row[0].type, PULSE_GRAPH_BYTES);
  EXPECT_EQ(std::memcmp(row[0].as.bytes, "\xff\0x", 3), 0);
  EXPECT_EQ(row[1].as.integer, 1);
  EXPECT_EQ(Count("MATCH (n:N) RETURN count(n)"), 2);
}

TEST_F(GraphCApiTest, Arrow_Points_AreStructs) {
  ASSERT_EQ(Run("UNWIND [point({x: 1, y: 2}), null, point({x: 1, y: 2, z: 3})] AS p "
                "RETURN p, [p, null] AS l"),
            PULSE_GRAPH_OK);
  ArrowArrayStream stream;
  ASSERT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK);
  ArrowSchema schema;
  ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
  EXPECT_STREQ(schema.children[0]->format, "+s");
  EXPECT_EQ(schema.children[0]->n_children, 4);
  schema.release(&schema);
  stream.release(&stream);
  // Of a list with null no property can be.
  ASSERT_EQ(Run("UNWIND [point({x: 1, y: 2}), null, point({x: 1, y: 2, z: 3})] AS p "
                "RETURN p, [x IN [p] WHERE x IS NOT NULL] AS l"),
            PULSE_GRAPH_OK);
  ASSERT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK);
  uint64_t loaded = 0;
  ASSERT_EQ(pulse_graph_load_nodes_arrow(graph_, "N", &stream, nullptr, &loaded, &error_),
            PULSE_GRAPH_OK)
      << error_.message;
  EXPECT_EQ(loaded, 3u);
  EXPECT_EQ(Count("MATCH (n:N {p: point({x: 1, y: 2})}) WHERE n.l = [n.p] RETURN count(n)"), 1);
  EXPECT_EQ(Count("MATCH (n:N {p: point({x: 1, y: 2, z: 3})}) RETURN count(n)"), 1);
  EXPECT_EQ(Count("MATCH (n:N) WHERE n.p IS NULL RETURN count(n)"), 1);
  ASSERT_EQ(Run("RETURN {srid: 7203, x: 1.0} AS p"), PULSE_GRAPH_OK);
  ASSERT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_OK);
  EXPECT_NE(pulse_graph_load_nodes_arrow(graph_, "N", &stream, nullptr, &loaded, &error_),
            PULSE_GRAPH_OK);
}

TEST_F(GraphCApiTest, Values_PointsThatAreNone_AreRefused) {
  pulse_graph_value value = {};
  value.type = PULSE_GRAPH_POINT;
  EXPECT_EQ(Run("RETURN $p", {{"p", SIZE_MAX, value}}), PULSE_GRAPH_INVALID);
  for (const pulse_graph_point& bad :
       {pulse_graph_point{1, 2, 0, 1, 0}, pulse_graph_point{0, 91, 0, 4326, 0},
        pulse_graph_point{NAN, 0, 0, 7203, 0}}) {
    value.as.point = &bad;
    EXPECT_EQ(Run("RETURN $p", {{"p", SIZE_MAX, value}}), PULSE_GRAPH_INVALID);
  }
}

TEST_F(GraphCApiTest, Arrow_StreamThatWasReleased_IsRefused) {
  ArrowArrayStream stream = {};
  uint64_t rows = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(ImportArrow(&stream, &rows).status()));
}

TEST_F(GraphCApiTest, Arrow_NameWithNul_IsRefused) {
  using std::string_literals::operator""s;
  ArrowArrayStream stream;
  for (const std::string& query : {"RETURN 1 AS `a\0b`"s, "RETURN [{`a\0b`: 1}] AS x"s}) {
    ASSERT_EQ(Run(query), PULSE_GRAPH_OK) << error_.message;
    EXPECT_EQ(pulse_graph_arrow(result_, &stream, &error_), PULSE_GRAPH_INVALID) << query;
  }
}

TEST_F(GraphCApiTest, Errors_OfStatements_SayWhere) {
  EXPECT_EQ(Run("MATCH (n)\nRETURN n.x +"), PULSE_GRAPH_QUERY);
  EXPECT_EQ(error_.line, 2);
  EXPECT_EQ(error_.column, 13);
  EXPECT_STREQ(error_.neo4j, "Neo.ClientError.Statement.SyntaxError");
  EXPECT_NE(std::string(error_.message).find('^'), std::string::npos) << error_.message;
  EXPECT_EQ(Run("RETURN 1 / 0"), PULSE_GRAPH_QUERY);
  EXPECT_EQ(error_.line, 0);
  EXPECT_EQ(Run("RETURN $none"), PULSE_GRAPH_QUERY);
  EXPECT_EQ(Run("CALL no.such.procedure()"), PULSE_GRAPH_QUERY);
  EXPECT_EQ(Run("DROP INDEX none"), PULSE_GRAPH_NOT_FOUND);
  ASSERT_EQ(Run("CREATE CONSTRAINT c FOR (n:N) REQUIRE n.id IS UNIQUE"), PULSE_GRAPH_OK);
  EXPECT_EQ(Run("CREATE CONSTRAINT c FOR (n:M) REQUIRE n.id IS UNIQUE"), PULSE_GRAPH_CONSTRAINT);
  EXPECT_EQ(Run("CREATE (:N {id: 1}), (:N {id: 1})"), PULSE_GRAPH_CONSTRAINT);
  EXPECT_EQ(Run("AT SNAPSHOT 99 MATCH (n) RETURN n"), PULSE_GRAPH_NOT_FOUND);
  // A message longer than there is room for is cut, and ends.
  const std::string longer = "RETURN " + std::string(4000, 'x');
  EXPECT_EQ(Run(longer), PULSE_GRAPH_QUERY);
  EXPECT_LT(std::strlen(error_.message), sizeof error_.message);
}

TEST_F(GraphCApiTest, Arguments_ThatMakeNoSense_AreRefused) {
  pulse_graph_value value = {};
  const auto run = [&] { return Run("RETURN $x", {{"x", SIZE_MAX, value}}); };
  for (const int type : {-1, 18, int{PULSE_GRAPH_NODE}, int{PULSE_GRAPH_PATH}}) {
    value.type = type;
    EXPECT_EQ(run(), PULSE_GRAPH_INVALID) << type;
    EXPECT_NE(std::string(error_.message).find("parameter x"), std::string::npos);
  }
  value = pulse_graph_string("\xFF", 1);
  EXPECT_EQ(run(), PULSE_GRAPH_INVALID);
  value = pulse_graph_list(nullptr, 3);
  EXPECT_EQ(run(), PULSE_GRAPH_INVALID);
  value = {};
  value.type = PULSE_GRAPH_DATETIME;
  EXPECT_EQ(run(), PULSE_GRAPH_INVALID);
  value.type = PULSE_GRAPH_TIME;
  value.as.integer = -1;
  EXPECT_EQ(run(), PULSE_GRAPH_INVALID);
  std::vector<pulse_graph_value> nest(200);
  for (size_t i = 1; i < nest.size(); ++i) nest[i] = pulse_graph_list(&nest[i - 1], 1);
  value = nest.back();
  EXPECT_EQ(run(), PULSE_GRAPH_INVALID);
  EXPECT_EQ(Run("RETURN 1", {{"x", SIZE_MAX, {}}, {"x", 1, {}}}), PULSE_GRAPH_INVALID);

  pulse_graph_run other;
  pulse_graph_run_init(&other);
  other.timeout = std::nan("");
  EXPECT_EQ(RunWith("RETURN 1", other), PULSE_GRAPH_INVALID);
  // A struct of a newer header: members that are not known have to be zero.
  struct {
    pulse_graph_run run;
    uint64_t more = 0;
  } newer;
  pulse_graph_run_init(&newer.run);
  newer.run.struct_size = sizeof newer;
  EXPECT_EQ(RunWith("RETURN 1", newer.run), PULSE_GRAPH_OK);
  newer.more = 1;
  EXPECT_EQ(pulse_graph_execute(graph_, "RETURN 1", SIZE_MAX, &newer.run, &result_, nullptr),
            PULSE_GRAPH_INVALID);
  newer.run.struct_size = 8;
  EXPECT_EQ(pulse_graph_execute(graph_, "RETURN 1", SIZE_MAX, &newer.run, &result_, nullptr),
            PULSE_GRAPH_INVALID);

  EXPECT_EQ(pulse_graph_execute(nullptr, "RETURN 1", 8, nullptr, &result_, &error_),
            PULSE_GRAPH_INVALID);
  EXPECT_EQ(pulse_graph_execute(graph_, nullptr, 0, nullptr, &result_, &error_),
            PULSE_GRAPH_INVALID);
  EXPECT_EQ(pulse_graph_open(path_.get().c_str(), nullptr, nullptr, &error_), PULSE_GRAPH_INVALID);
  EXPECT_EQ(pulse_graph_commit(nullptr, &error_), PULSE_GRAPH_INVALID);
  pulse_graph_free(nullptr);
  pulse_graph_result_free(nullptr);
  pulse_graph_transaction_free(nullptr);
}

TEST_F(GraphCApiTest, Open_WhatIsThere_SaysWhatIsWrong) {
  pulse_graph* other = nullptr;
  EXPECT_EQ(pulse_graph_open(path_.get().c_str(), &options_, &other, &error_), PULSE_GRAPH_LOCKED);
  EXPECT_STREQ(error_.neo4j, "Neo.TransientError.General.DatabaseUnavailable");
  testing_util::ScratchPath foreign("foreign");
  std::filesystem::create_directories(foreign.get() + "/something");
  EXPECT_EQ(pulse_graph_open(foreign.get().c_str(), &options_, &other, &error_),
            PULSE_GRAPH_INVALID);
  std::filesystem::remove_all(foreign.get());
  EXPECT_EQ(other, nullptr);
  ASSERT_EQ(Run("CREATE (:N)"), PULSE_GRAPH_OK);
  // Beside the writer.
  pulse_graph_options reading = options_;
  reading.read_only = 1;
  ASSERT_EQ(pulse_graph_open(path_.get().c_str(), &reading, &other, &error_), PULSE_GRAPH_OK)
      << error_.message;
  EXPECT_EQ(pulse_graph_execute(other, "CREATE (:N)", SIZE_MAX, nullptr, &result_, &error_),
            PULSE_GRAPH_READ_ONLY);
  EXPECT_EQ(pulse_graph_checkpoint(other, &error_), PULSE_GRAPH_READ_ONLY);
  pulse_graph_free(other);
  reading = options_;
  reading.must_exist = 1;
  const std::string none = path_.get() + "-none";
  EXPECT_EQ(pulse_graph_open(none.c_str(), &reading, &other, &error_), PULSE_GRAPH_NOT_FOUND);
  EXPECT_EQ(pulse_graph_open("/proc/none", &options_, &other, &error_), PULSE_GRAPH_NOT_FOUND)
      << error_.message;
  // Damage is named.
  pulse_graph_free(graph_);
  graph_ = nullptr;
  std::ofstream(path_.get() + "/MANIFEST", std::ios::in | std::ios::out).put('x');
  EXPECT_EQ(Open(), PULSE_GRAPH_DAMAGED) << error_.message;
  EXPECT_NE(std::string(error_.message).find("MANIFEST"), std::string::npos) << error_.message;
}

TEST_F(GraphCApiTest, Open_WithoutAPath_IsTemporary) {
  std::filesystem::create_directory(path_.get() + "-tmp");
  setenv("TMPDIR", (path_.get() + "-tmp").c_str(), 1);
  pulse_graph* temporary = nullptr;
  ASSERT_EQ(pulse_graph_open(nullptr, nullptr, &temporary, &error_), PULSE_GRAPH_OK);
  pulse_graph_result* result = nullptr;
  EXPECT_EQ(pulse_graph_execute(temporary, "CREATE (n:N) RETURN n", 21, nullptr, &result, nullptr),
            PULSE_GRAPH_OK);
  EXPECT_FALSE(std::filesystem::is_empty(path_.get() + "-tmp"));
  pulse_graph_free(temporary);
  EXPECT_TRUE(std::filesystem::is_empty(path_.get() + "-tmp"));
  // A result outlives its graph.
  EXPECT_STREQ(pulse_graph_next(result)[0].as.node->labels[0], "N");
  pulse_graph_result_free(result);
  unsetenv("TMPDIR");
  std::filesystem::remove_all(path_.get() + "-tmp");
}

TEST_F(GraphCApiTest, Transactions_OfTwo_OneCommitsAndOneConflicts) {
  ASSERT_EQ(Run("CREATE (:N {x: 0})"), PULSE_GRAPH_OK);
  pulse_graph_transaction* two[2] = {};
  pulse_graph_result* result = nullptr;
  for (auto*& transaction : two) {
    ASSERT_EQ(pulse_graph_begin(graph_, nullptr, &transaction, &error_), PULSE_GRAPH_OK);
    ASSERT_EQ(pulse_graph_transaction_execute(transaction, "MATCH (n:N) SET n.x = n.x + 1",
                                              SIZE_MAX, nullptr, &result, &error_),
              PULSE_GRAPH_OK);
    pulse_graph_result_free(result);
  }
  EXPECT_EQ(pulse_graph_commit(two[0], &error_), PULSE_GRAPH_OK);
  EXPECT_EQ(pulse_graph_commit(two[1], &error_), PULSE_GRAPH_CONFLICT);
  EXPECT_EQ(pulse_graph_commit(two[1], &error_), PULSE_GRAPH_CLOSED);
  EXPECT_EQ(pulse_graph_rollback(two[1], &error_), PULSE_GRAPH_OK);
  for (auto* transaction : two) pulse_graph_transaction_free(transaction);
  EXPECT_EQ(Count("MATCH (n:N) RETURN n.x"), 1);

  // An error leaves nothing but to roll back; without a commit nothing stays.
  ASSERT_EQ(pulse_graph_begin(graph_, nullptr, two, &error_), PULSE_GRAPH_OK);
  EXPECT_EQ(pulse_graph_transaction_execute(two[0], "CREATE (:N) WITH 1 AS x RETURN x / 0",
                                            SIZE_MAX, nullptr, &result, &error_),
            PULSE_GRAPH_QUERY);
  EXPECT_EQ(pulse_graph_transaction_execute(two[0], "RETURN 1", 8, nullptr, &result, &error_),
            PULSE_GRAPH_ROLLED_BACK)
      << error_.message;
  // Freed after its graph.
  pulse_graph_free(graph_);
  graph_ = nullptr;
  pulse_graph_transaction_free(two[0]);
  ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(Count("MATCH (n:N) RETURN count(*)"), 1);
}

TEST_F(GraphCApiTest, Statements_ThatDoNotEnd_AreEndedFromOutside) {
  pulse_graph_run run;
  pulse_graph_run_init(&run);
  int asked = 0;
  run.interrupted = [](void* arg) { return ++*static_cast<int*>(arg) == 3 ? 1 : 0; };
  run.interrupted_arg = &asked;
  EXPECT_EQ(RunWith(kEndless, run), PULSE_GRAPH_CANCELLED);
  EXPECT_EQ(asked, 3);
  pulse_graph_run_init(&run);
  run.timeout = 0.02;
  EXPECT_EQ(RunWith(kEndless, run), PULSE_GRAPH_TIMEOUT);
  // By close, from another thread.
  std::atomic<int> code{-1};
  std::thread thread([&] {
    pulse_graph_result* result = nullptr;
    code = pulse_graph_execute(graph_, kEndless, SIZE_MAX, nullptr, &result, nullptr);
  });
  ASSERT_TRUE(testing_util::Eventually([&] {
    return Run("SHOW TRANSACTIONS") == PULSE_GRAPH_OK && pulse_graph_rows(result_) == 2;
  }));
  EXPECT_EQ(pulse_graph_close(graph_, &error_), PULSE_GRAPH_OK);
  thread.join();
  EXPECT_EQ(code, PULSE_GRAPH_CANCELLED);
  EXPECT_EQ(Run("RETURN 1"), PULSE_GRAPH_CLOSED);
  EXPECT_EQ(pulse_graph_close(graph_, &error_), PULSE_GRAPH_OK);
}

TEST_F(GraphCApiTest, Limits_OfAResult_AreKept) {
  pulse_graph_free(graph_);
  options_.query_memory = 1 << 20;
  ASSERT_EQ(Open(), PULSE_GRAPH_OK);
  EXPECT_EQ(Run("UNWIND range(1, 1000000) AS x RETURN x"), PULSE_GRAPH_LIMIT) << error_.message;
}

TEST_F(GraphCApiTest, QueryMemory_WhatIsSortedBeyondIt_IsSpilled) {
  const char* const query =
      "UNWIND range(1, 20000) AS x WITH x, toString(x) AS t ORDER BY t "
      "RETURN sum(x)";
  const std::string directory = testing::TempDir();
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, uint64_t{4096}}) {
    pulse_graph_free(graph_);
    options_.query_memory = 1 << 20;
    options_.spill = limit == 0 ? directory.c_str() : nullptr;
    options_.spill_limit = limit;
    ASSERT_EQ(Open(), PULSE_GRAPH_OK);
    EXPECT_EQ(Run(query), limit == 0 ? PULSE_GRAPH_OK : PULSE_GRAPH_LIMIT) << error_.message;
  }
  pulse_graph_free(graph_);
  options_.spill = "/there-is-none";
  options_.spill_limit = 0;
  ASSERT_EQ(Open(), PULSE_GRAPH_OK);
  EXPECT_NE(Run(query), PULSE_GRAPH_OK);
  EXPECT_NE(std::string(error_.message).find("/there-is-none"), std::string::npos);
}

TEST_F(GraphCApiTest, QueryThreads_AnyNumber_GiveTheSameRows) {
  for (const int threads : {1, 3}) {
    pulse_graph_free(graph_);
    options_.query_threads = threads;
    ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
    ASSERT_EQ(Run("MATCH (n) DETACH DELETE n"), PULSE_GRAPH_OK);
    ASSERT_EQ(Run("UNWIND range(1, 10000) AS x CREATE (:N {x: x})"), PULSE_GRAPH_OK);
    ASSERT_EQ(Run("MATCH (n:N) WHERE n.x % 7 = 0 RETURN n.x"), PULSE_GRAPH_OK);
    for (int64_t x = 7; x <= 10000; x += 7) {
      const pulse_graph_value* const row = pulse_graph_next(result_);
      ASSERT_NE(row, nullptr) << threads;
      ASSERT_EQ(row[0].as.integer, x) << threads;
    }
  }
  pulse_graph_free(graph_);
  graph_ = nullptr;
  options_.query_threads = -1;
  EXPECT_EQ(Open(), PULSE_GRAPH_INVALID);
  EXPECT_NE(std::string(error_.message).find("query_threads"), std::string::npos);
}

TEST_F(GraphCApiTest, PageReads_LookUpsHaveMappingsOfTheirOwn) {
  ASSERT_EQ(Run("UNWIND range(1, 100) AS i CREATE (:A {i: i})-[:R]->(:B)"), PULSE_GRAPH_OK);
  ASSERT_EQ(pulse_graph_close(graph_, &error_), PULSE_GRAPH_OK) << error_.message;
  pulse_graph_free(graph_);
  graph_ = nullptr;
  const auto mappings = [this] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_.get())) {
      if (entry.path().extension() == ".run")
        count += testing_util::MappingsNamed("/" + entry.path().filename().string());
    }
    return count;
  };
  ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
  const size_t plain = mappings();
  EXPECT_GE(plain, 2u);  // a run for each direction
  pulse_graph_free(graph_);
  graph_ = nullptr;
  options_.page_reads = 1;
  ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(mappings(), 2 * plain);
  EXPECT_EQ(Count("MATCH (:A {i: 7})-[r:R]->(:B) RETURN count(r)"), 1);
  pulse_graph_free(graph_);
  graph_ = nullptr;
  // What a program of the first release, which does not know of it, has behind its options.
  options_.struct_size = 56;
  ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
  EXPECT_EQ(mappings(), plain);
}

// The sizes are those of the first release, for ever, whatever is added behind its members.
TEST_F(GraphCApiTest, Structs_OfTheFirstRelease_AreTaken) {
  const auto with_size = [](auto made, size_t size) {
    made.struct_size = size;
    return made;
  };
  pulse_graph_run run;
  pulse_graph_run_init(&run);
  pulse_graph_csv csv;
  pulse_graph_csv_init(&csv);
  for (const bool least : {true, false}) {
    const int expected = least ? PULSE_GRAPH_OK : PULSE_GRAPH_INVALID;
    const size_t less = least ? 0 : 8;
    pulse_graph* other = nullptr;
    const auto options = with_size(pulse_graph_options{}, 56 - less);
    EXPECT_EQ(pulse_graph_open(nullptr, &options, &other, nullptr), expected);
    pulse_graph_free(other);
    const auto older_run = with_size(run, 56 - less);
    pulse_graph_result* result = nullptr;
    EXPECT_EQ(pulse_graph_execute(graph_, "RETURN 1", SIZE_MAX, &older_run, &result, nullptr),
              expected);
    pulse_graph_result_free(result);
    ASSERT_EQ(Run("RETURN 1"), PULSE_GRAPH_OK);
    auto summary = with_size(pulse_graph_summary{}, 120 - less);
    EXPECT_EQ(pulse_graph_summarize(result_, &summary), expected);
    auto stats = with_size(pulse_graph_stats{}, 88 - less);
    EXPECT_EQ(pulse_graph_statistics(graph_, &stats, nullptr), expected);
    // Of these, what is said next.
    const char* const said = least ? "nodes is NULL" : "struct_size is too small";
    csv.node_count = 1;
    auto loaded = with_size(pulse_graph_loaded{}, 56 - less);
    EXPECT_EQ(pulse_graph_load_csv(graph_, &csv, &loaded, &error_), PULSE_GRAPH_INVALID);
    EXPECT_NE(std::string(error_.message).find(said), std::string::npos) << error_.message;
    const auto older_csv = with_size(csv, 64 - less);
    EXPECT_EQ(pulse_graph_load_csv(graph_, &older_csv, nullptr, &error_), PULSE_GRAPH_INVALID);
    EXPECT_NE(std::string(error_.message).find(said), std::string::npos) << error_.message;
    auto error = with_size(pulse_graph_error{}, 1136 - less);
    EXPECT_EQ(pulse_graph_execute(graph_, "RETURN", SIZE_MAX, nullptr, &result, &error),
              PULSE_GRAPH_QUERY);
    EXPECT_EQ(error.code, least ? PULSE_GRAPH_QUERY : 0) << "what is smaller is left alone";
  }
}

TEST_F(GraphCApiTest, Summary_OfWrites_Counts) {
  ASSERT_EQ(Run("CREATE (:A {x: 1})-[:R]->(:B)"), PULSE_GRAPH_OK);
  pulse_graph_summary summary;
  pulse_graph_summary_init(&summary);
  ASSERT_EQ(pulse_graph_summarize(result_, &summary), PULSE_GRAPH_OK);
  EXPECT_EQ(summary.nodes_created, 2u);
  EXPECT_EQ(summary.relationships_created, 1u);
  EXPECT_EQ(summary.labels_added, 2u);
  EXPECT_GT(summary.sequence, 0u);
  EXPECT_STREQ(summary.plan, "");
  ASSERT_EQ(Run("EXPLAIN MATCH (n) RETURN n"), PULSE_GRAPH_OK);
  ASSERT_EQ(pulse_graph_summarize(result_, &summary), PULSE_GRAPH_OK);
  EXPECT_NE(std::string(summary.plan).find("Scan"), std::string::npos) << summary.plan;
}

}  // namespace
}  // namespace pulse::graph
