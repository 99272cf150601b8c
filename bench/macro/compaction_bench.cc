// The compaction-alone probe: freeze a level 0, then let each variant compact a copy of it.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kFullSize = uint64_t{3} << 29;  // 1.5 GiB
// Of RocksDB before 10.7, whose threads that compress wait for each other far more, figures are
// reported only.
constexpr bool kJudgesCompressed = PULSE_ROCKSDB_AT_LEAST(10, 7);
constexpr uint64_t kSlack = uint64_t{128} << 20;

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// What a command line says of the tables' blocks.
struct Blocks {
  std::string compression;  // empty: none
  int level = 3;
  uint64_t bytes = 0;             // 0: RocksDB's default
  uint32_t parallel_threads = 1;  // 1: PlaceCompactions chooses
};

std::vector<Variant> EveryVariant(const Session& session, const Blocks& blocks) {
  const bool compressed = !blocks.compression.empty();
  std::vector<Variant> all = StockVariants(session.host_cpus());
  PulseTarget target = session.pulse_target();
  if (compressed) {
    absl::StrAppend(&target.extra, target.extra.empty() ? "" : "&", "compression=agent");
  }
  all.push_back(PulseVariant(target, session.host_cpus()));
  if (session.args().pool) {
    all.push_back(PulsePoolVariant(target, session.host_cpus(), session.pool_path()));
  }
  for (Variant& o : all) {
    if (compressed && o.IsPulse()) o.parallel_threads = blocks.parallel_threads;
  }
  for (Variant& o : StockOnBothProcessors(session.both_cpus())) all.push_back(std::move(o));
  if (compressed) all.push_back(StockCompressingOnBoth(session.both_cpus()));
  return all;
}

DbShape ShapeOf(const CommonArgs& args, const Blocks& blocks) {
  DbShape shape = ShapeFor(args.tiny, /*auto_compactions=*/false);
  shape.compression = blocks.compression;
  shape.compression_level = blocks.level;
  shape.block_bytes = blocks.bytes;
  return shape;
}

// The frozen level 0 that all variants start from.
struct Frozen {
  std::string name;  // of its sub-directory
  uint64_t value_bytes = 0;
  uint64_t num = 0;  // writes that made it
  uint64_t files = 0;
  uint64_t table_bytes = 0;
};

// One value size: its frozen level 0 and the runs on copies of it.
class Probe {
 public:
  Probe(Session* session, bool unique_keys, uint64_t value_bytes, uint64_t size,
        const Blocks& blocks = {})
      : session_(session), shape_(ShapeOf(session->args(), blocks)) {
    frozen_.name = absl::StrCat("frozen-", value_bytes, "B", blocks.compression.empty() ? "" : "-",
                                blocks.compression);
    frozen_.value_bytes = value_bytes;
    frozen_.num = std::max<uint64_t>(1, size / (kKeyBytes + value_bytes));
    load_ = {{"job", "load"},
             {"dir", session->dir().Sub(frozen_.name)},
             {"shape", shape_},
             {"num", frozen_.num},
             {"value_bytes", value_bytes},
             {"seed", session->args().seed},
             {"unique_keys", unique_keys}};
  }

  const Frozen& frozen() const { return frozen_; }

