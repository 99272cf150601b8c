// `pulse bench director`: what a director in front of a server costs: latency of a forward, CPU
// time of spliced bytes, memory of idle connections. DDS sections 5 and 8.4.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/text_table.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/child_runner.h"
#include "bench/macro/common_options.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint32_t kTinyIdle = 200;

struct DirectorBenchArgs {
  CommonArgs common;
  size_t bytes = 64;
  size_t stream_bytes = 65536;
  uint32_t stream_connections = 4;
  uint32_t stream_depth = 4;
  uint32_t idle = 10'000;
  int spin_us = 50;
  double seconds = 3;
  std::string client_cpus;
  std::vector<std::string> parts;
};

struct DirectorPart {
  const char* name;
  std::vector<std::string> forms;
};

std::vector<DirectorPart> ChosenDirectorParts(const DirectorBenchArgs& args) {
  std::vector<DirectorPart> parts = {{"latency", {"direct", "forward", "spin", "splice"}},
                                     {"stream", {"forward", "splice"}},
                                     {"idle", {"direct", "forward", "splice"}}};
  std::erase_if(parts, [&](const DirectorPart& part) {
    return !args.parts.empty() &&
           std::find(args.parts.begin(), args.parts.end(), part.name) == args.parts.end();
  });
  return parts;
}

std::vector<Opponent> Directors(const Session& s) {
  const std::pair<const char*, const char*> forms[] = {
      {"direct", "the client asks the server"},
      {"forward", "a director before it looks at each message and forwards it"},
      {"spin", "as forward, and the director looks for more before it sleeps (--spin-us)"},
      {"splice", "a director before it passes all bytes through untouched"}};
  std::vector<Opponent> all;
  for (const auto& [form, meaning] : forms) {
    Opponent o;
    o.name = form;
    o.meaning = meaning;
    o.cpus = s.both_cpus();
    all.push_back(std::move(o));
  }
  return all;
}

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

class DirectorBench {
 public:
  DirectorBench(Session* session, const DirectorBenchArgs& args, uint32_t idle,
                std::vector<int> client_cpus)
      : session_(session), args_(args), idle_(idle), client_cpus_(std::move(client_cpus)) {}

  absl::StatusOr<nlohmann::json> RunOne(const DirectorPart& part, const Opponent& opponent,
                                        const std::string& label) {
    const bool tiny = args_.common.tiny;
    nlohmann::json spec = {{"job", "director"},
                           {"form", opponent.name},
                           {"bytes", args_.bytes},
                           {"connections", 1},
                           {"depth", 1},
                           {"warm", tiny ? 0.02 : 0.5},
                           {"seconds", tiny ? 0.1 : args_.seconds},
                           {"spin_us", args_.spin_us},
                           {"host_cpus", session_->host_cpus()},
                           {"agent_cpus", session_->agent_cpus()}};
    const std::string name = part.name;
    if (name == "stream") {
      spec["bytes"] = args_.stream_bytes;
      spec["connections"] = args_.stream_connections;
      spec["depth"] = args_.stream_depth;
    } else if (name == "idle") {
      spec["idle"] = true;
      spec["connections"] = idle_;
      spec["seconds"] = 60;  // at most
    }
    // The server and the director choose their own.
    return session_->Step(label, spec, client_cpus_, [&](const nlohmann::json& j) {
      return name == "idle"     ? fmt::format("{:.1f} MiB", j.value("resident_mib", 0.0))
             : name == "stream" ? fmt::format("{:.1f} Gbit/s", j.value("gbit_per_s", 0.0))
                                : fmt::format("p50 {:.1f} us", j.value("p50_us", 0.0));
    });
  }

 private:
  Session* const session_;
  const DirectorBenchArgs& args_;
  const uint32_t idle_;
  const std::vector<int> client_cpus_;
};

