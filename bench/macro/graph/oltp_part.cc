// Figure 6 of the DSA paper: GTPC's transactions by structure: all relationships in layer 0, which
// is a list for each node, or nine tenths in sorted runs; then once more after updates.
#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_clients.h"
#include "bench/macro/graph/gtpc_database.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

struct Structure {
  std::string name;
  bool by_transaction = false;
  std::unique_ptr<GtpcDatabase> database;
  std::unique_ptr<GtpcClients> clients;
  // By transaction and whether after updates: seconds and CPU seconds of each.
  std::map<std::pair<std::string, bool>, std::vector<double>> seconds;
  std::map<std::pair<std::string, bool>, double> cpu_s;
};

absl::Status MakeStructure(const GtpcData& data, const std::string& dir, Progress* progress,
                           Structure* structure) {
  const std::string csv = dir + "/oltp-csv", path = dir + "/oltp-" + structure->name.substr(0, 3);
  std::error_code ec;
  for (const std::string& directory : {csv, path}) {
    std::filesystem::remove_all(directory, ec);
    PULSE_RETURN_IF_ERROR(MakeDirectory(directory));
  }
  GtpcDatabase::MakeOptions options;
  options.store.sync = false;  // the structure is measured, not the device
  options.store.flush_chunks = 0;
  options.store.checkpoint_bytes = uint64_t{1} << 40;
  options.store.memory_limit = uint64_t{8} << 30;
  options.by_transaction = structure->by_transaction;
  // A sixth of the lines' relationships are a tenth of all.
  options.last_order = structure->by_transaction ? 0 : data.orders() * 5 / 6;
  PULSE_ASSIGN_OR_RETURN(
      structure->database,
      GtpcDatabase::Make(data, csv, path, options,
                         [progress](const std::string&, uint64_t, uint64_t) { progress->Tick(); }));
  if (!structure->by_transaction) {
    PULSE_RETURN_IF_ERROR(structure->database->AddLineEdges(data, options.last_order + 1));
  }
  std::filesystem::remove_all(csv, ec);
  return structure->database->CreateIndexes();
}

absl::Status Measure(Structure* structure, int count, bool after) {
  for (const GtpcTransaction& transaction : GtpcOltp()) {
    const std::pair key(std::string(transaction.name), after);
    const Stretch all;
    for (int i = 0; i < count; ++i) {
      const cypher::ValueMap parameters = structure->clients->Next();
      const Stretch one;
      PULSE_RETURN_IF_ERROR(
          RunGtpcTransaction(transaction, parameters, structure->database->service()));
      structure->seconds[key].push_back(one.seconds());
    }
    structure->cpu_s[key] += all.cpu_seconds();
  }
  return absl::OkStatus();
}

absl::Status Update(Structure* structure, int count, Progress* progress) {
  for (int i = 0; i < count; ++i) {
    for (const size_t which : {0, 1}) {
      PULSE_RETURN_IF_ERROR(RunGtpcTransaction(GtpcOltp()[which], structure->clients->Next(),
                                               structure->database->service()));
    }
    if (i % 100 == 0) progress->Tick();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOltpPart(GraphBench* bench) {
  const GtpcData data({.warehouses = 1, .tiny = bench->tiny, .seed = bench->seed});
  const int count = bench->tiny ? 10 : 100, updates = bench->tiny ? 20 : 2000;
  Structure structures[2];
  structures[0].name = "adjacency";
  structures[0].by_transaction = true;
  structures[1].name = "runs, a tenth in layer 0";
  nlohmann::json stores = nlohmann::json::object();
  {
    Progress progress(2 + 2 * bench->rounds + 2);
    for (Structure& s : structures) {
      progress.Begin("making " + s.name);
      PULSE_RETURN_IF_ERROR(MakeStructure(data, bench->dir, &progress, &s));
      s.clients = std::make_unique<GtpcClients>(data, bench->seed);
      const graph::StoreStats stats = s.database->store()->stats();
      stores[s.name] = {{"chunk_bytes", stats.chunk_bytes}, {"run_bytes", stats.run_bytes}};
      progress.End("done");
    }
    for (const bool after : {false, true}) {
      if (after) {
        for (Structure& s : structures) {
          progress.Begin("updates of " + s.name);
          PULSE_RETURN_IF_ERROR(Update(&s, updates, &progress));
          progress.End("done");
        }
      }
      for (int round = 0; round < bench->rounds; ++round) {
        progress.Begin(after ? "after updates" : "before updates");
        for (size_t turn = 0; turn < 2; ++turn) {
          PULSE_RETURN_IF_ERROR(
              Measure(&structures[(turn + static_cast<size_t>(round)) % 2], count, after));
        }
        progress.End("done");
      }
    }
  }
  TextTable table(
      {"", "adjacency, us", "p99", "runs, us", "p99", "runs / adjacency", "CPU us", "CPU us"});
  nlohmann::json rows = nlohmann::json::array();
  for (const bool after : {false, true}) {
    std::vector<double> ratios;
    for (const GtpcTransaction& transaction : GtpcOltp()) {
      const std::pair key(std::string(transaction.name), after);
      std::vector<std::string> cells = {absl::StrCat(key.first, after ? ", after updates" : "")};
      nlohmann::json row = {{"transaction", key.first}, {"after_updates", after}};
      double medians[2];
      std::vector<std::string> cpu;
      for (size_t i = 0; i < 2; ++i) {
        const Structure& s = structures[i];
        const std::vector<double>& seconds = s.seconds.at(key);
        medians[i] = MedianOf(seconds);
        const double p99 = Percentile(seconds, 0.99);
        const double each = s.cpu_s.at(key) / static_cast<double>(seconds.size());
        cells.push_back(fmt::format("{:.0f}", medians[i] * 1e6));
        cells.push_back(fmt::format("{:.0f}", p99 * 1e6));
        cpu.push_back(fmt::format("{:.0f}", each * 1e6));
        row[i == 0 ? "adjacency" : "runs"] = {
            {"median_s", medians[i]}, {"p99_s", p99}, {"cpu_s", each}, {"count", seconds.size()}};
      }
      cells.push_back(fmt::format("{:.2f}", medians[1] / medians[0]));
      cells.insert(cells.end(), cpu.begin(), cpu.end());
      row["ratio"] = medians[1] / medians[0];
      ratios.push_back(medians[1] / medians[0]);
      table.AddRow(std::move(cells));
      rows.push_back(std::move(row));
    }
    bench->here[after ? "oltp/after" : "oltp/before"] = MedianOf(ratios);
  }
  std::error_code ec;
  for (Structure& s : structures) {
    s.database.reset();
    if (!bench->keep) std::filesystem::remove_all(bench->dir + "/oltp-" + s.name.substr(0, 3), ec);
  }
  fmt::print(
      "\nFigure 6: GTPC's transactions by one client, a warehouse, in DRAM, without sync. "
      "Updates:\n"
      "{} new orders and as many payments. CPU: of all threads, adjacency then runs\n{}",
      updates, table.Render());
  bench->report["oltp"] = {{"rows", std::move(rows)}, {"stores", std::move(stores)}};
  return absl::OkStatus();
}

}  // namespace pulse::bench
