#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/ops/ops_parts.h"
#include "bench/macro/pair_stats.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using ops::VirtualEngine;

double Median(std::vector<double> v) { return Summarize(std::move(v)).median; }

struct Direct {
  double plain_per_second = 0;
  double output_share = 0;  // of the input
};

// One lane, piece by piece, without a queue; the median of some rounds.
absl::StatusOr<Direct> RunDirect(const OpsWork& work, ops::Engine& engine, int rounds) {
  std::vector<double> rates;
  uint64_t out = 0;
  uint64_t in = 0;
  ops::Chunk chunk;
  ops::Result result;
  for (int round = 0; round < rounds; ++round) {
    int64_t nanos = 0;
    out = in = 0;
    for (size_t i = 0; i < work.pieces.size(); ++i) {
      const OpsPiece& piece = work.pieces[i];
      chunk.number = chunk.offset = i;
      chunk.tag = piece.plain;
      chunk.input.Clear();
      chunk.input.Append(piece.input);
      result.Clear();
      const int64_t begin = NowNanos();
      PULSE_RETURN_IF_ERROR(engine.Process(0, chunk, result));
      nanos += NowNanos() - begin;
      in += piece.input.size();
      out += result.payload().size();
    }
    rates.push_back(static_cast<double>(work.plain) / static_cast<double>(nanos) * 1e9);
  }
  return Direct{Median(std::move(rates)), static_cast<double>(out) / static_cast<double>(in)};
}

struct Column {
  OpsKind kind;
  std::string title;
  std::vector<Library> libraries;
};

const std::vector<Column>& Columns() {
  static const std::vector<Column> all = {
      {OpsKind::kDeflate,
       "Compression (Figures 7 and 9)",
       {{"zlib", 1},
        {"zlib", 3},
        {"libdeflate", 1},
        {"libdeflate", 3},
        {"isal", 1},
        {"lz4", 1},
        {"lz4", 3},
        {"zstd", 1}}},
      {OpsKind::kInflate, "DEFLATE, decompression (Figures 10 and 12)", {{"zlib"}, {"libdeflate"}}},
      {OpsKind::kLz4Decode, "LZ4, decompression (Figures 11 and 12)", {{"lz4"}}}};
  return all;
}

std::string TitleOf(OpsKind kind, const Library& library) {
  if (kind == OpsKind::kDeflate) return absl::StrCat(library.name, " -", library.level);
  return library.name;
}

// The card on whole files, each one task: its own time, and with a reconfiguration before each.
absl::StatusOr<std::pair<double, double>> RunCard(const OpsWork& work,
                                                  const vdpu::AcceleratorProfile& engine) {
  std::pair<double, double> rates;
  for (const bool reconfigured : {false, true}) {
    auto price = PriceOf(
        engine,
        reconfigured ? VirtualEngine::Setting::kReconfigured : VirtualEngine::Setting::kStatic,
        false);
    // A fresh context counts as one that has another size.
    if (reconfigured) price.setup_nanos = price.reconfigure_nanos;
    auto card = MakeVirtualEngine(work, price, {"card", ops::Side::kAgent, 1, {}});
    PULSE_ASSIGN_OR_RETURN(const Direct got, RunDirect(work, *card, 1));
    (reconfigured ? rates.second : rates.first) = got.plain_per_second;
  }
  return rates;
}

}  // namespace