std::string DirectorTable(const std::string& part, const std::vector<Opponent>& opponents,
                          const RunSet& runs) {
  const bool idle = part == "idle", stream = part == "stream";
  TextTable table(idle ? std::vector<std::string>{"idle connections (medians)", "MiB", "bytes each"}
                  : stream ? std::vector<std::string>{"stream (medians)", "Gbit/s",
                                                      "Gbit per loop CPU second", "loop busy"}
                           : std::vector<std::string>{"one message at a time (medians)", "a second",
                                                      "p50 us", "p99 us", "loop CPU us",
                                                      "server CPU us"});
  for (const Opponent& o : opponents) {
    const auto cell = [&](const char* metric, int digits, double factor = 1) {
      return fmt::format("{:.{}f}", runs.Of(o.name, metric).median * factor, digits);
    };
    if (idle) {
      table.AddRow({o.name, cell("resident_mib", 1), cell("bytes_each", 0)});
    } else if (stream) {
      table.AddRow({o.name, cell("gbit_per_s", 2), cell("gbit_per_cpu_s", 2),
                    cell("loop_share", 0, 100) + " %"});
    } else {
      table.AddRow({o.name, cell("messages_per_s", 0), cell("p50_us", 1), cell("p99_us", 1),
                    cell("loop_us", 2), cell("host_us", 2)});
    }
  }
  return table.Render() + "\n";
}

// What is added, and what there is; not all are ratios.
void AddDirectorRows(const std::string& part, const RunSet& runs, bool tiny,
                     std::vector<RatioRow>* rows) {
  const auto target = [&](Target::Kind kind, double value) {
    return tiny ? std::optional<Target>() : Target{kind, value};
  };
  for (const std::string front : {"forward", "spin", "splice"}) {
    if (!runs.Has(front)) continue;
    const bool forwards = front != "splice";
    if (part == "latency" && runs.Has("direct")) {
      rows->push_back({absl::StrCat("p50 us added, ", front),
                       runs.Difference(front, "direct", "p50_us"),
                       forwards ? target(Target::Kind::kAtMost, 15) : std::nullopt});
      rows->push_back(
          {absl::StrCat("p99 us added, ", front), runs.Difference(front, "direct", "p99_us"), {}});
    } else if (part == "stream") {
      rows->push_back({absl::StrCat("Gbit per loop CPU second, ", front),
                       runs.Of(front, "gbit_per_cpu_s"),
                       forwards ? std::nullopt : target(Target::Kind::kAtLeast, 6.4)});
    } else if (part == "idle") {
      rows->push_back({absl::StrCat("MiB of idle connections, ", front),
                       runs.Of(front, "resident_mib"), target(Target::Kind::kAtMost, 200)});
    }
  }
}

