// `pulse agent`: the agent as a process of its own.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/socket_server.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/metrics/endpoint.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "base/trace.h"
#include "services/services.h"
#include "vdpu/virtual_dpu.h"

namespace pulse {
namespace {

struct AgentArgs {
  std::string socket;
  std::string cpus;
  std::string engine = "io_uring";
  std::string mover;
  std::string profile = "none";
  std::string print_profile;
  std::string session_memory = "4G";
  std::string total_memory;
  std::string trace;
  std::string metrics;
  bool metrics_anywhere = false;
  int workers = 1;
  OptionValues services;
  uint32_t max_sessions = 64;
  uint32_t max_queues = 64;
  uint32_t max_files = AgentLimits().max_session_files;
};

// A session's memory at the least: queue=1M&fetch_memory=1M.
constexpr uint64_t kLeastMemory = uint64_t{2} << 20;

absl::Status ReadMemory(const char* option, const std::string& text, uint64_t* bytes) {
  PULSE_RETURN_IF_ERROR(ReadSize(option, text, "16G", bytes));
  if (*bytes >= kLeastMemory) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", text, ": too little for any session; give at least ",
                   kLeastMemory >> 20, "M, and 96M for one with the usual queue and fetch_memory"));
}

// A check of CLI11's.
std::string NameableByUri(const std::string& path) {
  return path.find('?') == std::string::npos
             ? ""
             : "a URI cannot name it, since options begin at ? there; choose a path without ?";
}

// The processor that the agent plays, or none. Says on standard error what cannot be shown of it.
absl::StatusOr<std::unique_ptr<vdpu::VirtualDpu>> StartProfile(const AgentArgs& args,
                                                               AgentOptions* options) {
  if (args.profile == "none") return nullptr;
  auto profile = vdpu::LoadProfile(args.profile);
  if (!profile.ok()) {
    return absl::Status(profile.status().code(),
                        absl::StrCat("--profile: ", profile.status().message()));
  }
  const int cpus = options->cpus.empty() ? AllowedCpus() : static_cast<int>(options->cpus.size());
  if (const std::string less = vdpu::Shortfall(*profile, cpus); !less.empty()) {
    Say(absl::StrFormat("pulse agent: %s", less));
  }
  auto dpu = vdpu::VirtualDpu::Start(*profile);
  if (!dpu.ok()) return dpu.status();
  (*dpu)->Apply(options);
  return dpu;
}

absl::Status PrintProfile(const std::string& name) {
  PULSE_ASSIGN_OR_RETURN(const auto text, vdpu::ProfileText(name));
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

// Numbers that were checked, which may be written as 0x10, in the digits that OptionValues needs.
std::vector<std::string> InDigits(const std::vector<std::string>& numbers) {
  std::vector<std::string> digits;
  for (const std::string& text : numbers) {
    int64_t number = 0;
    CLI::detail::lexical_cast(text, number);
    digits.push_back(std::to_string(number));
  }
  return digits;
}

void AddServiceOptions(CLI::App* cmd, OptionValues* values) {
  for (const ServiceEntry* entry : AllServices()) {
    for (const OptionSpec& spec : entry->options) {
      const std::string name = spec.name;
      if (spec.kind == OptionSpec::Kind::kFlag) {
        cmd->add_flag_callback(
            name, [values, name] { values->Set(name, {}); }, spec.help);
        continue;
      }
      const bool is_integer = spec.kind == OptionSpec::Kind::kInteger;
      CLI::Option* option = cmd->add_option_function<std::vector<std::string>>(
          name,
          [values, name, is_integer](const std::vector<std::string>& given) {
            values->Set(name, is_integer ? InDigits(given) : given);
          },
          spec.help);
      option->expected(1)->type_size(1)->allow_extra_args(false);
      option->type_name(is_integer ? "INT" : "TEXT");
      if (spec.value[0] != 0) option->default_str(spec.value);
      if (spec.repeated) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (is_integer) option->check(CLI::Range(spec.least, spec.most));
    }
  }
  for (const ServiceEntry* entry : AllServices()) {
    for (const OptionSpec& spec : entry->options) {
      for (const char* needed : spec.needs) {
        if (needed != nullptr) cmd->get_option(spec.name)->needs(cmd->get_option(needed));
      }
    }
  }
}

absl::Status RunAgent(const AgentArgs& args) {
  if (!args.print_profile.empty()) return PrintProfile(args.print_profile);
  if (args.socket.empty()) throw CLI::RequiredError("--socket");
  AgentOptions options;
  options.socket_path = args.socket;
  options.workers = args.workers;
  options.limits.max_sessions = args.max_sessions;
  options.limits.max_queues = args.max_queues;
  PULSE_RETURN_IF_ERROR(ReadCpus("--cpus", args.cpus, &options.cpus));
  auto engine = ParseEngineKind(args.engine);
  if (!engine.ok()) return OptionError("--engine", engine.status());
  options.engine = *engine;
  // A card has no memory in common with its host.
  const std::string mover_name = !args.mover.empty()      ? args.mover
                                 : args.profile == "none" ? "shared"
                                                          : "vmread";
  auto mover = ParseMoverKind(mover_name);
  if (!mover.ok()) return mover.status();
  options.mover = *mover;
  PULSE_RETURN_IF_ERROR(
      ReadMemory("--session-memory", args.session_memory, &options.limits.max_session_bytes));
  if (!args.total_memory.empty()) {
    PULSE_RETURN_IF_ERROR(
        ReadMemory("--total-memory", args.total_memory, &options.limits.max_total_bytes));
  }
  options.limits.max_session_files = args.max_files;

  // A write beyond the limit of file size is that file's error, and not this process's end.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);

  StopSignal stop;  // before any thread starts

  std::shared_ptr<trace::Timeline> timeline;
  if (!args.trace.empty()) {
    PULSE_ASSIGN_OR_RETURN(timeline, trace::Timeline::Open(args.trace));
  }

  // After the signals, which its threads inherit, and before all threads that it slows down.
  PULSE_ASSIGN_OR_RETURN(auto dpu, StartProfile(args, &options));
  AgentFacts facts;
  facts.cpus = options.cpus;
  if (dpu != nullptr) facts.core_speed = dpu->profile().core_speed;
  auto services = OpenServices(args.services, facts);
  if (!services.ok()) return services.status();
  stop.Started();
  options.known_services = (*services)->Known();

  const auto front_status = std::make_shared<FrontRegistry>();
  options.front = front_status;
  options.number_groups = [&open = **services] { return open.Numbers(); };
  // After the services, since its sessions go first.
  PULSE_ASSIGN_OR_RETURN(auto server, SocketServer::Open(options, (*services)->Offered()));
  std::unique_ptr<metrics::Endpoint> metrics;
  if (!args.metrics.empty()) {
    PULSE_ASSIGN_OR_RETURN(metrics, metrics::Endpoint::Open(args.metrics, args.metrics_anywhere,
                                                            {server->status(), nullptr, nullptr}));
  }
  // All that may fail comes before anybody is told that the agent listens.
  NetworkFront* const front = (*services)->front();
  if (front != nullptr) {
    PULSE_RETURN_IF_ERROR(front->Listen());
    front_status->Set([front] { return front->Status(); });
  }
  const std::string engine_name(server->engine_kind() == options.engine
                                    ? args.engine
                                    : std::string(EngineName(server->engine_kind())));
  Say(absl::StrFormat(
      "pulse agent: listening on %s (process %d, %d worker%s, %s, mover %s%s%s%s%s%s)", args.socket,
      getpid(), args.workers, args.workers == 1 ? "" : "s", engine_name, mover_name,
      args.cpus.empty() ? "" : ", CPUs ", args.cpus, (*services)->Describe(),
      dpu == nullptr ? "" : ", profile ", dpu == nullptr ? "" : vdpu::Describe(dpu->profile())));
  if (metrics != nullptr) Say(absl::StrFormat("pulse agent: metrics at %s", metrics->url()));
  if (front != nullptr) Say(absl::StrFormat("pulse agent: %s", front->DescribeFront()));

  stop.Wait();
  front_status->Set(nullptr);
  Say(absl::StrFormat("pulse agent: draining %d session(s)", server->session_count()));
  if (front != nullptr) front->Stop();
  (*services)->Stop();
  server.reset();
  return absl::OkStatus();
}

}  // namespace

