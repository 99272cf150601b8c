// `pulse agent`: the agent as a process of its own.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/socket_server.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/metrics/endpoint.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/rules_file.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "base/trace.h"
#include "net/address.h"
#include "services/ops/ingest/ingest.h"
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
  std::string ingest;
  bool ingest_anywhere = false;
  std::string ingest_max_decompressed;
  std::string ingest_max_line;
  std::string filter;
  std::string to;
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

// The ingest server as those see it who read the agent's numbers, from when it listens until it
// stops.
class WatchedIngest {
 public:
  void Set(std::shared_ptr<const ingest::IngestServer> server) {
    const std::lock_guard lock(mu_);
    server_ = std::move(server);
  }
  std::shared_ptr<const ingest::IngestServer> Get() const {
    const std::lock_guard lock(mu_);
    return server_;
  }

 private:
  mutable std::mutex mu_;
  std::shared_ptr<const ingest::IngestServer> server_;
};

// What --ingest, --filter and --to ask for.
struct IngestSetup {
  ingest::IngestOptions options;
  std::shared_ptr<const filter::RuleSet> rules;  // null: they are not given
};

absl::StatusOr<IngestSetup> ReadIngest(const AgentArgs& args, const std::vector<int>& cpus) {
  if (args.ingest.empty()) return IngestSetup();
  IngestSetup setup;
  ingest::IngestOptions& options = setup.options;
  options.cpus = cpus;
  const bool is_port = args.ingest.find(':') == std::string::npos;
  auto listen = net::ParseAddress(is_port ? absl::StrCat("127.0.0.1:", args.ingest) : args.ingest);
  if (!listen.ok()) return OptionError("--ingest", listen.status());
  options.listen = *listen;
  if (!args.ingest_anywhere && !options.listen.is_loopback() && !options.listen.is_unix()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ingest ", args.ingest,
                     ": other machines reach it, and everybody who connects is served; say so with "
                     "--ingest-anywhere"));
  }
  if (!args.ingest_max_decompressed.empty()) {
    PULSE_RETURN_IF_ERROR(ReadSize("--ingest-max-decompressed", args.ingest_max_decompressed, "10G",
                                   &options.max_decompressed));
  }
  if (!args.ingest_max_line.empty()) {
    PULSE_RETURN_IF_ERROR(
        ReadSize("--ingest-max-line", args.ingest_max_line, "64M", &options.max_record));
    if (options.max_record > filter::kMostRecordBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ingest-max-line ", args.ingest_max_line, ": at most 1G"));
    }
  }
  auto host = net::ParseAddress(args.to);
  if (!host.ok()) return OptionError("--to", host.status());
  options.host = *host;
  PULSE_ASSIGN_OR_RETURN(std::vector<filter::Rule> rules, ReadRulesFile("--filter", args.filter));
  PULSE_ASSIGN_OR_RETURN(setup.rules,
                         filter::RuleSet::Compile(std::move(rules), filter::RuleSetOptions()));
  return setup;
}

// Null without them.
absl::StatusOr<std::unique_ptr<ingest::IngestServer>> StartIngest(IngestSetup setup) {
  if (setup.rules == nullptr) return nullptr;
  auto server = ingest::IngestServer::Open(std::move(setup.options), std::move(setup.rules));
  if (!server.ok()) return OptionError("--ingest", server.status());
  return server;
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
  PULSE_ASSIGN_OR_RETURN(IngestSetup ingest_setup, ReadIngest(args, options.cpus));

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
  const auto watched_ingest = std::make_shared<WatchedIngest>();
  options.number_groups = [&open = **services, watched_ingest] {
    std::vector<NumberGroup> groups = open.Numbers();
    if (const auto ingest = watched_ingest->Get()) {
      groups.push_back(ingest::IngestNumbers(ingest->stats()));
    }
    return groups;
  };
  // After the services, since its sessions go first.
  PULSE_ASSIGN_OR_RETURN(auto server, SocketServer::Open(options, (*services)->Offered()));
  std::unique_ptr<metrics::Endpoint> metrics;
  if (!args.metrics.empty()) {
    PULSE_ASSIGN_OR_RETURN(metrics, metrics::Endpoint::Open(args.metrics, args.metrics_anywhere,
                                                            {server->status(), nullptr, nullptr}));
  }
  // All that may fail comes before anybody is told that the agent listens.
  NetworkFront* const front = (*services)->front();
  ingest_setup.options.idle_only = front != nullptr;  // its clients go first
  PULSE_ASSIGN_OR_RETURN(const std::shared_ptr<ingest::IngestServer> ingest,
                         StartIngest(std::move(ingest_setup)));
  watched_ingest->Set(ingest);
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
  if (ingest != nullptr) {
    Say(absl::StrFormat("pulse agent: filters streams sent to %s for %s",
                        ingest->address().ToString(), args.to));
  }
  if (front != nullptr) Say(absl::StrFormat("pulse agent: %s", front->DescribeFront()));

  stop.Wait();
  front_status->Set(nullptr);
  Say(absl::StrFormat("pulse agent: draining %d session(s)", server->session_count()));
  if (front != nullptr) front->Stop();
  watched_ingest->Set(nullptr);
  if (ingest != nullptr) {
    ingest->Stop();
    const ingest::IngestStats s = ingest->stats();
    Say(
        absl::StrFormat("pulse agent: %d stream(s) filtered, %d of them reset; %d bytes received, "
                        "%d decompressed, %d sent",
                        s.streams, s.failed, s.bytes_received, s.bytes_filtered, s.bytes_sent));
  }
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
  CLI::Option* const ingest = cmd->add_option(
      "--ingest", args->ingest,
      "PORT (on 127.0.0.1) or ADDRESS:PORT: filter the streams of lines that clients\n"
      "send here, compressed or not, by --filter, and give what matches to --to");
  cmd->add_flag("--ingest-anywhere", args->ingest_anywhere,
                "let --ingest listen beyond loopback, where everybody who connects is served")
      ->needs(ingest);
  cmd->add_option("--ingest-max-decompressed", args->ingest_max_decompressed,
                  "reset a client's stream that is compressed to more than this, such as 10G;\n"
                  "default: no limit")
      ->needs(ingest);
  cmd->add_option("--ingest-max-line", args->ingest_max_line,
                  "reset a client's stream that has a longer line (default: 64M; at most 1G)")
      ->needs(ingest);
  ingest->needs(
      cmd->add_option("--filter", args->filter,
                      "with --ingest: a file of rules, one a line, as pulse filter --rules has it")
          ->needs(ingest));
  ingest->needs(
      cmd->add_option("--to", args->to,
                      "with --ingest: HOST:PORT, where each client's records go by a connection")
          ->needs(ingest));
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
