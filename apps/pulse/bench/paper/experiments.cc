// The list of experiments, and what all of them share.
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "bench/paper/experiment.h"
#include "bench/paper/fill_experiment.h"
#include "bench/paper/ycsb_experiment.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr char kPulseOnHost[] = "pulse-on-host";
constexpr char kPulsePoll[] = "pulse-poll";
constexpr char kPulseLibaio[] = "pulse-libaio";
constexpr char kPulseThreads[] = "pulse-threads";

Target AtLeast(double value) { return {Target::Kind::kAtLeast, value}; }
Target AtMost(double value) { return {Target::Kind::kAtMost, value}; }

std::vector<Opponent> Usual(const Session& session) {
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

Comparison Over(const std::string& what, const std::string& metric, const std::string& upper,
                const std::string& lower, std::optional<Target> target = std::nullopt) {
  return {absl::StrCat(what, ", ", upper, " / ", lower), upper, lower, metric, false, target};
}

Comparison Speed(const std::string& upper, const std::string& lower,
                 std::optional<Target> target = std::nullopt) {
  return Over("throughput", "ops_per_s", upper, lower, target);
}

Comparison HostCpu(const std::string& upper, const std::string& lower) {
  return Over("host CPU per GiB compacted", "host_cpu_s_per_gib", upper, lower);
}

// The least and the most that the paper reports over its value sizes.
nlohmann::json Range(const std::string& what, double least, double most) {
  return {{"what", what}, {"least", least}, {"most", most}};
}

FillExperimentSpec FillRandom() {
  FillExperimentSpec spec;
  spec.name = "fillrandom";
  spec.title = "Random writes into an empty database, by value size";
  spec.paper = {{"figures", {"Fig. 10", "Fig. 12", "Fig. 13"}},
                {"values",
                 {Range("throughput, PulseDB / RocksDB", 1.22, 1.82),
                  Range("compaction throughput, PulseDB / RocksDB", 1.13, 1.65),
                  Range("host compaction CPU, PulseDB / RocksDB", 0.58, 0.88)}}};
  spec.value_sizes = {128, 256, 512, 1024, 2048};
  spec.opponents = Usual;
  spec.comparisons = {Speed(kPulse, kStockDefault, AtLeast(1.6)),
                      Speed(kPulse, kStock2Cpu, AtLeast(1.05)),
                      Over("compaction throughput", "compaction_mib_per_s", kPulse, kStockDefault),
                      HostCpu(kPulse, kStockDefault)};
  return spec;
}

FillExperimentSpec Overwrite() {
  FillExperimentSpec spec;
  spec.name = "overwrite";
  spec.title = "Random writes into a database of the same size, by value size";
  spec.paper = {{"figures", {"Fig. 11"}},
                {"values", {Range("throughput, PulseDB / RocksDB", 1.18, 1.86)}}};
  spec.value_sizes = {128, 256, 512, 1024, 2048};
  spec.overwrite = true;
  spec.opponents = Usual;
  spec.comparisons = {Speed(kPulse, kStockDefault), Speed(kPulse, kStock2Cpu)};
  return spec;
}

FillExperimentSpec Tails() {
  FillExperimentSpec spec;
  spec.name = "tails";
  spec.title = "Write latency and stalls of random writes";
  spec.paper = {
      {"figures", {"Table I", "Table II"}},
      {"values",
       {{{"what", "write latency, us"},
         {"by_row",
          {{"RocksDB", {{"mean", 153}, {"p99", 3618}, {"p99.9", 6247}, {"p99.99", 22136}}},
           {"PulseDB", {{"mean", 113}, {"p99", 2567}, {"p99.9", 3644}, {"p99.99", 15108}}}}}},
        {{"what", "write stall ratio, per cent"},
         {"by_row", {{"RocksDB", 58.2}, {"PulseDB", 38.9}}}}}}};
  spec.opponents = Usual;
  spec.comparisons = {Over("write mean", "mean_us", kPulse, kStockDefault),
                      Over("write p99", "p99_us", kPulse, kStockDefault, AtMost(0.7)),
                      Over("write p99.9", "p99.9_us", kPulse, kStockDefault, AtMost(0.58)),
                      Over("write p99.99", "p99.99_us", kPulse, kStockDefault),
                      {"stall ratio in points, stock-default - pulse", kStockDefault, kPulse,
                       "stall_share", true, AtLeast(19)}};
  return spec;
}

FillExperimentSpec Ablation() {
  FillExperimentSpec spec;
  spec.name = "ablation";
  spec.title = "What the pipeline, the second processor and the pool each give";
  spec.paper = {{"figures", {"Fig. 15"}},
                {"values",
                 {{{"what", "throughput / RocksDB"},
                   {"by_row", {{"+FilePool", 1.04}, {"+AsyncIO", 1.86}, {"PulseDB", 1.82}}}},
                  {{"what", "host compaction CPU / RocksDB"},
                   {"by_row", {{"+AsyncIO", 0.93}, {"PulseDB", 0.68}}}}}},
                {"differs",
                 "pulse-on-host stands for +AsyncIO, with tables in files; the pool comes last, on "
                 "top of all, since stock RocksDB cannot use it"}};
  spec.pool = true;
  spec.opponent_count = 5;
  spec.opponents = [](const Session& session) {
    std::vector<Opponent> all = Usual(session);
    PulseTarget on_host = session.pulse_target();
    on_host.agent_cpus = FormatCpuList(session.host_cpus());
    Opponent opponent = PulseOpponent(on_host, session.host_cpus());
    opponent.name = kPulseOnHost;
    opponent.meaning = "the pipeline with its agent on the host's CPU: " + opponent.uri;
    all.insert(all.begin() + 2, std::move(opponent));
    all.push_back(
        PulsePoolOpponent(session.pulse_target(), session.host_cpus(), session.pool_path()));
    return all;
  };
  for (const char* name : {kPulseOnHost, kPulse, kPulsePool}) {
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
  spec.paper = {{"figures", {"Fig. 16"}},
                {"values",
                 {{{"what", "throughput / io_uring"},
                   {"by_row", {{"io_uring-poll", 1.076}, {"SPDK", 1.117}, {"libaio", 0.87}}}}}},
                {"differs", "no SPDK here; threads with blocking calls are not in the paper"}};
  spec.opponent_count = 4;
  spec.opponents = [](const Session& session) {
    return std::vector<Opponent>{Variant(session, kPulse, "engine=io_uring"),
                                 Variant(session, kPulsePoll, "engine=io_uring_poll"),
                                 Variant(session, kPulseLibaio, "engine=libaio"),
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
  spec.paper = {{"figures", {"Fig. 17"}},
                {"values", {Range("throughput / the best, which is that of 32 MB", 0.9, 1.0)}}};
  spec.queue_bytes = uint64_t{512} << 20;
  spec.opponent_count = std::size(kMiB);
  spec.opponents = [name](const Session& session) {
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

}  // namespace

const Experiments& AllExperiments() {
  static const Experiments* const all = [] {
    auto* list = new Experiments();
    list->push_back(MakeFillExperiment(FillRandom()));
    list->push_back(MakeFillExperiment(Overwrite()));
    list->push_back(MakeFillExperiment(Tails()));
    list->push_back(MakeYcsbExperiment());
    list->push_back(MakeFillExperiment(Ablation()));
    list->push_back(MakeFillExperiment(Engines()));
    list->push_back(MakeFillExperiment(Queue()));
    return list;
  }();
  return *all;
}

nlohmann::json MetricUnits() {
  nlohmann::json units = {{"ops_per_s", "operations per second"},
                          {"mib_per_s", "MiB per second"},
                          {"compaction_mib_per_s", "MiB per second"},
                          {"host_cpu_s_per_gib", "seconds per GiB compacted"},
                          {"sync_ms", "milliseconds"},
                          {"syncs", "count"}};
  for (const char* seconds : {"wall_s", "settle_s", "host_cpu_s", "agent_cpu_s"}) {
    units[seconds] = "seconds";
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
