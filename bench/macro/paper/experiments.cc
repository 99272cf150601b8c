// The list of experiments, and what all of them share.
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "bench/macro/paper/emulation_experiment.h"
#include "bench/macro/paper/experiment.h"
#include "bench/macro/paper/figures.h"
#include "bench/macro/paper/fill_experiment.h"
#include "bench/macro/paper/footprint_experiment.h"
#include "bench/macro/paper/ycsb_experiment.h"
#include "bench/macro/ycsb/ycsb_bench.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr char kPulseOnHost[] = "pulse-on-host";
constexpr char kPoolOnHost[] = "pool-on-host";
constexpr char kPulsePoll[] = "pulse-poll";
constexpr char kPulseLibaio[] = "pulse-libaio";
constexpr char kPulseThreads[] = "pulse-threads";

std::vector<Opponent> Usual(const Session& session, const PulseTarget&) {
  return *PaperOpponents(session, {});  // with no names there is nothing to refuse
}

// PulseDB with one more option.
Opponent Variant(const Session& session, const std::string& name, const std::string& option) {
  PulseTarget target = session.pulse_target();
  absl::StrAppend(&target.extra, target.extra.empty() ? "" : "&", option);
  Opponent opponent = PulseOpponent(target, session.host_cpus());
  opponent.name = name;
  return opponent;
}

// PulseDB with another I/O engine in its embedded agent.
Opponent WithRival(const Session& session, const std::string& name, const std::string& engine) {
  Opponent opponent = PulseOpponent(session.pulse_target(), session.host_cpus());
  opponent.name = name;
  opponent.rival_engine = engine;
  absl::StrAppend(&opponent.meaning, " with ", engine, " in the place of its engine");
  return opponent;
}

Opponent Placed(PulseTarget target, const Session& session, const std::string& name,
                const std::string& placement, const std::string& meaning) {
  absl::StrAppend(&target.extra, target.extra.empty() ? "" : "&", "placement=", placement);
  Opponent opponent = PulseOpponent(target, session.host_cpus());
  opponent.name = name;
  opponent.meaning = absl::StrCat(meaning, ": ", opponent.uri);
  return opponent;
}

// The paper's three, and what PulseDB chooses by itself.
std::vector<Opponent> UsualAndAdaptive(const Session& session, const PulseTarget& target) {
  std::vector<Opponent> all = Usual(session, target);
  all.push_back(Placed(session.pulse_target(), session, kAdaptive, "adaptive",
                       "where compactions run left to PulseDB"));
  return all;
}
constexpr size_t kUsualAndAdaptive = kUsualOpponents + 1;

Comparison Over(const std::string& what, const std::string& metric, const std::string& upper,
                const std::string& lower) {
  return {absl::StrCat(what, ", ", upper, " / ", lower), {metric, upper, lower}};
}

Comparison Speed(const std::string& upper, const std::string& lower) {
  return Over("throughput", "ops_per_s", upper, lower);
}

Comparison HostCpu(const std::string& upper, const std::string& lower) {
  return Over("host CPU of compactions per GiB", "compaction_cpu_s_per_gib", upper, lower);
}

// The least and the most that the paper reports over its value sizes.
PaperValue Range(const std::string& where, const std::string& what, const Quantity& ours,
                 double least, double most) {
  return {what, where, "", least, most, ours};
}

PaperValue Single(const std::string& where, const std::string& what, const Quantity& ours,
                  double value) {
  return {what, where, "", value, value, ours};
}

FillExperimentSpec FillRandom() {
  FillExperimentSpec spec;
  spec.name = "fillrandom";
  spec.title = "Random writes into an empty database, by value size";
  spec.paper = PaperJson({"Fig. 10", "Fig. 12", "Fig. 13"},
                         {Range("Fig. 10", "throughput, PulseDB / RocksDB",
                                {"ops_per_s", kPulse, kStockDefault}, 1.22, 1.82),
                          Range("Fig. 12", "compaction throughput, PulseDB / RocksDB",
                                {"compaction_mib_per_s", kPulse, kStockDefault}, 1.13, 1.65),
                          Range("Fig. 13", "host compaction CPU, PulseDB / RocksDB",
                                {"compaction_cpu_s_per_gib", kPulse, kStockDefault}, 0.58, 0.88)});
  spec.value_sizes = {128, 256, 512, 1024, 2048};
  spec.quick_sizes = {128, 1024};
  spec.opponents = UsualAndAdaptive;
  spec.opponent_count = kUsualAndAdaptive;
  spec.comparisons = {Speed(kPulse, kStockDefault),
                      Speed(kPulse, kStock2Cpu),
                      Over("compaction throughput", "compaction_mib_per_s", kPulse, kStockDefault),
                      HostCpu(kPulse, kStockDefault),
                      Speed(kAdaptive, kStockDefault),
                      Speed(kAdaptive, kStock2Cpu)};
  return spec;
}

