// Runs of the graph store: bytes for a relationship, how fast runs are built and scanned,
// properties gathered, and runs merged, beside a plain copy of as many bytes. The graph is skewed:
// sources and targets by a power law over 200,000 nodes, ten relationships each (PULSE_BENCH_EDGES
// changes it).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mover/copy_engine.h"
#include "mover/thread_copy_engine.h"
#include "services/graph/runs/flush_plan.h"
#include "services/graph/runs/merge.h"

namespace pulse::graph {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "graph_runs_bench: %s\n", std::string(value.status().message()).c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "graph_runs_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

uint64_t EdgeTotal() {
  const char* text = std::getenv("PULSE_BENCH_EDGES");
  return text == nullptr ? 2'000'000 : std::strtoull(text, nullptr, 10);
}

// One direction in CSR order.
struct Csr {
  std::vector<uint64_t> starts;
  std::vector<NodeId> others;
  std::vector<EdgeId> edges;
  std::vector<int64_t> small, large;  // properties
  uint64_t nodes() const { return starts.size() - 1; }
};

struct Edge {
  NodeId source, target;
};

std::vector<Edge> SkewedEdges() {
  std::mt19937_64 random(42);
  const uint64_t total = EdgeTotal(), nodes = std::max<uint64_t>(total / 10, 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<Edge> edges(total);
  // A few nodes have much, most a little.
  const auto node = [&](double power) {
    return static_cast<NodeId>(std::pow(uniform(random), power) * static_cast<double>(nodes));
  };
  for (Edge& edge : edges) edge = {node(1.5), node(3)};
  return edges;
}

Csr Sorted(std::vector<Edge> edges, Side side) {
  const auto by_source = [](const Edge& a, const Edge& b) {
    return a.source != b.source ? a.source < b.source : a.target < b.target;
  };
  std::sort(edges.begin(), edges.end(), by_source);
  struct Full {
    NodeId node, other;
    EdgeId id;
  };
  std::vector<Full> all(edges.size());
  for (size_t i = 0, ordinal = 0; i < edges.size(); ++i) {
    ordinal = i > 0 && edges[i - 1].source == edges[i].source ? ordinal + 1 : 0;
    const EdgeId id = LocalEdgeId(edges[i].source, ordinal);
    all[i] = side == Side::kOut ? Full{edges[i].source, edges[i].target, id}
                                : Full{edges[i].target, edges[i].source, id};
  }
  if (side == Side::kIn) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Full& a, const Full& b) { return a.node < b.node; });
  }
  Csr csr;
  std::mt19937_64 random(7);
  const uint64_t nodes = std::max<uint64_t>(edges.size() / 10, 1);
  csr.starts.push_back(0);
  for (const Full& edge : all) {
    while (csr.starts.size() <= edge.node) csr.starts.push_back(csr.others.size());
    csr.others.push_back(edge.other);
    csr.edges.push_back(edge.id);
    csr.small.push_back(static_cast<int64_t>(random() % 100));
    csr.large.push_back(static_cast<int64_t>(random()));
  }
  while (csr.starts.size() <= nodes) csr.starts.push_back(csr.others.size());
  return csr;
}

const Csr& Graph(Side side) {
  static const Csr out = Sorted(SkewedEdges(), Side::kOut);
  static const Csr in = Sorted(SkewedEdges(), Side::kIn);
  return side == Side::kOut ? out : in;
}

enum class Property { kNone, kSmall, kLarge };

std::string Build(Side side, Property property, uint64_t every = 1, uint64_t phase = 0,
                  uint64_t also = 0) {
  const Csr& csr = Graph(side);
  StringSink sink;
  auto builder = Must(RunBuilder::Create({.side = side}, &sink));
  for (NodeId node = 0; node < csr.nodes(); ++node) {
    const uint64_t first = csr.starts[node], n = csr.starts[node + 1] - first;
    const bool mine = node / 64 % every == phase || (also != 0 && node % also == 0);
    if (n == 0 || !mine) continue;
    const ListInput list{1, {&csr.others[first], n}, {&csr.edges[first], n}, {}};
    Must(builder->Add(node, {&list, 1}));
    if (property == Property::kSmall) Must(builder->AppendInts(3, {&csr.small[first], n}));
    if (property == Property::kLarge) Must(builder->AppendInts(3, {&csr.large[first], n}));
  }
  Must(builder->Finish());
  return std::move(sink.bytes());
}

