// Figures 6, 7 and 9 to 12: what a task consists of, and each codec by file.
#include <sys/mman.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/ops/ops_parts.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using ops::VirtualEngine;

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
    PULSE_ASSIGN_OR_RETURN(const DirectRun got, RunDirect(work, *card, 1));
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
        PULSE_ASSIGN_OR_RETURN(const DirectRun got, RunDirect(work, *engine, bench->tiny ? 1 : 3));
        const std::string title = TitleOf(column.kind, library);
        cells.push_back(fmt::format("{:.0f}", got.plain_per_second / kMiB));
        by_library[operation + "/" + title].push_back(got.plain_per_second / kMiB);
        rows.push_back({{"operation", operation},
                        {"file", file.name},
                        {"bytes", work.plain},
                        {"by", title},
                        {"placement", PlacementNameOf(column.kind, PlacedOn::kHostAlone)},
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
                          {"placement", PlacementNameOf(column.kind, PlacedOn::kCardAlone)},
                          {"replayed", true},
                          {"mib_per_s", rate / kMiB}});
        }
      }
      table.AddRow(std::move(cells));
    }
    fmt::print(
        "\n{}: fCPU is one core, pieces of {} KiB; * {}, replayed at the profile's price, whole "
        "files\n{}",
        column.title, bench->chunk >> 10, PlacementNameOf(column.kind, PlacedOn::kCardAlone),
        table.Render());
  }
  for (const auto& [name, rates] : by_library) {
    double sum = 0;
    for (const double rate : rates) sum += rate;
    bench->here["codecs/" + name] = sum / static_cast<double>(rates.size());
  }
  bench->report["codecs"] = std::move(rows);
  return absl::OkStatus();
}

namespace {

// Nanoseconds until memory for so many bytes is there: mapped, and each page of it touched.
int64_t MemoryNanos(uint64_t bytes) {
  constexpr size_t kPage = 4096;
  const int64_t begin = NowNanos();
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PULSE_CHECK(mapped != MAP_FAILED);
  for (size_t at = 0; at < bytes; at += kPage) {
    *(static_cast<volatile char*>(mapped) + at) = 1;
  }
  munmap(mapped, bytes);
  return NowNanos() - begin;
}

}  // namespace

absl::Status RunTasksPart(OpsBench* bench) {
  nlohmann::json rows = nlohmann::json::array();
  TextTable table({"one file a task*", "ms", "context init %", "mem. init %", "device disc. %",
                   "ASIC %", "context end %", "end / ASIC", "queue %"});
  for (const vdpu::Profile& card : bench->cards) {
    for (const OpsKind kind : {OpsKind::kDeflate, OpsKind::kInflate, OpsKind::kLz4Decode}) {
      const auto* engine = card.EngineFor(OperationOf(kind));
      if (engine == nullptr) continue;
      PULSE_ASSIGN_OR_RETURN(const OpsWork work, MakeWork(kind, bench->files, uint64_t{64} << 20));
      double wall = 0;
      double init = 0;
      double end = 0;
      double asic = 0;
      double memory = 0;
      // Each task with a context of its own, as the paper's breakdown has it.
      for (size_t i = 0; i < work.pieces.size(); ++i) {
        auto one =
            MakeVirtualEngine(work, PriceOf(*engine, VirtualEngine::Setting::kReconfigured, true),
                              {card.name, ops::Side::kAgent, 1, bench->agent_cpus});
        PULSE_ASSIGN_OR_RETURN(const OpsRun run, RunWork(work, i, 1, {one.get()}, {}, nullptr));
        const auto counters = one->counters();
        const OpsPiece& piece = work.pieces[i];
        const double mapped =
            static_cast<double>(MemoryNanos(piece.input.size() + piece.output.size())) * 1e-6;
        memory += mapped;
        wall += run.seconds * 1e3 + engine->reconfigure_ms + mapped;
        init += static_cast<double>(counters.setup_nanos) * 1e-6;
        asic += static_cast<double>(counters.work_nanos) * 1e-6 + engine->latency_us * 1e-3;
        end += engine->reconfigure_ms;
      }
      const double queue = wall - init - memory - asic - end;
      table.AddRow(
          {absl::StrCat(card.name, ", ", OperationOf(kind)),
           fmt::format("{:.1f}", wall / static_cast<double>(work.pieces.size())),
           fmt::format("{:.1f}", 100 * init / wall), fmt::format("{:.2f}", 100 * memory / wall), "",
           fmt::format("{:.1f}", 100 * asic / wall), fmt::format("{:.1f}", 100 * end / wall),
           fmt::format("{:.1f}", end / asic), fmt::format("{:.2f}", 100 * queue / wall)});
      rows.push_back({{"card", card.name},
                      {"operation", OperationOf(kind)},
                      {"replayed", true},
                      {"task_ms", wall / static_cast<double>(work.pieces.size())},
                      {"init_share", init / wall},
                      {"memory_share", memory / wall},
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
      "queue's own, and for memory's, which is mapped and touched here. No device is looked for\n"
      "here, and the paper's text has no number for it\n{}",
      table.Render());
  bench->report["tasks"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
