// Bulk load: what files say is what the graph has, by transactions and by runs; and what they
// should not say is named with its line.
#include "services/graph/load/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "services/graph/load/columns.h"
#include "services/graph/load/test_load.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using test::File;
using test::Lines;
using test::LoadInto;
using test::MemoryGraph;
using test::Read;
using testing_util::ScratchPath;
using testing_util::TestSeed;
using testing_util::Text;

using Set = std::multiset<std::string>;

TEST(LoadCsv, PlainHeaders_FirstColumnsAreKeys) {
  const File nodes("id,name,age\n1,Ann,30\n2,\"Bob, the \"\"big\"\"\",\n3,,5\n");
  const File edges("a,b,since,weight\n1,2,2020,0.5\n2,3,,1\n1,2,2021,2\n");
  MemoryGraph graph;
  const auto report = LoadInto(
      {.nodes = {{"Person", nodes.path()}}, .edges = {{"KNOWS", edges.path(), "", ""}}}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, 3u);
  EXPECT_EQ(report->edges, 3u);
  EXPECT_EQ(Lines(graph),
            (Set{":Person age=30 id=1 name='Ann'", ":Person id=2 name='Bob, the \"big\"'",
                 ":Person age=5 id=3", "1-KNOWS->2 since=2020 weight=0.5", "2-KNOWS->3 weight=1.0",
                 "1-KNOWS->2 since=2021 weight=2.0"}));
}

TEST(LoadCsv, Neo4jHeaders_GiveKeysLabelsTypesAndLists) {
  const File people(
      "id:ID(P)|name:string|langs:string[]|born:date|:LABEL|x:IGNORE\n"
      "p1|Ann|de;en|1990-02-03|A;B|skip\n"
      "p2|42|||A|skip\n");
  const File cities(":ID(C)|id:int|big:boolean\np1|7|true\n");
  const File edges(
      ":START_ID(P)|:END_ID(C)|:TYPE|w:double\n"
      "p1|p1|LIVES|1\n"
      "p2|p1|WORKS|2.25\n");
  LoadOptions options{.nodes = {{"Person", people.path()}, {"City", cities.path()}},
                      .edges = {{"", edges.path(), "", ""}}};
  options.dialect.delimiter = '|';
  MemoryGraph graph;
  const auto report = LoadInto(options, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph),
            (Set{":A:B:Person born='1990-02-03' id='p1' langs=['de', 'en'] name='Ann'",
                 ":A:Person id='p2' name='42'", ":City big=true id=7", "'p1'-LIVES->7 w=1.0",
                 "'p2'-WORKS->7 w=2.25"}));
}

TEST(LoadCsv, InferredTypes_AreTheNarrowestThatHoldAllValues) {
  const File nodes(
      "id,int,real,bool,code,text,none,big,quoted\n"
      "1,-5,1,true,007,1,,9223372036854775807,\"5\"\n"
      "2,6,2.5e3,FALSE,120,x,,9223372036854775808,\"6\"\n");
  MemoryGraph graph;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).ok());
  EXPECT_EQ(
      Lines(graph),
      (Set{":N big='9223372036854775807' bool=true code='007' id=1 int=-5 quoted='5' real=1.0 "
           "text='1'",
           ":N big='9223372036854775808' bool=false code='120' id=2 int=6 quoted='6' "
           "real=2500.0 text='x'"}));
  MemoryGraph given;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}},
                        .types = {{"int", "string"}, {"text", "string"}, {"real", "double"}}},
                       &given)
                  .ok());
  EXPECT_TRUE(Lines(given).contains(
      ":N big='9223372036854775807' bool=true code='007' id=1 int='-5' quoted='5' real=1.0 "
      "text='1'"));
}

