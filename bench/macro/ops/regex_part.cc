// Figure 13: the queries, each alone and all as one set, by size of buffers and by batches.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/ops/ops_parts.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using ops::Side;
using ops::VirtualEngine;

constexpr int kBatches[] = {1, 4, 16};

std::shared_ptr<const filter::RuleSet> Shared(std::unique_ptr<filter::RuleSet> rules) {
  return rules;
}

// By the size of buffers, on one core, without a queue.
absl::Status MeasureBuffers(OpsBench* bench, nlohmann::json* rows) {
  const std::vector<uint64_t> sizes = bench->tiny
                                          ? std::vector<uint64_t>{4096}
                                          : std::vector<uint64_t>{64, 256, 4096, 16384, 262144};
  // RE2 alone takes long.
  constexpr size_t kMostRecords = 2 << 20;
  CorpusFile records = bench->accidents;
  if (records.data.size() > kMostRecords) {
    records.data.resize(records.data.rfind('\n', kMostRecords) + 1);
  }
  TextTable table({"MiB/s", "buffer", "pulse filter", "re2"});
  std::map<std::string, std::vector<double>> by_engine;
  for (const Query& query : PaperQueries()) {
    PULSE_ASSIGN_OR_RETURN(auto rules, filter::RuleSet::Compile({{query.rule, query.name}}, {}));
    const auto shared = Shared(std::move(rules));
    for (const uint64_t size : sizes) {
      PULSE_ASSIGN_OR_RETURN(const OpsWork work,
                             MakeWork(OpsKind::kRegex, {records}, size, shared));
      std::vector<std::string> cells = {query.name, fmt::format("{} B", size)};
      for (const char* name : {"pulse", "re2"}) {
        PULSE_ASSIGN_OR_RETURN(auto engine, MakeLibraryEngine(work, {name}, {name, {}, 1, {}}));
        engine->DoNotCount();
        PULSE_ASSIGN_OR_RETURN(const DirectRun got, RunDirect(work, *engine, bench->tiny ? 1 : 3));
        cells.push_back(fmt::format("{:.0f}", got.plain_per_second / kMiB));
        if (size >= 4096) by_engine[name].push_back(got.plain_per_second / kMiB);
        rows->push_back({{"query", query.name},
                         {"buffer", size},
                         {"by", name},
                         {"placement", PlacementNameOf(OpsKind::kRegex, PlacedOn::kHostAlone)},
                         {"mib_per_s", got.plain_per_second / kMiB}});
      }
      table.AddRow(std::move(cells));
    }
  }
  fmt::print("\nRegular expressions by size of buffers (Figure 13a, c), fCPU, one core\n{}",
             table.Render());
  for (const auto& [name, rates] : by_engine) {
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    bench->here[absl::StrCat("regex/", name, "/least")] = *least;
    bench->here[absl::StrCat("regex/", name, "/most")] = *most;
  }
  return absl::OkStatus();
}

// Each query alone, and all of them as one set.
std::vector<std::pair<std::string, std::vector<filter::Rule>>> QuerySets() {
  std::vector<std::pair<std::string, std::vector<filter::Rule>>> sets;
  std::vector<filter::Rule> all;
  for (const Query& query : PaperQueries()) {
    all.push_back({query.rule, query.name});
    sets.push_back({query.name, {all.back()}});
  }
  sets.emplace_back("all", std::move(all));
  return sets;
}

// Of this query on this card.
VirtualEngine::Price PriceOfQuery(const vdpu::AcceleratorProfile& card, const std::string& query) {
  auto price = PriceOf(card, VirtualEngine::Setting::kStatic, false);
  const auto found = card.query_rate_gb_s.find(query);
  if (found != card.query_rate_gb_s.end()) price.bytes_per_second = found->second * 1e9;
  return price;
}