absl::Status RunCodecsPart(OpsBench* bench) {
  nlohmann::json rows = nlohmann::json::array();
  std::map<std::string, std::vector<double>> by_library;
  for (const Column& column : Columns()) {
    std::vector<std::string> header = {"MiB/s"};
    for (const Library& library : column.libraries) header.push_back(TitleOf(column.kind, library));
    const std::string operation = OperationOf(column.kind);
    for (const vdpu::Profile& card : bench->cards) {
      if (card.EngineFor(operation) == nullptr) continue;
      header.push_back(absl::StrCat(card.name, " ASIC*"));
      header.push_back(absl::StrCat(card.name, " HW*"));
    }
    TextTable table(header);
    for (const CorpusFile& file : bench->files) {
      PULSE_ASSIGN_OR_RETURN(const OpsWork work, MakeWork(column.kind, {file}, bench->chunk));
      PULSE_ASSIGN_OR_RETURN(const OpsWork whole,
                             MakeWork(column.kind, {file}, uint64_t{64} << 20));
      std::vector<std::string> cells = {file.name};
      for (const Library& library : column.libraries) {
        PULSE_ASSIGN_OR_RETURN(auto engine,
                               MakeLibraryEngine(work, library, {"host", ops::Side::kHost, 1, {}}));
        engine->DoNotCount();
        PULSE_ASSIGN_OR_RETURN(const Direct got, RunDirect(work, *engine, bench->tiny ? 1 : 3));
        const std::string title = TitleOf(column.kind, library);
        cells.push_back(fmt::format("{:.0f}", got.plain_per_second / kMiB));
        by_library[operation + "/" + title].push_back(got.plain_per_second / kMiB);
        rows.push_back({{"operation", operation},
                        {"file", file.name},
                        {"bytes", work.plain},
                        {"by", title},
                        {"mib_per_s", got.plain_per_second / kMiB},
                        {"output_share", got.output_share}});
      }
      for (const vdpu::Profile& card : bench->cards) {
        const auto* engine = card.EngineFor(operation);
        if (engine == nullptr) continue;
        PULSE_ASSIGN_OR_RETURN(const auto rates, RunCard(whole, *engine));
        for (const auto& [name, rate] : {std::pair(absl::StrCat(card.name, " ASIC"), rates.first),
                                         std::pair(absl::StrCat(card.name, " HW"), rates.second)}) {
          cells.push_back(fmt::format("{:.0f}", rate / kMiB));
          by_library[operation + "/" + name].push_back(rate / kMiB);
          rows.push_back({{"operation", operation},
                          {"file", file.name},
                          {"bytes", work.plain},
                          {"by", name},
                          {"replayed", true},
                          {"mib_per_s", rate / kMiB}});
        }
      }
      table.AddRow(std::move(cells));
    }
    fmt::print(
        "\n{}, one core, pieces of {} KiB; * replayed at the profile's price, whole files\n{}",
        column.title, bench->chunk >> 10, table.Render());
  }
  for (const auto& [name, rates] : by_library) {
    double sum = 0;
    for (const double rate : rates) sum += rate;
    bench->here["codecs/" + name] = sum / static_cast<double>(rates.size());
  }
  bench->report["codecs"] = std::move(rows);
  return absl::OkStatus();
}

absl::Status RunRegexPart(OpsBench* bench) {
  nlohmann::json rows = nlohmann::json::array();
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
    PULSE_ASSIGN_OR_RETURN(std::shared_ptr<const filter::RuleSet> rules,
                           filter::RuleSet::Compile({{query.rule, query.name}}, {}));
    for (const uint64_t size : sizes) {
      PULSE_ASSIGN_OR_RETURN(const OpsWork work, MakeWork(OpsKind::kRegex, {records}, size, rules));
      std::vector<std::string> cells = {query.name, fmt::format("{} B", size)};
      for (const char* name : {"pulse", "re2"}) {
        PULSE_ASSIGN_OR_RETURN(auto engine, MakeLibraryEngine(work, {name}, {name, {}, 1, {}}));
        engine->DoNotCount();
        PULSE_ASSIGN_OR_RETURN(const Direct got, RunDirect(work, *engine, bench->tiny ? 1 : 3));
        cells.push_back(fmt::format("{:.0f}", got.plain_per_second / kMiB));
        if (size >= 4096) by_engine[name].push_back(got.plain_per_second / kMiB);
        rows.push_back({{"query", query.name},
                        {"buffer", size},
                        {"by", name},
                        {"mib_per_s", got.plain_per_second / kMiB}});
      }
      table.AddRow(std::move(cells));
    }
  }
  fmt::print("\nRegular expressions by size of buffers (Figure 13a, c), one core\n{}",
             table.Render());
  for (const auto& [name, rates] : by_engine) {
    const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
    bench->here[absl::StrCat("regex/", name, "/least")] = *least;
    bench->here[absl::StrCat("regex/", name, "/most")] = *most;
  }

  // The card through the queue: what its tasks in flight hide, and what the queue costs.
  PULSE_ASSIGN_OR_RETURN(std::shared_ptr<const filter::RuleSet> all,
                         filter::RuleSet::Compile({{PaperQueries()[0].rule, "Q1"},
                                                   {PaperQueries()[1].rule, "Q2"},
                                                   {PaperQueries()[2].rule, "Q3"},
                                                   {PaperQueries()[3].rule, "Q4"}},
                                                  {}));
  TextTable batches({"GiB/s*", "buffer", "1 task", "4 tasks", "16 tasks"});
  for (const vdpu::Profile& card : bench->cards) {
    const auto* engine = card.EngineFor("regex");
    if (engine == nullptr) continue;
    for (const uint64_t size : {uint64_t{16384}, uint64_t{262144}}) {
      PULSE_ASSIGN_OR_RETURN(const OpsWork work,
                             MakeWork(OpsKind::kRegex, {bench->accidents}, size, all));
      std::vector<std::string> cells = {card.name, fmt::format("{} KiB", size >> 10)};
      for (const int tasks : {1, 4, 16}) {
        auto virtual_engine =
            MakeVirtualEngine(work, PriceOf(*engine, VirtualEngine::Setting::kStatic, false),
                              {card.name, ops::Side::kAgent, tasks, bench->agent_cpus});
        PULSE_ASSIGN_OR_RETURN(const OpsRun run, RunWork(work, 0, work.pieces.size(),
                                                         {virtual_engine.get()}, {}, nullptr));
        cells.push_back(fmt::format("{:.2f}", run.plain_per_second / kMiB / 1024));
        rows.push_back({{"card", card.name},
                        {"buffer", size},
                        {"tasks", tasks},
                        {"replayed", true},
                        {"mib_per_s", run.plain_per_second / kMiB}});
        bench->here[absl::StrCat("regex/", card.name, "/", size, "/", tasks)] =
            run.plain_per_second / kMiB;
      }
      batches.AddRow(std::move(cells));
    }
  }
  fmt::print(
      "\nRegular expressions by tasks in flight (Figure 13b), all four at once, through the "
      "queue;\n"
      "* replayed at the profile's price\n{}",
      batches.Render());
  bench->report["regex"] = std::move(rows);
  return absl::OkStatus();
}