TEST(LoadCsv, FilesThatAreNoCsv_AreRefusedByName) {
  const std::pair<std::string, std::string> files[] = {
      {"\x1f\x8b\x08\n", "gzip"},
      {"\x28\xb5\x2f\xfd\n", "zstd"},
      {std::string("\xfd"
                   "7zXZ\0\n",
                   7),
       "xz"},
      {"BZh91AY&SY\n", "bzip2"},
      {"PAR1\x15\x04\n", "Parquet: `load_nodes` and `load_edges`"},
      {std::string("\xff\xfei\0d\0", 6), "UTF-16"}};
  for (const auto& [content, format] : files) {
    const File nodes(content);
    MemoryGraph graph;
    const absl::Status status = LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).status();
    EXPECT_NE(Text(status).find(nodes.path()), std::string::npos) << status;
    EXPECT_NE(Text(status).find(format), std::string::npos) << status;
  }
  for (const char* csv : {"BZh,b\n1,2\n", "PAR1,b\n1,2\n"}) {
    const File nodes(csv);
    MemoryGraph graph;
    EXPECT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).ok()) << csv;
  }
}

TEST(LoadCsv, WhatIsNoFile_IsRefused) {
  MemoryGraph graph;
  const absl::Status status = LoadInto({.nodes = {{"N", "/dev/null"}}}, &graph).status();
  EXPECT_NE(Text(status).find("/dev/null: not a file"), std::string::npos) << status;
}

TEST(LoadCsv, TypeOfNoColumn_IsRefused) {
  const File nodes("id,age\n1,2\n");
  MemoryGraph graph;
  const absl::Status status =
      LoadInto({.nodes = {{"N", nodes.path()}}, .types = {{"nope", "int"}}}, &graph).status();
  EXPECT_NE(Text(status).find("a column nope, which no file has; there are: age, id"),
            std::string::npos)
      << status;
}

TEST(LoadCsv, NumbersThatNoTypeHoldsExactly_StayTexts) {
  const File nodes(
      "id,long,mixed,exact,edge\n"
      "1,12345678901234567890,9007199254740993,9007199254740992,-9223372036854775808\n"
      "2,12345678901234567891,0.5,0.5,9223372036854775807\n");
  MemoryGraph graph;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).ok());
  EXPECT_EQ(Lines(graph),
            (Set{":N edge=-9223372036854775808 exact=9.007199254740992E15 id=1 "
                 "long='12345678901234567890' mixed='9007199254740993'",
                 ":N edge=9223372036854775807 exact=0.5 id=2 long='12345678901234567891' "
                 "mixed='0.5'"}));
  MemoryGraph given;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .types = {{"long", "int"}}}, &given);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument) << report.status();
}

// The first megabyte shows small numbers only.
TEST(LoadCsv, LongIntegerBehindFractions_MakesTexts) {
  std::string content = "id,w\n";
  for (int i = 0; i < 200'000; ++i) content += std::to_string(i) + ",0.5\n";
  content += "200000,9007199254740993\n";
  const File nodes(content);
  MemoryGraph graph;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).ok());
  const auto lines = Lines(graph);
  EXPECT_TRUE(lines.contains(":N id=200000 w='9007199254740993'"));
  EXPECT_TRUE(lines.contains(":N id=0 w='0.5'"));
}

// The first megabyte shows integers only, what comes behind it does not.
TEST(LoadCsv, TypeThatShowsLate_HoldsForAll) {
  const File nodes("id\n0\n1\n");
  std::string content = "a,b,w\n";
  for (int i = 0; i < 200'000; ++i) content += "0,1," + std::to_string(i) + "\n";
  content += "1,0,0.5\n";
  const File edges(content);
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(graph.edges().size(), 200'001u);
  for (const auto& [id, edge] : graph.edges()) {
    ASSERT_TRUE(edge.properties.begin()->second.is_float());
  }
}

// Behind the sample: what would be read as a number, and is rather a code or a name.
TEST(LoadCsv, TextsThatShowLate_AreTextsAsTheyStand) {
  const File nodes("id\n0\n1\n");
  for (const std::string last : {"007,0.5,1", "1,nan,1", "1,0.5,\"3\""}) {
    std::string content = "a,b,u,v,w\n";
    for (int i = 0; i < 150'000; ++i) content += "0,1," + std::to_string(i) + ",1.5,2\n";
    content += "1,0," + last + "\n";
    const File edges(content);
    MemoryGraph graph;
    const auto report =
        LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &graph);
    ASSERT_TRUE(report.ok()) << report.status();
    size_t texts = 0;
    for (const auto& [id, edge] : graph.edges()) {
      for (const auto& [key, value] : edge.properties) texts += value.is_string() ? 1 : 0;
    }
    EXPECT_EQ(texts, 150'001u) << last;  // one of the three columns
  }
}

TEST(LoadCsv, LineEndsAndByteOrderMark_AreNoContent) {
  const File nodes("\xef\xbb\xbfid,t\r\n\r\n1,\"a\r\nb\"\r\n\n2,c");
  MemoryGraph graph;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).ok());
  ASSERT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.nodes().at(0).properties.at(*graph.FindKey("t")).as_string(), "a\r\nb");
  EXPECT_EQ(graph.nodes().at(1).properties.at(*graph.FindKey("t")).as_string(), "c");
}

