// `pulse bench graph --part gtpc`: GTPC's analytical queries, and its files for other programs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_database.h"
#include "bench/macro/graph/gtpc_export.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "bench/macro/pair_stats.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

nlohmann::json Plain(const cypher::Value& value) {
  if (value.is_int()) return value.as_int();
  if (value.is_float()) return value.as_float();
  if (value.is_string()) return value.as_string();
  if (value.type() == cypher::Type::kLocalDateTime) return TimeText(value.as_local_seconds());
  return nullptr;
}

nlohmann::json RowsOf(const QueryRun& run) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : run.rows) {
    auto& plain = rows.emplace_back(nlohmann::json::array());
    for (const cypher::Value& value : row) plain.push_back(Plain(value));
  }
  return rows;
}

bool Wanted(const std::vector<std::string>& only, const std::string& name) {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

struct Sums {
  double seconds = 0, cpu_seconds = 0;
  int done = 0, timeouts = 0, failures = 0;
};

// One query, in all rounds; its row of the report.
absl::StatusOr<nlohmann::json> RunQuery(const GraphBench& bench, const GtpcQuery& query,
                                        GtpcDatabase* database, nlohmann::json* answers,
                                        Sums* sums) {
  std::vector<double> seconds, cpu;
  nlohmann::json row = {{"query", query.name}};
  // The first round also plans, and is the warm-up of the others.
  for (int round = 0; round <= bench.rounds; ++round) {
    auto run = database->Run(query.text, bench.query_seconds, round == 0 && answers != nullptr);
    if (!run.ok() && !IsTimeout(run.status())) {
      // The others go on: what a query is refused for is a result.
      ++sums->failures;
      row["error"] = std::string(run.status().message());
      return row;
    }
    if (!run.ok()) {
      ++sums->timeouts;
      row["timeout"] = true;
      return row;
    }
    row["rows"] = run->row_count;
    if (round == 0) {
      row["first_s"] = run->seconds;
      if (answers != nullptr) {
        answers->push_back(
            {{"query", query.name}, {"columns", run->columns}, {"rows", RowsOf(*run)}});
      }
      continue;
    }
    seconds.push_back(run->seconds);
    cpu.push_back(run->cpu_seconds);
  }
  const Spread spread = Summarize(seconds);
  row["seconds"] = ToJson(spread);
  row["cpu_s"] = Summarize(cpu).median;
  sums->seconds += spread.median;
  sums->cpu_seconds += Summarize(cpu).median;
  ++sums->done;
  return row;
}

std::string Milliseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e3); }

void AddRow(const nlohmann::json& row, TextTable* table) {
  const auto name = row.at("query").get<std::string>();
  if (row.contains("timeout")) return table->AddRow({name, "", "timeout", "", "", ""});
  if (row.contains("error")) return table->AddRow({name, "", "error", "", "", ""});
  const nlohmann::json& s = row.at("seconds");
  table->AddRow({name, fmt::format("{}", row.at("rows").get<uint64_t>()),
                 Milliseconds(s.at("median").get<double>()),
                 Milliseconds(s.at("min").get<double>()), Milliseconds(s.at("max").get<double>()),
                 Milliseconds(row.at("cpu_s").get<double>())});
}

