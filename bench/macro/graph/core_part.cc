// The store and its runs in C++ on one CPU, on which all threads of it are: inserts in commits of
// 5,000, and neighbours out of one sorted run, read by itself and through the store.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/rmat.h"
#include "fmt/format.h"
#include "services/graph/core/store.h"
#include "services/graph/runs/run_builder.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::bench {
namespace {

constexpr size_t kCommit = 5000;

struct CoreRow {
  std::string key, what;
  std::vector<double> per_s, cpu_s;  // CPU seconds for a million
  void Add(double count, const Stretch& stretch) {
    per_s.push_back(count / stretch.seconds());
    cpu_s.push_back(stretch.cpu_seconds() / count * 1e6);
  }
};

absl::Status InsertRandom(graph::GraphStore* store, const std::vector<graph::NodeId>& nodes,
                          uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (uint64_t done = 0; done < count; done += kCommit) {
    PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
    PULSE_ASSIGN_OR_RETURN(const graph::Token type, transaction->AddTypeName("T"));
    PULSE_ASSIGN_OR_RETURN(const graph::Token key, transaction->AddKeyName("w"));
    for (size_t i = 0; i < kCommit; ++i) {
      const uint64_t r = random();
      PULSE_RETURN_IF_ERROR(
          transaction
              ->CreateEdge(nodes[(r >> 32) % nodes.size()], nodes[(r & 0xFFFFFFFF) % nodes.size()],
                           type, {{key, cypher::Value::Int(static_cast<int64_t>(r % 100))}})
              .status());
    }
    PULSE_RETURN_IF_ERROR(transaction->Commit());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<graph::GraphStore>> NewStore(const std::string& path,
                                                            const graph::StoreOptions& options,
                                                            uint64_t nodes,
                                                            std::vector<graph::NodeId>* made) {
  std::error_code ec;
  std::filesystem::remove_all(path, ec);
  PULSE_ASSIGN_OR_RETURN(auto store, graph::GraphStore::Open(path, options));
  PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
  made->clear();
  for (uint64_t i = 0; i < nodes; ++i) {
    PULSE_ASSIGN_OR_RETURN(made->emplace_back(), transaction->CreateNode({}, {}));
  }
  PULSE_RETURN_IF_ERROR(transaction->Commit());
  return store;
}

// All outgoing relationships of an R-MAT graph.
absl::StatusOr<std::shared_ptr<const graph::RunReader>> MakeCsr(
    const std::vector<RmatEdge>& edges) {
  graph::StringSink sink;
  PULSE_ASSIGN_OR_RETURN(const auto builder, graph::RunBuilder::Create({}, &sink));
  std::vector<graph::NodeId> others;
  std::vector<graph::EdgeId> ids;
  for (size_t i = 0; i < edges.size();) {
    const graph::NodeId node = edges[i].source;
    others.clear();
    ids.clear();
    for (; i < edges.size() && edges[i].source == node; ++i) {
      others.push_back(edges[i].target);
      ids.push_back(i);
    }
    const graph::ListInput list{1, others, ids, {}};
    PULSE_RETURN_IF_ERROR(builder->Add(node, {&list, 1}));
  }
  PULSE_RETURN_IF_ERROR(builder->Finish().status());
  return graph::RunReader::Open(graph::OwnRun(std::move(sink.bytes()), "scan"));
}

// Decodes the neighbours of all nodes; how many there were.
absl::StatusOr<uint64_t> ScanRun(const graph::RunReader& run) {
  uint64_t count = 0, sum = 0;
  graph::RunReader::Cursor cursor(&run);
  graph::NodeView views[graph::kGroupNodes];
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, cursor.NextGroup(views));
    if (n == 0) break;
    for (size_t v = 0; v < n; ++v) {
      graph::NodeView::Lists lists(views[v]);
      graph::ListView list;
      graph::NodeId others[graph::kPiece];
      while (lists.Next(&list)) {
        for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
          const uint32_t here = list.PieceCount(piece);
          list.Others(piece, others);
          sum += others[0] + others[here - 1];
          count += here;
        }
      }
    }
  }
  asm volatile("" : : "r"(sum));  // what was decoded is needed
  return count;
}

absl::StatusOr<uint64_t> ScanStore(const cypher::GraphView& view) {
  std::vector<graph::NodeId> nodes(1024);
  cypher::NeighbourBatch batch;
  batch.ends_only = true;
  uint64_t count = 0, position = 0;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, view.ScanNodes(cypher::kNoToken, &position, nodes));
    if (n == 0) return count;
    cypher::ExpandPosition at;
    while (at.node < n) {
      batch.clear();
      PULSE_RETURN_IF_ERROR(
          view.Expand({nodes.data(), n}, cypher::Direction::kOut, {}, 4096, &at, &batch));
      count += batch.size();
    }
  }
}

}  // namespace

