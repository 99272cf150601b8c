// Figure 14: 0 to 100 % to the card, with a context that stays and with one that is reconfigured
// for each file; and `auto`, which has no percentage.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/ops/ops_parts.h"
#include "bench/macro/pair_stats.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using ops::Placement;
using ops::Side;
using ops::VirtualEngine;

struct RowSpec {
  OpsKind kind;
  Library library;
  const vdpu::Profile* card = nullptr;  // null: the agent is another core of this machine
  enum class Setting { kStatic, kReconfigured, kArm } setting = Setting::kStatic;
};

const char* NameOf(RowSpec::Setting setting) {
  switch (setting) {
    case RowSpec::Setting::kStatic:
      return "static";
    case RowSpec::Setting::kReconfigured:
      return "reconfiguration";
    case RowSpec::Setting::kArm:
      return "static, agent's cores in place of the host";
  }
  return "";
}

Placement Split(int percent) {
  Placement placement;
  placement.kind = Placement::Kind::kSplit;
  placement.percent = percent;
  return placement;
}

// One row of the figure: engines that stay, and runs with every placement.
class Row {
 public:
  Row(const OpsBench& bench, RowSpec spec) : bench_(bench), spec_(std::move(spec)) {}

  absl::Status Prepare(std::shared_ptr<const filter::RuleSet> rules) {
    rules_ = std::move(rules);
    const std::vector<CorpusFile> accidents = {bench_.accidents};
    files_ = spec_.kind == OpsKind::kRegex ? &accidents_ : &bench_.files;
    if (spec_.kind == OpsKind::kRegex) accidents_ = accidents;
    PULSE_ASSIGN_OR_RETURN(pieces_, MakeWork(spec_.kind, *files_, bench_.chunk, rules_));
    return absl::OkStatus();
  }

  // The rate of the card's core, of one core of this machine.
  void SetCoreRate(double rate) { core_rate_ = rate; }

  // Of the paper: everything is divided by the percentage.
  absl::StatusOr<OpsRun> RunSplit(int percent) {
    if (spec_.setting == RowSpec::Setting::kReconfigured) return RunByFile(percent);
    return RunOn(pieces_, 0, pieces_.pieces.size(), Split(percent), nullptr);
  }
  absl::StatusOr<OpsRun> RunAuto() {
    // Where contexts are reconfigured, it keeps one for all that fits.
    PULSE_ASSIGN_OR_RETURN(Engines engines, MakeEngines(pieces_, VirtualEngine::Setting::kKept));
    // It learns within the run.
    return RunWork(pieces_, 0, pieces_.pieces.size(), engines.pointers, {}, nullptr);
  }

  // Replaying by engines that cost nothing: what the queue and the copies of this machine allow. A
  // replayed row near it says nothing about the card.
  absl::StatusOr<OpsRun> RunLimit() {
    VirtualEngine::Price price;
    price.bytes_per_second = 1e15;
    const auto host = MakeVirtualEngine(pieces_, price, {"host", Side::kHost, 1, bench_.host_cpus});
    const auto agent =
        MakeVirtualEngine(pieces_, price, {"agent", Side::kAgent, 1, bench_.agent_cpus});
    return RunWork(pieces_, 0, pieces_.pieces.size(), {host.get(), agent.get()}, {}, nullptr);
  }

  const OpsWork& work() const { return pieces_; }
  const RowSpec& spec() const { return spec_; }
  // The paper's name for a percentage to the card's side; none where no host takes part.
  std::string PlacementName(int percent) const {
    if (percent == 100) return PlacementNameOf(spec_.kind, PlacedOn::kCardAlone);
    if (spec_.setting == RowSpec::Setting::kArm) return "";
    return PlacementNameOf(spec_.kind, percent == 0 ? PlacedOn::kHostAlone : PlacedOn::kBoth);
  }
  std::string Title() const {
    return absl::StrCat(spec_.card == nullptr ? "none" : spec_.card->name, ", ",
                        OperationOf(spec_.kind), ", host ", spec_.library.name, ", ",
                        NameOf(spec_.setting));
  }

 private:
  struct Engines {
    std::vector<std::unique_ptr<ops::Engine>> owned;
    std::vector<ops::Engine*> pointers;
  };

