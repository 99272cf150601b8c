#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "base/errors.h"
#include "base/file_calls.h"
#include "base/testing.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/exchange/export.h"
#include "services/graph/exchange/import.h"
#include "services/graph/exchange/schema_file.h"
#include "services/graph/model/test_memory_database.h"
#include "services/graph/model/test_values.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

namespace fs = std::filesystem;
using cypher::Concat;
using cypher::Database;
using cypher::EdgeRef;
using cypher::GraphView;
using cypher::IndexDefinition;
using cypher::MemoryDatabase;
using cypher::NodeId;
using cypher::Properties;
using cypher::Token;
using cypher::Value;
using ::testing::HasSubstr;

constexpr char kUid[] = "uid";

std::string PropertiesText(const GraphView& view, const Properties& properties) {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : properties) {
    sorted[view.KeyName(key)] = cypher::ValueBytes(value);
  }
  std::string text;
  for (const auto& [key, bytes] : sorted) text += Concat(key, "=", bytes, ";");
  return text;
}

// All that a graph has, whatever the numbers of its nodes: a line for each, sorted. Nodes have a
// property of their own by which relationships name them.
std::vector<std::string> Lines(Database* database) {
  const auto view = database->Snapshot().value();
  const auto uid = view->FindKey(kUid);
  std::map<NodeId, std::string> names;
  std::vector<std::string> lines;
  NodeId node = 0;
  for (uint64_t position = 0;
       view->ScanNodes(cypher::kNoToken, &position, {&node, 1}).value() > 0;) {
    std::vector<Token> tokens;
    Properties properties;
    EXPECT_TRUE(view->ReadLabels(node, &tokens).ok());
    EXPECT_TRUE(view->ReadNodeProperties(node, &properties).ok());
    std::vector<std::string> labels;
    for (const Token token : tokens) labels.push_back(view->LabelName(token));
    std::sort(labels.begin(), labels.end());
    std::string line = "node ";
    for (const std::string& label : labels) line += Concat(":", label);
    for (const auto& [key, value] : properties) {
      if (uid && key == *uid) names[node] = cypher::ValueBytes(value);
    }
    lines.push_back(line + PropertiesText(*view, properties));
  }
  EdgeRef edge;
  for (uint64_t position = 0; view->ScanEdges({}, &position, {&edge, 1}).value() > 0;) {
    Properties properties;
    EXPECT_TRUE(view->ReadEdgeProperties(edge, &properties).ok());
    lines.push_back(Concat("edge ", names[edge.source], ">", names[edge.target], ":",
                           view->TypeName(edge.type), PropertiesText(*view, properties)));
  }
  for (const IndexDefinition& index : database->Indexes()) {
    std::string line = Concat("index ", index.name, ":", index.label, index.constraint ? "c" : "",
                              index.unique ? "u" : "", index.required ? "r" : "");
    for (const std::string& key : index.keys) line += Concat(".", key);
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() { fs::create_directory(dir_.get()); }
  ~ExchangeTest() override { fs::remove_all(dir_.get()); }

  // Names that are hard to write, and properties of one type or of several.
  static void Fill(Database* database, std::mt19937_64& random, int nodes, int edges) {
    const std::vector<std::string> labels = {"A",          "a;b",       "c|d",         "x\"y",
                                             "\u20ac uro", "back`tick", "line\nbreak", "../up"};
    const std::vector<std::string> types = {"KNOWS", "k;n", "\"", "a,b"};
    const std::vector<std::string> keys = {"int",  "name:int", "a,b", "q\"",  "\u00fc",
                                           "list", "any",      ":ID", "l\nb", "it's"};
    std::map<std::string, Value> kinds;
    for (const std::string& key : keys) {
      if (random() % 2 == 0) kinds[key] = cypher::RandomProperty(random);
    }
    const auto properties = [&](cypher::GraphTransaction* to, int64_t uid) {
      Properties out = {{*to->AddKeyName(kUid), Value::Int(uid)}};
      for (const std::string& key : keys) {
        if (random() % 3 == 0) continue;
        Value value = cypher::RandomProperty(random);
        // Half of them have one type alone.
        if (kinds.contains(key) && kinds[key].type() != value.type()) continue;
        out.emplace_back(*to->AddKeyName(key), std::move(value));
      }
      return out;
    };
    auto transaction = database->Begin().value();
    std::vector<NodeId> made;
    for (int i = 0; i < nodes; ++i) {
      std::vector<Token> tokens;
      for (const std::string& label : labels) {
        if (random() % 4 == 0) tokens.push_back(*transaction->AddLabelName(label));
      }
      const Properties values = random() % 10 == 0
                                    ? Properties{{*transaction->AddKeyName(kUid), Value::Int(i)}}
                                    : properties(transaction.get(), i);
      made.push_back(*transaction->CreateNode(tokens, values));
    }
    for (int i = 0; i < edges; ++i) {
      const Token type = *transaction->AddTypeName(types[random() % types.size()]);
      ASSERT_TRUE(
          transaction
              ->CreateEdge(made[random() % made.size()], made[random() % made.size()], type,
                           random() % 3 == 0 ? Properties{} : properties(transaction.get(), i))
              .ok());
    }
    ASSERT_TRUE(transaction->Commit().ok());
    transaction.reset();
    transaction.reset();
    ASSERT_TRUE(database->CreateIndex({"by int", "a;b", {"int", "q\""}}).ok());
    ASSERT_TRUE(database->CreateIndex({"u`", "A", {kUid}, true, true}).ok());
    ASSERT_TRUE(database->CreateIndex({"k", "x\"y", {kUid}, true, true, true}).ok());
    ASSERT_TRUE(database->CreateIndex({"there", "c|d", {kUid}, true, false, true}).ok());
  }

  absl::StatusOr<ExchangeReport> Export(Database* database, const std::string& name = "out") {
    PULSE_ASSIGN_OR_RETURN(const auto to, NewDirectory::Create(allowed_, name, "--export"));
    return ExportDatabase(database, {}, to.get());
  }
  absl::StatusOr<ExchangeReport> Import(Database* database, const ImportOptions& options = {}) {
    PULSE_ASSIGN_OR_RETURN(const auto from, OpenExport(allowed_, "out", "--import"));
    return ImportDatabase(from, options, database);
  }
  absl::Status ImportIntoStore(GraphStore* store) {
    PULSE_ASSIGN_OR_RETURN(const auto from, OpenExport(allowed_, "out", "--import"));
    PULSE_ASSIGN_OR_RETURN(const LoadReport report, LoadCsvInto(store, from.load));
    PULSE_RETURN_IF_ERROR(from.CheckCounts(report));
    for (const auto& index : from.indexes) PULSE_RETURN_IF_ERROR(store->CreateIndex(index));
    return absl::OkStatus();
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(dir_.get() + "/out/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(dir_.get() + "/out");
    std::ofstream(dir_.get() + "/out/" + name, std::ios::binary) << text;
  }

  testing_util::ScratchPath dir_{"exchange"};
  const AllowedDirectory allowed_{.path = dir_.get()};
};

TEST_F(ExchangeTest, RandomGraphs_ExportedAndImported_AreEqual) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    MemoryDatabase from, to;
    Fill(&from, random, 1 + static_cast<int>(random() % 200), static_cast<int>(random() % 400));
    const auto report = Export(&from);
    ASSERT_TRUE(report.ok()) << report.status();
    const auto imported = Import(&to);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->nodes, report->nodes);
    EXPECT_EQ(imported->edges, report->edges);
    EXPECT_EQ(imported->indexes, 1U);
    EXPECT_EQ(imported->constraints, 3U);
    ASSERT_EQ(Lines(&to), Lines(&from));
    auto store = GraphStore::Open(dir_.get() + "/db").value();
    const absl::Status status = ImportIntoStore(store.get());
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(Lines(store.get()), Lines(&from));
    // And from a store, whose columns are others.
    fs::remove_all(dir_.get() + "/out");
    ASSERT_TRUE(Export(store.get()).ok());
    MemoryDatabase again;
    ASSERT_TRUE(Import(&again).ok());
    ASSERT_EQ(Lines(&again), Lines(&from));
    store.reset();
    fs::remove_all(dir_.get());
    fs::create_directory(dir_.get());
  }
}

