// Benchmarks as data: data/NAME.json has a benchmark's options with their defaults, its variants,
// parts, tables, ratios and targets (bench_data.h). Main thread only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/session.h"
#include "nlohmann/json.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse::bench {

// Adds `pulse bench NAME`, as data/NAME.json has it. An option's default, and its value for --quick
// and --tiny, are there; it has the type of its default.
void AddBenchmark(CLI::App& bench, const std::string& name, absl::Status (*run)(BenchArgs));

// Variants that differ by name only: "variants", a list of [name, meaning, CPUs: "host",
// "agent" or "both"].
std::vector<Variant> VariantsOf(const nlohmann::json& data, const Session& session);

// A kind of load, from "parts"; its variants are all, or those that it names.
struct Part {
  std::string name;
  nlohmann::json data;
  std::vector<Variant> variants;  // of those that take part in the session
};
// Those of `names` (none: all). InvalidArgument for a name that no part has.
absl::StatusOr<std::vector<Part>> PartsOf(const nlohmann::json& data,
                                          const std::vector<std::string>& names,
                                          const std::vector<Variant>& variants);
int RunsOf(const std::vector<Part>& parts);  // of a round

// Medians by variant. A column is [title, metric, digits (-1: as the figure asks for), factor,
// what follows the figure]; ".." follows it where least and most are shown.
std::string MedianTable(const std::string& title, const nlohmann::json& columns,
                        const std::vector<Variant>& variants, const RunSet& runs,
                        const std::string& before_name = "");
std::string Figure(const nlohmann::json& column, double value);  // as a column has it
// Of a list of [what, metric, of, over, target, "added"]: without `over` the figure itself, with
// "added" the difference. Rows whose variants did not run are left out; targets too unless
// `judged`.
std::vector<RatioRow> RatiosOf(const nlohmann::json& list, const RunSet& runs, bool judged,
                               const std::string& prefix = "");

// Runs all parts, in rounds; says their tables ("title", "columns") and ratios ("ratios", "prefix",
// not judged with "busy"), and adds both and every run to the report, which it writes.
using RunPart =
    std::function<absl::StatusOr<nlohmann::json>(const Part&, const Variant&, const std::string&)>;
absl::Status RunParts(Session* session, const nlohmann::json& data, const std::vector<Part>& parts,
                      const RunPart& run,
                      const std::function<void(const Part&, const RunSet&)>& done = nullptr);

}  // namespace pulse::bench
