// `pulse bench serve`: a Redis-protocol server over RocksDB whose agent answers reads, against the
// same server without it. DDS sections 8 and 9.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kServedSize = uint64_t{1} << 30;
constexpr uint64_t kCacheShare = 4;  // of the data, one in so many bytes fits into a cache
constexpr uint64_t kHotShare = 16;   // and of the records, one in so many is asked for by "get"
constexpr char kServedData[] = "loaded";
constexpr char kServeOff[] = "off";
constexpr char kServeOff2Cpu[] = "off-2cpu";
constexpr char kServeForwarded[] = "forwarded";
constexpr char kServeOn[] = "on";

bool HasAgent(const Opponent& o) { return o.name == kServeOn || o.name == kServeForwarded; }

struct ServeBenchArgs {
  CommonArgs common;
  uint64_t value_bytes = 1024;
  uint32_t connections = 16;
  uint32_t pipeline = 16;
  double seconds = 5;
  double warm = 8;
  int neighbours = 3;
  int spin_us = 0;
  std::vector<std::string> parts;
};

// One kind of load, all opponents.
struct ServePart {
  const char* name;
  const char* meaning;
  const char* workload;
  bool uniform;  // on the hot records only
  bool pipelined;
  bool neighbours;  // others keep the host's CPUs busy
};

// "busy" is the case that the host has better things to do: its CPUs are shared with processes that
// compute.
constexpr ServePart kServeParts[] = {
    {"get", "GET, one at a time", "C", true, false, false},
    {"get-pipelined", "GET, pipelined", "C", true, true, false},
    {"b", "YCSB-B, one at a time", "B", false, false, false},
    {"b-pipelined", "YCSB-B, pipelined", "B", false, true, false},
    {"busy-get", "GET, one at a time, busy host", "C", true, false, true},
    {"busy-b", "YCSB-B, one at a time, busy host", "B", false, false, true},
};

std::string ServePartNames() {
  return absl::StrJoin(kServeParts, ", ",
                       [](std::string* out, const ServePart& part) { out->append(part.name); });
}

class ServeBench {
 public:
  ServeBench(Session* session, const ServeBenchArgs& args, uint64_t records)
      : session_(session), args_(args), records_(records) {}

  uint64_t data_bytes() const { return records_ * (kKeyBytes + args_.value_bytes); }
  uint64_t cache_bytes() const { return std::max<uint64_t>(data_bytes() / kCacheShare, 1 << 20); }
  uint64_t hot_records() const { return std::max<uint64_t>(records_ / kHotShare, 1); }

  // Through the server, so that its records are as it makes them.
  absl::Status Load() {
    if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kServedData));
    nlohmann::json spec = Spec(kServedData);
    spec["fill"] = true;
    spec["connections"] = 4;
    spec["depth"] = 64;
    spec["seconds"] = args_.common.timeout_seconds / 2;
    spec["loops"] = 1;
    spec["host_cpus"] = session_->both_cpus();
    return session_
        ->Prepared(kServedData, "loading the database through the server", spec,
                   [](const nlohmann::json& j) {
                     return fmt::format("{} records", j.value("records", 0));
                   })
        .status();
  }

  absl::StatusOr<nlohmann::json> RunOne(const ServePart& part, const Opponent& opponent,
                                        const std::string& label) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(kServedData, "run"));
    session_->CoolDown();
    nlohmann::json spec = Spec("run");
    spec["workload"] = part.workload;
    spec["uniform"] = part.uniform;
    spec["used"] = part.uniform ? hot_records() : records_;
    spec["connections"] = args_.connections;
    spec["depth"] = part.pipelined ? args_.pipeline : 1;
    spec["warm"] = args_.common.tiny ? 0.05 : args_.warm;
    spec["seconds"] = args_.common.tiny ? 0.2 : args_.seconds;
    spec["offload"] = HasAgent(opponent);
    spec["forward_all"] = opponent.name == kServeForwarded;
    // As many loops as the host has CPUs; the agent has one.
    spec["loops"] = HasAgent(opponent) ? size_t{1} : opponent.cpus.size();
    spec["host_cpus"] = opponent.cpus;
    if (part.neighbours) {
      spec["neighbours"] = args_.neighbours;
      spec["neighbours_cpus"] = session_->host_cpus();
    }
    auto result = session_->Step(label, spec, session_->both_cpus(), [](const nlohmann::json& j) {
      return fmt::format("{:.0f} a second, host {:.2f} us each", j.value("ops_per_s", 0.0),
                         j.value("host_us", 0.0));
    });
    if (result.ok()) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    return result;
  }

 private:
  nlohmann::json Spec(const char* dir) const {
    return {{"job", "serve"},
            {"dir", session_->dir().Sub(dir)},
            {"cache_bytes", cache_bytes()},
            {"records", records_},
            {"value_bytes", args_.value_bytes},
            {"agent_cpus", session_->agent_cpus()},
            {"agent_spin_us", args_.spin_us},
            {"client_cpus", session_->both_cpus()},
            {"seed", session_->args().seed}};
  }

  Session* const session_;
  const ServeBenchArgs& args_;
  const uint64_t records_;
};