// An older program is told by the version that it cannot read them.
TEST_F(ExchangeTest, ConstraintsOfRelationshipsAndTypes_AreInAFileOfVersion2) {
  auto from = GraphStore::Open(dir_.get() + "/from").value();
  const IndexDefinition since{.name = "since",
                              .label = "K'S",
                              .keys = {"since", "by"},
                              .constraint = true,
                              .required = true,
                              .of_edges = true};
  const IndexDefinition typed{.name = "typed",
                              .label = "A",
                              .keys = {"x"},
                              .constraint = true,
                              .type = "LIST<ZONED TIME NOT NULL>"};
  ASSERT_TRUE(from->CreateIndex({"plain", "A", {"x"}}).ok());
  ASSERT_TRUE(Export(from.get()).ok());
  EXPECT_THAT(Read("graph.schema"), HasSubstr("version: 1,"));
  fs::remove_all(dir_.get() + "/out");
  ASSERT_TRUE(from->CreateIndex(since).ok());
  ASSERT_TRUE(from->CreateIndex(typed).ok());
  ASSERT_TRUE(Export(from.get()).ok());
  EXPECT_THAT(Read("graph.schema"), HasSubstr("version: 2,"));
  auto to = GraphStore::Open(dir_.get() + "/to").value();
  const auto imported = Import(to.get());
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->constraints, 2U);
  EXPECT_EQ(to->Indexes(), from->Indexes());
}

