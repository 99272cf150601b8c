// Types of keys and of columns whose values come late.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "services/graph/load/test_load.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using test::File;
using test::Lines;
using test::LoadInto;
using test::MemoryGraph;
using testing_util::ScratchPath;
using testing_util::Text;

using Set = std::multiset<std::string>;

// Keys are compared as they stand; the property has the type that was given.
TEST(LoadKeys, KeyOfAnyType_IsFoundByItsText) {
  for (const auto& [type, key, value] :
       {std::tuple("float", "1.50", "1.5"), std::tuple("date", "2024-01-02", "'2024-01-02'"),
        std::tuple("boolean", "true", "true"), std::tuple("int[]", "1;2", "[1, 2]"),
        std::tuple("string[]", "a;b", "['a', 'b']"), std::tuple("string", "x", "'x'"),
        std::tuple("int", "7", "7")}) {
    const File nodes(Concat("id:", type, ",w\n", key, ",1\n"));
    const File edges(Concat("a,b\n", key, ",", key, "\n"));
    MemoryGraph graph;
    const auto report =
        LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &graph);
    ASSERT_TRUE(report.ok()) << type << ": " << report.status();
    EXPECT_EQ(Lines(graph), (Set{Concat(":N id=", value, " w=1"), Concat(value, "-E->", value)}))
        << type;
  }
  const File nodes("id,w\n1.50,1\n");
  MemoryGraph graph;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}}, .types = {{"id", "float"}}}, &graph).ok());
  EXPECT_EQ(Lines(graph), Set{":N id=1.5 w=1"});
}

TEST(LoadKeys, EmptyEnd_IsNoKey) {
  const File nodes("id,w\n\"\",1\nx,2\n"), edges("a,b\n,x\n\"\",x\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  const auto report = LoadInto({.nodes = {{"N", nodes.path()}},
                                .edges = {{"E", edges.path(), "", ""}},
                                .reject_path = rejects.get()},
                               &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->edges, 1u);
  EXPECT_EQ(report->rejected, 1u);
}

// Lines that end by CR alone, and records of several lines.
TEST(LoadKeys, RejectedRecord_OfAnyLines_IsThatRecordAlone) {
  const File nodes("id,x\r1,\"a\"b\r2,c\r3,d\r4,e\r");
  ScratchPath rejects("rejects");
  MemoryGraph graph;
  auto report = LoadInto({.nodes = {{"N", nodes.path()}}, .reject_path = rejects.get()}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, 3u);
  EXPECT_EQ(report->rejected, 1u);
  ASSERT_EQ(report->examples.size(), 1u);
  EXPECT_NE(report->examples[0].find(":2: "), std::string::npos) << report->examples[0];
  const auto written = [&] {
    std::ifstream file(rejects.get());
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(written().substr(written().size() - 9), ": 1,\"a\"b\n") << written();
  const File lines("id,x\n1,\"a\nb\",9\n2,c\n");
  MemoryGraph another;
  report = LoadInto({.nodes = {{"N", lines.path()}}, .reject_path = rejects.get()}, &another);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, 1u);
  EXPECT_NE(written().find(": 1,\"a\nb\",9\n"), std::string::npos) << written();
}

