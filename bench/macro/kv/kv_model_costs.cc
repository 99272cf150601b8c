// The model's inputs: what is measured here, what is made of it, and how far the model is off what
// two CPUs can measure.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/kv/kv_model.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using kvmodel::Design;
using kvmodel::StageCost;

constexpr double kBatch = 128;
constexpr double kSmallBatch = 8;
// Where small batches are measured, too: what a batch costs beside its requests is the same in all.
constexpr char kSmallWorkload[] = "C-uniform";

double Number(const nlohmann::json& costs, const std::string& workload, const char* run,
              const char* metric) {
  return costs.at(workload).at(run).at(metric).get<double>();
}

// From the nanoseconds of a request in a large batch, and in a large and in a small one of
// kSmallWorkload.
StageCost FromBatches(double here, double large, double small) {
  StageCost cost;
  cost.fixed = std::max(0.0, (small - large) / (1 / kSmallBatch - 1 / kBatch));
  cost.each = std::max(0.0, here - cost.fixed / kBatch);
  return cost;
}

// The runs that `workload` takes part in, by name. cpu comes first by its name; loads are shares of
// its throughput.
nlohmann::json RunsOf(const nlohmann::json& workload) {
  nlohmann::json runs = nlohmann::json::object();
  for (const auto& list : workload.at("runs")) {
    runs.update(DataOf("kv-model").at(list.get<std::string>()));
  }
  return runs;
}

// The clock's own time is taken from what it measures, which leaves nothing of a very short time.
constexpr double kLeastNanos = 0.1;
constexpr double kMostNanos = 1e6;
// Of a tiny run, where a busy machine leaves nothing of all times: the model carries out all
// requests of a given time, so that with kLeastNanos it would take minutes.
constexpr double kLeastTinyNanos = 10;
constexpr double kLeastRate = 1e3;  // requests a second
constexpr double kMostRate = 1e10;

// A run that served nothing lacks figures, or JSON has null for them. Not a number is within no
// bounds.
double NumberOf(const nlohmann::json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Of the figures that the model follows from, one that is missing or that no core can have; empty
// when there is none. With `repair` what is out of bounds becomes the nearest bound, and no time is
// below kLeastTinyNanos.
std::string FindImpossible(nlohmann::json* costs, bool repair) try {
  std::string found;
  const double least = repair ? kLeastTinyNanos : kLeastNanos;
  const auto check = [&](const std::string& workload, const char* run, const char* metric) {
    nlohmann::json& value = costs->at(workload).at(run)[metric];
    const double number = NumberOf(value);
    if (number >= least && number <= kMostNanos) return;
    if (repair) {
      value = number < least ? least : kMostNanos;
      return;
    }
    found = absl::StrCat(metric, " of ", run, ", ", workload, ", is ", number);
  };
  for (const auto& workload : DataOf("kv-model").at("workloads")) {
    const auto name = workload.at("name").get<std::string>();
    for (const char* metric : {"receive_ns", "parse_ns", "process_ns", "respond_ns"}) {
      check(name, "cpu", metric);
    }
    for (const char* run : {"lat", "lat-small"}) {
      if (run == std::string("lat-small") && name != kSmallWorkload) continue;
      for (const char* metric : {"receive_ns", "prepare_ns", "respond_ns", "host_ns"}) {
        check(name, run, metric);
      }
    }
    const nlohmann::json runs = RunsOf(workload);
    for (const auto& [run, shape] : runs.items()) {
      nlohmann::json& figures = costs->at(name).at(run);
      const bool loaded = shape.contains("load");
      nlohmann::json& rate_value = figures[loaded ? "offered_per_s" : "ops_per_s"];
      const double rate = NumberOf(rate_value);
      if (loaded && std::isnan(NumberOf(figures["p50_us"]))) {
        if (!repair) return absl::StrCat("p50_us of ", run, ", ", name, ", is missing");
        figures["p50_us"] = kMostNanos / 1e3;
      }
      if (rate >= kLeastRate && rate <= kMostRate) continue;
      if (repair) {
        rate_value = rate > kMostRate ? kMostRate : kLeastRate;
      } else {
        return absl::StrCat("requests a second of ", run, ", ", name, ", are ", rate);
      }
    }
  }
  nlohmann::json& transfer_value = costs->at("transfer_ns");
  const double transfer = NumberOf(transfer_value);
  if (transfer >= kLeastNanos && transfer <= kMostNanos) return found;
  if (!repair) return absl::StrCat("transfer_ns is ", transfer);
  transfer_value = transfer < kLeastNanos ? kLeastNanos : kMostNanos;
  return found;
} catch (const nlohmann::json::exception& e) {
  return e.what();
}

absl::StatusOr<nlohmann::json> ReadCosts(const std::string& file) {
  constexpr char kRemedy[] = "; give a file that pulse bench kv --part model --json wrote";
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat("--costs ", file, ": there is no such file"));
  const nlohmann::json found = nlohmann::json::parse(in, nullptr, false);
  nlohmann::json costs = found.is_object() && found.contains("model") && found["model"].is_object()
                             ? found["model"].value("costs", nlohmann::json())
                             : nlohmann::json();
  const std::string wrong = FindImpossible(&costs, false);
  if (wrong.empty()) return costs;
  return absl::InvalidArgumentError(
      absl::StrCat("--costs ", file, ": no measured costs (", wrong, ")", kRemedy));
}