absl::Status RunCorePart(GraphBench* bench) {
  const std::vector<int> cpus = MyCpus();
  const int cpu = cpus.empty() ? -1 : cpus.front();
  const ScopedThreadAffinity pinned(cpu < 0 ? std::vector<int>{} : std::vector<int>{cpu});
  const uint64_t inserts = bench->tiny ? 20'000 : 2'000'000;
  const uint64_t node_count = bench->tiny ? 1000 : 100'000;
  const std::string path = bench->dir + "/graph-core";
  std::vector<CoreRow> rows = {
      {"insert", "inserts, before memory is flushed", {}, {}},
      {"insert_durable", "inserts, durable, before memory is flushed", {}, {}},
      {"insert_flushed", "inserts, durable, flushes and checkpoints on that CPU", {}, {}},
      {"scan_run", "neighbours, a sorted run in CSR order", {}, {}},
      {"scan_store", "neighbours, through a snapshot of the store", {}, {}}};
  std::error_code ec;
  {
    Progress progress(2);
    progress.Begin("inserts");
    std::vector<graph::NodeId> nodes;
    for (int round = 0; round <= bench->rounds; ++round) {
      for (size_t i = 0; i < 3; ++i) {
        graph::StoreOptions options;
        options.sync = i > 0;
        if (i < 2) {
          options.flush_chunks = 0;
          options.memory_limit = uint64_t{4} << 30;
        }
        PULSE_ASSIGN_OR_RETURN(auto store, NewStore(path, options, node_count, &nodes));
        const Stretch stretch;
        PULSE_RETURN_IF_ERROR(InsertRandom(store.get(), nodes, inserts, bench->seed));
        if (round > 0) rows[i].Add(static_cast<double>(inserts), stretch);
        progress.Tick();
      }
    }
    progress.End("done");
    progress.Begin("scans");
    graph::StoreOptions options;
    options.sync = false;
    PULSE_ASSIGN_OR_RETURN(auto store, NewStore(path, options, 2 * node_count, &nodes));
    PULSE_RETURN_IF_ERROR(InsertRandom(store.get(), nodes, inserts, bench->seed));
    PULSE_RETURN_IF_ERROR(store->Compact());
    PULSE_ASSIGN_OR_RETURN(const auto view, store->Snapshot());
    const auto edges =
        SortedRmat({.scale = 18, .edges = bench->tiny ? 20'000u : 8'000'000u, .seed = bench->seed});
    PULSE_ASSIGN_OR_RETURN(const auto run, MakeCsr(edges));
    for (int round = 0; round <= bench->rounds; ++round) {
      for (const bool by_store : {false, true}) {
        // Some tens of milliseconds each.
        uint64_t count = 0;
        const Stretch stretch;
        for (int i = 0; i < 4; ++i) {
          PULSE_ASSIGN_OR_RETURN(const uint64_t n, by_store ? ScanStore(*view) : ScanRun(*run));
          if (n != (by_store ? inserts : edges.size())) {
            return absl::InternalError("a scan has not found all relationships");
          }
          count += n;
        }
        if (round > 0) rows[by_store ? 4 : 3].Add(static_cast<double>(count), stretch);
        progress.Tick();
      }
    }
    progress.End("done");
  }
  std::filesystem::remove_all(path, ec);
  TextTable table({"", "M/s", "least", "most", "CPU s/M"});
  nlohmann::json found = nlohmann::json::array();
  for (const CoreRow& row : rows) {
    const auto [least, most] = std::minmax_element(row.per_s.begin(), row.per_s.end());
    table.AddRow({row.what, fmt::format("{:.2f}", MedianOf(row.per_s) * 1e-6),
                  fmt::format("{:.2f}", *least * 1e-6), fmt::format("{:.2f}", *most * 1e-6),
                  fmt::format("{:.4f}", MedianOf(row.cpu_s))});
    found.push_back({{"key", row.key},
                     {"what", row.what},
                     {"per_s", MedianOf(row.per_s)},
                     {"per_s_least", *least},
                     {"per_s_most", *most},
                     {"cpu_s_per_million", MedianOf(row.cpu_s)},
                     {"count", row.per_s.size()}});
  }
  fmt::print(
      "\nThe store in C++, all of it on CPU {}: {} relationships with an integer in commits of "
      "{};\n"
      "then the neighbours of all nodes, other ends alone\n{}",
      cpu, inserts, kCommit, table.Render());
  bench->report["core"] = std::move(found);
  return absl::OkStatus();
}

}  // namespace pulse::bench