absl::Status RunVariant(GraphBench* bench, uint64_t warehouses, bool repaired,
                        nlohmann::json* results, nlohmann::json* answers) {
  const std::string csv = bench->dir + "/gtpc-csv", path = bench->dir + "/gtpc-db";
  std::error_code ec;
  for (const std::string& directory : {csv, path}) {
    std::filesystem::remove_all(directory, ec);
    PULSE_RETURN_IF_ERROR(MakeDirectory(directory));
  }
  const GtpcData data({.warehouses = static_cast<uint32_t>(warehouses),
                       .repaired = repaired,
                       .tiny = bench->tiny,
                       .seed = bench->seed});
  auto queries = GtpcOlap(CypherDialect::kOurs, repaired);
  std::erase_if(queries, [&](const GtpcQuery& q) { return !Wanted(bench->only, q.name); });
  nlohmann::json rows = nlohmann::json::array(), query_rows;
  Sums sums;
  GtpcDatabase::MakeOptions options;
  options.query_threads = bench->query_threads;
  GtpcDatabase::Loaded loaded;
  int query_threads = 0;
  TextTable table({"", "rows", "ms", "least", "most", "CPU ms"});
  const char* variant = repaired ? "repaired" : "as published";
  {
    Progress progress(static_cast<int>(queries.size()) + 1);
    progress.Begin(fmt::format("GTPC, {} warehouses, {}: data", warehouses, variant));
    PULSE_ASSIGN_OR_RETURN(
        const auto database,
        GtpcDatabase::Make(data, csv, path, options,
                           [&](const std::string&, uint64_t, uint64_t) { progress.Tick(); }));
    loaded = database->loaded();
    query_threads = database->service()->options().query_threads;
    if (!bench->keep) std::filesystem::remove_all(csv, ec);
    progress.End(fmt::format("{} relationships", loaded.report.edges));
    for (const GtpcQuery& query : queries) {
      progress.Begin(query.name);
      PULSE_ASSIGN_OR_RETURN(nlohmann::json row,
                             RunQuery(*bench, query, database.get(),
                                      answers == nullptr ? nullptr : &query_rows, &sums));
      progress.End(row.contains("seconds")   ? "done"
                   : row.contains("timeout") ? "timeout"
                                             : "error");
      AddRow(row, &table);
      if (row.contains("error")) {
        fmt::print(stderr, "{}: {}\n", query.name, row["error"].get<std::string>());
      }
      rows.push_back(std::move(row));
    }
    PULSE_RETURN_IF_ERROR(database->store()->Close());
  }
  if (!bench->keep) std::filesystem::remove_all(path, ec);
  table.AddRow({"all", "", Milliseconds(sums.seconds), "", "", Milliseconds(sums.cpu_seconds)});
  fmt::print(
      "\nGTPC, {} warehouse{}, {}: {} nodes, {} relationships ({} dangled), {} of CSV loaded in "
      "{:.2f} s\n{}{} of {} queries ran; {} took longer than {:g} s, {} failed\n",
      warehouses, warehouses == 1 ? "" : "s", variant, loaded.report.nodes, loaded.report.edges,
      loaded.report.dangling, FormatBytes(loaded.csv_bytes), loaded.seconds, table.Render(),
      sums.done, queries.size(), sums.timeouts, bench->query_seconds, sums.failures);
  results->push_back({{"warehouses", warehouses},
                      {"variant", repaired ? "repaired" : "published"},
                      {"nodes", loaded.report.nodes},
                      {"relationships", loaded.report.edges},
                      {"dangling", loaded.report.dangling},
                      {"csv_bytes", loaded.csv_bytes},
                      {"load_s", loaded.seconds},
                      {"queries", std::move(rows)},
                      {"done", sums.done},
                      {"timeouts", sums.timeouts},
                      {"failures", sums.failures},
                      {"query_threads", query_threads},
                      {"sum_s", sums.seconds},
                      {"sum_cpu_s", sums.cpu_seconds}});
  if (answers != nullptr) {
    answers->push_back({{"warehouses", warehouses},
                        {"variant", repaired ? "repaired" : "published"},
                        {"queries", std::move(query_rows)}});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunGtpcPart(GraphBench* bench) {
  nlohmann::json results = nlohmann::json::array(), answers = nlohmann::json::array();
  const bool with_answers = !bench->answers_file.empty();
  for (const uint64_t warehouses : bench->warehouses) {
    for (const std::string& variant : bench->variants) {
      PULSE_RETURN_IF_ERROR(RunVariant(bench, warehouses, variant == "repaired", &results,
                                       with_answers ? &answers : nullptr));
    }
  }
  bench->report["gtpc"] = std::move(results);
  return with_answers ? WriteJson(answers, bench->answers_file) : absl::OkStatus();
}

}  // namespace pulse::bench