TEST_F(ExchangeTest, EmptyGraph_ExportedAndImported_IsEmpty) {
  MemoryDatabase from, to;
  ASSERT_TRUE(Export(&from).ok());
  ASSERT_TRUE(Import(&to).ok());
  EXPECT_TRUE(Lines(&to).empty());
}

TEST_F(ExchangeTest, Files_AreReadable) {
  MemoryDatabase from;
  auto transaction = from.Begin().value();
  const Token label = *transaction->AddLabelName("Person");
  const Token name = *transaction->AddKeyName("name"), born = *transaction->AddKeyName("born");
  const Token mixed = *transaction->AddKeyName("mixed");
  ASSERT_TRUE(transaction
                  ->CreateNode({&label, 1}, {{name, Value::String("A \"B\"")},
                                             {born, Value::Date(0)},
                                             {mixed, Value::Int(1)}})
                  .ok());
  ASSERT_TRUE(
      transaction->CreateNode({&label, 1}, {{name, Value::String("")}, {mixed, Value::String("x")}})
          .ok());
  ASSERT_TRUE(transaction->Commit().ok());
  transaction.reset();
  ASSERT_TRUE(from.CreateIndex({"by_name", "Person", {"name"}}).ok());
  ASSERT_TRUE(Export(&from).ok());
  EXPECT_EQ(Read("nodes-1-Person.csv"),
            ":ID(node),:LABEL,\"name:string\",\"born:date\",\"mixed:any\"\n"
            "0,\"Person\",\"A \"\"B\"\"\",1970-01-01,\"1\"\n"
            "1,\"Person\",\"\",,\"'x'\"\n");
  EXPECT_EQ(Read(kSchemaFile),
            "{export: 'pulse graph', version: 1, array_delimiter: ';'}\n"
            "{nodes: 'nodes-1-Person.csv', label: 'Person', count: 2, properties: "
            "{name: 'string', born: 'date', mixed: 'any'}}\n"
            "{index: 'by_name', label: 'Person', keys: ['name'], kind: 'index'}\n"
            "{end: true, nodes: 2, relationships: 0}\n");
}

// Says how many bytes of texts it gave by one call.
class CountingGraph : public cypher::MemoryGraph {
 public:
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                cypher::Column* out) const override {
    const absl::Status status = MemoryGraph::ReadNodeProperty(key, nodes, out);
    Count(*out);
    return status;
  }
  absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                cypher::Column* out) const override {
    const absl::Status status = MemoryGraph::ReadEdgeProperty(key, edges, out);
    Count(*out);
    return status;
  }
  size_t most() const { return most_; }
  size_t calls() const { return calls_; }

 private:
  void Count(const cypher::Column& column) const {
    size_t bytes = 0;
    for (const Value& value : column.values) {
      if (value.is_string()) bytes += value.as_string().size();
    }
    most_ = std::max(most_, bytes);
    ++calls_;
  }
  mutable size_t most_ = 0, calls_ = 0;
};

