// `pulse bench kv`: the in-memory store, and the designs of the DPU-KV paper.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/kv/kv_model.h"
#include "fmt/format.h"
#include "vdpu/profile.h"

namespace pulse::bench {

namespace {

// Parts that `--part all` stands for.
bool IsUsual(const nlohmann::json& part) {
  return part == "engine" || part == "network" || part == "shm" || part == "udp";
}

// Options of other parts than the one that was chosen would have no effect.
absl::Status CheckOptions(const BenchArgs& args) {
  const auto part = args.Get<std::string>("part");
  const bool designs = part == "designs";
  if (!args.Get<std::string>("profile").empty() && !designs && part != "queue") {
    return absl::InvalidArgumentError(
        "--profile is of --part designs and queue; the model has --profiles");
  }
  if (!args.Get<std::vector<std::string>>("designs").empty() && !designs && part != "model") {
    return absl::InvalidArgumentError("--designs is of --part designs and model");
  }
  if (args.Get<std::string>("engine") != "pulse" && !designs && part != "engine" &&
      part != "network") {
    return absl::InvalidArgumentError("--engine mica is of --part engine, network and designs");
  }
  return absl::OkStatus();
}

// Of `--part designs`: those that the card has, and the third line, which no card has.
absl::Status LeaveOutDesigns(const BenchArgs& args, const std::string& card,
                             std::vector<Part>* parts) {
  PULSE_ASSIGN_OR_RETURN(const auto designs, KvDesignsOn(card, args));
  const auto wanted = args.Get<std::vector<std::string>>("designs");
  for (Part& part : *parts) {
    std::erase_if(part.variants, [&](const Variant& variant) {
      if (variant.name == "cpu-2") return !wanted.empty();
      // On equal cores it is cpu-2; and dual is shown by a card alone, which has cores of its own.
      if (card.empty() && wanted.empty() && (variant.name == "dual" || variant.name == "shrd")) {
        return true;
      }
      return std::find(designs.begin(), designs.end(), variant.name) == designs.end();
    });
  }
  return absl::OkStatus();
}

std::vector<Variant> VariantsIn(const std::vector<Part>& parts, std::vector<Variant> all) {
  std::erase_if(all, [&](const Variant& variant) {
    return std::none_of(parts.begin(), parts.end(), [&](const Part& part) {
      return std::any_of(part.variants.begin(), part.variants.end(),
                         [&](const Variant& v) { return v.name == variant.name; });
    });
  });
  return all;
}

}  // namespace

absl::Status RunKvBench(BenchArgs args) {
  const nlohmann::json& data = DataOf("kv");
  PULSE_RETURN_IF_ERROR(CheckOptions(args));
  const auto only = args.Get<std::string>("part");
  // Their runs warm up by themselves.
  if (only == "designs" || only == "queue" || only == "redis") args.common.warm_ups = 0;
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, uint64_t{1} << 20));
  Session& s = *session;
  if (only == "model") return RunKvModelPart(&s, args);
  const auto profile = args.Get<std::string>("profile");
  std::string card;
  if (!profile.empty()) {
    PULSE_ASSIGN_OR_RETURN(const auto loaded, vdpu::LoadProfile(profile));
    card = loaded.name;
    s.Say(absl::StrCat("The agent as on ", vdpu::Describe(loaded), ".\n"));
  }
  const auto variants = Select(VariantsOf(data, s), args.common.variants);
  if (!variants.ok()) return variants.status();
  PULSE_ASSIGN_OR_RETURN(auto parts, PartsOf(data, {}, *variants));
  std::erase_if(parts, [&](const Part& part) {
    return only == "all" ? !IsUsual(part.data.at("part")) : part.data.at("part") != only;
  });
  if (only == "designs") PULSE_RETURN_IF_ERROR(LeaveOutDesigns(args, card, &parts));
  // Whether everything works, the first workload and the last say.
  if ((only == "designs" || only == "redis") && args.common.tiny && parts.size() > 2) {
    parts.erase(parts.begin() + 1, parts.end() - 1);
  }
  s.Say(Legend(s, VariantsIn(parts, *variants)));
  s.Say(fmt::format("{} items; engine {}\n", args.Get<uint64_t>("items"),
                    args.Get<std::string>("engine")));
  int steps = RunsOf(parts);
  // Each at its load, too, but the third line of packets in memory.
  for (const Part& part : parts) {
    const bool packets = part.data.at("part") == "network";
    if (!packets && part.data.at("part") != "udp") continue;
    steps += static_cast<int>(
        std::count_if(part.variants.begin(), part.variants.end(),
                      [packets](const Variant& v) { return !packets || v.name != "cpu-2"; }));
  }
  s.ExpectSteps(steps * s.rounds());
  // Of each part, what cpu took at most in the last round: the load that latencies are measured at.
  std::map<std::string, double> peaks;
  const auto run = [&](const Part& part, const Variant& o,
                       const std::string& label) -> absl::StatusOr<nlohmann::json> {
    nlohmann::json spec = part.data;
    spec.update({{"job", "kv"},
                 {"design", o.name},
                 {"engine", args.own.at("engine")},
                 {"profile", profile},
                 {"items", args.own.at("items")},
                 {"seconds", args.own.at("seconds")},
                 {"host_cpus", s.host_cpus()},
                 {"agent_cpus", s.agent_cpus()}});
    if (absl::StartsWith(o.name, "batch-")) spec["batch"] = std::stoul(o.name.substr(6));
    const auto describe = [](const nlohmann::json& r) {
      return r.contains("ops_per_s")
                 ? fmt::format("{:.2f} million/s", r.value("ops_per_s", 0.0) / 1e6)
                 : fmt::format("{:.0f} ns for 2 bytes", r.value("ns_2", 0.0));
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
