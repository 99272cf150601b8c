// What a load has in memory: long texts stay in their files, and limits are kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "services/graph/load/test_load.h"
#include "services/graph/model/test_heap.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using test::File;
using test::LoadInto;
using test::MemoryGraph;
using testing_util::TestSeed;
using testing_util::Text;

// Keeps nothing but numbers, and looks at the heap in each call.
class HeapSink : public LoadSink {
 public:
  explicit HeapSink(bool runs) : runs_(runs) {
    for (Output& output : outputs_) output.sink = this;
  }
  absl::StatusOr<Token> Label(std::string_view) override { return 0; }
  absl::StatusOr<Token> Type(std::string_view) override { return 0; }
  absl::StatusOr<Token> Key(std::string_view name) override {
    return name == "t" ? 1 : name == "u" ? 2 : 0;
  }
  absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) override {
    Look();
    for (uint64_t i = 0; i < batch.count; ++i) ids->push_back(next_++);
    Add(batch.columns);
    return absl::OkStatus();
  }
  bool TakesRuns() const override { return runs_; }
  absl::StatusOr<RunSink*> StartRun(Side side) override {
    return &outputs_[static_cast<size_t>(side)];
  }
  absl::Status AdoptRuns(const RunInfo&, const RunInfo&) override { return absl::OkStatus(); }
  absl::Status AddEdges(const EdgeBatch& batch) override {
    Look();
    Add(batch.columns);
    return absl::OkStatus();
  }
  void Look() { most_ = std::max(most_, HeapBytes()); }

  size_t most_ = 0;
  NodeId next_ = 0;
  uint64_t text_bytes_ = 0;
  uint64_t run_bytes_ = 0;

 private:
  struct Output : RunSink {
    absl::Status Append(absl::string_view bytes) override {
      const std::lock_guard lock(sink->mu_);
      sink->Look();
      sink->run_bytes_ += bytes.size();
      return absl::OkStatus();
    }
    HeapSink* sink = nullptr;
  };
  void Add(const LoadColumns& columns) {
    for (const auto& [key, column] : columns) {
      for (const Value& value : column.values) {
        if (value.is_string()) text_bytes_ += value.as_string().size();
      }
    }
  }
  const bool runs_;
  std::mutex mu_;
  Output outputs_[2];
};

TEST(LoadCsv, LongTexts_AreInMemoryAFewAtATime) {
  constexpr size_t kLong = size_t{3} << 20, kRows = 24;
  std::string nodes_text = "id,t\n", edges_text = "a,b,t\n";
  for (size_t i = 0; i < kRows; ++i) {
    // With a quote in it, and without.
    const std::string text = std::string(kLong / 2, 'x') + (i % 2 == 0 ? "\"\"" : ",") +
                             std::string(kLong / 2, static_cast<char>('a' + i));
    nodes_text += std::to_string(i) + ",\"" + text + "\"\n";
    edges_text += "0," + std::to_string(i) + ",\"" + text + "\"\n";
  }
  const File nodes(nodes_text), edges(edges_text);
  nodes_text = {};
  edges_text = {};
  for (const bool runs : {true, false}) {
    HeapSink sink(runs);
    const size_t before = HeapBytes();
    LoadOptions options{.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}};
    options.threads = 2;
    options.memory_bytes = uint64_t{4} << 20;
    const auto report = LoadCsv(options, &sink);
    ASSERT_TRUE(report.ok()) << report.status();
    const uint64_t all = kRows * (kLong + 1);
    EXPECT_EQ(sink.text_bytes_, runs ? all : 2 * all);
    EXPECT_TRUE(!runs || sink.run_bytes_ > all) << sink.run_bytes_;
    EXPECT_LE(report->memory_bytes, options.memory_bytes);
    // Runs: a segment, what becomes one, and what is written of it.
    if (before == 0) continue;
    EXPECT_LE(sink.most_ - before, runs ? size_t{32} << 20 : 17 * kLong);
  }
}

TEST(LoadCsv, FileThatIsChangedUnderATextInIt_EndsTheLoad) {
  const std::string text(10'000, 'x'), begin = "a,b,t\n1,1,";
  for (const bool cut : {true, false}) {
    const File nodes("id\n1\n"), edges(begin + text + "\n");
    LoadOptions options{.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}};
    options.quiet_ns = 0;
    bool changed = false;
    options.progress = [&](const LoadProgress& progress) {
      if (progress.what != "writing nodes" || std::exchange(changed, true)) return;
      // In place: it gets another length, or stays what it was and something comes behind it.
      std::fstream file(edges.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(begin.size() + (cut ? 5000 : text.size() + 1)));
      file << (cut ? "," : "2,2,\n");
    };
    MemoryGraph graph;
    const auto report = LoadInto(options, &graph);
    EXPECT_TRUE(changed);
    EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
    EXPECT_NE(Text(report.status()).find(edges.path() + " was changed"), std::string::npos);
    EXPECT_EQ(graph.edges().size(), cut ? 0u : 1u);  // which nobody commits
  }
}