TEST_F(ExchangeTest, LongValues_AreReadAFewAtATime) {
  CountingGraph graph;
  const Token text = *graph.AddKeyName("text"), label = *graph.AddLabelName("L");
  const Token type = *graph.AddTypeName("T");
  // Long ones among many that are short.
  const std::string lengthy(3 << 20, 'x');
  std::string all;
  NodeId last = 0;
  for (int i = 0; i < 2000; ++i) {
    const Value value = Value::String(i % 100 == 7 ? lengthy : "short");
    last = *graph.CreateNode({&label, 1}, {{text, value}});
    ASSERT_TRUE(graph.CreateEdge(last, last, type, {{text, value}}).ok());
    all += Concat(last, ",", last, ",\"", value.as_string(), "\"\n");
  }
  auto to = NewDirectory::Create(allowed_, "out", "--export").value();
  const auto report = ExportGraph(graph, {{"L"}, {"T"}, {"text"}}, {}, {}, to.get());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LE(graph.most(), size_t{8} << 20);
  EXPECT_LE(graph.calls(), 2U * (20 + 1));  // the short ones cost no calls of their own
  const std::string written = Read("relationships-1-T.csv");
  EXPECT_TRUE(written == ":START_ID(node),:END_ID(node),\"text:string\"\n" + all);
  MemoryDatabase back;
  const auto imported = Import(&back);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->nodes, 2000U);
}

TEST_F(ExchangeTest, DamagedExports_AreRefusedAndLeaveNothing) {
  std::mt19937_64 random(testing_util::TestSeed());
  MemoryDatabase from;
  Fill(&from, random, 30, 60);
  ASSERT_TRUE(Export(&from).ok());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir_.get() + "/out")) {
    names.push_back(entry.path().filename());
  }
  for (const std::string& name : names) {
    const std::string whole = Read(name);
    // Cut anywhere but within the last byte, which is a line's end.
    for (int i = 0; i < 20; ++i) {
      Write(name, whole.substr(0, random() % (whole.size() - 1)));
      MemoryDatabase to;
      const auto report = Import(&to);
      // A cut within the last field of a file may leave a value of its type, and is not seen.
      if (report.ok()) {
        EXPECT_EQ(Lines(&to).size(), Lines(&from).size()) << name;
      } else {
        EXPECT_TRUE(Lines(&to).empty()) << name;
      }
    }
    fs::remove(dir_.get() + "/out/" + name);
    MemoryDatabase to;
    EXPECT_FALSE(Import(&to).ok()) << name;
    EXPECT_TRUE(Lines(&to).empty());
    Write(name, whole);
  }
  MemoryDatabase to;
  EXPECT_TRUE(Import(&to).ok());
}

TEST_F(ExchangeTest, FileWithFewerLines_IsRefused) {
  MemoryDatabase from, to;
  auto transaction = from.Begin().value();
  ASSERT_TRUE(transaction->CreateNode({}, {}).ok());
  ASSERT_TRUE(transaction->CreateNode({}, {}).ok());
  ASSERT_TRUE(transaction->Commit().ok());
  transaction.reset();
  ASSERT_TRUE(Export(&from).ok());
  Write("nodes-1.csv", ":ID(node),:LABEL\n0,\n");
  const auto report = Import(&to);
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_TRUE(Lines(&to).empty());
}