std::shared_ptr<const RunReader> OpenRun(std::string bytes) {
  return Must(RunReader::Open(OwnRun(std::move(bytes), "bench")));
}

void CountEdges(benchmark::State& state, uint64_t edges) {
  state.counters["edges/s"] =
      benchmark::Counter(static_cast<double>(edges), benchmark::Counter::kIsRate);
}

void BM_BuildOut(benchmark::State& state) {
  Graph(Side::kOut);
  uint64_t edges = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Build(Side::kOut, Property::kSmall));
    edges += EdgeTotal();
  }
  CountEdges(state, edges);
}
BENCHMARK(BM_BuildOut)->Unit(benchmark::kMillisecond);

void BM_BuildIn(benchmark::State& state) {
  Graph(Side::kIn);
  uint64_t edges = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Build(Side::kIn, Property::kNone));
    edges += EdgeTotal();
  }
  CountEdges(state, edges);
}
BENCHMARK(BM_BuildIn)->Unit(benchmark::kMillisecond);

// Both directions and one property. Nothing is timed but the opening.
void BM_BytesPerEdge(benchmark::State& state) {
  const auto edges = static_cast<double>(EdgeTotal());
  const auto in = static_cast<double>(Build(Side::kIn, Property::kNone).size());
  const auto none = static_cast<double>(Build(Side::kOut, Property::kNone).size());
  const std::string small = Build(Side::kOut, Property::kSmall);
  const auto large = static_cast<double>(Build(Side::kOut, Property::kLarge).size());
  for (auto _ : state) benchmark::DoNotOptimize(OpenRun(small));
  state.counters["out"] = none / edges;
  state.counters["in"] = in / edges;
  state.counters["both+0..99"] = (in + static_cast<double>(small.size())) / edges;
  state.counters["both+64bit"] = (in + large) / edges;
}
BENCHMARK(BM_BytesPerEdge)->Unit(benchmark::kMillisecond);

// Sums the other ends of all relationships, and with 1 their identifiers too.
void BM_Scan(benchmark::State& state) {
  const auto side = static_cast<Side>(state.range(0));
  const bool identifiers = state.range(1) != 0;
  const auto run = OpenRun(Build(side, Property::kNone));
  uint64_t edges = 0, sum = 0;
  for (auto _ : state) {
    RunReader::Cursor cursor(run.get());
    NodeView views[kGroupNodes];
    while (const size_t n = Must(cursor.NextGroup(views))) {
      for (size_t v = 0; v < n; ++v) {
        NodeView::Lists lists(views[v]);
        ListView list;
        NodeId others[kPiece];
        EdgeId ids[kPiece];
        while (lists.Next(&list)) {
          for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
            const uint32_t count = list.PieceCount(piece);
            list.Others(piece, others);
            sum += others[0] + others[count - 1];
            if (identifiers) {
              list.Edges(piece, others, ids);
              sum += ids[count - 1];
            }
            edges += count;
          }
        }
      }
    }
  }
  benchmark::DoNotOptimize(sum);
  CountEdges(state, edges);
}
BENCHMARK(BM_Scan)->ArgNames({"in", "ids"})->Args({0, 0})->Args({0, 1})->Args({1, 0})->Args({1, 1});