absl::Status RunTasksPart(OpsBench* bench) {
  nlohmann::json rows = nlohmann::json::array();
  TextTable table({"one file a task*", "ms", "context init %", "ASIC %", "context end %",
                   "end / ASIC", "queue %"});
  for (const vdpu::Profile& card : bench->cards) {
    for (const OpsKind kind : {OpsKind::kDeflate, OpsKind::kInflate, OpsKind::kLz4Decode}) {
      const auto* engine = card.EngineFor(OperationOf(kind));
      if (engine == nullptr) continue;
      PULSE_ASSIGN_OR_RETURN(const OpsWork work, MakeWork(kind, bench->files, uint64_t{64} << 20));
      double wall = 0;
      double init = 0;
      double end = 0;
      double asic = 0;
      // Each task with a context of its own, as the paper's breakdown has it.
      for (size_t i = 0; i < work.pieces.size(); ++i) {
        auto one =
            MakeVirtualEngine(work, PriceOf(*engine, VirtualEngine::Setting::kReconfigured, true),
                              {card.name, ops::Side::kAgent, 1, bench->agent_cpus});
        PULSE_ASSIGN_OR_RETURN(const OpsRun run, RunWork(work, i, 1, {one.get()}, {}, nullptr));
        const auto counters = one->counters();
        wall += run.seconds * 1e3 + engine->reconfigure_ms;
        init += static_cast<double>(counters.setup_nanos) * 1e-6;
        asic += static_cast<double>(counters.work_nanos) * 1e-6 + engine->latency_us * 1e-3;
        end += engine->reconfigure_ms;
      }
      const double queue = wall - init - asic - end;
      table.AddRow({absl::StrCat(card.name, ", ", OperationOf(kind)),
                    fmt::format("{:.1f}", wall / static_cast<double>(work.pieces.size())),
                    fmt::format("{:.1f}", 100 * init / wall),
                    fmt::format("{:.1f}", 100 * asic / wall),
                    fmt::format("{:.1f}", 100 * end / wall), fmt::format("{:.1f}", end / asic),
                    fmt::format("{:.2f}", 100 * queue / wall)});
      rows.push_back({{"card", card.name},
                      {"operation", OperationOf(kind)},
                      {"replayed", true},
                      {"task_ms", wall / static_cast<double>(work.pieces.size())},
                      {"init_share", init / wall},
                      {"asic_share", asic / wall},
                      {"end_share", end / wall},
                      {"queue_share", queue / wall}});
      bench->here[absl::StrCat("tasks/", card.name, "/", OperationOf(kind), "/init")] =
          100 * init / wall;
      bench->here[absl::StrCat("tasks/", card.name, "/", OperationOf(kind), "/end_by_asic")] =
          end / asic;
    }
  }
  fmt::print(
      "\nWhat a task consists of (Figure 6); * replayed: the shares are the profile's, but for "
      "the\n"
      "queue's own\n{}",
      table.Render());
  bench->report["tasks"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
