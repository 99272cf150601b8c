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
} kParts[] = {{"copy", RunCopyPart}, {"flush", RunFlushPart},     {"merge", RunMergePart},
              {"sum", RunSumPart},   {"updates", RunUpdatesPart}, {"gtpc", RunGtpcPart}};

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
  bench->variants = args.Get<Names>("variants");
  PULSE_RETURN_IF_ERROR(CheckNames("--only", bench->only, queries));
  PULSE_RETURN_IF_ERROR(CheckNames("--variants", bench->variants, {"repaired", "published"}));
  PULSE_RETURN_IF_ERROR(CheckNames("--part", args.Get<Names>("part"), parts));
  bench->warehouses = args.Get<std::vector<uint64_t>>("warehouses");
  bench->answers_file = args.Get<std::string>("answers");
  bench->query_seconds = args.Get<double>("query_timeout");
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
  // CSV and database of a warehouse take 220 MB; the transactions' part has two of one.
  const uint64_t most = *std::max_element(bench.warehouses.begin(), bench.warehouses.end());
  PULSE_ASSIGN_OR_RETURN(auto session,
                         Session::Open(args, bench.tiny ? uint64_t{64} << 20 : most * 400'000'000));
  bench.dir = session->dir().path();
  const auto parts = args.Get<Names>("part");
  for (const auto& [name, run] : kParts) {
    if (IsAsked(parts, name)) PULSE_RETURN_IF_ERROR(run(&bench));
  }
  if (bench.tiny) session->Say("A tiny run: it shows that all works; its figures mean nothing.\n");
  session->report().update(bench.report);
  return session->WriteReport();
}

}  // namespace pulse::bench