// By batches, through the queue: so many buffers on their way at once.
absl::Status MeasureBatches(OpsBench* bench, nlohmann::json* rows) {
  std::vector<std::string> header = {"MiB/s", "buffer"};
  const auto add_columns = [&](const std::string& by) {
    for (const int batch : kBatches) header.push_back(absl::StrCat(by, ", ", batch));
  };
  add_columns("pulse filter");
  for (const vdpu::Profile& card : bench->cards) {
    if (card.EngineFor("regex") != nullptr) add_columns(card.name + "*");
  }
  header.push_back("replay's limit");
  TextTable table(header);
  const std::vector<uint64_t> sizes =
      bench->tiny ? std::vector<uint64_t>{16384} : std::vector<uint64_t>{256, 16384, 262144};
  CorpusFile records = bench->accidents;
  for (auto& set : QuerySets()) {
    const std::string& query = set.first;
    PULSE_ASSIGN_OR_RETURN(auto rules, filter::RuleSet::Compile(std::move(set.second), {}));
    const auto shared = Shared(std::move(rules));
    for (const uint64_t size : sizes) {
      // A queue hands out some 10^5 buffers a second.
      CorpusFile some = {records.name, records.data};
      if (some.data.size() > size * 8192) {
        some.data.resize(some.data.rfind('\n', size * 8192) + 1);
      }
      PULSE_ASSIGN_OR_RETURN(const OpsWork work, MakeWork(OpsKind::kRegex, {some}, size, shared));
      std::vector<std::string> cells = {query, fmt::format("{} B", size)};
      const auto run = [&](ops::Engine& engine, size_t window) -> absl::StatusOr<double> {
        PULSE_ASSIGN_OR_RETURN(
            const OpsRun got, RunWork(work, 0, work.pieces.size(), {&engine}, {}, nullptr, window));
        cells.push_back(fmt::format("{:.0f}", got.plain_per_second / kMiB));
        return got.plain_per_second / kMiB;
      };
      const auto add = [&](const std::string& by, PlacedOn on, int batch, double rate) {
        rows->push_back({{"query", query},
                         {"buffer", size},
                         {"by", by},
                         {"tasks", batch},
                         {"placement", PlacementNameOf(OpsKind::kRegex, on)},
                         {"replayed", on == PlacedOn::kCardAlone},
                         {"mib_per_s", rate}});
      };
      for (const int batch : kBatches) {
        PULSE_ASSIGN_OR_RETURN(
            auto host,
            MakeLibraryEngine(work, {"pulse"}, {"host", Side::kHost, 1, bench->host_cpus}));
        host->DoNotCount();
        PULSE_ASSIGN_OR_RETURN(const double rate, run(*host, static_cast<size_t>(batch)));
        add("pulse", PlacedOn::kHostAlone, batch, rate);
      }
      for (const vdpu::Profile& card : bench->cards) {
        const auto* engine = card.EngineFor("regex");
        if (engine == nullptr) continue;
        for (const int batch : kBatches) {
          const auto priced =
              MakeVirtualEngine(work, PriceOfQuery(*engine, query),
                                {card.name, Side::kAgent, batch, bench->agent_cpus});
          PULSE_ASSIGN_OR_RETURN(const double rate, run(*priced, 0));
          add(card.name, PlacedOn::kCardAlone, batch, rate);
          bench->here[absl::StrCat("regex/", card.name, "/", query, "/", size, "/", batch)] = rate;
        }
      }
      VirtualEngine::Price nothing;
      nothing.bytes_per_second = 1e15;
      const auto limit =
          MakeVirtualEngine(work, nothing, {"limit", Side::kAgent, 16, bench->agent_cpus});
      PULSE_RETURN_IF_ERROR(run(*limit, 0).status());
      table.AddRow(std::move(cells));
    }
  }
  fmt::print(
      "\nRegular expressions by batches (Figure 13b), through the queue: fCPU with one core and so "
      "many\n"
      "buffers on their way; * rDPU, so many tasks, replayed at the profile's price for the query. "
      "A\n"
      "replayed figure near the last column's shows this machine's queue, not a card\n{}",
      table.Render());
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRegexPart(OpsBench* bench) {
  nlohmann::json rows = nlohmann::json::array();
  PULSE_RETURN_IF_ERROR(MeasureBuffers(bench, &rows));
  PULSE_RETURN_IF_ERROR(MeasureBatches(bench, &rows));
  bench->report["regex"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