struct Mistake {
  std::string nodes, edges;
  std::string message;  // part of it
};

TEST(LoadCsv, Mistakes_AreErrorsWithTheirLineAndChangeNothing) {
  const std::string good = "id\n1\n2\n";
  const Mistake mistakes[] = {
      {"id,x\n1,2\n2\n", "a,b\n", ":3: the line has 1 fields, the header has 2"},
      {"id\n1\n2\n1\n", "a,b\n", ":4: a node of N with the key 1 is there already"},
      {"id,x\n,2\n", "a,b\n", ":2: there is no key"},
      {"id,x:int\n1,2\n2,y\n", "a,b\n", ":3: column x: y is not an integer"},
      {"id,x:date\n1,2020-13-01\n", "a,b\n", ":2: column x: 2020-13-01 is not a date"},
      {"id,x\n1,\"a\n2,b\n", "a,b\n", ":2: nothing closes a quote"},
      {"id,x\n1,\"a\"b\n", "a,b\n", ":2: there is something behind a closing quote"},
      {"", "a,b\n", ":1: the file is empty"},
      {"id,id\n", "a,b\n", ":1: two columns are called id"},
      {"id,\n", "a,b\n", ":1: column 2 has no name"},
      {"id,x:integr\n", "a,b\n", ":1: column x:integr: there is no type integr"},
      {"id,x:pont{crs:WGS-84}\n", "a,b\n", "there is no type pont; there are: "},
      {"id,x:pont{crs:WGS-84}\n", "a,b\n", "options in braces are not supported"},
      {"id,x:point{csr:WGS-84}\n", "a,b\n", "options of point are not supported"},
      {"id,x:point{crs:WGS-85}\n", "a,b\n", "Unknown coordinate reference system: WGS-85"},
      {"id,x:point\n1,{x: 1}\n", "a,b\n", ":2: column x: {x: 1} is not a point"},
      {"id,x:time{timezone:+01:00}\n", "a,b\n", "options of time are not supported"},
      {"a:ID,b:ID\n", "a,b\n", ":1: there are several columns :ID"},
      {":START_ID,:END_ID\n", "a,b\n", "it is one of relationships"},
      {":LABEL,:LABEL,id\n", "a,b\n", ":1: there are several columns :LABEL"},
      {"id,rdfs:label,rdf:type\n", "a,b\n", ":1: a file of nodes has a column :TYPE"},
      {":LABEL,x:IGNORE\n", "a,b\n", ":1: there is no column with the keys"},
      {good, "a,b,:TYPE,:TYPE\n", ":1: there are several columns :TYPE"},
      {good, "a,b,:LABEL\n", ":1: a file of relationships has a column :LABEL"},
      {good, "a,:TYPE\n", ":1: a file of relationships needs two columns"},
      {good, "a\n", ":1: a file of relationships needs two columns"},
      {good, ":START_ID,x\n", ":1: there is only one of :START_ID and :END_ID"},
      {good, ":ID,x\n", "it is one of nodes"},
      {good, "a,b\n1,2\n1,3\n", ":3: there is no node with the key 3, the target"},
      {good, "a,b\nx,2\n", ":2: there is no node with the key x, the source"},
      {good, ":START_ID(X),:END_ID(N)\n", ":1: there are no keys of X; there are those of: N"},
  };
  for (const Mistake& mistake : mistakes) {
    const File nodes(mistake.nodes), edges(mistake.edges);
    MemoryGraph graph;
    const auto report =
        LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &graph);
    ASSERT_FALSE(report.ok()) << mistake.message;
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_NE(Text(report.status()).find(mistake.message), std::string::npos) << report.status();
    EXPECT_TRUE(graph.nodes().empty());
  }
}