  // Freezes, runs all rounds, and cleans up.
  absl::StatusOr<Runs> Run(const std::vector<Variant>& variants, const std::string& label) {
    PULSE_RETURN_IF_ERROR(Freeze());
    auto runs = session_->RunRounds(variants, label,
                                    [this](const Variant& o, const std::string& what, bool first) {
                                      return RunOne(o, what, first);
                                    });
    if (!runs.ok()) return runs;
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(frozen_.name));
    return runs;
  }

  std::string Label() const { return fmt::format("values of {} B", frozen_.value_bytes); }

 private:
  // Takes the frozen database of an earlier run if it is the same, else makes it.
  absl::Status Freeze() {
    PULSE_ASSIGN_OR_RETURN(
        const auto made,
        session_->Prepared(frozen_.name, Label() + ", loading", load_, [](const nlohmann::json& r) {
          return fmt::format("{} files", r.value("files", 0));
        }));
    frozen_.files = made.at("files").get<uint64_t>();
    frozen_.table_bytes = BytesIn(session_->dir().Sub(frozen_.name), ".sst");
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> RunOne(const Variant& variant, const std::string& label,
                                        bool first) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(frozen_.name, "run"));
    // The frozen tables are files for all; what is made of them goes into the pool.
    if (!variant.pool.empty()) {
      PULSE_RETURN_IF_ERROR(session_->ReadyPool(frozen_.table_bytes * 3 / 2 + kSlack));
    }
    session_->CoolDown();
    auto result = session_->Step(label,
                                 {{"job", "compaction"},
                                  {"dir", session_->dir().Sub("run")},
                                  {"shape", shape_},
                                  {"variant", variant}},
                                 variant.cpus, [this](const nlohmann::json& r) {
                                   return fmt::format("{:.2f} s, {:.0f} MiB/s",
                                                      r.value("wall_s", 0.0), MibPerSecond(r));
                                 });
    if (!result.ok()) return result.status();
    PULSE_RETURN_IF_ERROR(Check(*result, label, variant, first));
    (*result)["mib_per_s"] = MibPerSecond(*result);
    (*result)["host_cpu_s_per_gib"] = result->value("host_cpu_s", 0.0) / Gib(frozen_.table_bytes);
    (*result)["agent_cpu_s_per_gib"] = result->value("agent_cpu_s", 0.0) / Gib(frozen_.table_bytes);
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    return result;
  }

  double MibPerSecond(const nlohmann::json& result) const {
    const double wall = result.value("wall_s", 0.0);
    return wall > 0 ? static_cast<double>(frozen_.table_bytes) / (1 << 20) / wall : 0;
  }

  // A variant's first run is read back as a whole, the others by their number of entries.
  absl::Status Check(const nlohmann::json& result, const std::string& label, const Variant& variant,
                     bool first) {
    if (first) {
      PULSE_RETURN_IF_ERROR(session_->Verify(label, "run", shape_, frozen_.value_bytes, variant,
                                             /*keys_only=*/false, &contents_));
    }
    const uint64_t entries = result.value("entries", uint64_t{0});
    if (entries != contents_->entries) {
      return absl::DataLossError(fmt::format("{} entries after the compaction instead of {}",
                                             entries, contents_->entries));
    }
    return absl::OkStatus();
  }

  Session* const session_;
  const DbShape shape_;
  Frozen frozen_;
  nlohmann::json load_;
  std::optional<Contents> contents_;
};

// The rows of data/compaction.json, in which "best tuned" stands for the fastest form of stock
// RocksDB (only among all three has it a target), "stock on both CPUs" for the faster of two.
std::vector<RatioRow> CompactionRatios(const RunSet& runs, uint64_t value_bytes, bool compressed,
                                       bool judged) {
  const nlohmann::json& data = DataOf("compaction");
  const std::string best = runs.Lowest({kStockDefault, kStockBps, kStockDirect}, "wall_s");
  const bool all = runs.Has(kStockDefault) && runs.Has(kStockBps) && runs.Has(kStockDirect);
  const std::string both =
      runs.Lowest({kStock2Cpu, compressed ? kStock2CpuPar : kStock2CpuSub}, "wall_s");
  const nlohmann::json goals =
      compressed ? nlohmann::json::object()
                 : data.at("goals").value(absl::StrCat(value_bytes), nlohmann::json::object());
  std::vector<RatioRow> rows;
  for (nlohmann::json row : data.at(compressed ? "compressed_ratios" : "ratios")) {
    bool tuned = false;
    for (size_t i : {2, 3}) {
      if (row[i] == "best tuned") {
        tuned = true;
        row[0] = absl::StrCat(row[0].get<std::string>(), all ? ", best tuned" : ", fastest stock");
        row[i] = best;
      } else if (row[i] == "stock on both CPUs") {
        row[i] = both;
      }
    }
    if (row.size() > 4 && row[4].get<std::string>().rfind("at ", 0) != 0) {
      row[4] = tuned && !all ? "" : goals.value(row[4].get<std::string>(), "");
    }
    if (row[2] == "" || row[3] == "") continue;  // nobody of them ran
    for (RatioRow& made : RatiosOf(nlohmann::json::array({row}), runs, judged))
      rows.push_back(std::move(made));
  }
  return rows;
}

}  // namespace