TEST(LoadKeys, ListOfAny_WithListsOrNulls_IsRejected) {
  const File nodes("id,tags:any[]\n1,[1];[2]\n2,1;null\n3,1;2\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .reject_path = rejects.get()}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rejected, 2u);
  EXPECT_EQ(Lines(graph), Set{":N id=3 tags=[1, 2]"});
  MemoryGraph given;
  const File plain("id,x\n1,2;3\n");
  ASSERT_TRUE(LoadInto({.nodes = {{"N", plain.path()}}, .types = {{"x", "int[]"}}}, &given).ok());
  EXPECT_EQ(Lines(given), Set{":N id=1 x=[2, 3]"});
}

TEST(LoadKeys, Points_OfTheHeadersSystem_UnlessTheySayTheirOwn) {
  const File nodes(
      "id,x:point{crs:WGS-84},y:point[]\n"
      "1,\"{latitude: 55.5, longitude: 13}\",\"{x: 1, y: 2};{x: 1, y: 2, z: 3}\"\n"
      "2,\"{y: 1, x: 2}\",\n"
      "3,\"{x: 1, y: 2, crs: 'cartesian'}\",\n"
      "4,\"{x: 1, y: 2, z: 3}\",\n"
      "5,\"{x: null, y: 2}\",\n"
      "6,1,\n"
      "7,,\n"
      "8,\"{x: 1, y: 2, srid: 7203}\",\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .reject_path = rejects.get()}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rejected, 3u);  // one of three dimensions, one of null, one that is no map
  EXPECT_EQ(Lines(graph), (Set{":N id=1 x=point({x: 13.0, y: 55.5, crs: 'wgs-84'}) "
                               "y=[point({x: 1.0, y: 2.0, crs: 'cartesian'}), "
                               "point({x: 1.0, y: 2.0, z: 3.0, crs: 'cartesian-3d'})]",
                               ":N id=2 x=point({x: 2.0, y: 1.0, crs: 'wgs-84'})",
                               ":N id=3 x=point({x: 1.0, y: 2.0, crs: 'cartesian'})", ":N id=7",
                               ":N id=8 x=point({x: 1.0, y: 2.0, crs: 'cartesian'})"}));
}

TEST(LoadKeys, Points_SystemOfALists_IsRefusedByWhatThereIs) {
  const File nodes("id,x:point[]{crs:WGS-84}\n");
  MemoryGraph graph;
  const auto report = LoadInto({.nodes = {{"N", nodes.path()}}}, &graph);
  EXPECT_EQ(Text(report.status()),
            nodes.path() +
                ":1: column x:point[]{crs:WGS-84}: options of point[] are not supported but for "
                "crs of single points, as point{crs:WGS-84}; those in lists say their own");
}

TEST(LoadKeys, FilesOfOneLabel_HaveOneKindOfKeys) {
  const File numbers("id\n1\n3\n"), texts("id\n3\nx4\n");
  const File edges("a,b\n3,x4\n1,3\n");
  for (const bool numbers_first : {true, false}) {
    LoadOptions options{.nodes = {{"P", numbers.path()}, {"P", texts.path()}},
                        .edges = {{"E", edges.path(), "", ""}}};
    if (!numbers_first) std::swap(options.nodes[0], options.nodes[1]);
    MemoryGraph refused;
    const auto report = LoadInto(options, &refused);
    ASSERT_FALSE(report.ok());
    EXPECT_NE(Text(report.status()).find("the key 3 is there already"), std::string::npos)
        << report.status();
    const ScratchPath rejects("rejects");
    options.reject_path = rejects.get();
    MemoryGraph graph;
    const auto loaded = LoadInto(options, &graph);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->duplicates, 1u);
    EXPECT_EQ(loaded->nodes, 3u);
    EXPECT_EQ(loaded->edges, 2u);
  }
}

TEST(LoadKeys, FileWithoutARow_SaysNothingOfKeys) {
  const File numbers("id\n1\n3\n"), none("id\n"), edges("a,b\n01,3\n");
  for (const bool first : {true, false}) {
    LoadOptions options{.nodes = {{"P", none.path()}, {"P", numbers.path()}},
                        .edges = {{"E", edges.path(), "", ""}}};
    if (!first) std::swap(options.nodes[0], options.nodes[1]);
    MemoryGraph graph;
    ASSERT_TRUE(LoadInto(options, &graph).ok());
    EXPECT_EQ(Lines(graph).count("1-E->3"), 1u);
  }
}

// Of relationships the first megabyte tells the types, but for columns that it says nothing of.
TEST(LoadKeys, ColumnWithoutAValueInTheSample_HasTheTypeOfAll) {
  const File nodes("id\n0\n1\n");
  std::string content = "a,b,u,v,w\n";
  for (int i = 0; i < 200'000; ++i) content += "0,1,,,\n";
  content += "1,0,5,0.5,x\n1,0,6,7,\n";
  const File edges(content);
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  const Set lines = Lines(graph);
  EXPECT_EQ(lines.count("1-E->0 u=5 v=0.5 w='x'"), 1u);
  EXPECT_EQ(lines.count("1-E->0 u=6 v=7.0"), 1u);
}

TEST(LoadKeys, NullOfLabelsAndTypes_IsNone) {
  const File nodes("id:ID,:LABEL\n1,NULL\n2,B\n");
  const File edges(":START_ID,:END_ID,:TYPE\n1,2,NULL\n2,1,F\n");
  LoadOptions options{.nodes = {{"A", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}};
  options.dialect.null_text = "NULL";
  MemoryGraph graph;
  const auto report = LoadInto(options, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph), (Set{":A id=1", ":A:B id=2", "1-E->2", "2-F->1"}));
}

TEST(LoadKeys, FilesOfOneLabelOrType_HaveOneTypeForAProperty) {
  const File whole("id,size,note\n1,5,\n"), parts("id,size,note\nx2,0.5,7\n");
  const File other("id,size\n9,3\n");
  const File first("a,b,w\n1,x2,1\n"), second("a,b,w\nx2,1,0.25\n"), third("a,b,w\n9,9,3\n");
  for (const bool swapped : {false, true}) {
    LoadOptions options{.nodes = {{"P", whole.path()}, {"P", parts.path()}, {"C", other.path()}},
                        .edges = {{"E", first.path()}, {"E", second.path()}, {"F", third.path()}}};
    if (swapped) {
      std::swap(options.nodes[0], options.nodes[1]);
      std::swap(options.edges[0], options.edges[1]);
    }
    MemoryGraph graph;
    const auto report = LoadInto(options, &graph);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(Lines(graph),
              (Set{":P id='1' size=5.0", ":P id='x2' note=7 size=0.5", ":C id=9 size=3",
                   "'1'-E->'x2' w=1.0", "'x2'-E->'1' w=0.25", "9-F->9 w=3"}));
  }
}

// Behind what a sample of one file shows.
TEST(LoadKeys, FilesOfOneType_AllOfTheirValuesTellTheType) {
  const File nodes("id\n0\n1\n"), small("a,b,w\n1,0,7\n");
  std::string content = "a,b,w\n";
  for (int i = 0; i < 200'000; ++i) content += "0,1,5\n";
  const File large(content + "0,1,x\n");
  MemoryGraph graph;
  const auto report = LoadInto(
      {.nodes = {{"N", nodes.path()}}, .edges = {{"E", small.path()}, {"E", large.path()}}},
      &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph).count("1-E->0 w='7'"), 1u);
}

TEST(LoadKeys, PlainHeaders_KeysAreTheFirstColumnsWithoutARole) {
  const File nodes(":LABEL,id\nA,1\nB,2\n"), edges(":TYPE,a,x:IGNORE,b,w\nF,1,skip,2,5\n");
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph), (Set{":A:N id=1", ":B:N id=2", "1-F->2 w=5"}));
}

}  // namespace
}  // namespace pulse::graph