TEST_F(ExchangeTest, MalformedSchemaFile_IsRefusedWithItsLine) {
  const std::string head = "{export: 'pulse graph', version: 1, array_delimiter: ';'}\n";
  const std::string end = "{end: true, nodes: 0, relationships: 0}\n";
  const std::pair<std::string, const char*> wrong[] = {
      {"", "line 0"},
      {"x", "line 1"},
      {"{a: 1}\n" + end, "line 1: not an export"},
      {"{export: 'pulse graph', version: 1}\n" + end, "array_delimiter"},
      {head, "not whole"},
      {head + "[1]\n" + end, "line 2: expected a map"},
      {head + "{nodes: 1, count: 2}\n" + end, "line 2: nodes"},
      {head + "{nodes: 'x'}\n" + end, "count is missing"},
      {head + "{relationships: 'x', count: 1}\n" + end, "type is missing"},
      {head + "{index: 'i', label: 'L', keys: [], kind: 'index'}\n" + end, "line 2: an index"},
      {head + "{index: 'i', label: 'L', keys: ['k'], kind: 'odd'}\n" + end, "no kind odd"},
      {head + "{nodes: '../out/graph.schema', count: 1}\n" + end, "not the name of a file"},
      {head + "{nodes: '/etc/passwd', count: 1}\n" + end, "not the name of a file"},
      {head + end + head, "behind the end"},
  };
  for (const auto& [text, message] : wrong) {
    Write(kSchemaFile, text);
    MemoryDatabase to;
    const auto report = Import(&to);
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << text;
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(message)) << text;
  }
  Write(kSchemaFile, "{export: 'pulse graph', version: 3, array_delimiter: ';'}\n" + end);
  MemoryDatabase to;
  EXPECT_TRUE(absl::IsFailedPrecondition(Import(&to).status()));
}

TEST_F(ExchangeTest, DatabaseThatIsNotEmpty_IsRefused) {
  MemoryDatabase from, to;
  ASSERT_TRUE(Export(&from).ok());
  ASSERT_TRUE(to.CreateIndex({"i", "L", {"k"}}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Import(&to).status()));
  EXPECT_EQ(Lines(&to).size(), 1U);
}

TEST_F(ExchangeTest, StopAndLimit_LeaveNothing) {
  std::mt19937_64 random(testing_util::TestSeed());
  MemoryDatabase from, to;
  Fill(&from, random, 20, 20);
  {
    const auto out = NewDirectory::Create(allowed_, "out", "--export").value();
    ExportOptions options;
    int asked = 0;
    options.stopped = [&asked] { return ++asked > 3; };
    EXPECT_TRUE(absl::IsCancelled(ExportDatabase(&from, options, out.get()).status()));
  }
  EXPECT_TRUE(fs::is_empty(dir_.get()));
  ASSERT_TRUE(Export(&from).ok());
  ImportOptions options;
  options.stopped = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Import(&to, options).status()));
  EXPECT_TRUE(Lines(&to).empty());
  EXPECT_TRUE(absl::IsResourceExhausted(Import(&to, {.memory_bytes = 10}).status()));
  EXPECT_TRUE(Lines(&to).empty());
}

TEST_F(ExchangeTest, SmallRecords_CountForWhatTheyTakeInMemory) {
  std::string nodes = ":ID(node),:LABEL\n";
  constexpr int kNodes = 20'000;
  for (int i = 0; i < kNodes; ++i) nodes += Concat(i, ",\n");
  Write("n.csv", nodes);
  Write(kSchemaFile, Concat("{export: 'pulse graph', version: 1, array_delimiter: ';'}\n"
                            "{nodes: 'n.csv', count: ",
                            kNodes, "}\n{end: true, nodes: ", kNodes, ", relationships: 0}\n"));
  auto store = GraphStore::Open(dir_.get() + "/db").value();
  // Each takes some hundred bytes in the transaction, and seven in the file.
  const auto refused = [&](uint64_t memory, const char* option) {
    const auto report = Import(store.get(), {.memory_bytes = memory});
    EXPECT_TRUE(absl::IsResourceExhausted(report.status())) << report.status();
    EXPECT_THAT(std::string(report.status().message()),
                HasSubstr(Concat("bytes of memory (", option,
                                 "): `pulse graph import` needs less, and has no limit")));
    EXPECT_TRUE(Lines(store.get()).empty());
  };
  refused(nodes.size(), "--query-memory");
  ASSERT_TRUE(store->Close().ok());
  store = nullptr;
  StoreOptions small;
  small.transaction_memory = size_t{kNodes} * 100;
  store = GraphStore::Open(dir_.get() + "/db", small).value();
  refused(uint64_t{64} << 20, "--transaction-memory");
  ASSERT_TRUE(store->Close().ok());
  store = nullptr;
  // What is read may take all of its limit, whatever the transaction takes.
  store = GraphStore::Open(dir_.get() + "/db").value();
  const auto report = Import(store.get(), {.memory_bytes = size_t{kNodes} * 100});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, uint64_t{kNodes});
}

