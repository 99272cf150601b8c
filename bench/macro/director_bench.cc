// `pulse bench director`: what a director in front of a server costs: latency of a forward, CPU
// time of spliced bytes, memory of idle connections. DDS sections 5 and 8.4.
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/child_runner.h"
#include "bench/macro/description.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// The connections of which a director can hold both ends, the client's and the host's: `wanted`,
// unless the limit of descriptors is lower and cannot be raised.
uint32_t RaiseDescriptors(uint32_t wanted) {
  constexpr uint64_t kEnds = 2;
  constexpr uint64_t kOthers = 128;
  const rlim_t need = wanted * kEnds + kOthers;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur >= need) return wanted;
  rlimit raised{need, std::max(limit.rlim_max, need)};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return wanted;
  raised = {std::min(need, limit.rlim_max), limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  const rlim_t usable = limit.rlim_cur > kOthers ? limit.rlim_cur - kOthers : 0;
  return std::min(wanted, static_cast<uint32_t>(usable / kEnds));
}

absl::StatusOr<std::vector<int>> ClientCpus(const std::string& option, const Session& s) {
  if (option.empty()) return s.both_cpus();
  auto cpus = ParseCpuList(option);
  const absl::Status usable = cpus.ok() ? CheckCpus(*cpus) : cpus.status();
  if (usable.ok()) return cpus;
  return absl::InvalidArgumentError(absl::StrCat("--client-cpus: ", usable.message()));
}

}  // namespace

absl::Status RunDirectorBench(BenchArgs args) {
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, uint64_t{1} << 20));
  Session& s = *session;
  const std::string client = args.Get<std::string>("client_cpus");
  const auto client_cpus = ClientCpus(client, s);
  if (!client_cpus.ok()) return client_cpus.status();
  const nlohmann::json& data = DataOf("director");
  PULSE_ASSIGN_OR_RETURN(const auto variants, Select(VariantsOf(data, s), args.common.variants));
  PULSE_ASSIGN_OR_RETURN(const auto parts,
                         PartsOf(data, args.Get<std::vector<std::string>>("parts"), variants));
  const auto wanted = args.Get<uint32_t>("idle");
  const uint32_t idle = RaiseDescriptors(wanted);
  s.Say(Legend(s, variants));
  s.Say(absl::StrCat("The server is on the host's CPU, the director on the agent's, the client on ",
                     client.empty() ? "both" : "CPU " + client, ".\n"));
  if (idle < wanted) {
    s.Say(
        fmt::format("Only {} idle connections instead of {}: the limit of open files is too low, "
                    "and cannot be raised (ulimit -n; it takes root).\n",
                    idle, wanted));
  }
  nlohmann::json& settings = s.report()["settings"];
  settings["idle_connections"] = idle;
  settings["client_cpus"] = *client_cpus;
  s.ExpectSteps(RunsOf(parts) * s.rounds());
  const auto run = [&](const Part& part, const Variant& o, const std::string& label) {
    nlohmann::json spec = {{"job", "director"},
                           {"form", o.name},
                           {"bytes", args.own.at("bytes")},
                           {"connections", 1},
                           {"depth", 1},
                           {"warm", args.common.tiny ? 0.02 : 0.5},
                           {"seconds", args.own.at("seconds")},
                           {"spin_us", args.own.at("spin_us")},
                           {"host_cpus", s.host_cpus()},
                           {"agent_cpus", s.agent_cpus()}};
    if (part.name == "stream") {
      spec["bytes"] = args.own.at("stream_bytes");
      spec["connections"] = args.own.at("stream_connections");
      spec["depth"] = args.own.at("stream_depth");
    } else if (part.name == "idle") {
      spec["idle"] = true;
      spec["connections"] = idle;
      spec["seconds"] = 60;  // at most
    }
    // The server and the director choose their own CPUs.
    return s.Step(label, spec, *client_cpus, [&](const nlohmann::json& j) {
      return part.name == "idle"     ? fmt::format("{:.1f} MiB", j.value("resident_mib", 0.0))
             : part.name == "stream" ? fmt::format("{:.1f} Gbit/s", j.value("gbit_per_s", 0.0))
                                     : fmt::format("p50 {:.1f} us", j.value("p50_us", 0.0));
    });
  };
  return RunParts(&s, data, parts, run);
}

}  // namespace pulse::bench
