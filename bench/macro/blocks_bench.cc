// `pulse bench blocks`: random block I/O over the network, with host and agent sharing the work in
// different ways, side by side. DDS sections 8.2, 8.3 and 8.5.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
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
#include "base/sibling_program.h"
#include "bench/macro/common_options.h"
#include "bench/macro/program_process.h"
#include "bench/macro/soak_agent.h"
#include "fmt/format.h"
#include "store/store.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kBlocksSize = uint64_t{512} << 20;
constexpr uint64_t kSegment = uint64_t{1} << 20;
// The metrics' and opponents' names.
constexpr char kOs[] = "os-io_uring";
constexpr char kOsThreads[] = "os-threads";
constexpr char kLibrary[] = "library";
constexpr char kForwarded[] = "forwarded";
constexpr char kOffloaded[] = "offloaded";
constexpr char kCopying[] = "offloaded-copying";
constexpr const char* kPartNames[] = {"all",        "reads",  "timed",      "busy",
                                      "busy-timed", "writes", "busy-writes"};

struct BlocksArgs {
  CommonArgs common;
  uint32_t block = 1024;
  uint32_t batch = 4;
  uint32_t outstanding = 8;
  uint32_t connections = 4;
  double rate = 0;
  double seconds = 3;
  std::string part = "all";
  int neighbours = 3;
};

bool OfOs(const std::string& name) { return name == kOs || name == kOsThreads; }
bool HasDirector(const std::string& name) {
  return name == kForwarded || name == kOffloaded || name == kCopying;
}

// The processes of one opponent, for one run.
struct Running {
  std::unique_ptr<SoakAgent> agent;
  ProgramProcess host;
  uint16_t port = 0;
};

class BlocksBench {
 public:
  BlocksBench(Session* session, const BlocksArgs& args, uint64_t bytes)
      : session_(session), args_(args), bytes_(bytes), store_(session->dir().Sub("store")) {}

  // Both forms of the file, with every block stamped.
  absl::Status Prepare() {
    for (const char* name : {"store", "plain"}) {
      PULSE_RETURN_IF_ERROR(session_->dir().Remove(name));
    }
    store::CreateOptions options;
    options.segment_bytes = kSegment;
    options.size = bytes_ + bytes_ / 8 + (uint64_t{32} << 20);
    options.metadata_bytes = uint64_t{8} << 20;
    PULSE_RETURN_IF_ERROR(store::Create(store_, options));
    if (mkdir(session_->dir().Sub("plain").c_str(), 0755) != 0) {
      return ErrnoError(errno, "creating", session_->dir().Sub("plain"));
    }
    for (const char* name : {kLibrary, kOs}) {
      nlohmann::json spec = Spec();
      spec["fill"] = true;
      auto filled = Run(name, absl::StrCat("writing the file, ", name), std::move(spec));
      if (!filled.ok()) return filled.status();
    }
    return absl::OkStatus();
  }

  nlohmann::json Spec() {
    return {{"job", "blocks-load"},
            {"block", args_.block},
            {"batch", args_.batch},
            {"outstanding", args_.outstanding},
            {"connections", args_.connections},
            {"seconds", args_.common.tiny ? 0.1 : args_.seconds},
            {"seed", args_.common.seed + static_cast<uint64_t>(++runs_)}};
  }

  absl::StatusOr<nlohmann::json> Run(const std::string& name, const std::string& label,
                                     nlohmann::json spec) {
    Running r;
    PULSE_RETURN_IF_ERROR(Start(name, &r));
    spec["port"] = r.port;
    spec["host_pid"] = r.host.pid();
    spec["agent_pid"] = r.agent == nullptr ? 0 : r.agent->pid();
    return session_->Step(label, spec, session_->both_cpus(), [](const nlohmann::json& j) {
      return fmt::format("{:.0f} a second, host {:.2f} us each", j.value("ops_per_s", 0.0),
                         j.value("host_us", 0.0));
    });
  }