TEST(LoadCsv, MissingFileLabelOrType_IsRefused) {
  const File nodes("id\n1\n"), edges("a,b\n1,1\n");
  MemoryGraph graph;
  EXPECT_TRUE(absl::IsNotFound(LoadInto({.nodes = {{"N", "no/such/file"}}}, &graph).status()));
  EXPECT_NE(Text(LoadInto({.nodes = {{"", nodes.path()}}}, &graph).status()).find("no label"),
            std::string::npos);
  EXPECT_NE(
      Text(LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"", edges.path(), "", ""}}}, &graph)
               .status())
          .find("no type"),
      std::string::npos);
  LoadOptions odd{.nodes = {{"N", nodes.path()}}};
  odd.dialect.delimiter = '"';
  EXPECT_TRUE(absl::IsInvalidArgument(LoadInto(odd, &graph).status()));
  EXPECT_TRUE(graph.nodes().empty());
}

TEST(LoadCsv, RejectFile_TakesTheLinesAndTheRestIsLoaded) {
  const File nodes("id,x:int\n1,5\n2,y\n1,6\n3,7\n4\n");
  const File edges("a,b\n1,3\n1,2\n3,1\n1\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  const auto report = LoadInto({.nodes = {{"N", nodes.path()}},
                                .edges = {{"E", edges.path(), "", ""}},
                                .reject_path = rejects.get()},
                               &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph), (Set{":N id=1 x=5", ":N id=3 x=7", "1-E->3", "3-E->1"}));
  EXPECT_EQ(report->rejected, 5u);
  EXPECT_EQ(report->dangling, 1u);
  EXPECT_EQ(report->duplicates, 1u);
  EXPECT_EQ(report->examples.size(), 5u);
  EXPECT_EQ(Read(rejects.get()),
            nodes.path() + ":3: column x: y is not an integer: 2,y\n" + nodes.path() +
                ":4: a node of N with the key 1 is there already: 1,6\n" + nodes.path() +
                ":6: the line has 1 fields, the header has 2: 4\n" + edges.path() +
                ":3: there is no node with the key 2, the target: 1,2\n" + edges.path() +
                ":5: the line has 1 fields, the header has 2: 1\n");
}

// By any name.
TEST(LoadCsv, RejectFileThatIsAnInput_IsRefusedAndKept) {
  const File nodes("id\n1\n2\nx,y\n"), edges("a,b\n1,2\n");
  const std::string link = nodes.path() + ".link";
  ASSERT_EQ(symlink(nodes.path().c_str(), link.c_str()), 0);
  for (const std::string& rejects : {nodes.path(), edges.path(), link}) {
    MemoryGraph graph;
    const auto report = LoadInto({.nodes = {{"N", nodes.path()}},
                                  .edges = {{"E", edges.path(), "", ""}},
                                  .reject_path = rejects},
                                 &graph);
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_EQ(Read(nodes.path()), "id\n1\n2\nx,y\n");
    EXPECT_EQ(Read(edges.path()), "a,b\n1,2\n");
  }
  unlink(link.c_str());
}

