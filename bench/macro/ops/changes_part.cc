// `auto` against the best fixed split where something changes on the way: an engine's speed, or the
// sizes of pieces.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/ops/changing_work.h"
#include "bench/macro/ops/ops_parts.h"
#include "bench/macro/pair_stats.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using ops::Placement;
using ops::Side;
using ops::VirtualEngine;

constexpr double kSlower = 4;                        // times
constexpr uint64_t kMostBytes = uint64_t{64} << 20;  // a row makes many runs

// What changes. Places in the input are from 0 to 1.
struct Change {
  const char* name;
  std::function<bool(double at)> host_is_slow;
  std::function<bool(double at)> agent_is_slow;
  bool mixed = false;
};

const std::vector<Change>& Changes() {
  const auto never = [](double) { return false; };
  const auto first_half = [](double at) { return at < 0.5; };
  const auto second_half = [](double at) { return at >= 0.5; };
  static const std::vector<Change> all = {
      {"the agent's side slows down at half", never, second_half},
      {"the host slows down at half", second_half, never},
      {"slow is the agent's side, then the host", second_half, first_half},
      {"pieces of many sizes", never, never, true}};
  return all;
}

// Of an operation: the host's library beside another core with it, or beside a card.
struct Setup {
  OpsKind kind;
  Library library;
  const vdpu::Profile* card = nullptr;
};

absl::StatusOr<OpsRun> Run(const OpsBench& bench, const Setup& setup, const Change& change,
                           const OpsWork& work, const Placement& placement) {
  const auto part = [&work](const ops::Chunk& chunk) {
    return static_cast<double>(chunk.offset) / static_cast<double>(work.pieces.size());
  };
  const auto library = [&](ops::EngineTraits traits, const std::function<bool(double)>& is_slow)
      -> absl::StatusOr<std::unique_ptr<ops::Engine>> {
    PULSE_ASSIGN_OR_RETURN(auto engine, MakeLibraryEngine(work, setup.library, std::move(traits)));
    return std::make_unique<SlowedEngine>(
        std::move(engine),
        [part, is_slow](const ops::Chunk& chunk) { return is_slow(part(chunk)) ? kSlower : 1.0; });
  };
  PULSE_ASSIGN_OR_RETURN(const auto host,
                         library({"host", Side::kHost, 1, bench.host_cpus}, change.host_is_slow));
  std::unique_ptr<ops::Engine> agent;
  if (setup.card == nullptr) {
    PULSE_ASSIGN_OR_RETURN(
        agent, library({"agent", Side::kAgent, 1, bench.agent_cpus}, change.agent_is_slow));
  } else {
    const auto& card = *setup.card->EngineFor(OperationOf(setup.kind));
    const ops::EngineTraits traits = {"card", Side::kAgent, card.depth, bench.agent_cpus};
    VirtualEngine::Price price = PriceOf(card, VirtualEngine::Setting::kStatic, false);
    auto fast = MakeVirtualEngine(work, price, traits);
    price.bytes_per_second /= kSlower;
    agent = std::make_unique<StagedEngine>(
        std::move(fast), MakeVirtualEngine(work, price, traits),
        [part, &change](const ops::Chunk& chunk) { return change.agent_is_slow(part(chunk)); });
  }
  return RunWork(work, 0, work.pieces.size(), {host.get(), agent.get()}, placement, nullptr);
}