 private:
  absl::Status Start(const std::string& name, Running* r) {
    const BenchDir& dir = session_->dir();
    const std::string host_socket = dir.Sub("host.sock");
    std::vector<std::string> words = {"serve", "--size", absl::StrCat(bytes_)};
    if (OfOs(name)) {
      words.insert(words.end(), {"--directory", dir.Sub("plain"), "--engine",
                                 name == kOs ? "io_uring" : "threads"});
    } else {
      std::vector<std::string> more = {"--store", store_, "--tasks", "0"};
      if (HasDirector(name)) {
        const char* object = name == kForwarded ? "../lib/pulse-blocks-forward.so"
                                                : "../lib/pulse-blocks-offload.so";
        more.insert(more.end(), {"--offload", SiblingProgram(object), "--serve", "0",
                                 "--serve-host", "unix:" + host_socket});
      }
      if (name == kCopying) more.push_back("--offload-copying");
      PULSE_RETURN_IF_ERROR(dir.Remove("agent.log"));
      r->agent = std::make_unique<SoakAgent>(dir.Sub("agent.sock"), dir.Sub("agent.log"),
                                             session_->args().agent_cpus, std::move(more));
      PULSE_RETURN_IF_ERROR(r->agent->Start());
      PULSE_RETURN_IF_ERROR(r->agent->WaitReady());
      words.insert(words.end(), {"--agent", r->agent->socket()});
    }
    if (HasDirector(name)) words.insert(words.end(), {"--socket", host_socket, "--ordered"});
    PULSE_RETURN_IF_ERROR(r->host.Start(words, session_->host_cpus(), dir.Sub("host.log"),
                                        SiblingProgram("pulse-blocks")));
    if (!HasDirector(name)) {
      const auto port = r->host.WaitForPort("serving at 127.0.0.1:");
      if (!port.ok()) return port.status();
      r->port = *port;
      return absl::OkStatus();
    }
    PULSE_RETURN_IF_ERROR(r->host.WaitFor("serving at "));
    const auto port = PortInLog(dir.Sub("agent.log"), "(port ");
    if (!port.ok()) return port.status();
    r->port = *port;
    return absl::OkStatus();
  }

  Session* const session_;
  const BlocksArgs& args_;
  const uint64_t bytes_;
  const std::string store_;
  int runs_ = 0;
};

Opponent Named(const char* name, const char* meaning, const Session& s) {
  Opponent o;
  o.name = name;
  o.meaning = meaning;
  o.cpus = s.host_cpus();
  return o;
}

std::string Table(const char* title, const std::vector<Opponent>& opponents, const RunSet& runs,
                  const std::string& what) {
  TextTable table({title, "a second", "p50 us", "p99 us", "host CPU us", "agent CPU us"});
  for (const Opponent& o : opponents) {
    const auto median = [&](const std::string& metric) { return runs.Of(o.name, metric).median; };
    table.AddRow({o.name, fmt::format("{:.0f}", median("ops_per_s")),
                  fmt::format("{:.0f}", median(what + "_p50_us")),
                  fmt::format("{:.0f}", median(what + "_p99_us")),
                  fmt::format("{:.3f}", median("host_us")),
                  fmt::format("{:.2f}", median("agent_us"))});
  }
  return table.Render() + "\n";
}

// One kind of load, all opponents.
struct Part {
  const char* name;   // in the report
  const char* title;  // of its table
  const char* what;   // "reads" or "writes"
  std::vector<Opponent> opponents;
  double read_share;
  bool timed;       // at the rate, not as fast as it goes
  bool neighbours;  // others keep the host's CPUs busy
};

// "busy" is the case that the host has better things to do: its CPUs are shared with processes that
// do nothing but compute. Where the disk limits all opponents alike, only that tells them apart.
std::vector<Part> PartsOf(const Session& s) {
  const Opponent os = Named(kOs, "host: network, and files by io_uring, O_DIRECT", s);
  const Opponent threads = Named(kOsThreads, "host: network, and files by pread and pwrite", s);
  const Opponent library = Named(kLibrary, "host: network; files by pulse/files.h on the agent", s);
  const Opponent forwarded =
      Named(kForwarded, "library, behind the agent's director, which forwards all", s);
  const Opponent offloaded = Named(kOffloaded, "agent: network and reads; writes as library", s);
  const Opponent copying = Named(kCopying, "offloaded, with a copy between disk and network", s);
  const std::vector<Opponent> all = {os, threads, library, forwarded, offloaded, copying};
  const std::vector<Opponent> three = {os, library, offloaded};
  return {{"reads", "reads (medians)", "reads", all, 1, false, false},
          {"timed", "reads at a fixed rate", "reads", three, 1, true, false},
          {"busy", "reads, busy host", "reads", three, 1, false, true},
          {"busy-timed", "reads at a fixed rate, busy host", "reads", three, 1, true, true},
          {"writes", "writes (medians)", "writes", {os, threads, library}, 0, false, false},
          {"busy-writes", "writes, busy host", "writes", {os, library}, 0, false, true}};
}

