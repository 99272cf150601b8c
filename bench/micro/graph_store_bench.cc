// The graph store in C++, without a query language: inserts, durable commits beside a bare append
// and fdatasync, scans and neighbours out of runs, and reopening. Its files lie in the working
// directory.
//   --benchmark_min_time=0.01 runs it tiny.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_calls.h"
#include "services/graph/core/store.h"

namespace pulse::graph {
namespace {

using cypher::Column;
using cypher::Direction;
using cypher::EdgeRef;
using cypher::NodeId;
using cypher::Token;
using cypher::Value;

class BenchStore {
 public:
  explicit BenchStore(const StoreOptions& options, const std::string& name = "graph-store-bench")
      : path_(name + "-" + std::to_string(getpid())) {
    std::filesystem::remove_all(path_);
    Reopen(options);
  }
  ~BenchStore() {
    store_.reset();
    std::filesystem::remove_all(path_);
  }
  void Reopen(const StoreOptions& options) {
    store_.reset();
    auto store = GraphStore::Open(path_, options);
    if (!store.ok()) Fail(store.status());
    store_ = *std::move(store);
  }
  void Kill() { store_.reset(); }
  static void Fail(const absl::Status& status) {
    fprintf(stderr, "graph_store_bench: %s\n", status.ToString().c_str());
    exit(1);
  }
  GraphStore* operator->() { return store_.get(); }
  GraphStore* get() { return store_.get(); }

  std::vector<NodeId> MakeNodes(size_t count) {
    auto tx = *store_->Begin();
    std::vector<NodeId> nodes;
    for (size_t i = 0; i < count; ++i) nodes.push_back(*tx->CreateNode({}, {}));
    if (const absl::Status status = tx->Commit(); !status.ok()) Fail(status);
    return nodes;
  }

 private:
  std::string path_;
  std::unique_ptr<GraphStore> store_;
};

// Relationships with a property of 0 to 99, and a text of so many bytes, between random nodes.
void Insert(GraphStore* store, const std::vector<NodeId>& nodes, size_t edges, size_t batch,
            std::mt19937_64* random, size_t text_bytes = 0) {
  const Value text = Value::String(std::string(text_bytes, 'x'));
  for (size_t done = 0; done < edges; done += batch) {
    auto tx = *store->Begin();
    const Token type = *tx->AddTypeName("T"), key = *tx->AddKeyName("w");
    const Token more = text_bytes == 0 ? key : *tx->AddKeyName("text");
    for (size_t i = 0; i < batch; ++i) {
      const uint64_t r = (*random)();
      cypher::Properties properties = {{key, Value::Int(static_cast<int64_t>(r % 100))}};
      if (text_bytes > 0) properties.emplace_back(more, text);
      tx->CreateEdge(nodes[(r >> 32) % nodes.size()], nodes[(r & 0xFFFFFFFF) % nodes.size()], type,
                     properties)
          .IgnoreError();
    }
    if (const absl::Status status = tx->Commit(); !status.ok()) BenchStore::Fail(status);
  }
}

void BM_InsertBatched(benchmark::State& state) {
  StoreOptions options;
  options.sync = state.range(0) != 0;
  BenchStore store(options);
  const auto nodes = store.MakeNodes(100'000);
  std::mt19937_64 random(1);
  constexpr size_t kBatch = 5000;
  for (auto _ : state) Insert(store.get(), nodes, kBatch, kBatch, &random);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatch));
}
BENCHMARK(BM_InsertBatched)->Arg(0)->Arg(1)->UseRealTime();

// What a commit cannot be faster than: the same bytes appended to a file, and fdatasync.
void BM_BareAppend(benchmark::State& state) {
  const std::string path = "graph-store-bench-append-" + std::to_string(getpid());
  const UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
  const std::string bytes(40, 'x');
  uint64_t offset = 0;
  for (auto _ : state) {
    if (!WriteAt(fd.get(), bytes, offset, path).ok() || fdatasync(fd.get()) != 0) exit(1);
    offset += bytes.size();
  }
  unlink(path.c_str());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_BareAppend)->UseRealTime();

void BM_DurableSingleEdge(benchmark::State& state) {
  static BenchStore* store;
  static std::vector<NodeId> nodes;
  if (state.thread_index() == 0) {
    store = new BenchStore(StoreOptions());
    nodes = store->MakeNodes(1000);
  }
  std::mt19937_64 random(static_cast<uint64_t>(state.thread_index()));
  for (auto _ : state) Insert(store->get(), nodes, 1, 1, &random);
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) delete store;
}
BENCHMARK(BM_DurableSingleEdge)->Threads(1)->Threads(8)->UseRealTime();

