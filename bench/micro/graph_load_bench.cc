// Bulk load of CSV into runs in memory: 200,000 nodes, 2 million relationships (PULSE_BENCH_EDGES
// changes it), skewed, one integer property. What a store adds, its nodes table and its files, is
// not in it. The files are in PULSE_BENCH_DIR, or the working directory.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "services/graph/load/load.h"

namespace pulse::graph {
namespace {

uint64_t EdgeTotal() {
  const char* text = std::getenv("PULSE_BENCH_EDGES");
  return text == nullptr ? 2'000'000 : std::strtoull(text, nullptr, 10);
}

class Files {
 public:
  Files() {
    const char* dir = std::getenv("PULSE_BENCH_DIR");
    const std::string base =
        std::string(dir == nullptr ? "." : dir) + "/load-bench-" + std::to_string(getpid());
    nodes_ = base + "-nodes.csv";
    edges_ = base + "-edges.csv";
    const uint64_t total = EdgeTotal(), nodes = std::max<uint64_t>(total / 10, 1);
    std::string text = "id,age\n";
    std::mt19937_64 random(42);
    for (uint64_t i = 0; i < nodes; ++i) {
      text += std::to_string(i) + "," + std::to_string(random() % 100) + "\n";
    }
    Write(nodes_, text);
    std::uniform_real_distribution<double> uniform(0, 1);
    text = "a,b,w\n";
    const auto node = [&](double power) {
      return static_cast<uint64_t>(std::pow(uniform(random), power) * static_cast<double>(nodes));
    };
    for (uint64_t i = 0; i < total; ++i) {
      text += std::to_string(node(1.5)) + "," + std::to_string(node(3)) + "," +
              std::to_string(random() % 100) + "\n";
    }
    Write(edges_, text);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() {
    unlink(nodes_.c_str());
    unlink(edges_.c_str());
  }
  const std::string& nodes() const { return nodes_; }
  const std::string& edges() const { return edges_; }

 private:
  static void Write(const std::string& path, const std::string& text) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
        std::fclose(file) != 0) {
      std::fprintf(stderr, "graph_load_bench: %s cannot be written\n", path.c_str());
      std::exit(1);
    }
  }
  std::string nodes_, edges_;
};

// Numbers nodes and counts bytes.
class CountingSink : public LoadSink {
 public:
  class Count : public RunSink {
   public:
    absl::Status Append(absl::string_view bytes) override {
      bytes_ += bytes.size();
      return absl::OkStatus();
    }
    uint64_t bytes_ = 0;
  };
  absl::StatusOr<Token> Label(std::string_view /*name*/) override { return Token{0}; }
  absl::StatusOr<Token> Type(std::string_view /*name*/) override { return Token{0}; }
  absl::StatusOr<Token> Key(std::string_view name) override {
    return static_cast<Token>(name.size() == 1 ? 0 : name.size());
  }
  absl::Status AddNodes(const NodeBatch& batch, std::vector<NodeId>* ids) override {
    for (uint64_t i = 0; i < batch.count; ++i) ids->push_back(ids->size());
    return absl::OkStatus();
  }
  bool TakesRuns() const override { return true; }
  absl::StatusOr<EdgeId> ReserveEdgeIds(uint64_t /*count*/) override { return EdgeId{0}; }
  absl::StatusOr<RunSink*> StartRun(Side side) override { return &runs_[static_cast<int>(side)]; }
  absl::Status AdoptRuns(const RunInfo& /*out*/, const RunInfo& /*in*/) override {
    return absl::OkStatus();
  }
  absl::Status AddEdges(const EdgeBatch& /*batch*/) override { return absl::OkStatus(); }
  uint64_t bytes() const { return runs_[0].bytes_ + runs_[1].bytes_; }

 private:
  Count runs_[2];
};

void BM_LoadCsv(benchmark::State& state) {
  const Files files;
  LoadOptions options{.nodes = {{"N", files.nodes()}}, .edges = {{"E", files.edges()}}};
  options.threads = static_cast<int>(state.range(0));
  uint64_t edges = 0;
  LoadReport report;
  uint64_t bytes = 0;
  for (auto _ : state) {
    CountingSink sink;
    auto loaded = LoadCsv(options, &sink);
    if (!loaded.ok()) {
      std::fprintf(stderr, "graph_load_bench: %s\n",
                   std::string(loaded.status().message()).c_str());
      std::exit(1);
    }
    report = *std::move(loaded);
    edges += report.edges;
    bytes = sink.bytes();
  }
  state.counters["edges/s"] =
      benchmark::Counter(static_cast<double>(edges), benchmark::Counter::kIsRate);
  state.counters["bytes/edge"] =
      static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(report.edges, 1));
  state.counters["read_ms"] = static_cast<double>(report.read_ns) / 1e6;
  state.counters["sort_ms"] = static_cast<double>(report.sort_ns) / 1e6;
  state.counters["write_ms"] = static_cast<double>(report.write_ns) / 1e6;
}
BENCHMARK(BM_LoadCsv)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace pulse::graph