void AddRatios(const Part& part, const RunSet& runs, bool tiny, std::vector<RatioRow>* rows) {
  const auto least = [&](double v) {
    return tiny ? std::optional<Target>() : Target{Target::Kind::kAtLeast, v};
  };
  const auto most = [&](double v) {
    return tiny ? std::optional<Target>() : Target{Target::Kind::kAtMost, v};
  };
  const auto add = [&](const char* label, const char* a, const char* b, const char* metric,
                       std::optional<Target> target) {
    if (!runs.Has(a) || !runs.Has(b)) return;
    // The targets are of a host that has nothing else to do.
    if (part.neighbours) target.reset();
    rows->push_back({absl::StrCat(part.neighbours ? "busy host: " : "", label),
                     runs.Ratio(a, b, metric), target});
  };
  if (part.timed) {
    add("p99 at equal rate, offloaded / os-io_uring", kOffloaded, kOs, "reads_p99_us", most(0.3));
    add("p99 at equal rate, library / os-io_uring", kLibrary, kOs, "reads_p99_us", {});
    add("host CPU at equal rate, offloaded / os-io_uring", kOffloaded, kOs, "host_us", {});
  } else if (part.read_share > 0) {
    add("reads/s, offloaded / os-io_uring", kOffloaded, kOs, "ops_per_s", least(1.8));
    add("reads/s, offloaded / os-threads", kOffloaded, kOsThreads, "ops_per_s", {});
    add("reads/s, library / os-io_uring", kLibrary, kOs, "ops_per_s", {});
    add("reads/s, library / os-threads", kLibrary, kOsThreads, "ops_per_s", {});
    add("host CPU per read, offloaded / forwarded", kOffloaded, kForwarded, "host_us", most(0.02));
    add("reads/s, without a copy / copying", kOffloaded, kCopying, "ops_per_s", least(1.3));
    add("agent CPU per read, without a copy / copying", kOffloaded, kCopying, "agent_us", {});
  } else {
    add("writes/s, library / os-io_uring", kLibrary, kOs, "ops_per_s", least(1.3));
    add("writes/s, library / os-threads", kLibrary, kOsThreads, "ops_per_s", {});
    add("host CPU per write, library / os-io_uring", kLibrary, kOs, "host_us", {});
  }
}

