// `pulse bench graph`: GTPC and R-MAT, and the figures of the DSA paper.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_export.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Names = std::vector<std::string>;

constexpr struct {
  const char* name;
  absl::Status (*run)(GraphBench*);
} kParts[] = {{"copy", RunCopyPart},       {"flush", RunFlushPart},   {"merge", RunMergePart},
              {"oltp", RunOltpPart},       {"beside", RunBesidePart}, {"sum", RunSumPart},
              {"updates", RunUpdatesPart}, {"core", RunCorePart},     {"reopen", RunReopenPart},
              {"gtpc", RunGtpcPart}};

absl::Status CheckNames(const char* option, const Names& names, const Names& known) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", name, ": choose of ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status Prepare(const BenchArgs& args, GraphBench* bench) {
  Names queries, parts = {"all"};
  for (const GtpcQuery& query : GtpcOlap(CypherDialect::kOurs, true)) queries.push_back(query.name);
  for (const auto& part : kParts) parts.emplace_back(part.name);
  bench->only = args.Get<Names>("only");
  bench->variants = args.common.variants;
  PULSE_RETURN_IF_ERROR(CheckNames("--only", bench->only, queries));
  PULSE_RETURN_IF_ERROR(CheckNames("--variants", bench->variants, {"repaired", "published"}));
  PULSE_RETURN_IF_ERROR(CheckNames("--part", args.Get<Names>("part"), parts));
  bench->warehouses = args.Get<std::vector<uint64_t>>("warehouses");
  bench->answers_file = args.Get<std::string>("answers");
  bench->query_seconds = args.Get<double>("query_timeout");
  bench->query_threads = args.Get<int>("query_threads");
  PULSE_RETURN_IF_ERROR(ReadSize("--size", args.common.size, "256M", &bench->most_bytes));
  bench->rounds = args.common.pairs > 0 ? args.common.pairs : args.common.tiny ? 1 : 3;
  bench->seed = args.common.seed;
  bench->tiny = args.common.tiny;
  bench->keep = args.common.keep;
  return absl::OkStatus();
}

bool IsAsked(const Names& parts, const std::string& name) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& p) { return p == "all" || p == name; });
}

// What the paper's text states, beside what was found here; and what is not here.
void ShowPaper(GraphBench* bench) {
  const nlohmann::json& data = DataOf("graph");
  TextTable table({"figure", "the paper", "says", "here", "what that is"});
  for (const size_t column : {1, 4}) table.AlignLeft(column);
  nlohmann::json rows = nlohmann::json::array();
  for (const nlohmann::json& row : data.at("paper")) {
    const auto found = bench->here.find(row.at("here").get<std::string>());
    nlohmann::json shown = row;
    std::string here;
    if (found != bench->here.end()) {
      shown["value"] = found->second;
      here = fmt::format("{:.2f}", found->second);
    }
    table.AddRow({row.at("figure").get<std::string>(), row.at("what").get<std::string>(),
                  row.at("says").get<std::string>(), here, row.at("means").get<std::string>()});
    rows.push_back(std::move(shown));
  }
  bench->report["paper"] = std::move(rows);
  bench->report["missing"] = data.at("missing");
  if (bench->here.empty()) return;  // GTPC alone
  fmt::print(
      "\nThe paper's figures, on two CPUs of 32 cores with HBM and DSA, and what stands for "
      "them here\n{}\nNot measured, as the product does not have it:\n",
      table.Render());
  for (const nlohmann::json& what : data.at("missing")) {
    fmt::print("  {}\n", what.get<std::string>());
  }
}

}  // namespace

absl::Status RunGraphBench(BenchArgs args) {
  GraphBench bench;
  PULSE_RETURN_IF_ERROR(Prepare(args, &bench));
  const bool repaired = bench.variants.empty() || bench.variants[0] == "repaired";
  if (const auto directory = args.Get<std::string>("write_queries"); !directory.empty()) {
    PULSE_RETURN_IF_ERROR(WriteGtpcQueries(repaired, directory));
    if (args.Get<std::string>("write_csv").empty()) return absl::OkStatus();
  }
  if (const auto directory = args.Get<std::string>("write_csv"); !directory.empty()) {
    return WriteGtpcForOthers({.warehouses = static_cast<uint32_t>(bench.warehouses.at(0)),
                               .repaired = repaired,
                               .tiny = bench.tiny,
                               .seed = bench.seed},
                              directory);
  }
  const auto parts = args.Get<Names>("part");
  // CSV and database of a warehouse take 220 MB; the transactions' part has four of one; two logs
  // of 1 GB are opened after a kill.
  const uint64_t most = *std::max_element(bench.warehouses.begin(), bench.warehouses.end());
  const uint64_t full = std::max<uint64_t>(most * 400'000'000, 1'000'000'000) +
                        (IsAsked(parts, "reopen") ? 2'500'000'000 : 0);
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, bench.tiny ? uint64_t{64} << 20 : full));
  bench.dir = session->dir().path();
  for (const auto& [name, run] : kParts) {
    if (IsAsked(parts, name)) PULSE_RETURN_IF_ERROR(run(&bench));
  }
  ShowPaper(&bench);
  if (bench.tiny) session->Say("A tiny run: it shows that all works; its figures mean nothing.\n");
  session->report().update(bench.report);
  return session->WriteReport();
}

}  // namespace pulse::bench
