// Databases of all formats, as files of this repository: each later version opens them.
//
// PULSE_WRITE_FIXTURE=DIR graph_core_test --gtest_filter='*FormatFixture*' writes the one of
// today's format, into a directory that is not there yet. Only a new format gets a new one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/model/literal.h"

namespace pulse::graph {
namespace {

Value LiteralOf(std::string_view text) {
  std::string error;
  auto value = cypher::ParseLiteral(text, &error);
  EXPECT_TRUE(value.has_value()) << text << ": " << error;
  return value.value_or(Value());
}

// Each type of value that a format has, for properties of nodes and relationships.
std::vector<Value> FixtureValues(uint32_t format) {
  const std::string_view literals[] = {
      "true",
      "-7",
      "4611686018427387904",
      "0.5",
      "'Grüße'",
      "[1, 2, 3]",
      "['a', 'b']",
      "date('2024-02-29')",
      "localtime('12:30:15.000000001')",
      "time('12:30:15+02:00')",
      "localdatetime('2024-02-29T12:30:15')",
      "datetime('2024-02-29T12:30:15+01:00')",
      "duration('P1M2DT3.5S')",
  };
  std::vector<Value> values;
  for (const std::string_view text : literals) values.push_back(LiteralOf(text));
  if (format >= 2) {
    values.push_back(Value::MakeBytes(std::string_view("\0\xFF", 2)));
    values.push_back(LiteralOf("point({longitude: 13.4, latitude: 52.5, height: 34})"));
    values.push_back(LiteralOf("[point({x: 1, y: 2}), point({x: 3, y: -0.5})]"));
  }
  return values;
}

class FixtureWriter {
 public:
  FixtureWriter(GraphStore* store, uint32_t format)
      : store_(store), values_(FixtureValues(format)), extended_(format >= 3) {}