TEST(LoadCsv, HeaderOfTooManyColumns_IsRefused) {
  std::string header = "id";
  for (int i = 0; i < 10'000; ++i) header += ",c" + std::to_string(i);
  const File nodes(header + "\n");
  MemoryGraph graph;
  const auto report = LoadInto({.nodes = {{"N", nodes.path()}}}, &graph);
  EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
}

TEST(LoadCsv, TextsThatAreNotUtf8_AreRefusedWithLineAndColumn) {
  const File good("id,name\n1,\xC3\xA9t\xC3\xA9\n");
  MemoryGraph all;
  ASSERT_TRUE(LoadInto({.nodes = {{"N", good.path()}}}, &all).ok());
  EXPECT_EQ(Lines(all), (Set{":N id=1 name='\xC3\xA9t\xC3\xA9'"}));

  const Mistake mistakes[] = {
      {"id,name\n1,Ann\n2,Ren\xE9\n", "a,b\n",
       ":3: column name: byte 4 of the text, 0xe9, is not UTF-8: write what `iconv"},
      {"id,n\xE4me\n1,Ann\n", "a,b\n", ":1: the header: column 2: byte 2 of the text, 0xe4"},
      {"id\nAnn\nR\xE9\n", "a,b\n", ":3: column id: byte 2 of the text, 0xe9"},
      {"id\n1\n", "a,b,c:IGNORE\n1,1,\"\xFF\"\n", ":2: column 3: byte 1 of the text, 0xff"},
      {"id,x:string[]\n1,a;\xC3\n", "a,b\n", ":2: column x: byte 3 of the text, 0xc3"},
      {"id,:LABEL\n1,\xED\xA0\x80\n", "a,b\n", ":2: column 2: byte 1 of the text, 0xed"},
      {"id\n1\n", "a,b,:TYPE\n1,1,\x80\n", ":2: "},
      // A long one stays in its file.
      {"id,name\n1," + std::string(5000, 'x') + "\xC3(\n", "a,b\n",
       ":2: column name: byte 5001 of the text, 0xc3"},
  };
  for (const Mistake& mistake : mistakes) {
    const File nodes(mistake.nodes), edges(mistake.edges);
    MemoryGraph graph;
    const absl::Status status =
        LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &graph)
            .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Text(status).find(mistake.message), std::string::npos) << status;
    EXPECT_TRUE(cypher::IsUtf8(Text(status)));
    EXPECT_TRUE(graph.nodes().empty());
  }
}

TEST(LoadCsv, TextsThatAreNotUtf8_GoToTheRejectFileAsTheyAre) {
  const File nodes("id,name\n1,Ann\n2,Ren\xE9\n3,Zo\xC3\xAB\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .reject_path = rejects.get()}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph), (Set{":N id=1 name='Ann'", ":N id=3 name='Zo\xC3\xAB'"}));
  EXPECT_EQ(report->rejected, 1u);
  const std::string text = Read(rejects.get());
  EXPECT_TRUE(text.ends_with(": 2,Ren\xE9\n")) << text;
  EXPECT_TRUE(text.starts_with(nodes.path() + ":3: column name: byte 4")) << text;
}

// A message about a long value must not cut a character in two.
TEST(LoadCsv, LongValueInAMessage_IsCutBetweenCharacters) {
  std::string value(56, 'x');
  for (int i = 0; i < 10; ++i) value += "\xE2\x82\xAC";
  const File nodes("id,x:int\n1," + value + "\n");
  MemoryGraph graph;
  const absl::Status status = LoadInto({.nodes = {{"N", nodes.path()}}}, &graph).status();
  EXPECT_NE(Text(status).find("x... is not an integer"), std::string::npos) << status;
}

TEST(LoadCsv, KeyOfTwoLabels_EdgeFileWithoutLabels_IsRefused) {
  const File people("id\n1\n2\n"), cities("id\n1\n");
  const File edges("a,b\n2,1\n");
  LoadOptions options{.nodes = {{"P", people.path()}, {"C", cities.path()}},
                      .edges = {{"E", edges.path(), "", ""}}};
  MemoryGraph graph;
  const auto report = LoadInto(options, &graph);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(Text(report.status()).find(":2: the key 1 of the target is one of P and of C"),
            std::string::npos)
      << report.status();
  options.edges[0] = *ParseEdgeFile("E(P,C)=" + edges.path());
  ASSERT_TRUE(LoadInto(options, &graph).ok());
  ASSERT_EQ(graph.edges().size(), 1u);
  const NodeId target = graph.edges().begin()->second.ref.target;
  EXPECT_EQ(graph.LabelName(graph.nodes().at(target).labels.at(0)), "C");
}

TEST(LoadCsv, Progress_ShortLoad_IsNotReported) {
  const File nodes("id\n1\n2\n"), edges("a,b\n1,2\n");
  std::vector<LoadProgress> said;
  LoadOptions options{.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}};
  options.progress = [&](const LoadProgress& progress) { said.push_back(progress); };
  options.quiet_ns = int64_t{1} << 60;
  MemoryGraph graph;
  ASSERT_TRUE(LoadInto(options, &graph).ok());
  EXPECT_TRUE(said.empty());
  options.quiet_ns = 0;
  MemoryGraph again;
  ASSERT_TRUE(LoadInto(options, &again).ok());
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.back().what, "writing relationships");
  EXPECT_EQ(said.back().done, 1u);
  EXPECT_EQ(said.back().total, 1u);
}