absl::Status Check(const BlocksArgs& args) {
  if (!args.common.agent_socket.empty() || !args.common.uri_options.empty()) {
    return absl::InvalidArgumentError(
        "--agent, --uri: not for this benchmark, which starts its own agents");
  }
  for (const char* part : kPartNames) {
    if (args.part == part) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--part ", args.part, ": choose one of ", absl::StrJoin(kPartNames, ", ")));
}

absl::Status RunBlocksBench(const BlocksArgs& args) {
  PULSE_RETURN_IF_ERROR(Check(args));
  const auto size = SizeOf(args.common, args.common.tiny ? uint64_t{8} << 20 : kBlocksSize);
  if (!size.ok()) return size.status();
  const uint64_t bytes = std::max(*size / kSegment, uint64_t{1}) * kSegment;
  auto session = Session::Open("blocks", args.common, bytes * 5 / 2 + (uint64_t{128} << 20));
  if (!session.ok()) return session.status();
  Session& s = **session;
  BlocksBench bench(&s, args, bytes);
  std::vector<Part> parts = PartsOf(s);
  s.Say(Legend(s, parts[0].opponents));
  s.Say("  The client may use both CPUs. Every block that is read is checked.\n");
  int steps = 2;
  for (Part& p : parts) {
    if (!args.common.opponents.empty()) {
      std::erase_if(p.opponents, [&](const Opponent& o) {
        return std::find(args.common.opponents.begin(), args.common.opponents.end(), o.name) ==
               args.common.opponents.end();
      });
    }
    if (args.part != "all" && args.part != p.name) p.opponents.clear();
    steps += static_cast<int>(p.opponents.size()) * s.rounds();
  }
  s.ExpectSteps(steps);
  PULSE_RETURN_IF_ERROR(bench.Prepare());
  double rates[] = {args.rate, args.rate};  // by neighbours
  std::string text = "\n";
  std::vector<RatioRow> rows;
  for (const Part& part : parts) {
    if (part.opponents.empty()) continue;
    // Half of what the baseline can: no opponent is overloaded.
    double& rate = rates[part.neighbours];
    if (part.timed && rate == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--part ", part.name, ": give a --rate, or run all parts"));
    }
    nlohmann::json raw = nlohmann::json::array();
    const auto runs = s.RunRounds(
        part.opponents, part.name,
        [&](const Opponent& o, const std::string& label, bool) {
          nlohmann::json spec = bench.Spec();
          spec["reads"] = part.read_share;
          if (part.timed) spec["rate"] = rate;
          if (part.neighbours) {
            spec["neighbours"] = args.neighbours;
            spec["neighbours_cpus"] = s.host_cpus();
          }
          return bench.Run(o.name, label, std::move(spec));
        },
        &raw);
    if (!runs.ok()) return runs.status();
    if (rate == 0 && part.read_share > 0) {
      rate = runs->Has(kOs) ? runs->Of(kOs, "ops_per_s").median / 2 : 1000;
    }
    text += Table(part.title, part.opponents, *runs, part.what);
    AddRatios(part, *runs, args.common.tiny, &rows);
    s.report()["parts"][part.name] = {
        {"opponents",
         SpreadsJson(
             *runs, part.opponents,
             {"ops_per_s", absl::StrCat(part.what, "_p50_us"), absl::StrCat(part.what, "_p99_us"),
              absl::StrCat(part.what, "_p999_us"), "host_us", "agent_us", "client_us"})},
        {"runs", std::move(raw)}};
  }
  s.Say(text + RenderRatios(rows));
  s.report()["settings"]["bytes"] = bytes;
  s.report()["settings"]["block"] = args.block;
  s.report()["settings"]["batch"] = args.batch;
  s.report()["settings"]["outstanding"] = args.outstanding;
  s.report()["settings"]["connections"] = args.connections;
  s.report()["settings"]["rate"] = rates[false];
  s.report()["settings"]["busy_rate"] = rates[true];
  s.report()["settings"]["neighbours"] = args.neighbours;
  s.report()["ratios"] = ToJson(rows);
  for (const char* name : {"store", "plain"}) {
    if (!args.common.keep) PULSE_RETURN_IF_ERROR(s.dir().Remove(name));
  }
  return s.WriteReport();
}

}  // namespace

void AddBlocksBench(CLI::App& bench) {
  auto args = std::make_shared<BlocksArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "blocks", "Random block I/O over the network: on the host, by the file library, offloaded");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--size", args->common.size, "Of the file; powers of 1024 [512M]");
  cmd->add_option("--block", args->block, "Bytes of a request")->capture_default_str();
  cmd->add_option("--batch", args->batch, "Requests in a message")->capture_default_str();
  cmd->add_option("--outstanding", args->outstanding, "Messages of a connection")
      ->capture_default_str();
  cmd->add_option("--connections", args->connections, "Of the client")->capture_default_str();
  cmd->add_option("--rate", args->rate,
                  "Requests a second, for latencies [half of what os-io_uring reaches]");
  cmd->add_option("--seconds", args->seconds, "Length of a run")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  cmd->add_option("--part", args->part,
                  "reads, timed (reads at a rate), busy (reads, beside --neighbours), busy-timed, "
                  "writes, busy-writes, or all")
      ->capture_default_str();
  cmd->add_option("--neighbours", args->neighbours,
                  "Processes that keep the host's CPUs busy in the parts \"busy\"")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  cmd->add_option("--host-cpus", args->common.host_cpus, "CPUs of the host [the first]");
  cmd->add_option("--agent-cpus", args->common.agent_cpus, "CPUs of the agent [the second]");
  cmd->callback([args] { Finish(RunBlocksBench(*args)); });
}

}  // namespace pulse::bench
