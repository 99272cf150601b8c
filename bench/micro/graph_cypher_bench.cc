// Queries that read columns of a run, and UNION, by the query engine on the graph store: all of a
// query but its plan. Files lie in the working directory. PULSE_BENCH_EDGES: how many relationships
// there are (2,000,000).
//   --benchmark_min_time=0.01 runs it tiny.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "services/graph/core/store.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/planner/make_plan.h"

namespace pulse::cypher {
namespace {

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "graph_cypher_bench: %s\n", status.ToString().c_str());
  exit(1);
}

size_t Edges() {
  const char* const text = getenv("PULSE_BENCH_EDGES");
  return text != nullptr ? strtoull(text, nullptr, 10) : 2'000'000;
}

// One run. Its relationships have at random w, of 0 to 99, and f, a float; t, which ascends; and
// every other one half.
class ColumnsOfARun {
 public:
  ColumnsOfARun() : path_("graph-cypher-bench-" + std::to_string(getpid())) {
    std::filesystem::remove_all(path_);
    graph::StoreOptions options;
    options.sync = false;
    auto store = graph::GraphStore::Open(path_, options);
    Check(store.status());
    store_ = *std::move(store);
    constexpr size_t kNodes = 1000;
    std::vector<NodeId> nodes;
    auto tx = *store_->Begin();
    for (size_t i = 0; i < kNodes; ++i) nodes.push_back(*tx->CreateNode({}, {}));
    const Token type = *tx->AddTypeName("T"), w = *tx->AddKeyName("w"), t = *tx->AddKeyName("t");
    const Token f = *tx->AddKeyName("f"), half = *tx->AddKeyName("half");
    std::mt19937_64 random(7);
    for (size_t i = 0; i < Edges(); ++i) {
      const uint64_t r = random();
      const size_t source = i * kNodes / Edges();
      Properties properties = {{w, Value::Int(static_cast<int64_t>(r % 100))},
                               {t, Value::Int(static_cast<int64_t>(source))},
                               {f, Value::Float(static_cast<double>(r % 1000) / 8)}};
      if (r >> 63 != 0) properties.emplace_back(half, Value::Int(1));
      Check(tx->CreateEdge(nodes[source], nodes[(r >> 32) % kNodes], type, properties).status());
      if (i % 5000 != 4999) continue;
      Check(tx->Commit());
      tx = *store_->Begin();
    }
    Check(tx->Commit());
    Check(store_->Compact());
  }
  ~ColumnsOfARun() {
    store_.reset();
    std::filesystem::remove_all(path_);
  }
  std::shared_ptr<const GraphView> View() const { return *store_->Snapshot(); }
  static const ColumnsOfARun& Get() {
    static const ColumnsOfARun columns;
    return columns;
  }

 private:
  std::string path_;
  std::unique_ptr<graph::GraphStore> store_;
};

class CountingSink : public ResultSink {
 public:
  bool OnRows(const Value* /*rows*/, size_t /*stride*/, size_t count,
              std::span<const Slot> /*columns*/) override {
    rows += count;
    return true;
  }
  size_t rows = 0;
};

void RunQuery(benchmark::State& state, const std::string& query, size_t items) {
  const auto view = ColumnsOfARun::Get().View();
  const auto plan = MakePlan(query, *view, nullptr);
  Check(plan.status());
  ExecuteOptions options;
  options.view = view.get();
  CountingSink sink;
  for (auto _ : state) Check(Execute(**plan, options, &sink, nullptr));
  benchmark::DoNotOptimize(sink.rows);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(items));
}

void BM_OfAColumn(benchmark::State& state, const char* result) {
  RunQuery(state, std::string("MATCH ()-[e]->() RETURN ") + result, Edges());
}
BENCHMARK_CAPTURE(BM_OfAColumn, sum, "sum(e.w)")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_OfAColumn, sum_with_nulls, "sum(e.half)")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_OfAColumn, avg, "avg(e.w)")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_OfAColumn, max, "max(e.w)")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_OfAColumn, sum_of_floats, "sum(e.f)")->Unit(benchmark::kMicrosecond);

// A hundredth of the relationships: beside each other, and all over the run.
void BM_Where(benchmark::State& state, const char* predicate) {
  RunQuery(state, std::string("MATCH ()-[e]->() WHERE ") + predicate + " RETURN sum(e.w)", Edges());
}
BENCHMARK_CAPTURE(BM_Where, together, "e.t >= 990")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Where, scattered, "e.w >= 99")->Unit(benchmark::kMicrosecond);

void BM_Union(benchmark::State& state) {
  RunQuery(state,
           "UNWIND range(1, 300000) AS i RETURN i UNION UNWIND range(150001, 450000) AS i RETURN i",
           600'000);
}
BENCHMARK(BM_Union)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pulse::cypher