absl::StatusOr<nlohmann::json> MeasureWorkload(Session* s, const BenchArgs& args,
                                               const nlohmann::json& workload) {
  const nlohmann::json runs = RunsOf(workload);
  const auto name = workload.at("name").get<std::string>();
  std::vector<Variant> variants;
  for (const auto& [run, unused] : runs.items()) variants.emplace_back().name = run;
  double peak = 0;
  const auto run = [&](const Variant& variant, const std::string& label,
                       bool) -> absl::StatusOr<nlohmann::json> {
    nlohmann::json spec = workload;
    spec.update(runs.at(variant.name));
    spec.update({{"job", "kv"},
                 {"part", "network"},
                 {"key_bytes", 8},
                 {"value_bytes", 8},
                 {"items", args.own.at("items")},
                 {"seconds", args.own.at("seconds")},
                 {"host_cpus", s->host_cpus()},
                 {"agent_cpus", s->agent_cpus()}});
    if (spec.contains("load")) spec["rate"] = spec["load"].get<double>() * peak;
    PULSE_ASSIGN_OR_RETURN(
        auto result, s->Step(label, spec, s->both_cpus(), [](const nlohmann::json& r) {
          return fmt::format("{:.2f} million/s", r.value("ops_per_s", 0.0) / 1e6);
        }));
    if (variant.name == "cpu") peak = result.at("ops_per_s").get<double>();
    if (spec.contains("rate")) result["offered_per_s"] = spec["rate"];
    return result;
  };
  PULSE_ASSIGN_OR_RETURN(const auto measured, s->RunRounds(variants, name, run));
  nlohmann::json medians;
  for (const Variant& variant : variants) {
    for (const std::string& metric : measured.Metrics(variant.name)) {
      medians[variant.name][metric] = measured.Of(variant.name, metric).median;
    }
  }
  s->report()["parts"]["model-" + name] = Section(measured, variants);
  return medians;
}

}  // namespace

absl::StatusOr<nlohmann::json> KvCosts(Session* s, const BenchArgs& args) {
  if (const auto file = args.Get<std::string>("costs"); !file.empty()) return ReadCosts(file);
  const nlohmann::json& data = DataOf("kv-model");
  size_t steps = 1;
  for (const auto& workload : data.at("workloads")) steps += RunsOf(workload).size();
  s->ExpectSteps(static_cast<int>(steps) * s->rounds());
  nlohmann::json costs;
  for (const auto& workload : data.at("workloads")) {
    PULSE_ASSIGN_OR_RETURN(costs[workload.at("name").get<std::string>()],
                           MeasureWorkload(s, args, workload));
  }
  const nlohmann::json spec = {{"job", "kv"},
                               {"part", "network"},
                               {"design", "transfer"},
                               {"items", 1},
                               {"key_bytes", 8},
                               {"value_bytes", 8},
                               {"set_share", 0.0},
                               {"zipf", false},
                               {"batch", 1},
                               {"seconds", args.own.at("seconds")},
                               {"host_cpus", s->host_cpus()},
                               {"agent_cpus", s->agent_cpus()}};
  Variant transfer;
  transfer.name = "transfer";
  PULSE_ASSIGN_OR_RETURN(
      const auto runs,
      s->RunRounds({transfer}, "transfer", [&](const Variant&, const std::string& label, bool) {
        return s->Step(label, spec, s->both_cpus(), [](const nlohmann::json& r) {
          return fmt::format("{:.0f} ns", r.value("transfer_ns", 0.0));
        });
      }));
  costs["transfer_ns"] = runs.Of("transfer", "transfer_ns").median;
  // A tiny run is too short to time stages; its figures mean nothing.
  if (const std::string wrong = FindImpossible(&costs, args.common.tiny); !wrong.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "a stage could not be timed: ", wrong,
        "; run again with longer --seconds and more --items, when the machine is less busy"));
  }
  return costs;
}