absl::Status RunCompactionBench(BenchArgs args) {
  const auto size = SizeOf(args.common, kFullSize);
  if (!size.ok()) return size.status();
  const auto values = args.own.value("values", std::vector<uint64_t>{1024});
  const bool unique_keys = args.own.value("unique_keys", false);
  Blocks blocks;
  blocks.compression = args.own.value("compression", "");
  blocks.level = static_cast<int>(args.own.value("compression_level", uint64_t{3}));
  blocks.bytes = args.own.value("block_size", uint64_t{0});
  blocks.parallel_threads =
      static_cast<uint32_t>(std::max(uint64_t{1}, args.own.value("parallel_threads", uint64_t{0})));
  const bool compressed = !blocks.compression.empty();
  // The frozen database, one variant's output, and the tables' own overhead on both.
  const uint64_t frozen = args.common.keep ? values.size() : 1;
  const uint64_t pool = args.common.pool ? 2 : 0;
  PULSE_ASSIGN_OR_RETURN(auto session,
                         Session::Open(args, *size / 4 * 5 * (frozen + 1 + pool) + kSlack));
  Session& s = *session;
  PULSE_ASSIGN_OR_RETURN(const auto variants,
                         Select(EveryVariant(s, blocks), args.common.variants));
  if (!args.common.keep) PULSE_RETURN_IF_ERROR(s.dir().RemoveAll("frozen-"));
  s.report()["settings"].update({{"size_bytes", *size}, {"unique_keys", unique_keys}});
  if (compressed) {
    s.report()["settings"].update({{"compression", blocks.compression},
                                   {"compression_level", blocks.level},
                                   {"block_bytes", blocks.bytes},
                                   {"parallel_threads", blocks.parallel_threads}});
  }
  s.Say(Legend(s, variants));
  s.ExpectSteps(static_cast<int>(values.size() * (1 + variants.size() * s.rounds())));
  for (const uint64_t value_bytes : values) {
    Probe probe(&s, unique_keys, value_bytes, *size, blocks);
    PULSE_ASSIGN_OR_RETURN(const auto runs, probe.Run(variants, probe.Label()));
    const auto rows = CompactionRatios(runs, value_bytes, compressed,
                                       !args.common.tiny && (!compressed || kJudgesCompressed));
    const Frozen& level0 = probe.frozen();
    s.Say(fmt::format("\nValues of {} B: level 0 of {} in {} files, {} pair(s)\n", value_bytes,
                      FormatBytes(level0.table_bytes), level0.files, s.pairs()));
    s.Say(MedianTable("variant (medians)", DataOf("compaction").at("columns"), variants, runs));
    if (!rows.empty()) s.Say("\n" + RenderRatios(rows));
    nlohmann::json section = Section(runs, variants);
    section["value_bytes"] = value_bytes;
    section["level0"] = {
        {"writes", level0.num}, {"files", level0.files}, {"table_bytes", level0.table_bytes}};
    section["ratios"] = ToJson(rows);
    s.report()["value_sizes"].push_back(std::move(section));
  }
  return s.WriteReport();
}

uint64_t FrozenSpace(uint64_t size) { return size / 4 * 5 * 2 + kSlack; }

absl::StatusOr<nlohmann::json> RunFrozen(Session* session, uint64_t size, const std::string& label,
                                         const std::vector<Variant>& variants) {
  constexpr uint64_t kValueBytes = 1024;
  if (!session->args().keep) PULSE_RETURN_IF_ERROR(session->dir().RemoveAll("frozen-"));
  Probe probe(session, /*unique_keys=*/false, kValueBytes, size);
  PULSE_ASSIGN_OR_RETURN(const auto runs, probe.Run(variants, label));
  nlohmann::json row = Section(runs, variants);
  row.update({{"label", label}, {"num", probe.frozen().num}, {"value_bytes", kValueBytes}});
  return row;
}

absl::Status RunDemo(BenchArgs args) {
  args.benchmark = "compaction";
  PULSE_RETURN_IF_ERROR(RunCompactionBench(args));
  fmt::print(
      "\nMeasured: one manual compaction of the same {} of data, stock RocksDB against the same "
      "RocksDB on pulse://, in fresh processes with a cold page cache. Look at the third line too: "
      "it gives stock RocksDB the agent's core as well.\n",
      args.common.tiny ? "few MB" : FormatBytes(*SizeOf(args.common, kFullSize)));
  return absl::OkStatus();
}

}  // namespace pulse::bench