FillExperimentSpec Overwrite() {
  FillExperimentSpec spec;
  spec.name = "overwrite";
  spec.title = "Random writes into a database of the same size, by value size";
  spec.paper = PaperJson({"Fig. 11"}, {Range("Fig. 11", "throughput, PulseDB / RocksDB",
                                             {"ops_per_s", kPulse, kStockDefault}, 1.18, 1.86)});
  spec.value_sizes = {128, 256, 512, 1024, 2048};
  spec.quick_sizes = {128, 1024};
  spec.overwrite = true;
  spec.opponents = UsualAndAdaptive;
  spec.opponent_count = kUsualAndAdaptive;
  spec.comparisons = {Speed(kPulse, kStockDefault), Speed(kPulse, kStock2Cpu),
                      Speed(kAdaptive, kStockDefault)};
  return spec;
}

FillExperimentSpec Tails() {
  FillExperimentSpec spec;
  spec.name = "tails";
  spec.title = "Write latency and stalls of random writes";
  std::vector<PaperValue> values;
  const struct {
    const char *system, *opponent;
    double mean, p99, p999, p9999, stalled;
  } systems[] = {{"RocksDB", kStockDefault, 153, 3618, 6247, 22136, 0.582},
                 {"PulseDB", kPulse, 113, 2567, 3644, 15108, 0.389}};
  for (const auto& s : systems) {
    const auto add = [&](const char* what, const char* metric, double value) {
      values.push_back(Single("Table I", absl::StrCat("write ", what, ", µs, ", s.system),
                              {metric, s.opponent, ""}, value));
    };
    add("mean", "mean_us", s.mean);
    add("p99", "p99_us", s.p99);
    add("p99.9", "p99.9_us", s.p999);
    add("p99.99", "p99.99_us", s.p9999);
  }
  for (const auto& s : systems) {
    values.push_back(Single("Table II", absl::StrCat("write stall ratio, %, ", s.system),
                            {"stall_share", s.opponent, ""}, s.stalled));
  }
  // The same as ratios, which carry from machine to machine.
  const auto ratio = [&](const char* what, const char* metric, double value) {
    values.push_back(Single("Table I", absl::StrCat("write ", what, ", PulseDB / RocksDB"),
                            {metric, kPulse, kStockDefault}, value));
  };
  ratio("mean", "mean_us", 113.0 / 153);
  ratio("p99", "p99_us", 2567.0 / 3618);
  ratio("p99.9", "p99.9_us", 3644.0 / 6247);
  ratio("p99.99", "p99.99_us", 15108.0 / 22136);
  spec.paper = PaperJson({"Table I", "Table II"}, values);
  spec.opponents = UsualAndAdaptive;
  spec.opponent_count = kUsualAndAdaptive;
  for (const char* name : {kPulse, kAdaptive}) {
    for (const char* what : {"mean", "p99", "p99.9", "p99.99"}) {
      spec.comparisons.push_back(
          Over(absl::StrCat("write ", what), absl::StrCat(what, "_us"), name, kStockDefault));
    }
  }
  spec.comparisons.push_back({"stall ratio in points, stock-default - pulse",
                              {"stall_share", kStockDefault, kPulse, true}});
  return spec;
}