absl::Status CheckDirectorArgs(const DirectorBenchArgs& args) {
  if (!args.common.agent_socket.empty() || !args.common.uri_options.empty()) {
    return absl::InvalidArgumentError(
        "--agent, --uri: not for this benchmark, which measures the director alone");
  }
  for (const std::string& name : args.parts) {
    if (name == "latency" || name == "stream" || name == "idle") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--parts ", name, ": choose latency, stream or idle"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> ClientCpus(const DirectorBenchArgs& args, const Session& s) {
  if (args.client_cpus.empty()) return s.both_cpus();
  auto cpus = ParseCpuList(args.client_cpus);
  absl::Status usable = cpus.ok() ? CheckCpus(*cpus) : cpus.status();
  if (usable.ok()) return cpus;
  return absl::InvalidArgumentError(absl::StrCat("--client-cpus: ", usable.message()));
}

absl::Status RunDirectorBench(const DirectorBenchArgs& args) {
  PULSE_RETURN_IF_ERROR(CheckDirectorArgs(args));
  auto session = Session::Open("director", args.common, uint64_t{1} << 20);
  if (!session.ok()) return session.status();
  Session& s = **session;
  const auto client_cpus = ClientCpus(args, s);
  if (!client_cpus.ok()) return client_cpus.status();
  const auto chosen = Select(Directors(s), args.common.opponents);
  if (!chosen.ok()) return chosen.status();
  const uint32_t wanted = args.common.tiny ? std::min(args.idle, kTinyIdle) : args.idle;
  const uint32_t idle = RaiseDescriptors(wanted);
  s.Say(Legend(s, *chosen));
  s.Say(absl::StrCat("The server is on the host's CPU, the director on the agent's, the client on ",
                     args.client_cpus.empty() ? "both" : absl::StrCat("CPU ", args.client_cpus),
                     ".\n"));
  if (idle < wanted) {
    s.Say(
        fmt::format("Only {} idle connections instead of {}: the limit of open files is too low, "
                    "and cannot be raised (ulimit -n; it takes root).\n",
                    idle, wanted));
  }
  const std::vector<DirectorPart> parts = ChosenDirectorParts(args);
  const auto in = [&](const DirectorPart& part) {
    std::vector<Opponent> some = *chosen;
    std::erase_if(some, [&](const Opponent& o) {
      return std::find(part.forms.begin(), part.forms.end(), o.name) == part.forms.end();
    });
    return some;
  };
  int steps = 0;
  for (const DirectorPart& part : parts) steps += static_cast<int>(in(part).size()) * s.rounds();
  s.ExpectSteps(steps);
  DirectorBench bench(&s, args, idle, *client_cpus);
  std::string text = "\n";
  std::vector<RatioRow> rows;
  for (const DirectorPart& part : parts) {
    const std::vector<Opponent> opponents = in(part);
    if (opponents.empty()) continue;
    nlohmann::json raw = nlohmann::json::array();
    const auto runs = s.RunRounds(
        opponents, part.name,
        [&](const Opponent& o, const std::string& label, bool) {
          return bench.RunOne(part, o, label);
        },
        &raw);
    if (!runs.ok()) return runs.status();
    text += DirectorTable(part.name, opponents, *runs);
    AddDirectorRows(part.name, *runs, args.common.tiny, &rows);
    s.report()["parts"][part.name] = {
        {"opponents", SpreadsJson(*runs, opponents,
                                  {"messages_per_s", "p50_us", "p99_us", "p999_us", "loop_us",
                                   "host_us", "gbit_per_s", "gbit_per_cpu_s", "loop_share",
                                   "resident_mib", "bytes_each", "held_bytes"})},
        {"runs", std::move(raw)}};
  }
  s.Say(text + RenderRatios(rows));
  nlohmann::json& settings = s.report()["settings"];
  settings["bytes"] = args.bytes;
  settings["stream_bytes"] = args.stream_bytes;
  settings["stream_connections"] = args.stream_connections;
  settings["stream_depth"] = args.stream_depth;
  settings["idle_connections"] = idle;
  settings["spin_us"] = args.spin_us;
  settings["client_cpus"] = *client_cpus;
  settings["seconds"] = args.seconds;
  s.report()["ratios"] = ToJson(rows);
  return s.WriteReport();
}

}  // namespace

void AddDirectorBench(CLI::App& bench) {
  auto args = std::make_shared<DirectorBenchArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "director", "A director before a server: latency it adds, CPU of spliced bytes, memory");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--bytes", args->bytes, "Of a message, for latencies")
      ->check(CLI::Range(12, 1 << 20))
      ->capture_default_str();
  cmd->add_option("--stream-bytes", args->stream_bytes, "Of a message, for streams")
      ->check(CLI::Range(12, 1 << 20))
      ->capture_default_str();
  cmd->add_option("--stream-connections", args->stream_connections, "For streams")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  cmd->add_option("--stream-depth", args->stream_depth, "Messages that a stream sends together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  cmd->add_option("--idle", args->idle, "Idle connections")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  cmd->add_option(
         "--spin-us", args->spin_us,
         "For how long, at the most, the director of `spin` looks for more before it sleeps")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  cmd->add_option("--seconds", args->seconds, "Length of a run")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  cmd->add_option("--parts", args->parts, "Only these: latency, stream, idle")->delimiter(',');
  cmd->add_option("--host-cpus", args->common.host_cpus, "CPUs of the server [the first]");
  cmd->add_option("--agent-cpus", args->common.agent_cpus, "CPUs of the director [the second]");
  cmd->add_option("--client-cpus", args->client_cpus,
                  "CPUs of the client, which take part in what a wake-up costs [both]");
  cmd->callback([args] { Finish(RunDirectorBench(*args)); });
}

}  // namespace pulse::bench
