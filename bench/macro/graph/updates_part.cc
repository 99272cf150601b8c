// Figure 8 of the DSA paper: growing transactions on few nodes. The store's first layer, and a
// whole transaction of the store, against plain adjacency lists.
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/adjacency.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/rmat.h"
#include "fmt/format.h"
#include "services/graph/core/store.h"
#include "services/graph/runs/chunk.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kNodes = uint64_t{1} << 17;
constexpr uint64_t kFew = 10;  // nodes that everything is inserted at

// Chunks of both directions, as the store fills them; full ones are left behind.
class LayerZero {
 public:
  void Insert(const RmatEdge& edge, graph::EdgeId id) {
    Append(graph::Side::kOut, edge.source, {edge.target, id, graph::MakeStamp(1), 0, 1});
    Append(graph::Side::kIn, edge.target, {edge.source, id, graph::MakeStamp(1), 0, 1});
  }

 private:
  struct Half {
    std::vector<std::unique_ptr<char[]>> memory;
    graph::Chunk chunk;
  };
  void Append(graph::Side side, graph::NodeId node, const graph::Record& record) {
    Half& half = halves_[static_cast<size_t>(side)];
    if (!half.memory.empty() && half.chunk.Append(node, record)) return;
    half.memory.push_back(std::make_unique<char[]>(graph::Chunk::Bytes() + 64));
    char* at = half.memory.back().get();
    at += 64 - reinterpret_cast<uintptr_t>(at) % 64;
    half.chunk = graph::Chunk::Format(at, side);
    half.chunk.Append(node, record);
  }
  Half halves_[2];
};

absl::Status InsertByTransaction(graph::GraphStore* store, const std::vector<graph::NodeId>& nodes,
                                 const std::vector<RmatEdge>& edges) {
  PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
  PULSE_ASSIGN_OR_RETURN(const graph::Token type, transaction->AddTypeName("T"));
  for (const RmatEdge& edge : edges) {
    PULSE_RETURN_IF_ERROR(
        transaction->CreateEdge(nodes[edge.source], nodes[edge.target], type, {}).status());
  }
  return transaction->Commit();
}

absl::StatusOr<std::vector<graph::NodeId>> MakeNodes(graph::GraphStore* store) {
  PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
  std::vector<graph::NodeId> nodes;
  for (uint64_t i = 0; i < kNodes; ++i) {
    PULSE_ASSIGN_OR_RETURN(nodes.emplace_back(), transaction->CreateNode({}, {}));
  }
  PULSE_RETURN_IF_ERROR(transaction->Commit());
  return nodes;
}

// The sources are few, the targets those of R-MAT.
std::vector<RmatEdge> FewSources(uint64_t count, uint64_t seed) {
  std::vector<RmatEdge> edges = MakeRmat({.scale = 17, .edges = count, .seed = seed});
  std::mt19937_64 random(seed);
  for (RmatEdge& edge : edges) edge.source = random() % kFew;
  return edges;
}

}  // namespace

absl::Status RunUpdatesPart(GraphBench* bench) {
  const std::vector<uint64_t> sizes = bench->tiny
                                          ? std::vector<uint64_t>{10, 1000}
                                          : std::vector<uint64_t>{10, 100, 1000, 10'000, 30'000};
  const std::string path = bench->dir + "/graph-updates";
  std::error_code ec;
  std::filesystem::remove_all(path, ec);
  graph::StoreOptions options;
  options.sync = false;  // the paper measures the structure in memory
  PULSE_ASSIGN_OR_RETURN(const auto store, graph::GraphStore::Open(path, options));
  PULSE_ASSIGN_OR_RETURN(const auto nodes, MakeNodes(store.get()));
  const std::vector<std::string> names = {"adjacency", "adjacency, at front", "layer 0",
                                          "store's transaction"};
  TextTable table({"relationships", names[0], names[1], names[2], names[3], "layer 0 is faster by",
                   "CPU s/GiB*"});
  nlohmann::json rows = nlohmann::json::array();
  {
    Progress progress(static_cast<int>(sizes.size()));
    for (const uint64_t size : sizes) {
      progress.Begin(fmt::format("{} relationships", size));
      const auto edges = FewSources(size, bench->seed);
      std::vector<std::vector<double>> seconds(names.size());
      std::vector<double> cpu;
      for (int round = 0; round <= bench->rounds; ++round) {
        std::vector<double> took;
        for (const auto place : {AdjacencyList::Place::kBack, AdjacencyList::Place::kFront}) {
          AdjacencyList list(kNodes, place);
          const Stretch stretch;
          for (const RmatEdge& edge : edges) list.Insert(edge.source, edge.target, 1);
          took.push_back(stretch.seconds());
          progress.Tick();
        }
        LayerZero layer;
        layer.Insert(edges[0], 0);  // its memory is there before, as the store's is
        const Stretch in_layer;
        for (size_t i = 1; i < edges.size(); ++i) layer.Insert(edges[i], i);
        took.push_back(in_layer.seconds());
        const Stretch in_store;
        PULSE_RETURN_IF_ERROR(InsertByTransaction(store.get(), nodes, edges));
        took.push_back(in_store.seconds());
        progress.Tick();
        if (round == 0) continue;
        cpu.push_back(in_store.cpu_seconds());
        for (size_t i = 0; i < took.size(); ++i) seconds[i].push_back(took[i]);
      }
      std::vector<std::string> cells = {fmt::format("{}", size)};
      nlohmann::json row = {{"relationships", size}};
      for (size_t i = 0; i < names.size(); ++i) {
        const double ms = MedianOf(seconds[i]) * 1e3;
        cells.push_back(fmt::format("{:.4f}", ms));
        row["seconds"][names[i]] = MedianOf(seconds[i]);
      }
      const double ratio = MedianOf(seconds[0]) / MedianOf(seconds[2]);
      const double gib = static_cast<double>(2 * size * sizeof(graph::Record)) / 1073741824.0;
      cells.push_back(fmt::format("{:.1f}", ratio));
      cells.push_back(fmt::format("{:.1f}", MedianOf(cpu) / gib));
      row["faster_by"] = ratio;
      bench->here["updates/last"] = ratio;
      row["cpu_s_per_gib"] = MedianOf(cpu) / gib;
      table.AddRow(std::move(cells));
      rows.push_back(std::move(row));
      progress.End("done");
    }
    PULSE_RETURN_IF_ERROR(store->Close());
  }
  std::filesystem::remove_all(path, ec);
  fmt::print(
      "\nFigure 8: one transaction of so many relationships at {} nodes, targets of R-MAT; ms.\n"
      "Adjacency lists: one thread, no log. The transaction: with its log, not synced. * Of that,\n"
      "for records of both directions\n{}",
      kFew, table.Render());
  bench->report["updates"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