// One of many columns is as quick to get as the only one: the rest of the record is not read.
TEST(LoadCsv, LongTextsInManyColumns_AreLoaded) {
  constexpr size_t kColumns = 300;
  std::string header = "id", row = "1";
  for (size_t c = 0; c < kColumns; ++c) {
    header += Concat(",t", c);
    row += Concat(",", std::string(5000 + c, static_cast<char>('a' + c % 26)));
  }
  const File nodes(header + "\n" + row + "\n");
  MemoryGraph graph;
  const auto report = LoadInto({.nodes = {{"N", nodes.path()}}}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto& properties = graph.nodes().begin()->second.properties;
  for (size_t c = 0; c < kColumns; ++c) {
    EXPECT_EQ(properties.at(*graph.FindKey(Concat("t", c))).as_string(),
              std::string(5000 + c, static_cast<char>('a' + c % 26)));
  }
}

// A sink that is given relationships looks at how many come at once.
class BatchSink : public HeapSink {
 public:
  BatchSink() : HeapSink(false) {}
  absl::Status AddEdges(const EdgeBatch& batch) override {
    batches_.push_back(batch.sources.size());
    return absl::OkStatus();
  }
  std::vector<size_t> batches_;
};

TEST(LoadCsv, OneLongText_LeavesOtherRowsTogether) {
  std::string edges_text = "a,b,t\n";
  for (int i = 0; i < 1000; ++i) {
    const size_t bytes = i == 500 ? size_t{3} << 20 : i % 2 == 0 ? 10 : 5000;
    edges_text += "1,1," + std::string(bytes, 'x') + "\n";
  }
  const File nodes("id\n1\n"), edges(edges_text);
  LoadOptions options{.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}};
  BatchSink sink;
  ASSERT_TRUE(LoadCsv(options, &sink).ok());
  // 2.5 MB of texts of 5000 bytes, and one that ends its batch, a MiB at a time.
  EXPECT_LE(sink.batches_.size(), 5u);
  EXPECT_GE(sink.batches_.size(), 4u);
  EXPECT_EQ(std::accumulate(sink.batches_.begin(), sink.batches_.end(), size_t{0}), 1000u);
}

TEST(LoadCsv, TextsThatStayInTheFile_AreLoadedAsOthers) {
  std::mt19937_64 random(TestSeed());
  std::string nodes_text = "id,t,u:string\n", edges_text = "a,b,t,u:string[]\n";
  std::map<std::string, std::string> texts;
  for (size_t i = 0; i < 60; ++i) {
    const auto field = [&] {
      std::string text(random() % 3 == 0 ? 4090 + random() % 12 : random() % 20, 'x');
      for (char& c : text) c = "abc,;\n\"\\7"[random() % 9];
      return text;
    };
    const auto quoted = [](const std::string& text) {
      std::string out = "\"";
      for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
      return out + "\"";
    };
    const std::string id = std::to_string(i);
    const std::string first = field(), second = field();
    nodes_text += id + "," + quoted(first) + "," + quoted(second) + "\r\n";
    edges_text += id + ",0," + quoted(second) + "," + quoted(first) + "\n";
    texts[id] = first;
    texts["-" + id] = second;
  }
  const File nodes(nodes_text), edges(edges_text);
  MemoryGraph graph;
  const auto report =
      LoadInto({.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}}, &graph);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(graph.edges().size(), 60u);
  const Token id = *graph.FindKey("id"), t = *graph.FindKey("t"), u = *graph.FindKey("u");
  for (const auto& [node, held] : graph.nodes()) {
    const std::string number = std::to_string(held.properties.at(id).as_int());
    EXPECT_EQ(held.properties.at(t).as_string(), texts[number]);
    EXPECT_EQ(held.properties.at(u).as_string(), texts["-" + number]);
  }
  for (const auto& [number, edge] : graph.edges()) {
    const auto& source = graph.nodes().at(edge.ref.source).properties;
    const std::string name = std::to_string(source.at(id).as_int());
    EXPECT_EQ(edge.properties.at(t).as_string(), texts["-" + name]);
    std::string joined;
    for (const Value& item : edge.properties.at(u).as_list()) joined += item.as_string() + ";";
    EXPECT_EQ(joined, texts[name].empty() ? "" : texts[name] + ";");
  }
}

TEST(LoadCsv, LimitOfMemory_IsKeptAndNamed) {
  std::string ids = "id\n", pairs = "a,b,w\n";
  for (size_t i = 0; i < 200'000; ++i) {
    ids += std::to_string(i) + "\n";
    pairs += std::to_string(i) + ",0,1\n";
  }
  const File nodes(ids), edges(pairs);
  LoadOptions options{.nodes = {{"N", nodes.path()}}, .edges = {{"E", edges.path()}}};
  options.threads = 1;
  HeapSink whole(true);
  const size_t before = HeapBytes();
  const auto report = LoadCsv(options, &whole);
  ASSERT_TRUE(report.ok()) << report.status();
  // The estimate is no fantasy.
  if (before > 0) {
    EXPECT_GE(report->memory_bytes, (whole.most_ - before) / 2);
    EXPECT_LE(report->memory_bytes, (whole.most_ - before) * 3);
  }
  for (const uint64_t part : {1, 2, 3}) {
    options.memory_bytes = report->memory_bytes * part / 4;
    HeapSink sink(true);
    const auto limited = LoadCsv(options, &sink);
    EXPECT_TRUE(absl::IsResourceExhausted(limited.status())) << limited.status();
    EXPECT_NE(Text(limited.status()).find(std::to_string(options.memory_bytes)), std::string::npos);
    EXPECT_EQ(sink.next_, 0u);  // nothing came
  }
}

}  // namespace
}  // namespace pulse::graph