TEST(LoadCsv, FileOptions_AreTakenApart) {
  EXPECT_EQ(ParseNodeFile("A=b=c")->path, "b=c");
  EXPECT_EQ(ParseEdgeFile("T(A,B)=f")->type, "T");
  EXPECT_EQ(ParseEdgeFile("T(A,)=f")->source, "A");
  for (const char* text : {"", "=f", "A=", "A"}) EXPECT_FALSE(ParseNodeFile(text).ok()) << text;
  for (const char* text : {"", "=f", "(A,B)=f", "T(A)=f", "T(A,B=f"}) {
    EXPECT_FALSE(ParseEdgeFile(text).ok()) << text;
  }
}

// Takes runs and keeps what it got.
class StoreSink : public LoadSink {
 public:
  absl::StatusOr<Token> Label(std::string_view name) override { return graph_.AddLabelName(name); }
  absl::StatusOr<Token> Type(std::string_view name) override {
    // Not in the order of their first use.
    const auto token = graph_.FindType(name);
    if (token) return *token;
    return graph_.AddTypeName(name);
  }
  absl::StatusOr<Token> Key(std::string_view name) override { return graph_.AddKeyName(name); }
  absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) override {
    std::vector<NodeId> own;
    const absl::Status st = TransactionSink(&graph_).AddNodes(batch, &own);
    for (const NodeId id : own) ids->push_back(kFirst + 3 * id);
    return st;
  }
  bool TakesRuns() const override { return true; }
  absl::StatusOr<EdgeId> ReserveEdgeIds(uint64_t count) override {
    reserved_ += count;
    return 500;
  }
  absl::StatusOr<RunSink*> StartRun(Side side) override {
    return &runs_[static_cast<size_t>(side)];
  }
  absl::Status AdoptRuns(const RunInfo& out, const RunInfo& in) override {
    adopted_ = out.records == in.records;
    return absl::OkStatus();
  }
  absl::Status AddEdges(const EdgeBatch& /*batch*/) override {
    return absl::InternalError("runs were asked for");
  }

  // The relationships of the runs become those of the graph; checks that both say the same.
  void Join() {
    ASSERT_TRUE(adopted_);
    const auto out = RunReader::Open(OwnRun(runs_[0].bytes(), "out"));
    const auto in = RunReader::Open(OwnRun(runs_[1].bytes(), "in"));
    ASSERT_TRUE(out.ok() && in.ok());
    std::map<EdgeId, EdgeRef> seen;
    for (const auto& run : {*out, *in}) {
      const bool outgoing = run->info().side == Side::kOut;
      RunReader::Cursor cursor(run.get());
      NodeView view;
      while (*cursor.Next(&view)) {
        NodeView::Lists lists(view);
        ListView list;
        uint64_t position = view.position();
        while (lists.Next(&list)) {
          ASSERT_TRUE(list.plain());
          for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
            NodeId others[kPiece];
            EdgeId edges[kPiece];
            list.Others(piece, others);
            list.Edges(piece, others, edges);
            for (uint32_t i = 0; i < list.PieceCount(piece); ++i, ++position) {
              EdgeRef ref{edges[i], view.node(), others[i], list.type()};
              if (!outgoing) std::swap(ref.source, ref.target);
              const auto [at, is_new] = seen.try_emplace(ref.id, ref);
              ASSERT_EQ(is_new, outgoing);
              ASSERT_EQ(at->second.source, ref.source);
              ASSERT_EQ(at->second.target, ref.target);
              ASSERT_EQ(at->second.type, ref.type);
              if (!outgoing) continue;
              cypher::Properties properties;
              ASSERT_TRUE(run->ReadProperties(position, &properties).ok());
              ASSERT_TRUE(graph_
                              .CreateEdge((ref.source - kFirst) / 3, (ref.target - kFirst) / 3,
                                          ref.type, properties)
                              .ok());
            }
          }
        }
      }
    }
  }

  static constexpr NodeId kFirst = 1000;
  MemoryGraph graph_;
  StringSink runs_[2];
  uint64_t reserved_ = 0;
  bool adopted_ = false;
};

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