  absl::StatusOr<Engines> MakeEngines(
      const OpsWork& work,
      VirtualEngine::Setting otherwise = VirtualEngine::Setting::kReconfigured) const {
    Engines engines;
    const auto own = [&](std::unique_ptr<ops::Engine> engine) {
      engines.pointers.push_back(engine.get());
      engines.owned.push_back(std::move(engine));
    };
    if (spec_.setting == RowSpec::Setting::kArm) {
      VirtualEngine::Price price;
      price.bytes_per_second = core_rate_;
      for (int core = 0; core < spec_.card->cores; ++core) {
        own(MakeVirtualEngine(work, price,
                              {absl::StrCat("core", core), Side::kHost, 1, bench_.host_cpus}));
      }
    } else {
      PULSE_ASSIGN_OR_RETURN(
          auto host,
          MakeLibraryEngine(work, spec_.library, {"host", Side::kHost, 1, bench_.host_cpus}));
      own(std::move(host));
    }
    if (spec_.card == nullptr) {
      PULSE_ASSIGN_OR_RETURN(
          auto agent,
          MakeLibraryEngine(work, spec_.library, {"agent", Side::kAgent, 1, bench_.agent_cpus}));
      own(std::move(agent));
      return engines;
    }
    const auto* accelerator = spec_.card->EngineFor(OperationOf(spec_.kind));
    const bool reconfigured = spec_.setting == RowSpec::Setting::kReconfigured;
    auto price =
        PriceOf(*accelerator, reconfigured ? otherwise : VirtualEngine::Setting::kStatic, false);
    if (reconfigured) price.setup_nanos = price.reconfigure_nanos;
    own(MakeVirtualEngine(work, price,
                          {"card", Side::kAgent, accelerator->depth, bench_.agent_cpus}));
    return engines;
  }

  absl::StatusOr<OpsRun> RunOn(const OpsWork& work, size_t first, size_t count,
                               const Placement& placement, ops::RateTable* rates) const {
    PULSE_ASSIGN_OR_RETURN(Engines engines, MakeEngines(work));
    return RunWork(work, first, count, engines.pointers, placement, rates);
  }

  // One buffer for each side's part of a file, one file after the other, as the paper's two threads
  // with their barriers.
  absl::StatusOr<OpsRun> RunByFile(int percent) {
    auto& work = by_file_[percent];
    if (work.pieces.empty()) {
      for (const CorpusFile& file : *files_) {
        const uint64_t card = file.data.size() * static_cast<uint64_t>(percent) / 100;
        const uint64_t host = file.data.size() - card;
        for (const auto& [at, size] : {std::pair(uint64_t{0}, host), std::pair(host, card)}) {
          if (size == 0) continue;
          PULSE_ASSIGN_OR_RETURN(
              OpsWork part,
              MakeWork(spec_.kind, {{file.name, file.data.substr(at, size)}}, size, rules_));
          work.kind = spec_.kind;
          work.rules = rules_;
          work.plain += part.plain;
          work.largest_input = std::max(work.largest_input, part.largest_input);
          for (OpsPiece& piece : part.pieces) work.pieces.push_back(std::move(piece));
        }
      }
    }
    PULSE_ASSIGN_OR_RETURN(Engines engines, MakeEngines(work));
    OpsRun whole;
    const size_t each = percent == 0 || percent == 100 ? 1 : 2;
    for (size_t at = 0; at < work.pieces.size(); at += each) {
      // Of two, the second is the card's.
      PULSE_ASSIGN_OR_RETURN(const OpsRun run,
                             RunWork(work, at, std::min(each, work.pieces.size() - at),
                                     engines.pointers, Split(each == 1 ? percent : 50), nullptr));
      // The next file waits for both.
      whole.seconds += run.seconds;
      whole.run_seconds += run.run_seconds;
      whole.host_cpu_seconds += run.host_cpu_seconds;
    }
    whole.plain_per_second = static_cast<double>(work.plain) / whole.seconds;
    return whole;
  }

