// Constraints of the graph that a load goes into: lines that break one are named, or rejected.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "services/graph/load/load.h"
#include "services/graph/load/test_load.h"
#include "services/graph/load/transaction_sink.h"

namespace pulse::graph {
namespace {

using cypher::IndexDefinition;
using cypher::Value;
using test::File;
using test::Lines;
using test::MemoryGraph;
using test::Read;
using testing_util::ScratchPath;
using testing_util::Text;

using Set = std::multiset<std::string>;

const IndexDefinition kUniqueId{"person_id", "Person", {"id"}, true, true, false};
const IndexDefinition kUniqueName{"full_name", "Person", {"first", "last"}, true, true, false};
const IndexDefinition kHasMail{"has_mail", "User", {"mail"}, true, false, true};
const IndexDefinition kNodeKey{"city_key", "City", {"name"}, true, true, true};

absl::StatusOr<LoadReport> LoadWith(const std::vector<IndexDefinition>& constraints,
                                    const LoadOptions& options, MemoryGraph* graph) {
  for (const IndexDefinition& one : constraints) {
    if (one.unique) graph->CreateIndex(one.label, one.keys);
  }
  TransactionSink sink(graph);
  sink.CheckConstraints(constraints);
  return LoadCsv(options, &sink);
}

void AddPerson(int64_t id, MemoryGraph* graph) {
  const cypher::Token label = *graph->AddLabelName("Person"), key = *graph->AddKeyName("id");
  ASSERT_TRUE(graph->CreateNode({&label, 1}, {{key, Value::Int(id)}}).ok());
}

TEST(LoadConstraints, ValueOfADatabaseNode_IsNamedWithItsLine) {
  const File nodes("id,age\n1,30\n2,31\n3,32\n");
  MemoryGraph graph;
  AddPerson(2, &graph);
  const auto report = LoadWith({kUniqueId}, {.nodes = {{"Person", nodes.path()}}}, &graph);
  EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
  EXPECT_NE(Text(report.status())
                .find(nodes.path() + ":3: constraint person_id on :Person(id): a node of the "
                                     "database has id = 2 already"),
            std::string::npos)
      << report.status();
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(LoadConstraints, Reject_TakesWhatBreaksThemAndWhatRefersToIt) {
  const File nodes(
      "key,id,first,last\n"
      "a,1,Ann,Lee\n"
      "b,2,Bob,Lee\n"      // the id is there
      "c,3,Ann,Lee\n"      // the name of a
      "d,4,Ann,\n"         // without one of the keys it differs
      "e,4,Eve,Ray\n"      // the id of d
      "e,5,Eve,Ray\n"      // what was rejected has no key
      "a,6,Dan,Ray\n"      // a key that is there
      "f,7,Bob,Lee\n"      // the name of b, which was rejected
      "g,7.0,Gil,Lee\n");  // the id of f, as a number with a point
  const File edges("a,b\na,d\na,b\nc,a\ne,f\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  AddPerson(2, &graph);
  const auto report = LoadWith({kUniqueId, kUniqueName},
                               {.nodes = {{"Person", nodes.path()}},
                                .edges = {{"KNOWS", edges.path(), "", ""}},
                                .reject_path = rejects.get()},
                               &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(
      Lines(graph),
      (Set{":Person id=2", ":Person first='Ann' id=1.0 key='a' last='Lee'",
           ":Person first='Ann' id=4.0 key='d'", ":Person first='Eve' id=5.0 key='e' last='Ray'",
           ":Person first='Bob' id=7.0 key='f' last='Lee'", "1.0-KNOWS->4.0", "5.0-KNOWS->7.0"}));
  EXPECT_EQ(report->violations, 4u);
  EXPECT_EQ(report->duplicates, 1u);
  EXPECT_EQ(report->dangling, 2u);
  EXPECT_EQ(report->rejected, 7u);
  const std::string text = Read(rejects.get());
  const std::string &n = nodes.path(), &e = edges.path();
  const std::string id = ": constraint person_id on :Person(id): ";
  EXPECT_EQ(text,
            n + ":3" + id + "a node of the database has id = 2.0 already: b,2,Bob,Lee\n" +  //
                n +
                ":4: constraint full_name on :Person(first, last): an earlier line has first = "
                "'Ann', last = 'Lee' already: c,3,Ann,Lee\n" +
                n + ":6" + id + "an earlier line has id = 4.0 already: e,4,Eve,Ray\n" +  //
                n + ":8: a node of Person with the key a is there already: a,6,Dan,Ray\n" + n +
                ":10" + id + "an earlier line has id = 7.0 already: g,7.0,Gil,Lee\n" + e +
                ":3: there is no node with the key b, the target: a,b\n" +  //
                e + ":4: there is no node with the key c, the source: c,a\n");
}

// Labels of single lines, several files of one label, and constraints of existence.
TEST(LoadConstraints, LabelsOfLines_DecideWhichHold) {
  const File mixed(
      "id:ID(all)|mail|name|:LABEL\n"
      "1|a@x|Rome|Person;User\n"
      "2||Rome|Person\n"
      "3||Rome|User\n"
      "4||Rome|City\n"
      "5|e@x|Rome|City;User\n"
      "6|f@x||City\n");
  const File cities("id:ID(cities)|name\n7|Rome\n8|Oslo\n9|\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  LoadOptions options{.nodes = {{"", mixed.path()}, {"City", cities.path()}},
                      .reject_path = rejects.get()};
  options.dialect.delimiter = '|';
  const auto report = LoadWith({kHasMail, kNodeKey}, options, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Lines(graph),
            (Set{":Person:User id=1 mail='a@x' name='Rome'", ":Person id=2 name='Rome'",
                 ":City id=4 name='Rome'", ":City id=8 name='Oslo'"}));
  EXPECT_EQ(report->violations, 5u);
  EXPECT_EQ(
      Read(rejects.get()),
      mixed.path() + ":4: constraint has_mail on :User(mail): there is no mail: 3||Rome|User\n" +
          mixed.path() +
          ":6: constraint city_key on :City(name): an earlier line has name = 'Rome' already: "
          "5|e@x|Rome|City;User\n" +
          mixed.path() + ":7: constraint city_key on :City(name): there is no name: 6|f@x||City\n" +
          cities.path() +
          ":2: constraint city_key on :City(name): an earlier line has name = 'Rome' already: "
          "7|Rome\n" +
          cities.path() + ":4: constraint city_key on :City(name): there is no name: 9|\n");
}

IndexDefinition SinceIsThere() {
  return {.name = "since",
          .label = "KNOWS",
          .keys = {"since"},
          .constraint = true,
          .required = true,
          .of_edges = true};
}

TEST(LoadConstraints, RelationshipsAndTypes_LinesThatBreakThemAreRejected) {
  const IndexDefinition since = SinceIsThere();
  IndexDefinition typed = since;
  typed.name = "typed";
  typed.required = false;
  typed.type = "INTEGER";
  IndexDefinition of_nodes = typed;
  of_nodes.name = "of_nodes";
  of_nodes.label = "P";
  of_nodes.keys = {"age"};
  of_nodes.of_edges = false;
  const File nodes("key,age:any\na,1\nb,'x'\nc,\n");
  const File knows("from,to,since:any\na,c,1\na,a,\nb,a,2\nc,a,2.5\n");
  const File mixed(":START_ID,:END_ID,:TYPE\na,c,LIKES\na,a,KNOWS\nc,c,\n");
  const File without("from,to\na,c\n");
  LoadOptions options{.nodes = {{"P", nodes.path()}}, .edges = {{"KNOWS", knows.path(), "", ""}}};
  {
    MemoryGraph empty;
    const auto refused = LoadWith({since}, options, &empty);
    EXPECT_NE(
        Text(refused.status())
            .find(knows.path() + ":3: constraint since on [:KNOWS](since): there is no since"),
        std::string::npos)
        << refused.status();
    EXPECT_TRUE(empty.nodes().empty());
  }
  options.edges.push_back({"OTHER", mixed.path(), "", ""});
  options.edges.push_back({"KNOWS", without.path(), "", ""});
  const ScratchPath rejects("rejects");
  options.reject_path = rejects.get();
  MemoryGraph graph;
  const auto report = LoadWith({since, typed, of_nodes}, options, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->violations, 5u);
  EXPECT_EQ(report->dangling, 1u);
  EXPECT_EQ(report->edges, 3u);
  EXPECT_EQ(graph.edges().size(), 3u);
  const std::string on = ": constraint since on [:KNOWS](since): there is no since: ";
  EXPECT_EQ(Read(rejects.get()),
            nodes.path() + ":3: constraint of_nodes on :P(age): age = 'x' is no INTEGER: b,'x'\n" +
                knows.path() + ":3" + on + "a,a,\n" + knows.path() +
                ":4: there is no node with the key b, the source: b,a,2\n" + knows.path() +
                ":5: constraint typed on [:KNOWS](since): since = 2.5 is no INTEGER: c,a,2.5\n" +
                mixed.path() + ":3" + on + "a,a,KNOWS\n" + without.path() + ":2" + on + "a,c\n");
}

// Without a reject file the first line that breaks one ends the load: no others are kept.
TEST(LoadConstraints, RelationshipsThatBreakThem_WithoutRejects_TakeNoMemory) {
  const IndexDefinition since = SinceIsThere();
  constexpr uint64_t kLines = 20'000;
  const File nodes("key\na\n");
  std::string text = "from,to\n";
  for (uint64_t i = 0; i < kLines; ++i) text += "a,a\n";
  const File knows(text);
  LoadOptions options{.nodes = {{"P", nodes.path()}}, .edges = {{"KNOWS", knows.path(), "", ""}}};
  MemoryGraph graph, refused;
  const auto loaded = LoadWith({}, options, &graph);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  // Where each line begins, and less than a reason for each.
  options.memory_bytes = loaded->memory_bytes + kLines * 2 * sizeof(uint64_t) + (64 << 10);
  const auto report = LoadWith({since}, options, &refused);
  EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
  EXPECT_NE(Text(report.status())
                .find(knows.path() + ":2: constraint since on [:KNOWS](since): there is no since"),
            std::string::npos)
      << report.status();
}

// Long texts stay in their file until they are written; NaN is equal to nothing.
TEST(LoadConstraints, LongTextsAndNaN_AreComparedByValue) {
  const std::string text(5000, 'x');
  const File nodes("key,id\n1,\"" + text + "\"\n2,\"" + text + "y\"\n3,\"" + text + "\"\n");
  const File numbers("key,id:double\n4,nan\n5,nan\n6,1\n");
  const ScratchPath rejects("rejects");
  MemoryGraph graph;
  const auto report = LoadWith({kUniqueId},
                               {.nodes = {{"Person", nodes.path()}, {"Person", numbers.path()}},
                                .reject_path = rejects.get()},
                               &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, 5u);
  EXPECT_EQ(report->violations, 1u);
  const std::string rejected = Read(rejects.get());
  EXPECT_EQ(rejected.find(nodes.path() + ":4: constraint person_id"), 0u)
      << rejected.substr(0, 300);
  EXPECT_NE(rejected.find("xxx... already: 3,"), std::string::npos) << rejected.substr(0, 300);
}

TEST(LoadConstraints, ValuesThatWereRead_CountAsMemory) {
  std::string text = "id,name\n";
  for (int i = 0; i < 1000; ++i) {
    text += std::to_string(i) + "," + std::string(100, 'x') + std::to_string(i) + "\n";
  }
  const File nodes(text);
  const IndexDefinition unique{"name", "Person", {"name"}, true, true, false};
  MemoryGraph without, with;
  const auto before = LoadWith({}, {.nodes = {{"Person", nodes.path()}}}, &without);
  const auto after = LoadWith({unique}, {.nodes = {{"Person", nodes.path()}}}, &with);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_GE(after->memory_bytes, before->memory_bytes + 100 * 1000);
}

}  // namespace
}  // namespace pulse::graph