  // Nodes and names in a checkpoint, relationships in runs with and without stamps, and the rest in
  // the log alone.
  void Write() {
    Begin();
    const Token person = *tx_->AddLabelName("Person"), city = *tx_->AddLabelName("City");
    const std::vector<Token> labels[] = {{person}, {city}, {person, city}, {}};
    for (size_t i = 0; i < 100; ++i) {
      Properties properties = {{Key("number"), Value::Int(static_cast<int64_t>(i * i))},
                               {Key("any"), Some(i)}};
      if (i % 5 == 0) properties.emplace_back(Key("name"), Value::String(Concat("node ", i)));
      std::sort(properties.begin(), properties.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      nodes_.push_back(*tx_->CreateNode(labels[i % 4], properties));
    }
    Commit();
    ASSERT_TRUE(store_->CreateIndex({"numbers", "Person", {"number", "name"}}).ok());
    ASSERT_TRUE(store_->CreateIndex({"one", "City", {"number"}, true, true, false}).ok());
    Link(300);
    ASSERT_TRUE(store_->Flush().ok());
    const auto kept = *store_->Snapshot();
    Link(60);
    Begin();
    for (size_t i = 0; i < edges_.size(); i += 9) {
      ASSERT_TRUE(tx_->SetEdgeProperty(edges_[i], Key("w"), Value::Int(-1)).ok());
      ASSERT_TRUE(tx_->DeleteEdge(edges_[i + 1]).ok());
    }
    Commit();
    ASSERT_TRUE(store_->Checkpoint().ok());
    Link(20);
    Begin();
    ASSERT_TRUE(tx_->SetNodeProperty(nodes_[1], Key("later"), Value::Bool(true)).ok());
    ASSERT_TRUE(tx_->RemoveLabel(nodes_[2], person).ok());
    ASSERT_TRUE(tx_->AddLabel(nodes_[3], *tx_->AddLabelName("Late")).ok());
    ASSERT_TRUE(tx_->SetEdgeProperty(edges_[2], Key("w"), Value::Float(2.5)).ok());
    ASSERT_TRUE(tx_->DeleteEdge(edges_[3]).ok());
    ASSERT_TRUE(tx_->DeleteNode(*tx_->CreateNode({}, {})).ok());
    Commit();
    // One that was there before, and has no relationship.
    Begin();
    const NodeId lonely = *tx_->CreateNode({&person, 1}, {});
    Commit();
    Begin();
    ASSERT_TRUE(tx_->DeleteNode(lonely).ok());
    Commit();
    if (!extended_) return;
    ASSERT_TRUE(store_
                    ->CreateIndex({.name = "typed",
                                   .label = "Person",
                                   .keys = {"number"},
                                   .constraint = true,
                                   .type = "INTEGER"})
                    .ok());
    ASSERT_TRUE(store_
                    ->CreateIndex({.name = "edge_typed",
                                   .label = "IN",
                                   .keys = {"w"},
                                   .constraint = true,
                                   .of_edges = true,
                                   .type = "INTEGER"})
                    .ok());
  }

 private:
  void Begin() { tx_ = *store_->Begin(); }
  void Commit() { ASSERT_TRUE(tx_->Commit().ok()); }
  Token Key(std::string_view name) { return *tx_->AddKeyName(name); }
  const Value& Some(size_t i) const { return values_[i % values_.size()]; }
  void Link(size_t count) {
    Begin();
    const Token types[] = {*tx_->AddTypeName("KNOWS"), *tx_->AddTypeName("IN")};
    for (size_t i = 0; i < count; ++i) {
      Properties properties;
      if (i % 3 != 0) properties = {{Key("w"), Value::Int(static_cast<int64_t>(i))}};
      if (i % 7 == 0) properties = {{Key("kind"), Some(i / 7)}};
      edges_.push_back(*tx_->CreateEdge(nodes_[i * i % 50], nodes_[i * 13 % 100],
                                        types[i % 5 == 0 ? 1 : 0], properties));
    }
    Commit();
  }

  GraphStore* const store_;
  const std::vector<Value> values_;
  const bool extended_;
  std::unique_ptr<cypher::DatabaseTransaction> tx_;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
};

std::string DumpOf(GraphStore* store) {
  const auto view = store->Snapshot();
  return view.ok() ? DumpStore(**view) : testing_util::Text(view.status());
}

StoreOptions FixtureOptions() {
  StoreOptions options;
  options.background = false;
  return options;
}

void WriteFixture(const char* to) {
  namespace fs = std::filesystem;
  ASSERT_FALSE(fs::exists(to)) << to << " is there already";
  fs::create_directories(to);
  {
    auto store = GraphStore::Open(to, FixtureOptions());
    ASSERT_TRUE(store.ok()) << store.status();
    FixtureWriter(store->get(), kStoreFormat).Write();
  }
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(to)) bytes += entry.file_size();
  EXPECT_LT(bytes, 60'000u);
}

class FormatFixture : public testing::TestWithParam<uint32_t> {};

TEST_P(FormatFixture, Database_IsReadWhole_AndGoesOn) {
  namespace fs = std::filesystem;
  const uint32_t format = GetParam();
  if (const char* to = std::getenv("PULSE_WRITE_FIXTURE")) {
    if (format == kStoreFormat) WriteFixture(to);
    return;
  }
  const std::string fixture = Concat(PULSE_GRAPH_FIXTURES "/format-", format);
  ASSERT_TRUE(fs::exists(fixture)) << "PULSE_WRITE_FIXTURE=" << fixture << " makes it";
  SimFiles files;
  StoreOptions options = FixtureOptions();
  options.files = &files;
  const auto today = *GraphStore::Open("db", options);
  FixtureWriter(today.get(), format).Write();
  const std::string expected = DumpOf(today.get());

  testing_util::ScratchPath copy{"graph-format"};
  fs::copy(fixture, copy.get(), fs::copy_options::recursive);
  options = FixtureOptions();
  options.read_only = true;
  {
    const auto store = GraphStore::Open(copy.get(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(DumpOf(store->get()), expected);
    EXPECT_EQ((*store)->Indexes(), today->Indexes());
    EXPECT_EQ((*store)->stats().damage, "");
  }
  options.read_only = false;
  {
    const auto store = GraphStore::Open(copy.get(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    auto tx = *(*store)->Begin();
    ASSERT_TRUE(tx->CreateEdge(0, 1, *tx->AddTypeName("NEW"), {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE((*store)->Compact().ok());
    ASSERT_TRUE((*store)->Close().ok());
  }
  auto tx = *today->Begin();
  ASSERT_TRUE(tx->CreateEdge(0, 1, *tx->AddTypeName("NEW"), {}).ok());
  ASSERT_TRUE(tx->Commit().ok());
  {
    const auto store = GraphStore::Open(copy.get(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(DumpOf(store->get()), DumpOf(today.get()));
  }
  fs::remove_all(copy.get());
}

INSTANTIATE_TEST_SUITE_P(Of, FormatFixture, testing::Range(1u, kStoreFormat + 1));

}  // namespace
}  // namespace pulse::graph