absl::Status RunRow(const OpsBench& bench, const Setup& setup, const Change& change,
                    const OpsWork& work, TextTable* table, nlohmann::json* rows) {
  const auto split = [&](int percent) {
    return Run(bench, setup, change, work, {Placement::Kind::kSplit, percent});
  };
  std::map<int, double> by_percent;
  int best = 0;
  for (int percent = 0; percent <= 100; percent += bench.step) {
    PULSE_ASSIGN_OR_RETURN(const OpsRun run, split(percent));
    by_percent[percent] = run.plain_per_second;
    if (run.plain_per_second > by_percent[best]) best = percent;
  }
  std::vector<double> ratios;
  std::vector<double> rates;
  for (int pair = 0; pair < bench.pairs; ++pair) {
    PULSE_ASSIGN_OR_RETURN(const OpsRun fixed, split(best));
    PULSE_ASSIGN_OR_RETURN(const OpsRun automatic, Run(bench, setup, change, work, {}));
    ratios.push_back(automatic.plain_per_second / fixed.plain_per_second);
    rates.push_back(automatic.plain_per_second);
  }
  const Spread ratio = Summarize(ratios);
  const double automatic = Summarize(rates).median;
  const std::string card = setup.card == nullptr ? "none" : setup.card->name;
  const std::string title = absl::StrCat(card, ", ", OperationOf(setup.kind), ", host ",
                                         setup.library.name, ": ", change.name);
  const auto mib = [](double rate) { return fmt::format("{:.0f}", rate / kMiB); };
  table->AddRow({title, mib(by_percent[0]), mib(by_percent[100]),
                 fmt::format("{} at {} %", mib(by_percent[best]), best), mib(automatic),
                 fmt::format("{:.2f} ({:.2f} - {:.2f})", ratio.median, ratio.min, ratio.max)});
  rows->push_back({{"title", title},
                   {"card", card},
                   {"operation", OperationOf(setup.kind)},
                   {"host", setup.library.name},
                   {"change", change.name},
                   {"replayed", setup.card != nullptr},
                   {"host_mib_per_s", by_percent[0] / kMiB},
                   {"agent_mib_per_s", by_percent[100] / kMiB},
                   {"best_percent", best},
                   {"best_mib_per_s", by_percent[best] / kMiB},
                   {"auto_mib_per_s", automatic / kMiB},
                   {"auto_by_best", ratio.median},
                   {"auto_by_best_least", ratio.min},
                   {"auto_by_best_most", ratio.max}});
  return absl::OkStatus();
}

}  // namespace

absl::Status RunChangesPart(OpsBench* bench) {
  std::vector<CorpusFile> files;
  uint64_t room = kMostBytes;
  for (const CorpusFile& file : bench->files) {
    files.push_back({file.name, file.data.substr(0, room)});
    room -= files.back().data.size();
    if (room == 0) break;
  }
  std::vector<Setup> setups = {{OpsKind::kDeflate, {"isal", 1}},
                               {OpsKind::kInflate, {"libdeflate"}}};
  for (const vdpu::Profile& card : bench->cards) {
    for (const auto& [kind, library] : {std::pair(OpsKind::kDeflate, Library{"isal", 1}),
                                        std::pair(OpsKind::kInflate, Library{"libdeflate"})}) {
      if (card.EngineFor(OperationOf(kind)) != nullptr) setups.push_back({kind, library, &card});
    }
  }
  TextTable table({"MiB/s", "host alone", "agent alone", "best split", "auto", "auto / best"});
  nlohmann::json rows = nlohmann::json::array();
  for (const Setup& setup : setups) {
    for (const Change& change : Changes()) {
      PULSE_ASSIGN_OR_RETURN(const OpsWork work,
                             change.mixed ? MakeMixedWork(setup.kind, files, bench->chunk / 64,
                                                          bench->chunk, bench->seed)
                                          : MakeWork(setup.kind, files, bench->chunk));
      PULSE_RETURN_IF_ERROR(RunRow(*bench, setup, change, work, &table, &rows));
    }
  }
  fmt::print(
      "\n`auto` against the best fixed split where something changes on the way: a side takes {}\n"
      "times as long for the chunks of one half, or pieces have {} to {} KiB; medians of {} "
      "pairs,\n"
      "least and most. Cards are replayed at their profile's price\n{}",
      kSlower, bench->chunk / 64 / 1024.0, bench->chunk / 1024.0, bench->pairs, table.Render());
  bench->report["changes"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