  const OpsBench& bench_;
  const RowSpec spec_;
  std::shared_ptr<const filter::RuleSet> rules_;
  std::vector<CorpusFile> accidents_;
  const std::vector<CorpusFile>* files_ = nullptr;
  OpsWork pieces_;
  std::map<int, OpsWork> by_file_;
  double core_rate_ = 1e9;
};

std::vector<RowSpec> RowsOf(const OpsBench& bench) {
  const std::vector<std::pair<OpsKind, Library>> all = {
      {OpsKind::kDeflate, {"zlib", 1}}, {OpsKind::kDeflate, {"isal", 1}},
      {OpsKind::kInflate, {"zlib"}},    {OpsKind::kInflate, {"libdeflate"}},
      {OpsKind::kLz4Decode, {"lz4"}},   {OpsKind::kRegex, {"pulse"}}};
  std::vector<RowSpec> rows;
  for (const auto& [kind, library] : all) rows.push_back({kind, library});
  for (const vdpu::Profile& card : bench.cards) {
    for (const auto& [kind, library] : all) {
      if (card.EngineFor(OperationOf(kind)) == nullptr) continue;
      for (const auto setting :
           {RowSpec::Setting::kStatic, RowSpec::Setting::kReconfigured, RowSpec::Setting::kArm}) {
        rows.push_back({kind, library, &card, setting});
      }
    }
  }
  return rows;
}

// Of the sum of both rates, how many chunks of the slowest engine a run lost.
double LossInChunks(const OpsBench& bench, double host, double agent, uint64_t plain,
                    double seconds) {
  const double ideal = static_cast<double>(plain) / (host + agent);
  return (seconds - ideal) / (static_cast<double>(bench.chunk) / std::min(host, agent));
}