// 200,000 nodes and 2 million relationships, flushed; 1: and merged into one run.
BenchStore& Filled(bool merged) {
  static BenchStore* stores[2];
  BenchStore*& store = stores[merged ? 1 : 0];
  if (store == nullptr) {
    StoreOptions options;
    options.sync = false;
    store = new BenchStore(options, merged ? "graph-store-bench-merged" : "graph-store-bench-runs");
    atexit([] {
      for (BenchStore*& s : stores) delete std::exchange(s, nullptr);  // said for each of them
    });
    const auto nodes = store->MakeNodes(200'000);
    std::mt19937_64 random(7);
    Insert(store->get(), nodes, 2'000'000, 5000, &random);
    const absl::Status status = merged ? (*store)->Compact() : (*store)->Flush();
    if (!status.ok()) BenchStore::Fail(status);
  }
  return *store;
}

// What MATCH ()-[e]->() RETURN sum(e.w) does.
void BM_SumOfAColumn(benchmark::State& state) {
  BenchStore& store = Filled(state.range(0) != 0);
  const auto view = *store->Snapshot();
  const Token key = *view->FindKey("w");
  Column column;
  int64_t count = 0;
  for (auto _ : state) {
    uint64_t position = 0;
    int64_t sum = 0;
    while (const size_t n = view->ScanEdgeProperty({}, key, &position, 4096, &column).value_or(0)) {
      for (size_t i = 0; i < n; ++i) sum += column.valid[i] != 0 ? column.ints[i] : 0;
      count += static_cast<int64_t>(n);
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(count);
}
BENCHMARK(BM_SumOfAColumn)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// The same where the relationships are wanted, too.
void BM_SumOfAProperty(benchmark::State& state) {
  BenchStore& store = Filled(state.range(0) != 0);
  const auto view = *store->Snapshot();
  const Token key = *view->FindKey("w");
  std::vector<EdgeRef> edges(4096);
  Column column;
  int64_t count = 0;
  for (auto _ : state) {
    uint64_t position = 0;
    int64_t sum = 0;
    while (const size_t n = view->ScanEdges({}, &position, edges).value_or(0)) {
      if (!view->ReadEdgeProperty(key, {edges.data(), n}, &column).ok()) exit(1);
      for (size_t i = 0; i < n; ++i) sum += column.valid[i] != 0 ? column.ints[i] : 0;
      count += static_cast<int64_t>(n);
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(count);
  const StoreStats stats = store->stats();
  state.counters["runs"] = static_cast<double>(stats.out_runs);
  state.counters["bytes_per_edge"] = static_cast<double>(stats.run_bytes) / 2e6;
}
BENCHMARK(BM_SumOfAProperty)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// The second argument is 1: with identifiers, types and directions; 0: ends alone.
void BM_Neighbours(benchmark::State& state) {
  BenchStore& store = Filled(state.range(0) != 0);
  const auto view = *store->Snapshot();
  std::vector<NodeId> nodes(1024);
  cypher::NeighbourBatch batch;
  batch.ends_only = state.range(1) == 0;
  int64_t count = 0;
  for (auto _ : state) {
    uint64_t position = 0;
    while (const size_t n = view->ScanNodes(cypher::kNoToken, &position, nodes).value_or(0)) {
      cypher::ExpandPosition at;
      while (at.node < n) {
        batch.clear();
        if (!view->Expand({nodes.data(), n}, Direction::kOut, {}, 4096, &at, &batch).ok()) exit(1);
        count += static_cast<int64_t>(batch.size());
      }
    }
  }
  state.SetItemsProcessed(count);
}
BENCHMARK(BM_Neighbours)
    ->Args({0, 0})
    ->Args({0, 1})
    ->Args({1, 0})
    ->Args({1, 1})
    ->Unit(benchmark::kMillisecond);

// How many each node has.
void BM_Degrees(benchmark::State& state) {
  BenchStore& store = Filled(state.range(0) != 0);
  const auto view = *store->Snapshot();
  std::vector<NodeId> nodes(1024);
  std::vector<uint64_t> degrees(1024);
  int64_t count = 0;
  for (auto _ : state) {
    uint64_t position = 0;
    while (const size_t n = view->ScanNodes(cypher::kNoToken, &position, nodes).value_or(0)) {
      if (!view->Degrees({nodes.data(), n}, Direction::kOut, {}, {degrees.data(), n}).ok()) exit(1);
      count += static_cast<int64_t>(n);
    }
  }
  state.SetItemsProcessed(count);
}
BENCHMARK(BM_Degrees)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// A million relationships, or PULSE_REOPEN_EDGES, and a text of PULSE_REOPEN_TEXT bytes in each,
// logged in commits of 10 by a process that is killed then. 1: flushed and checkpointed meanwhile,
// as is usual; 0: all of it is read again.
void BM_ReopenAfterKill(benchmark::State& state) {
  StoreOptions options;
  options.sync = false;
  if (state.range(0) == 0) options.flush_chunks = 0;
  BenchStore store(options);
  const auto nodes = store.MakeNodes(100'000);
  const auto number = [](const char* name, size_t otherwise) {
    const char* text = getenv(name);
    return text != nullptr ? strtoull(text, nullptr, 10) : otherwise;
  };
  std::mt19937_64 random(3);
  Insert(store.get(), nodes, number("PULSE_REOPEN_EDGES", 1'000'000), 10, &random,
         number("PULSE_REOPEN_TEXT", 0));
  const auto bytes = static_cast<int64_t>(store->stats().log_bytes);
  uint64_t used = 0;
  for (auto _ : state) {
    state.PauseTiming();
    store.Kill();
    state.ResumeTiming();
    store.Reopen(options);
    const StoreStats stats = store->stats();
    used = stats.chunk_bytes + stats.edge_bytes;
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["log_bytes"] = static_cast<double>(bytes);
  state.counters["layer0_bytes"] = static_cast<double>(used);
  std::string line;
  for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      state.counters["resident_bytes"] = 1024 * strtod(line.c_str() + 6, nullptr);
    }
  }
}
BENCHMARK(BM_ReopenAfterKill)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pulse::graph