// Neighbours of random nodes, by the run's index; 1: by a hash table of all its nodes, as the paper
// has one (section III-A).
void BM_Find(benchmark::State& state) {
  const bool hash = state.range(0) != 0;
  const auto run = OpenRun(Build(Side::kOut, Property::kNone));
  struct Place {
    uint64_t position;
    const char* data;
    uint32_t count, bytes;
  };
  absl::flat_hash_map<NodeId, Place> table;
  RunReader::Cursor cursor(run.get());
  NodeView view;
  double count = 0;
  for (; Must(cursor.Next(&view)); ++count) {
    if (!hash) continue;
    table.emplace(view.node(),
                  Place{view.position(), view.data(), static_cast<uint32_t>(view.count()),
                        static_cast<uint32_t>(view.bytes())});
  }
  std::mt19937_64 random(3);
  const uint64_t nodes = Graph(Side::kOut).nodes();
  uint64_t edges = 0, sum = 0;
  for (auto _ : state) {
    const NodeId node = random() % nodes;
    if (!hash) {
      view = Must(run->Find(node));
    } else if (const auto it = table.find(node); it != table.end()) {
      const Place& place = it->second;
      view = NodeView(node, Side::kOut, place.count, place.position, place.data, place.bytes);
    } else {
      continue;
    }
    NodeView::Lists lists(view);
    ListView list;
    NodeId others[kPiece];
    while (lists.Next(&list)) {
      for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
        list.Others(piece, others);
        sum += others[0];
      }
      edges += list.count();
    }
  }
  benchmark::DoNotOptimize(sum);
  CountEdges(state, edges);
  const double bytes = hash ? static_cast<double>(table.capacity() * (sizeof(*table.begin()) + 1))
                            : static_cast<double>(run->groups().size_bytes());
  state.counters["index_bytes_per_node"] = bytes / count;
}
BENCHMARK(BM_Find)->ArgName("hash")->Arg(0)->Arg(1);

// Sums a property of all relationships, found one by one as a scan hands them on.
void BM_LocateAndGather(benchmark::State& state) {
  const Csr& csr = Graph(Side::kOut);
  const auto run = OpenRun(Build(Side::kOut, Property::kSmall));
  std::vector<EdgeRef> refs;
  for (NodeId node = 0; node < csr.nodes(); ++node) {
    for (uint64_t i = csr.starts[node]; i < csr.starts[node + 1]; ++i) {
      refs.push_back({csr.edges[i], node, csr.others[i], 1});
    }
  }
  uint64_t edges = 0;
  int64_t sum = 0;
  for (auto _ : state) {
    EdgeLocator locator(run.get());
    std::vector<uint64_t> positions(1024);
    cypher::Column column;
    for (size_t at = 0; at < refs.size(); at += 1024) {
      const size_t n = std::min<size_t>(1024, refs.size() - at);
      positions.resize(n);
      Must(locator.FindAll({&refs[at], n}, kMaxSequence, positions.data()));
      ColumnGather gather(n, &column);
      Must(run->Gather(3, positions, {}, &gather));
      for (const int64_t value : column.ints) sum += value;
      edges += n;
    }
  }
  benchmark::DoNotOptimize(sum);
  CountEdges(state, edges);
}
BENCHMARK(BM_LocateAndGather)->Unit(benchmark::kMillisecond);

// A property's segments alone.
void BM_SumColumn(benchmark::State& state) {
  const auto run = OpenRun(Build(Side::kOut, Property::kSmall));
  uint64_t edges = 0;
  int64_t sum = 0;
  std::vector<int64_t> values(4096);
  for (auto _ : state) {
    for (size_t s = 0; s < run->segments(); ++s) {
      const ColumnSegment segment = Must(run->Segment(3, s));
      segment.ReadInts(0, segment.count(), values.data());
      for (uint32_t i = 0; i < segment.count(); ++i) sum += values[i];
      edges += segment.count();
    }
  }
  benchmark::DoNotOptimize(sum);
  CountEdges(state, edges);
}
BENCHMARK(BM_SumColumn);

