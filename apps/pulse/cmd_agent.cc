// `pulse agent`: the agent as a process of its own.
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/socket_server.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/trace.h"
#include "base/uri_options.h"
#include "commands.h"
#include "files/agent_store.h"
#include "lsm/agent_service.h"
#include "metrics/endpoint.h"

namespace pulse {
namespace {

struct AgentArgs {
  std::string socket;
  std::string cpus;
  std::string engine = "io_uring";
  std::string mover = "shared";
  std::string session_memory = "4G";
  std::string total_memory;
  std::string store;
  std::string trace;
  std::string metrics;
  bool metrics_anywhere = false;
  bool copy_payload = false;
  int workers = 1;
  uint32_t max_sessions = 64;
  uint32_t max_queues = 64;
  uint32_t max_files = AgentLimits().max_session_files;
};

// A size given to `option`, not 0.
absl::Status ParseSize(const char* option, const std::string& text, uint64_t* bytes) {
  const auto size = ParseBytes(text);
  if (!size.ok())
    return absl::InvalidArgumentError(absl::StrCat(option, ": ", size.status().message()));
  if (*size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(option, " 0: expected a size, such as 16G"));
  }
  *bytes = *size;
  return absl::OkStatus();
}

absl::Status RunAgent(const AgentArgs& args) {
  AgentOptions options;
  options.socket_path = args.socket;
  options.workers = args.workers;
  options.limits.max_sessions = args.max_sessions;
  options.limits.max_queues = args.max_queues;
  if (!args.cpus.empty()) {
    auto cpus = ParseCpuList(args.cpus);
    if (!cpus.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--cpus: ", cpus.status().message()));
    }
    options.cpus = *cpus;
  }
  auto engine = ParseEngineKind(args.engine);
  if (!engine.ok()) return engine.status();
  options.engine = *engine;
  auto mover = ParseMoverKind(args.mover);
  if (!mover.ok()) return mover.status();
  options.mover = *mover;
  PULSE_RETURN_IF_ERROR(
      ParseSize("--session-memory", args.session_memory, &options.limits.max_session_bytes));
  if (!args.total_memory.empty()) {
    PULSE_RETURN_IF_ERROR(
        ParseSize("--total-memory", args.total_memory, &options.limits.max_total_bytes));
  }
  options.limits.max_session_files = args.max_files;

  // A write beyond the limit of file size is that file's error, and not this process's end.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);

  // Blocked before any thread starts, so that only the descriptor below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  UniqueFd stop(signalfd(-1, &signals, SFD_CLOEXEC));

  std::shared_ptr<trace::Timeline> timeline;
  if (!args.trace.empty()) {
    auto opened = trace::Timeline::Open(args.trace);
    if (!opened.ok()) return opened.status();
    timeline = *std::move(opened);
  }

  std::unique_ptr<files::FileStore> store;
  if (!args.store.empty()) {
    auto opened = files::FileStore::Open(args.store);
    if (!opened.ok()) return opened.status();
    store = *std::move(opened);
    options.files = store->Factory(args.copy_payload);
  }

  // After the store, since its sessions go first.
  auto server = SocketServer::Open(options, &lsm::CreateAgentService);
  if (!server.ok()) return server.status();
  std::unique_ptr<metrics::Endpoint> metrics;
  if (!args.metrics.empty()) {
    auto opened = metrics::Endpoint::Open(args.metrics, args.metrics_anywhere, (*server)->status());
    if (!opened.ok()) return opened.status();
    metrics = *std::move(opened);
  }
  const std::string engine_name((*server)->engine_kind() == options.engine
                                    ? args.engine
                                    : std::string(EngineName((*server)->engine_kind())));
  std::fprintf(stderr,
               "pulse agent: listening on %s (process %d, %d worker%s, %s, mover %s%s%s%s%s)\n",
               args.socket.c_str(), getpid(), args.workers, args.workers == 1 ? "" : "s",
               engine_name.c_str(), args.mover.c_str(), args.cpus.empty() ? "" : ", CPUs ",
               args.cpus.c_str(), args.store.empty() ? "" : ", store ", args.store.c_str());
  if (metrics != nullptr)
    std::fprintf(stderr, "pulse agent: metrics at %s\n", metrics->url().c_str());

  signalfd_siginfo info;
  while (read(stop.get(), &info, sizeof(info)) < 0 && errno == EINTR) {
  }
  std::fprintf(stderr, "pulse agent: draining %zu session(s)\n", (*server)->session_count());
  server->reset();
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
      "Stops on SIGTERM or SIGINT, after draining what is in flight.");
  cmd->add_option("--socket", args->socket,
                  "Unix socket to listen on, an absolute path; created with mode 0600")
      ->required();
  cmd->add_option("--cpus", args->cpus,
                  "CPUs that the agent may use, as 1 or 0,2-3 (default: all)");
  cmd->add_option("--workers", args->workers, "worker threads; sessions are spread over them")
      ->capture_default_str();
  cmd->add_option("--engine", args->engine, "io_uring, io_uring_poll, libaio or threads")
      ->capture_default_str();
  cmd->add_option("--mover", args->mover,
                  "shared: I/O straight from the host's memory; vmread: one-sided copies into a\n"
                  "mirror first, standing for a DPU's DMA")
      ->capture_default_str();
  cmd->add_option("--store", args->store,
                  "segment store whose files the file library may use (pulse pool create); locked\n"
                  "while the agent runs");
  cmd->add_flag("--copy-payload", args->copy_payload,
                "file library: copy data once more on the agent, to compare with");
  cmd->add_option("--trace", args->trace,
                  "write a timeline of reads, writes and syncs to this file, for ui.perfetto.dev;\n"
                  "trace=FILE in a database's URI writes the host's (%p: the process id)");
  cmd->add_option(
      "--metrics", args->metrics,
      "serve Prometheus at http://ADDRESS:PORT/metrics; a port alone, such as 9464, is\n"
      "on 127.0.0.1");
  cmd->add_flag("--metrics-anywhere", args->metrics_anywhere,
                "allow --metrics an address that other machines reach");
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