TEST_F(ExchangeTest, NameThatIsTaken_IsRefusedAndKept) {
  MemoryDatabase from;
  Write("other", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(Export(&from).status()));
  EXPECT_EQ(Read("other"), "x");
  fs::create_directory(dir_.get() + "/empty");
  EXPECT_TRUE(Export(&from, "empty").ok());
  fs::create_symlink("/nowhere", dir_.get() + "/link");
  EXPECT_TRUE(absl::IsAlreadyExists(Export(&from, "link").status()));
}

TEST_F(ExchangeTest, WhatAKilledExportLeft_IsRemoved) {
  MemoryDatabase from, to;
  fs::create_directory(dir_.get() + "/.out.partial");
  std::ofstream(dir_.get() + "/.out.partial/" + kSchemaFile) << "half";
  std::ofstream(dir_.get() + "/.out.partial/nodes-9.csv") << "half";
  ASSERT_TRUE(Export(&from).ok());
  EXPECT_FALSE(fs::exists(dir_.get() + "/out/nodes-9.csv"));
  EXPECT_TRUE(Import(&to).ok());
  const auto first = NewDirectory::Create(allowed_, "two", "--export");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(NewDirectory::Create(allowed_, "two", "--export").status()));
}

TEST_F(ExchangeTest, CommitInPlace_TakesNothingThatOthersHave) {
  Write("old", "x");
  auto made = NewDirectory::Create(allowed_, "out", "--export", true).value();
  ASSERT_TRUE(made->CreateFile("new").ok());
  // Who has it thinks that it is what a kill left, and writes to it.
  const UniqueFd other = OpenFile(dir_.get() + "/out", O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(made->CommitInPlace()));
  EXPECT_EQ(Read("old"), "x");
  ASSERT_EQ(flock(other.get(), LOCK_UN), 0);
  EXPECT_TRUE(made->CommitInPlace().ok());
  EXPECT_TRUE(fs::exists(dir_.get() + "/out/new"));
  EXPECT_FALSE(fs::exists(dir_.get() + "/out/old"));
  // In place of a link nothing is put, and nothing stays.
  fs::create_directory_symlink("out", dir_.get() + "/link");
  made = NewDirectory::Create(allowed_, "link", "--export", true).value();
  EXPECT_FALSE(made->CommitInPlace().ok());
  made.reset();
  EXPECT_TRUE(fs::is_symlink(dir_.get() + "/link"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir_.get() + "/.link.partial")));
}

TEST_F(ExchangeTest, PathsOutsideTheDirectory_AreRefused) {
  MemoryDatabase from;
  fs::create_directory(dir_.get() + "/below");
  const AllowedDirectory below{.path = dir_.get() + "/below"};
  fs::create_directory_symlink("..", dir_.get() + "/below/up");
  for (const char* where : {"../out", "up/out", "a/../../out", "..", ".", "/", "", "up"}) {
    const auto to = NewDirectory::Create(below, where, "--export");
    EXPECT_FALSE(to.ok()) << where;
  }
  EXPECT_FALSE(fs::exists(dir_.get() + "/out"));
  ASSERT_TRUE(Export(&from).ok());
  for (const char* where : {"../out", "up/out", ".."}) {
    EXPECT_TRUE(absl::IsPermissionDenied(OpenExport(below, where, "--import").status())) << where;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(OpenExport({}, "out", "--import").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(NewDirectory::Create({}, "o", "--export").status()));
  // A file of an export that is a link.
  Write(kSchemaFile,
        "{export: 'pulse graph', version: 1, array_delimiter: ';'}\n{nodes: 'n.csv', count: 1}\n"
        "{end: true, nodes: 1, relationships: 0}\n");
  fs::create_symlink("/etc/hostname", dir_.get() + "/out/n.csv");
  MemoryDatabase to;
  EXPECT_FALSE(Import(&to).ok());
  fs::remove(dir_.get() + "/out/n.csv");
  ASSERT_EQ(mkfifo((dir_.get() + "/out/n.csv").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(Import(&to).status()));
}

}  // namespace
}  // namespace pulse::graph