std::vector<Opponent> Servers(const Session& s) {
  Opponent off;
  off.name = kServeOff;
  off.meaning = "--offload off: one loop";
  off.cpus = s.host_cpus();
  Opponent both = off;
  both.name = kServeOff2Cpu;
  both.meaning = "--offload off, with the agent's CPU too: a loop on each";
  both.cpus = s.both_cpus();
  Opponent forwarded = off;
  forwarded.name = kServeForwarded;
  forwarded.meaning = "off, behind the agent's director, which forwards all";
  Opponent on = off;
  on.name = kServeOn;
  on.meaning = "--offload on: the agent answers reads of clean keys, with a cache of its own";
  return {off, both, forwarded, on};
}

std::string ServeTable(const ServePart& part, const std::vector<Opponent>& opponents,
                       const RunSet& runs) {
  TextTable table({absl::StrCat(part.meaning, " (medians)"), "a second", "read p50 us", "p99 us",
                   "p99.9 us", "host CPU us", "agent CPU us", "client CPU us", "other us",
                   "offloaded"});
  for (const Opponent& o : opponents) {
    const auto median = [&](const char* metric) { return runs.Of(o.name, metric).median; };
    table.AddRow(
        {o.name, fmt::format("{:.0f}", median("ops_per_s")),
         fmt::format("{:.0f}", median("reads_p50_us")),
         fmt::format("{:.0f}", median("reads_p99_us")),
         fmt::format("{:.0f}", median("reads_p999_us")), fmt::format("{:.3f}", median("host_us")),
         fmt::format("{:.2f}", median("agent_us")), fmt::format("{:.2f}", median("client_us")),
         fmt::format("{:.2f}", median("other_us")),
         fmt::format("{:.1f} %", median("offloaded_share") * 100)});
  }
  return table.Render() + "\n";
}

void AddServeRatios(const ServePart& part, const RunSet& runs, bool tiny,
                    std::vector<RatioRow>* rows) {
  std::optional<Target> speed, host;
  if (!tiny && !part.neighbours) {
    speed = Target{Target::Kind::kAtLeast, 1.5};
    if (part.uniform) host = Target{Target::Kind::kAtMost, 0.02};
  }
  const auto add = [&](const char* what, const char* other, const char* metric,
                       std::optional<Target> target) {
    if (!runs.Has(kServeOn) || !runs.Has(other)) return;
    rows->push_back({absl::StrCat(part.name, ": ", what, ", ", kServeOn, " / ", other),
                     runs.Ratio(kServeOn, other, metric), target});
  };
  add("requests/s", kServeOff, "ops_per_s", speed);
  add("requests/s", kServeOff2Cpu, "ops_per_s", {});
  add("p99 of reads", kServeOff, "reads_p99_us", {});
  add("host CPU per request", kServeOff, "host_us", {});
  // Of "get" that is per read: a read that the agent answers, against one that it passes on.
  add("host CPU per request", kServeForwarded, "host_us", host);
  add("requests/s", kServeForwarded, "ops_per_s", {});
}

