// `pulse agent`: the agent as a process of its own.
#include <dlfcn.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/socket_server.h"
#include "apps/pulse/cmd_agent_offload.h"
#include "apps/pulse/cmd_agent_redis.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/metrics/endpoint.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/trace.h"
#include "base/uri_options.h"
#include "pulse/rocksdb.h"
#include "services/files/agent_store.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/placement/agent_tasks.h"
#include "services/lsm/placement/whole_task.h"
#include "vdpu/virtual_dpu.h"

namespace pulse {
namespace {

constexpr int kTaskNice = 5;    // of whole compactions, beside the workers
constexpr int kDeeperNice = 5;  // more, of those that are not of level 0

struct AgentArgs {
  std::string socket;
  std::string cpus;
  std::string engine = "io_uring";
  std::string mover;
  std::string profile = "none";
  std::string print_profile;
  std::string session_memory = "4G";
  std::string total_memory;
  std::string store;
  FrontArgs front;
  RedisFrontArgs redis;
  OffloadArgs offload;
  std::string trace;
  std::string metrics;
  bool metrics_anywhere = false;
  bool copy_payload = false;
  int workers = 1;
  int tasks = -1;
  std::vector<std::string> plugins;
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

// Loads what registers objects with RocksDB: comparators and the like of those whose databases are
// compacted here. They stay for good.
absl::Status LoadPlugins(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
    const char* why = dlerror();
    return absl::InvalidArgumentError(
        absl::StrCat("--plugin ", path, ": ", why == nullptr ? "cannot be loaded" : why,
                     "; expected a shared object that registers its objects with RocksDB's "
                     "ObjectLibrary::Default() when it is loaded"));
  }
  return absl::OkStatus();
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
    std::fprintf(stderr, "pulse agent: %s\n", less.c_str());
  }
  auto dpu = vdpu::VirtualDpu::Start(*profile);
  if (!dpu.ok()) return dpu.status();
  (*dpu)->Apply(options);
  return dpu;
}

absl::Status PrintProfile(const std::string& name) {
  const auto text = vdpu::ProfileText(name);
  if (!text.ok()) return text.status();
  std::fputs(text->c_str(), stdout);
  return absl::OkStatus();
}

absl::Status RunAgent(const AgentArgs& args) {
  if (!args.print_profile.empty()) return PrintProfile(args.print_profile);
  if (args.socket.empty()) {
    return absl::InvalidArgumentError("--socket is required: the Unix socket to listen on");
  }
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
  if (!engine.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--engine: ", engine.status().message()));
  }
  options.engine = *engine;
  // A card has no memory in common with its host.
  const std::string mover_name = !args.mover.empty()      ? args.mover
                                 : args.profile == "none" ? "shared"
                                                          : "vmread";
  auto mover = ParseMoverKind(mover_name);
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
  // Before the sessions, whose reads and writes it is told of; and gone after them.
  std::unique_ptr<OffloadServer> offload;
  if (args.offload.wanted()) {
    auto opened = OffloadServer::Open(args.offload, args.front, store.get());
    if (!opened.ok()) return opened.status();
    offload = *std::move(opened);
  } else if (!args.redis.wanted() && (!args.front.serve.empty() || !args.front.host.empty())) {
    return absl::InvalidArgumentError(
        "--serve and --serve-host need --offload or --serve-db: what to serve");
  }
  if (args.offload.wanted() && args.redis.wanted()) {
    return absl::InvalidArgumentError(
        "--offload and --serve-db are two services; run an agent for each");
  }

  // After the signals, which its threads inherit, and before all threads that it slows down.
  auto dpu = StartProfile(args, &options);
  if (!dpu.ok()) return dpu.status();

  PULSE_RETURN_IF_ERROR(LoadPlugins(args.plugins));
  lsm::TaskRunnerOptions tasks;
  // One more than CPUs for them: it is level 0's (TaskRunner).
  tasks.max_tasks = args.tasks >= 0 ? static_cast<size_t>(args.tasks)
                    : options.cpus.empty()
                        ? size_t{1} + std::max(1u, std::thread::hardware_concurrency())
                        : 1 + options.cpus.size();
  tasks.cpus = options.cpus;
  // Flushes and outputs, for which writers wait, go first.
  tasks.nice = kTaskNice;
  tasks.deeper_nice = kDeeperNice;
  tasks.background = true;
  // OPTIONS files may name its listener.
  RegisterRocksDb().PermitUncheckedError();
  lsm::TaskRunner runner(tasks, lsm::RemoteTaskFunction());
  options.tasks = static_cast<uint32_t>(tasks.max_tasks);
  if (*dpu != nullptr) options.core_speed = (*dpu)->profile().core_speed;

  const auto front = std::make_shared<FrontTeller>();
  options.front = front;
  options.task_counters = runner.counters();
  // After the store and the tasks, since its sessions go first.
  auto server =
      SocketServer::Open(options, tasks.max_tasks > 0 ? lsm::AgentServiceFactory(&runner)
                                                      : ServiceFactory(&lsm::CreateAgentService));
  if (!server.ok()) return server.status();
  std::unique_ptr<metrics::Endpoint> metrics;
  if (!args.metrics.empty()) {
    auto opened = metrics::Endpoint::Open(args.metrics, args.metrics_anywhere,
                                          {(*server)->status(), nullptr, nullptr});
    if (!opened.ok()) return opened.status();
    metrics = *std::move(opened);
  }
  const std::string engine_name((*server)->engine_kind() == options.engine
                                    ? args.engine
                                    : std::string(EngineName((*server)->engine_kind())));
  std::fprintf(stderr,
               "pulse agent: listening on %s (process %d, %d worker%s, %s, mover %s%s%s%s%s%s%s)\n",
               args.socket.c_str(), getpid(), args.workers, args.workers == 1 ? "" : "s",
               engine_name.c_str(), mover_name.c_str(), args.cpus.empty() ? "" : ", CPUs ",
               args.cpus.c_str(), args.store.empty() ? "" : ", store ", args.store.c_str(),
               *dpu == nullptr ? "" : ", profile ",
               *dpu == nullptr ? "" : vdpu::Describe((*dpu)->profile()).c_str());
  if (metrics != nullptr)
    std::fprintf(stderr, "pulse agent: metrics at %s\n", metrics->url().c_str());

  if (offload != nullptr) {
    PULSE_RETURN_IF_ERROR(offload->Listen());
    front->Set([server = offload.get()] { return server->Status(); });
    std::fprintf(stderr, "pulse agent: %s\n", offload->Describe().c_str());
  }

  std::unique_ptr<RedisFront> redis;
  if (args.redis.wanted()) {
    auto opened = RedisFront::Open(args.redis, args.front, options.cpus);
    if (!opened.ok()) return opened.status();
    redis = *std::move(opened);
    front->Set([server = redis.get()] { return server->Status(); });
    std::fprintf(stderr, "pulse agent: %s\n", redis->Describe().c_str());
  }

  signalfd_siginfo info;
  while (read(stop.get(), &info, sizeof(info)) < 0 && errno == EINTR) {
  }
  front->Set(nullptr);
  redis.reset();
  std::fprintf(stderr, "pulse agent: draining %zu session(s)\n", (*server)->session_count());
  if (offload != nullptr) offload->Stop();
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
                  "Unix socket to listen on, an absolute path; created with mode 0600");
  cmd->add_option("--cpus", args->cpus,
                  "CPUs that the agent may use, as 1 or 0,2-3 (default: all)");
  cmd->add_option("--workers", args->workers, "worker threads; sessions are spread over them")
      ->capture_default_str();
  cmd->add_option("--tasks", args->tasks,
                  "whole compactions at a time, for databases with placement=whole or adaptive\n"
                  "(default: one for each CPU, and one more; of several, the last is kept for\n"
                  "compactions of level 0, for which writers wait first; 0: none)")
      ->check(CLI::Range(0, 1024));
  cmd->add_option("--plugin", args->plugins,
                  "shared object that registers comparators, merge operators and the like with\n"
                  "RocksDB, for whole compactions of databases that use them; may be repeated")
      ->allow_extra_args(false);
  cmd->add_option("--engine", args->engine, "io_uring or threads")->capture_default_str();
  cmd->add_option("--mover", args->mover,
                  "shared: I/O straight from the host's memory; vmread: one-sided copies into a\n"
                  "mirror first, standing for a DPU's DMA [shared; with a profile, vmread]");
  cmd->add_option(
         "--profile", args->profile,
         "run as a DPU would: bf2, bf3, none, or FILE.toml. Slows down all threads of the\n"
         "agent, and its transfers from and to hosts")
      ->capture_default_str();
  cmd->add_option(
      "--print-profile", args->print_profile,
      "print a profile with the sources of its figures, to start a file from, and exit");
  cmd->add_option("--store", args->store,
                  "segment store whose files the file library may use (pulse pool create); locked\n"
                  "while the agent runs");
  cmd->add_option(
         "--serve", args->front.serve,
         "where remote clients come to: [ADDRESS:]PORT (a port alone is on 127.0.0.1) or a\n"
         "Unix socket's path; may be repeated")
      ->allow_extra_args(false);
  cmd->add_option("--serve-host", args->front.host,
                  "the program that answers what the agent does not: ADDRESS:PORT, or a Unix\n"
                  "socket's path");
  cmd->add_flag("--serve-anywhere", args->front.anywhere,
                "let --serve listen beyond loopback, where whoever comes is served");
  cmd->add_option(
         "--serve-spin-us", args->front.spin_us,
         "for how long, at the most and while it helps, --serve looks for requests before\n"
         "it sleeps: for CPUs of its own")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  AddOffloadOptions(cmd, &args->offload);
  AddRedisFrontOptions(cmd, &args->redis);
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