FillExperimentSpec Ablation() {
  FillExperimentSpec spec;
  spec.name = "ablation";
  spec.title = "What the pipeline, the second processor and the pool each give";
  spec.paper = PaperJson(
      {"Fig. 15"},
      {Single("Fig. 15", "throughput, +FilePool / RocksDB",
              {"ops_per_s", kPoolOnHost, kStockDefault}, 1.04),
       Single("Fig. 15", "throughput, +AsyncIO / RocksDB",
              {"ops_per_s", kPulseOnHost, kStockDefault}, 1.86),
       Single("Fig. 15", "throughput, PulseDB / RocksDB", {"ops_per_s", kPulse, kStockDefault},
              1.82),
       Single("Fig. 15", "host compaction CPU, +AsyncIO / RocksDB",
              {"compaction_cpu_s_per_gib", kPulseOnHost, kStockDefault}, 0.93),
       Single("Fig. 15", "host compaction CPU, PulseDB / RocksDB",
              {"compaction_cpu_s_per_gib", kPulse, kStockDefault}, 0.68)},
      "pool-on-host is +FilePool: tables in a pool, all else as stock RocksDB does it; "
      "pulse-on-host is the asynchronous pipeline with tables in files, where the paper's +AsyncIO "
      "has its pool as well; pulse-pool is everything");
  spec.pool = true;
  spec.opponent_count = 6;
  spec.opponents = [](const Session& session, const PulseTarget& target) {
    std::vector<Opponent> all = Usual(session, target);
    PulseTarget on_host = target;
    on_host.agent_cpus = FormatCpuList(session.host_cpus());
    Opponent opponent = PulseOpponent(on_host, session.host_cpus());
    opponent.name = kPulseOnHost;
    opponent.meaning = "the pipeline with its agent on the host's CPU: " + opponent.uri;
    all.insert(all.begin() + 2, std::move(opponent));
    on_host.extra = absl::StrCat(on_host.extra, on_host.extra.empty() ? "" : "&", "placement=host");
    Opponent pool = PulsePoolOpponent(on_host, session.host_cpus(), session.pool_path());
    pool.name = kPoolOnHost;
    pool.meaning = "stock's way of writing, with tables in a pool: " + pool.uri;
    all.insert(all.begin() + 2, std::move(pool));
    all.push_back(PulsePoolOpponent(target, session.host_cpus(), session.pool_path()));
    return all;
  };
  for (const char* name : {kPoolOnHost, kPulseOnHost, kPulse, kPulsePool}) {
    spec.comparisons.push_back(Speed(name, kStockDefault));
    spec.comparisons.push_back(HostCpu(name, kStockDefault));
  }
  spec.comparisons.push_back(Speed(kPulse, kStock2Cpu));
  spec.comparisons.push_back(Speed(kPulsePool, kPulse));
  return spec;
}

FillExperimentSpec Engines() {
  FillExperimentSpec spec;
  spec.name = "engines";
  spec.title = "The agent's I/O engines";
  spec.paper = PaperJson(
      {"Fig. 16"},
      {Single("Fig. 16", "throughput, io_uring-poll / io_uring", {"ops_per_s", kPulsePoll, kPulse},
              1.076),
       Single("Fig. 16", "throughput, libaio / io_uring", {"ops_per_s", kPulseLibaio, kPulse},
              0.87)},
      "no SPDK here (1.117 in the paper); threads with blocking calls are not in the paper");
  spec.opponent_count = 4;
  spec.opponents = [](const Session& session, const PulseTarget&) {
    return std::vector<Opponent>{Variant(session, kPulse, "engine=io_uring"),
                                 WithRival(session, kPulsePoll, "io_uring_poll"),
                                 WithRival(session, kPulseLibaio, "libaio"),
                                 Variant(session, kPulseThreads, "engine=threads")};
  };
  for (const char* name : {kPulsePoll, kPulseLibaio, kPulseThreads}) {
    spec.comparisons.push_back(Speed(name, kPulse));
  }
  return spec;
}

FillExperimentSpec Queue() {
  static constexpr int kMiB[] = {32, 64, 128, 256, 512};
  const auto name = [](int mib) { return fmt::format("pulse-{}M", mib); };
  FillExperimentSpec spec;
  spec.name = "queue";
  spec.title = "The size of the request queue";
  std::vector<PaperValue> values;
  for (const int mib : kMiB) {
    if (mib == 32) continue;
    values.push_back(Range("Fig. 17", fmt::format("throughput, {} MB / 32 MB, the best", mib),
                           {"ops_per_s", name(mib), name(32)}, 0.9, 1.0));
  }
  spec.paper = PaperJson({"Fig. 17"}, values);
  spec.queue_bytes = uint64_t{512} << 20;
  spec.opponent_count = std::size(kMiB);
  spec.opponents = [name](const Session& session, const PulseTarget&) {
    std::vector<Opponent> all;
    for (const int mib : kMiB) {
      all.push_back(Variant(session, name(mib), fmt::format("queue={}M", mib)));
    }
    return all;
  };
  for (const int mib : kMiB) {
    if (mib != 32) spec.comparisons.push_back(Speed(name(mib), name(32)));
  }
  return spec;
}

// DComp keeps as many compactions on the host as run well there: here, where the host has one CPU,
// one.
constexpr char kDcompPlacement[] = "whole&whole=deep&host_slots=1";

