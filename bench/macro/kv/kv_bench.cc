// `pulse bench kv`: the in-memory store, and the designs of the DPU-KV paper.
#include <algorithm>
#include <map>

#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/kv/kv_model.h"
#include "fmt/format.h"

namespace pulse::bench {

absl::Status RunKvBench(BenchArgs args) {
  const nlohmann::json& data = DataOf("kv");
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, uint64_t{1} << 20));
  Session& s = *session;
  if (args.Get<std::string>("part") == "model") return RunKvModelPart(&s, args);
  const auto variants = Select(VariantsOf(data, s), args.common.opponents);
  if (!variants.ok()) return variants.status();
  PULSE_ASSIGN_OR_RETURN(auto parts, PartsOf(data, {}, *variants));
  const auto only = args.Get<std::string>("part");
  std::erase_if(parts,
                [&](const Part& part) { return only != "all" && part.data.at("part") != only; });
  s.Say(Legend(s, *variants));
  s.Say(fmt::format("{} items\n", args.Get<uint64_t>("items")));
  int steps = RunsOf(parts);
  for (const Part& part : parts) {
    if (part.data.at("part") == "udp") steps += RunsOf({part});  // each at its load, too
  }
  s.ExpectSteps(steps * s.rounds());
  // Of each part, what cpu took at most in the last round: the load that latencies are measured at.
  std::map<std::string, double> peaks;
  const auto run = [&](const Part& part, const Variant& o,
                       const std::string& label) -> absl::StatusOr<nlohmann::json> {
    nlohmann::json spec = part.data;
    spec.update({{"job", "kv"},
                 {"design", o.name},
                 {"items", args.own.at("items")},
                 {"seconds", args.own.at("seconds")},
                 {"host_cpus", s.host_cpus()},
                 {"agent_cpus", s.agent_cpus()}});
    const auto describe = [](const nlohmann::json& r) {
      return fmt::format("{:.2f} million/s", r.value("ops_per_s", 0.0) / 1e6);
    };
    PULSE_ASSIGN_OR_RETURN(auto result, s.Step(label, spec, s.both_cpus(), describe));
    const bool datagrams = part.data.at("part") == "udp";
    if (part.data.at("part") != "network" && !datagrams) return result;
    if (o.name == "cpu" || datagrams) peaks[part.name] = result.at("ops_per_s").get<double>();
    if (o.name == "cpu-2" || !peaks.contains(part.name)) return result;
    // The same load on both designs; of datagrams, each variant's own.
    spec["rate"] = peaks[part.name] * args.Get<double>("load");
    PULSE_ASSIGN_OR_RETURN(const auto loaded,
                           s.Step(label + ", at load", spec, s.both_cpus(), describe));
    for (const char* figure : {"p50_us", "p99_us"}) result[figure] = loaded.at(figure);
    return result;
  };
  return RunParts(&s, data, parts, run);
}

}  // namespace pulse::bench
