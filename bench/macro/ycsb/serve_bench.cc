// `pulse bench serve`: a Redis-protocol server over RocksDB whose agent answers reads, against the
// same server without it. DDS sections 8 and 9.
#include <algorithm>

#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kCacheShare = 4;  // of the data, one in so many bytes fits into a cache
constexpr uint64_t kHotShare = 16;   // and of the records, one in so many is asked for by "get"
constexpr char kServedData[] = "loaded";

bool HasAgent(const Variant& o) { return o.name == "on" || o.name == "forwarded"; }

}  // namespace

absl::Status RunServeBench(BenchArgs args) {
  const auto value_bytes = args.Get<uint64_t>("value_bytes");
  PULSE_RETURN_IF_ERROR(CheckValueBytes(value_bytes, kStampBytes));
  const auto size = SizeOf(args.common, uint64_t{1} << 30);
  if (!size.ok()) return size.status();
  const uint64_t each = kKeyBytes + value_bytes;
  const uint64_t records = std::max<uint64_t>(16, *size / each);
  const uint64_t cache_bytes = std::max<uint64_t>(records * each / kCacheShare, 1 << 20);
  const uint64_t hot_records = std::max<uint64_t>(records / kHotShare, 1);
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, *size * 4 + (uint64_t{256} << 20)));
  Session& s = *session;
  const nlohmann::json& data = DataOf("serve");
  PULSE_ASSIGN_OR_RETURN(const auto variants, Select(VariantsOf(data, s), args.common.variants));
  PULSE_ASSIGN_OR_RETURN(const auto parts,
                         PartsOf(data, args.Get<std::vector<std::string>>("parts"), variants));
  s.report()["settings"].update(
      {{"records", records}, {"cache_bytes", cache_bytes}, {"hot_records", hot_records}});
  s.Say(Legend(s, variants));
  s.Say(
      fmt::format("{} records of {} B, caches of {:.1f} MiB; \"get\" asks for {} of them, "
                  "YCSB-B for all.\nThe client may use all these CPUs. Every value that is read is "
                  "checked, and its age.\n",
                  records, value_bytes, static_cast<double>(cache_bytes) / (1 << 20), hot_records));
  s.ExpectSteps(RunsOf(parts) * s.rounds() + 1);
  const nlohmann::json common = {{"job", "serve"},
                                 {"cache_bytes", cache_bytes},
                                 {"records", records},
                                 {"value_bytes", value_bytes},
                                 {"agent_cpus", s.agent_cpus()},
                                 {"agent_spin_us", args.own.at("agent_spin_us")},
                                 {"client_cpus", s.both_cpus()},
                                 {"seed", args.common.seed}};
  if (!args.common.keep) PULSE_RETURN_IF_ERROR(s.dir().RemoveAll(kServedData));
  // Through the server, so that its records are as it makes them.
  nlohmann::json fill = common;
  fill.update({{"dir", s.dir().Sub(kServedData)},
               {"fill", true},
               {"connections", 4},
               {"depth", 64},
               {"seconds", args.common.timeout_seconds / 2},
               {"host_cpus", s.both_cpus()}});
  const auto loaded = s.Prepared(
      kServedData, "loading the database through the server", fill,
      [](const nlohmann::json& j) { return fmt::format("{} records", j.value("records", 0)); });
  if (!loaded.ok()) return loaded.status();
  const auto run = [&](const Part& part, const Variant& o,
                       const std::string& label) -> absl::StatusOr<nlohmann::json> {
    PULSE_RETURN_IF_ERROR(s.dir().RemoveAll("run"));
    PULSE_RETURN_IF_ERROR(s.dir().CloneDb(kServedData, "run"));
    s.CoolDown();
    const bool uniform = part.data.value("uniform", false);
    nlohmann::json spec = common;
    spec.update({{"dir", s.dir().Sub("run")},
                 {"workload", part.data.at("workload")},
                 {"uniform", uniform},
                 {"used", uniform ? hot_records : records},
                 {"connections", args.own.at("connections")},
                 {"depth", part.data.value("pipelined", false) ? args.Get<int>("pipeline") : 1},
                 {"warm", args.own.at("warm_seconds")},
                 {"seconds", args.own.at("seconds")},
                 {"offload", HasAgent(o)},
                 {"forward_all", o.name == "forwarded"},
                 // As many loops as the host has CPUs; the agent has one.
                 {"loops", HasAgent(o) ? size_t{1} : o.cpus.size()},
                 {"host_cpus", o.cpus}});
    if (part.data.value("busy", false)) spec.update(NeighboursOf(args, s));
    auto result = s.Step(label, spec, s.both_cpus(), OpsAndHostCpu);
    if (result.ok()) PULSE_RETURN_IF_ERROR(s.dir().RemoveAll("run"));
    return result;
  };
  PULSE_RETURN_IF_ERROR(RunParts(&s, data, parts, run));
  return RemoveUnlessKept(s, {kServedData, "loaded.json"});
}

}  // namespace pulse::bench