std::vector<Opponent> Placements(const Session& session, const PulseTarget& target) {
  return {StockOpponents(session.host_cpus()).front(),
          Placed(target, session, kDcomp, kDcompPlacement,
                 "whole compactions of deeper levels on the agent, when the host's slot is taken"),
          Placed(target, session, kAggressive, "whole&whole=all", "all compactions on the agent"),
          Placed(target, session, kPulse, "split", "merged on the host, persisted by the agent"),
          Placed(target, session, kAdaptive, "adaptive", "the choice left to PulseDB")};
}
constexpr size_t kPlacements = 5;

nlohmann::json PaperOfDcomp(const std::string& profile) {
  std::vector<PaperValue> values = {
      Range("Fig. 10", "throughput, PulseDB / DComp", {"ops_per_s", kPulse, kDcomp}, 1.11, 1.33),
      Range("Fig. 10", "throughput, PulseDB / RocksDB", {"ops_per_s", kPulse, kStockDefault}, 1.22,
            1.82),
      Range("Fig. 12", "compaction throughput, DComp / RocksDB",
            {"compaction_mib_per_s", kDcomp, kStockDefault}, 1.07, 1.38),
      Range("Fig. 13", "host compaction CPU, DComp / RocksDB",
            {"compaction_cpu_s_per_gib", kDcomp, kStockDefault}, 0.80, 0.85)};
  const auto tail = [&values](const char* what, const char* metric, const char* opponent,
                              double ratio) {
    values.push_back({absl::StrCat("write ", what, ", ", opponent, " / RocksDB"),
                      "Table I",
                      "1024 B",
                      ratio,
                      ratio,
                      {metric, opponent, kStockDefault}});
  };
  tail("p99", "p99_us", kDcomp, 3016.0 / 3618);
  tail("p99.9", "p99.9_us", kDcomp, 4729.0 / 6247);
  tail("p99", "p99_us", kPulse, 2567.0 / 3618);
  tail("p99.9", "p99.9_us", kPulse, 3644.0 / 6247);
  const std::pair<const char*, double> stalls[] = {
      {kStockDefault, 0.582}, {kDcomp, 0.503}, {kPulse, 0.389}};
  for (const auto& [opponent, share] : stalls) {
    values.push_back({absl::StrCat("write stall ratio, %, ", opponent),
                      "Table II",
                      "1024 B",
                      share,
                      share,
                      {"stall_share", opponent, ""}});
  }
  return PaperJson({"Fig. 10", "Fig. 12", "Fig. 13", "Table I", "Table II"}, values,
                   profile == "bf3"
                       ? "DComp keeps one compaction on the host here, which has one CPU; the "
                         "paper's keeps four on its 48 cores"
                       : "the paper has a BlueField-3, and DComp keeps four "
                         "compactions on its host's 48 cores; here one");
}

// On an agent of its own process, with `profile`. Latencies and stalls are in the rows, so this has
// random writes and their tails.
FillExperimentSpec Dcomp(const std::string& profile) {
  FillExperimentSpec spec;
  spec.name = "dcomp-" + profile;
  spec.title = absl::StrCat("Where compactions run, on an agent with profile ", profile);
  spec.paper = PaperOfDcomp(profile);
  spec.value_sizes = {128, 256, 512, 1024, 2048};
  spec.agent_options = {"--profile", profile};
  spec.opponent_count = kPlacements;
  spec.opponents = Placements;
  spec.optional = profile == "none";
  spec.comparisons = {Speed(kPulse, kDcomp),
                      Speed(kDcomp, kStockDefault),
                      Speed(kPulse, kStockDefault),
                      Speed(kAdaptive, kPulse),
                      Speed(kAdaptive, kDcomp),
                      Speed(kAdaptive, kStockDefault),
                      Speed(kAggressive, kStockDefault),
                      HostCpu(kDcomp, kStockDefault)};
  for (const char* name : {kDcomp, kPulse, kAdaptive}) {
    spec.comparisons.push_back(Over("write p99", "p99_us", name, kStockDefault));
    spec.comparisons.push_back(Over("write p99.9", "p99.9_us", name, kStockDefault));
  }
  return spec;
}

FillExperimentSpec DcompOverwrite(const std::string& profile) {
  FillExperimentSpec spec = Dcomp(profile);
  spec.name = "overwrite-" + profile;
  spec.title = absl::StrCat("Overwrites by where compactions run, profile ", profile);
  spec.paper = PaperJson({"Fig. 11"}, {});
  spec.value_sizes = spec.quick_sizes = {1024};
  spec.overwrite = true;
  spec.optional = true;
  return spec;
}