TEST(LoadCsv, RandomGraphs_AreTheSameByRunsAndByTransactions) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 6; ++round) {
    const size_t people = 1 + random() % 500, things = 1 + random() % 50;
    std::string a = "id,name\n", b = "id,size\n", ab = "p,t,w,note\n", aa = "x,y,:TYPE,w\n";
    for (size_t i = 0; i < people; ++i) {
      std::string text(random() % 12, 'x');
      for (char& c : text) c = "ab,\n\"|"[random() % 6];
      a += std::to_string(i * 7) + "," + Quoted(text) + "\n";
    }
    for (size_t i = 0; i < things; ++i)
      b += "t" + std::to_string(i) + "," + std::to_string(i) + "\n";
    for (size_t i = random() % 5000; i > 0; --i) {
      ab += std::to_string(random() % people * 7) + ",t" + std::to_string(random() % things) + "," +
            (random() % 9 == 0 ? "" : std::to_string(random() % 100)) + "," +
            (random() % 5 == 0 ? "note " + std::to_string(i) : "") + "\n";
    }
    aa = ":START_ID,:END_ID,:TYPE,w\n";
    for (size_t i = random() % 3000; i > 0; --i) {
      aa += std::to_string(random() % people * 7) + "," + std::to_string(random() % people * 7) +
            ",T" + std::to_string(random() % 3) + "," + std::to_string(random() % 10) + ".5\n";
    }
    const File fa(a), fb(b), fab(ab), faa(aa);
    LoadOptions options{.nodes = {{"P", fa.path()}, {"T", fb.path()}},
                        .edges = {{"HAS", fab.path(), "", ""}, {"", faa.path(), "", ""}}};
    options.threads = 1 + round % 3;
    options.run.rows_per_segment = 64;
    MemoryGraph graph;
    const auto plain = LoadInto(options, &graph);
    ASSERT_TRUE(plain.ok()) << plain.status();
    StoreSink sink;
    // So that tokens do not ascend in the order of the files.
    ASSERT_TRUE(sink.graph_.AddTypeName("T1").ok());
    const auto runs = LoadCsv(options, &sink);
    ASSERT_TRUE(runs.ok()) << runs.status();
    EXPECT_EQ(runs->edges, plain->edges);
    if (plain->edges == 0) continue;
    sink.Join();
    ASSERT_EQ(Lines(sink.graph_), Lines(graph));
    EXPECT_EQ(sink.reserved_, 0u);
  }
}

TEST(LoadCsv, MoreRelationshipsThanOrdinals_CountsTheRest) {
  const File nodes("id\n0\n1\n");
  std::string content = "a,b\n";
  const uint64_t n = kMaxOrdinal + 1 + 300;
  for (uint64_t i = 0; i < n; ++i) content += i % 2 == 0 ? "0,1\n" : "0,0\n";
  const File edges(content);
  StoreSink sink;
  const auto report =
      LoadCsv({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path(), "", ""}}}, &sink);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(sink.reserved_, 300u);
  const auto run = RunReader::Open(OwnRun(sink.runs_[0].bytes(), "out"));
  ASSERT_TRUE(run.ok());
  const auto view = (*run)->Find(StoreSink::kFirst);
  ASSERT_TRUE(view.ok());
  ASSERT_EQ(view->count(), n);
  std::set<EdgeId> ids;
  NodeView::Lists lists(*view);
  ListView list;
  ASSERT_TRUE(lists.Next(&list));
  for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
    NodeId others[kPiece];
    EdgeId out[kPiece];
    list.Others(piece, others);
    list.Edges(piece, others, out);
    ids.insert(out, out + list.PieceCount(piece));
  }
  EXPECT_EQ(ids.size(), n);
  EXPECT_EQ(*ids.begin(), 500u);
}

}  // namespace
}  // namespace pulse::graph