void AddAgentCommand(CLI::App& app) {
  auto args = std::make_shared<AgentArgs>();
  CLI::App* cmd = app.add_subcommand(
      "agent",
      "Run the agent as a process: it reads compaction input ahead and writes and syncs\n"
      "compaction and flush output for every RocksDB that opens pulse://SOCKET.\n"
      "With --store, it also serves the file library (pulse/files.h).\n"
      "Stops on SIGTERM or SIGINT, after draining what is in flight; ignores SIGHUP.");
  cmd->add_option("--socket", args->socket,
                  "Unix socket to listen on; created with mode 0600. A database's URI names it by\n"
                  "its absolute path")
      ->check(NameableByUri);
  cmd->add_option("--cpus", args->cpus,
                  "CPUs that the agent may use, as 1 or 0,2-3 (default: all)");
  cmd->add_option("--workers", args->workers, "worker threads; sessions are spread over them")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  cmd->add_option("--engine", args->engine, "how files are read and written")
      // With its own words of rivals that only pulse-bench has.
      ->check(CLI::Validator(
          [](const std::string& name) {
            return std::string(ParseEngineKind(name).status().message());
          },
          "{io_uring,threads}"))
      ->capture_default_str();
  cmd->add_option("--mover", args->mover,
                  "shared: I/O straight from the host's memory; vmread: one-sided copies into a\n"
                  "mirror first, standing for a DPU's DMA [shared; with a profile, vmread]")
      ->check(CLI::IsMember({"shared", "vmread"}));
  cmd->add_option(
         "--profile", args->profile,
         "run as a DPU would: bf2, bf3, none, or FILE.toml. Slows down all threads of the\n"
         "agent, and its transfers from and to hosts")
      ->capture_default_str();
  cmd->add_option(
      "--print-profile", args->print_profile,
      "print a profile with the sources of its figures, to start a file from, and exit");
  AddServiceOptions(cmd, &args->services);
  cmd->add_option("--trace", args->trace,
                  "write a timeline of reads, writes and syncs to this file, for ui.perfetto.dev;\n"
                  "trace=FILE in a database's URI writes the host's (%p: the process id)");
  metrics::Endpoint::AddOptions(cmd, "9464", &args->metrics, &args->metrics_anywhere);
  cmd->add_option("--max-sessions", args->max_sessions, "host processes attached at a time")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  cmd->add_option("--max-queues", args->max_queues,
                  "queues (active output streams), or poll groups, a session")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  cmd->add_option("--session-memory", args->session_memory, "queue memory a session may attach")
      ->capture_default_str();
  cmd->add_option("--total-memory", args->total_memory,
                  "queue memory of all sessions together (default: half of the machine's)");
  cmd->add_option("--max-files", args->max_files, "files a session may have open")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  cmd->callback([args] { Finish(RunAgent(*args)); });
}

}  // namespace pulse