absl::Status RunRow(OpsBench* bench, Row* row, TextTable* table, nlohmann::json* out) {
  std::vector<std::string> cells = {row->Title()};
  nlohmann::json splits = nlohmann::json::array();
  std::map<int, OpsRun> runs;
  int best = 0;
  for (int percent = 0; percent <= 100; percent += bench->step) {
    PULSE_ASSIGN_OR_RETURN(runs[percent], row->RunSplit(percent));
    const double rate = runs[percent].plain_per_second;
    if (rate > runs[best].plain_per_second) best = percent;
    splits.push_back({{"percent", percent},
                      {"placement", row->PlacementName(percent)},
                      {"mib_per_s", rate / kMiB},
                      {"host_cpu_s", runs[percent].host_cpu_seconds}});
  }
  const bool replayed = row->spec().card != nullptr;
  double of_limit = 0;
  if (replayed) {
    PULSE_ASSIGN_OR_RETURN(const OpsRun limit, row->RunLimit());
    of_limit = runs[best].plain_per_second / limit.plain_per_second;
  }
  std::vector<double> ratios;
  std::vector<double> returns;
  std::vector<double> rates;
  std::vector<double> losses;
  std::vector<double> cpu;
  std::string explained;
  for (int pair = 0; pair < bench->pairs; ++pair) {
    PULSE_ASSIGN_OR_RETURN(const OpsRun fixed, row->RunSplit(best));
    PULSE_ASSIGN_OR_RETURN(const OpsRun automatic, row->RunAuto());
    ratios.push_back(automatic.plain_per_second / fixed.plain_per_second);
    returns.push_back(fixed.run_seconds / automatic.run_seconds);
    rates.push_back(automatic.plain_per_second);
    cpu.push_back(automatic.host_cpu_seconds);
    losses.push_back(LossInChunks(*bench, runs[0].plain_per_second, runs[100].plain_per_second,
                                  row->work().plain, automatic.seconds));
    explained = automatic.stats.Explain();
  }
  const auto ratio = Summarize(ratios);
  const double automatic = Summarize(rates).median;
  const double loss = Summarize(losses).median;
  const double saved =
      runs[0].host_cpu_seconds > 0 ? 1 - Summarize(cpu).median / runs[0].host_cpu_seconds : 0;
  const auto mib = [](double rate) { return fmt::format("{:.0f}", rate / kMiB); };
  const auto named = [&](int percent) {
    return absl::StrCat(row->PlacementName(percent), " ", mib(runs[percent].plain_per_second));
  };
  cells.insert(
      cells.end(),
      {named(0), named(100), fmt::format("{} at {} %", named(best), best),
       absl::StrCat(row->PlacementName(50), " ", mib(automatic)),
       fmt::format("{:.2f} ({:.2f} - {:.2f})", ratio.median, ratio.min, ratio.max),
       fmt::format("{:.2f}", Summarize(returns).median), fmt::format("{:.1f}", loss),
       row->spec().setting == RowSpec::Setting::kArm ? "" : fmt::format("{:.0f}", 100 * saved),
       replayed ? fmt::format("{:.0f}", 100 * of_limit) : ""});
  table->AddRow(std::move(cells));
  out->push_back({{"title", row->Title()},
                  {"card", replayed ? row->spec().card->name : "none"},
                  {"operation", OperationOf(row->spec().kind)},
                  {"host", row->spec().library.name},
                  {"setting", NameOf(row->spec().setting)},
                  {"replayed", replayed},
                  {"splits", std::move(splits)},
                  {"best_percent", best},
                  {"auto_placement", row->PlacementName(50)},
                  {"auto_mib_per_s", automatic / kMiB},
                  {"auto_by_best", ratio.median},
                  {"auto_by_best_least", ratio.min},
                  {"auto_by_best_most", ratio.max},
                  {"auto_by_best_until_lanes_ended", Summarize(returns).median},
                  {"loss_chunks", loss},
                  {"host_cpu_saved", saved},
                  {"of_replay_limit", of_limit},
                  {"auto", explained}});
  const std::string key = absl::StrCat("offload/", replayed ? row->spec().card->name : "none", "/",
                                       OperationOf(row->spec().kind), "/", row->spec().library.name,
                                       "/", NameOf(row->spec().setting));
  for (const auto& [percent, run] : runs) {
    bench->here[absl::StrCat(key, "/", percent)] = run.plain_per_second / kMiB;
  }
  bench->here[key + "/saved"] = 100 * saved;
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOffloadPart(OpsBench* bench) {
  std::vector<filter::Rule> queries;
  for (const Query& query : PaperQueries()) queries.push_back({query.rule, query.name});
  PULSE_ASSIGN_OR_RETURN(std::shared_ptr<const filter::RuleSet> rules,
                         filter::RuleSet::Compile(std::move(queries), {}));
  TextTable table({"MiB/s", "TT, 0 %", "TT, 100 %", "OT, best split", "OT, auto", "auto / best",
                   "with lanes", "loss, chunks", "host CPU saved %", "of replay's limit %"});
  nlohmann::json rows = nlohmann::json::array();
  std::map<std::string, double> core_rates;
  for (const RowSpec& spec : RowsOf(*bench)) {
    Row row(*bench, spec);
    PULSE_RETURN_IF_ERROR(row.Prepare(rules));
    const std::string core = absl::StrCat(OperationOf(spec.kind), "/", spec.library.name);
    if (spec.setting == RowSpec::Setting::kArm) {
      row.SetCoreRate(core_rates[core] * spec.card->core_speed);
    }
    PULSE_RETURN_IF_ERROR(RunRow(bench, &row, &table, &rows));
    if (spec.card == nullptr) {
      core_rates[core] = rows.back().at("splits").front().at("mib_per_s").get<double>() * kMiB;
    }
  }
  fmt::print(
      "\n0 to 100 % to the agent's side (Figure 14), by the paper's names: fCPU is the host alone; "
      "cDPU,\n"
      "dDPU and rDPU are the agent's side alone (TT of each); cCOMP, cDECOMP and cREG are both "
      "(OT).\n"
      "none: another core of this machine. Cards are replayed at their profile's price. `auto` "
      "against\n"
      "the best split: medians of {} pairs, least and most, until the last chunk is delivered; "
      "with\n"
      "lanes: until the one that was overtaken at the end has ended, too. With reconfiguration, "
      "auto\n"
      "keeps one context for all that fits. Loss: against the sum of both rates, in chunks of the\n"
      "slower engine. Of replay's limit: the best split against engines that cost nothing, so "
      "what\n"
      "queue and copies allow here; a row near it says nothing about a card\n{}",
      bench->pairs, table.Render());
  bench->report["offload"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