absl::Status CheckServeArgs(const ServeBenchArgs& args) {
  if (!args.common.agent_socket.empty() || !args.common.uri_options.empty()) {
    return absl::InvalidArgumentError(
        "--agent, --uri: not for this benchmark, whose server has its agent in itself");
  }
  for (const std::string& name : args.parts) {
    const auto named = [&](const ServePart& part) { return part.name == name; };
    if (std::any_of(std::begin(kServeParts), std::end(kServeParts), named)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--parts ", name, ": choose of ", ServePartNames()));
  }
  return CheckValueBytes(args.value_bytes, kStampBytes);
}

std::vector<ServePart> ChosenServeParts(const ServeBenchArgs& args) {
  std::vector<ServePart> parts(std::begin(kServeParts), std::end(kServeParts));
  std::erase_if(parts, [&](const ServePart& part) {
    return !args.parts.empty() &&
           std::find(args.parts.begin(), args.parts.end(), part.name) == args.parts.end();
  });
  return parts;
}

absl::Status RunServeBench(const ServeBenchArgs& args) {
  PULSE_RETURN_IF_ERROR(CheckServeArgs(args));
  const auto size = SizeOf(args.common, kServedSize);
  if (!size.ok()) return size.status();
  const uint64_t records = std::max<uint64_t>(16, *size / (kKeyBytes + args.value_bytes));
  auto session = Session::Open("serve", args.common, *size * 4 + (uint64_t{256} << 20));
  if (!session.ok()) return session.status();
  Session& s = **session;
  const auto opponents = Select(Servers(s), args.common.opponents);
  if (!opponents.ok()) return opponents.status();
  const std::vector<ServePart> parts = ChosenServeParts(args);
  ServeBench bench(&s, args, records);
  s.Say(Legend(s, *opponents));
  s.Say(
      fmt::format("{} records of {} B, caches of {:.1f} MiB; \"get\" asks for {} of them, "
                  "YCSB-B for all. {} connections, pipelines of {}.\nThe client may use all "
                  "these CPUs. Every value that is read is checked, and its age.\n",
                  records, args.value_bytes, static_cast<double>(bench.cache_bytes()) / (1 << 20),
                  bench.hot_records(), args.connections, args.pipeline));
  s.ExpectSteps(static_cast<int>(parts.size() * opponents->size()) * s.rounds() + 1);
  PULSE_RETURN_IF_ERROR(bench.Load());
  std::string text = "\n";
  std::vector<RatioRow> rows;
  for (const ServePart& part : parts) {
    nlohmann::json raw = nlohmann::json::array();
    const auto runs = s.RunRounds(
        *opponents, part.name,
        [&](const Opponent& o, const std::string& label, bool) {
          return bench.RunOne(part, o, label);
        },
        &raw);
    if (!runs.ok()) return runs.status();
    text += ServeTable(part, *opponents, *runs);
    AddServeRatios(part, *runs, args.common.tiny, &rows);
    s.report()["parts"][part.name] = {
        {"opponents",
         SpreadsJson(*runs, *opponents,
                     {"ops_per_s", "reads_p50_us", "reads_p99_us", "reads_p999_us", "writes_p50_us",
                      "writes_p99_us", "host_us", "agent_us", "client_us", "other_us",
                      "offloaded_share", "page_cache_share", "device_share", "dirty_share",
                      "changed_share", "order_share", "no_view_share", "full_share"})},
        {"runs", std::move(raw)}};
  }
  s.Say(text + RenderRatios(rows));
  nlohmann::json& settings = s.report()["settings"];
  settings["records"] = records;
  settings["value_bytes"] = args.value_bytes;
  settings["cache_bytes"] = bench.cache_bytes();
  settings["hot_records"] = bench.hot_records();
  settings["connections"] = args.connections;
  settings["pipeline"] = args.pipeline;
  settings["seconds"] = args.seconds;
  settings["agent_spin_us"] = args.spin_us;
  settings["warm_seconds"] = args.warm;
  settings["neighbours"] = args.neighbours;
  s.report()["ratios"] = ToJson(rows);
  if (!args.common.keep) PULSE_RETURN_IF_ERROR(s.dir().RemoveAll(kServedData));
  return s.WriteReport();
}

}  // namespace

void AddServeBench(CLI::App& bench) {
  auto args = std::make_shared<ServeBenchArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "serve", "Redis clients on a RocksDB: reads answered by the agent, against the host alone");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--size", args->common.size, "Of keys and values; powers of 1024 [1G]");
  cmd->add_option("--value", args->value_bytes, "Value size in bytes")->capture_default_str();
  cmd->add_option("--connections", args->connections, "Of the client")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  cmd->add_option("--pipeline", args->pipeline, "Requests that a connection sends together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  cmd->add_option("--spin-us", args->spin_us, "As of pulse serve")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  cmd->add_option("--seconds", args->seconds, "Length of a run")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  cmd->add_option("--warm", args->warm, "Seconds of the same load before it, for the caches")
      ->check(CLI::Range(0.0, 600.0))
      ->capture_default_str();
  cmd->add_option("--neighbours", args->neighbours,
                  "Processes that keep the host's CPUs busy in the parts \"busy\"")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  cmd->add_option("--parts", args->parts, absl::StrCat("Only these: ", ServePartNames()))
      ->delimiter(',');
  cmd->add_option("--host-cpus", args->common.host_cpus, "CPUs of the host [the first]");
  cmd->add_option("--agent-cpus", args->common.agent_cpus, "CPUs of the agent [the second]");
  cmd->callback([args] { Finish(RunServeBench(*args)); });
}

}  // namespace pulse::bench