kvmodel::StageCosts MeasuredCosts(const nlohmann::json& costs, const std::string& workload) {
  const auto at = [&](const char* run, const char* metric) {
    return Number(costs, workload, run, metric);
  };
  const auto there = [&](const char* run, const char* metric) {
    return Number(costs, kSmallWorkload, run, metric);
  };
  const double stages = at("cpu", "receive_ns") + at("cpu", "parse_ns") + at("cpu", "process_ns") +
                        at("cpu", "respond_ns");
  const auto stage = [&](const char* metric) {
    return FromBatches(at("lat", metric), there("lat", metric), there("lat-small", metric));
  };
  kvmodel::StageCosts result;
  // Clocks within a small batch would cost as much as it, so what it costs is from its throughput.
  result.whole =
      FromBatches(stages, 1e9 / there("cpu", "ops_per_s"), 1e9 / there("cpu-small", "ops_per_s"));
  result.receive = stage("receive_ns");
  result.prepare = stage("prepare_ns");
  result.send = stage("respond_ns");
  result.process = stage("host_ns");
  return result;
}

kvmodel::StageCosts PaperCosts(const nlohmann::json& costs, const std::string& workload,
                               const std::string& card) {
  // What a packet costs depends on no key and no operation: the mean of Table 1's columns, which
  // are of uniformly distributed keys.
  const nlohmann::json& table = DataOf("kv-model").at("table1");
  double receive = 0;
  double respond = 0;
  for (const auto& [ycsb, cards] : table.items()) {
    const auto shares = cards.at(card).get<std::vector<double>>();
    const double unit = Number(costs, ycsb + "-uniform", "cpu", "process_ns") / shares.at(3) /
                        static_cast<double>(table.size());
    receive += (shares.at(0) + shares.at(1) + shares.at(4)) * unit;
    respond += shares.at(2) * unit;
  }
  const double prepare = Number(costs, workload, "lat", "prepare_ns");
  const double send = Number(costs, workload, "lat", "respond_ns");
  kvmodel::StageCosts result;
  result.whole.each = receive + Number(costs, workload, "cpu", "process_ns") + respond;
  result.receive.each = receive;
  result.prepare.each = respond * prepare / (prepare + send);
  result.send.each = respond * send / (prepare + send);
  result.process = MeasuredCosts(costs, workload).process;
  return result;
}

double PaperHostScale(const nlohmann::json& costs) {
  const nlohmann::json& host = DataOf("kv-model").at("host");
  const double theirs = 1e9 * host.at("cores").get<double>() / host.at("per_second").get<double>();
  const auto ours =
      PaperCosts(costs, host.at("workload").get<std::string>(), host.at("card").get<std::string>());
  return theirs / ours.whole.each;
}

nlohmann::json ValidateKvModel(const nlohmann::json& costs) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& workload : DataOf("kv-model").at("workloads")) {
    const auto name = workload.at("name").get<std::string>();
    const kvmodel::StageCosts stages = MeasuredCosts(costs, name);
    kvmodel::Machine machine;
    machine.burst = static_cast<size_t>(kBatch);
    machine.dma_latency = costs.at("transfer_ns").get<double>();
    machine.receive_queue = size_t{1} << 14;
    machine.agent_cores = 1;
    const auto add = [&](const char* what, double measured, double model) {
      rows.push_back({{"workload", name},
                      {"what", what},
                      {"measured", measured},
                      {"model", model},
                      {"error_percent", measured > 0 ? 100 * (model / measured - 1) : 0}});
    };
    const auto simulate = [&](const char* run, int host_cores) {
      kvmodel::Load load;
      load.even = true;
      machine.host_cores = host_cores;
      const double offered = costs.at(name).at(run).value("offered_per_s", 0.0);
      if (offered > 0) load.rates = {offered};
      return kvmodel::Simulate(run[0] == 'c' ? Design::kCpu : Design::kLat, machine, stages, load);
    };
    const auto throughput = [&](const char* what, const char* run, int host_cores) {
      add(what, Number(costs, name, run, "ops_per_s") / 1e6,
          simulate(run, host_cores).per_second / 1e6);
    };
    throughput("cpu, M/s", "cpu", 1);
    throughput("lat, M/s", "lat", 1);
    if (!RunsOf(workload).contains("cpu-2")) continue;
    throughput("cpu on two cores, M/s", "cpu-2", 2);
    for (const auto& [what, run] : {std::pair{"cpu, p50 us at 50 % of its peak", "cpu-50"},
                                    {"cpu, p50 us at 80 %", "cpu-80"},
                                    {"lat, p50 us at 50 % of cpu's peak", "lat-50"},
                                    {"lat, p50 us at 80 %", "lat-80"}}) {
      add(what, Number(costs, name, run, "p50_us"), simulate(run, 1).p50_us);
    }
  }
  return rows;
}

}  // namespace pulse::bench