// Neighbours take a processor away, now the host's, now the agent's: no fixed placement suits both.
FillExperimentSpec Shift() {
  FillExperimentSpec spec;
  spec.name = "shift";
  spec.title = "Where compactions run, while the load of the processors shifts";
  spec.paper = PaperJson({}, {}, "the paper has no such experiment");
  spec.agent_options = {"--profile", "none"};
  spec.opponent_count = kPlacements;
  spec.phases = {{"the host's CPU shared with another process", 1, 0},
                 {"the agent's CPU shared with three others", 0, 3},
                 {"the host's CPU shared again", 1, 0},
                 {"the agent's CPU shared again", 0, 3}};
  spec.opponents = [](const Session& session, const PulseTarget& target) {
    return std::vector<Opponent>{
        StockOpponents(session.host_cpus()).front(),
        Placed(target, session, kHost, "host", "all on the host, by PulseDB"),
        Placed(target, session, kSplit, "split", "merged on the host, persisted by the agent"),
        Placed(target, session, kWhole, "whole", "all compactions on the agent"),
        Placed(target, session, kAdaptive, "adaptive", "the choice left to PulseDB")};
  };
  spec.comparisons = {Speed(kAdaptive, kHost), Speed(kAdaptive, kSplit), Speed(kAdaptive, kWhole),
                      Speed(kAdaptive, kStockDefault)};
  return spec;
}

}  // namespace

const Experiments& AllExperiments() {
  static const Experiments* const all = [] {
    auto* list = new Experiments();
    list->push_back(MakeFillExperiment(FillRandom()));
    list->push_back(MakeFillExperiment(Overwrite()));
    list->push_back(MakeFillExperiment(Tails()));
    list->push_back(MakeYcsbExperiment({kUsualAndAdaptive, UsualAndAdaptive}));
    list->push_back(MakeFillExperiment(Ablation()));
    list->push_back(MakeFillExperiment(Engines()));
    list->push_back(MakeFillExperiment(Queue()));
    list->push_back(MakeFootprintExperiment());
    for (const char* profile : {"bf2", "bf3"}) {
      list->push_back(MakeFillExperiment(Dcomp(profile)));
    }
    list->push_back(MakeFillExperiment(Shift()));
    list->push_back(MakeEmulationExperiment());
    list->push_back(MakeFillExperiment(Dcomp("none")));
    for (const char* profile : {"bf2", "bf3"}) {
      list->push_back(MakeFillExperiment(DcompOverwrite(profile)));
      list->push_back(
          MakeYcsbExperiment({kPlacements, Placements}, {profile, {"--profile", profile}}));
    }
    return list;
  }();
  return *all;
}

nlohmann::json MetricUnits() {
  nlohmann::json units = {{"ops_per_s", "operations per second"},
                          {"mib_per_s", "MiB per second"},
                          {"compaction_mib_per_s", "MiB per second"},
                          {"compaction_cpu_s_per_gib", "seconds per GiB compacted"},
                          {"host_cpu_s_per_gib", "seconds per GiB compacted"},
                          {"whole_compactions", "count"},
                          {"agent_flushes", "count"},
                          {"sync_ms", "milliseconds"},
                          {"queues", "count"},
                          {"sorted_runs_before", "count"},
                          {"sorted_runs_after", "count"},
                          {"syncs", "count"}};
  for (const char* seconds : {"wall_s", "settle_s", "host_cpu_s", "compaction_cpu_s", "agent_cpu_s",
                              "agent_flush_cpu_s"}) {
    units[seconds] = "seconds";
  }
  for (const char* memory : {"host_idle_rss_mib", "host_rss_mib", "host_private_mib",
                             "agent_idle_rss_mib", "agent_rss_mib", "agent_private_mib",
                             "queue_mib", "mib_per_queue", "fetch_mib", "shared_mib"}) {
    units[memory] = "MiB";
  }
  for (const char* share : {"stall_share", "delayed_share", "stopped_share"}) {
    units[share] = "part of 1";
  }
  for (const char* of : {"", "read_", "write_", "scan_"}) {
    for (const char* latency : {"mean", "p50", "p99", "p99.9", "p99.99", "max"}) {
      units[absl::StrCat(of, latency, "_us")] = "microseconds";
    }
  }
  return units;
}

}  // namespace pulse::bench