// Bytes go nowhere: what a merge itself takes.
class NoSink : public RunSink {
 public:
  absl::Status Append(absl::string_view bytes) override {
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t bytes_ = 0;
};

void Report(benchmark::State& state, const MergeStats& stats, uint64_t bytes) {
  const auto copied = static_cast<double>(stats.bytes_copied + stats.column_bytes_copied);
  const auto encoded = static_cast<double>(stats.bytes_encoded + stats.column_bytes_encoded);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["copied"] = copied / (copied + encoded);
}

// Two runs; of the nodes of one in `every` (0: none) both have relationships.
void BM_Merge(benchmark::State& state) {
  const auto also = static_cast<uint64_t>(state.range(0));
  const std::vector<std::shared_ptr<const RunReader>> runs = {
      OpenRun(Build(Side::kOut, Property::kSmall, 2, 0, also)),
      OpenRun(Build(Side::kOut, Property::kSmall, 2, 1))};
  auto engine = state.range(1) == 0 ? Must(CreateInlineCopyEngine({}))
                                    : Must(CreateThreadCopyEngine({.threads = 1}));
  uint64_t bytes = 0;
  MergeStats stats;
  for (auto _ : state) {
    NoSink sink;
    stats = Must(MergeRuns(runs, {.bottom = true}, engine.get(), &sink)).stats;
    bytes += sink.bytes_;
  }
  Report(state, stats, bytes);
}
BENCHMARK(BM_Merge)
    ->ArgNames({"shared", "threads"})
    ->Args({0, 0})
    ->Args({0, 1})
    ->Args({10, 0})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Figure 5 of the paper: blocks of 1 to 512 KiB that do not meet.
void BM_MergeLargeBlocks(benchmark::State& state) {
  std::mt19937_64 random(5);
  const uint64_t total = EdgeTotal() * 16;  // bytes
  std::vector<std::shared_ptr<const RunReader>> runs;
  for (NodeId part = 0; part < 4; ++part) {
    StringSink sink;
    auto builder = Must(RunBuilder::Create({}, &sink));
    std::vector<NodeId> others;
    std::vector<EdgeId> edges;
    for (NodeId node = part * 64; sink.bytes().size() < total / 4; node += 256) {
      others.clear();
      edges.clear();
      NodeId other = 0;
      const uint64_t n = (1024 + random() % (512 * 1024)) / 4;
      for (uint64_t i = 0; i < n; ++i) {
        others.push_back(other += random() % (uint64_t{1} << 32));
        edges.push_back(node * 1'000'000 + i);
      }
      const ListInput list{1, others, edges, {}};
      Must(builder->Add(node, {&list, 1}));
    }
    Must(builder->Finish());
    runs.push_back(OpenRun(std::move(sink.bytes())));
  }
  auto engine = state.range(0) == 0 ? Must(CreateInlineCopyEngine({}))
                                    : Must(CreateThreadCopyEngine({.threads = 1}));
  uint64_t bytes = 0;
  MergeStats stats;
  for (auto _ : state) {
    NoSink sink;
    stats = Must(MergeRuns(runs, {.bottom = true}, engine.get(), &sink)).stats;
    bytes += sink.bytes_;
  }
  Report(state, stats, bytes);
}
BENCHMARK(BM_MergeLargeBlocks)
    ->ArgName("threads")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

// What a merge's copies cannot be faster than: into a buffer of the same size, from as many bytes.
void BM_Memcpy(benchmark::State& state) {
  const std::string from(EdgeTotal() * 16, 'x');
  std::vector<char> to(uint64_t{4} << 20);
  uint64_t bytes = 0;
  for (auto _ : state) {
    for (size_t at = 0; at < from.size(); at += to.size()) {
      std::memcpy(to.data(), from.data() + at, std::min(to.size(), from.size() - at));
      benchmark::ClobberMemory();
    }
    bytes += from.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(BM_Memcpy)->Unit(benchmark::kMillisecond);

// A full chunk: its plan, the copies, and the run made of it.
void BM_FlushChunk(benchmark::State& state) {
  std::vector<char> memory(Chunk::Bytes() + 64);
  char* at = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  Chunk chunk = Chunk::Format(at, Side::kOut);
  std::mt19937_64 random(11);
  for (EdgeId edge = 0;
       chunk.Append(random() % 20'000, {random() % 200'000, edge, MakeStamp(edge), 0, 1}); ++edge) {
  }
  auto engine = Must(CreateInlineCopyEngine({}));
  std::vector<Record> sorted(chunk.size());
  uint64_t records = 0;
  for (auto _ : state) {
    const FlushPlan plan = PlanFlush({&chunk, 1}, sorted.data());
    PlanExecutor executor(engine.get());
    executor.Start(plan.copies);
    Must(executor.Wait());
    if (state.range(0) != 0) {
      NoSink sink;
      auto builder = Must(RunBuilder::Create({.horizon = kMaxSequence}, &sink));
      Must(AddSorted(plan, sorted.data(), nullptr, builder.get()));
      Must(builder->Finish());
    }
    records += plan.records;
  }
  CountEdges(state, records);
}
BENCHMARK(BM_FlushChunk)->ArgName("encode")->Arg(0)->Arg(1);

}  // namespace
}  // namespace pulse::graph
