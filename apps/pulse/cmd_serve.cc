// `pulse serve`: a RocksDB for Redis clients.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/metrics/endpoint.h"
#include "apps/pulse/server_options.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "services/kv/core/partition.h"
#include "services/redis/offload/front_module.h"
#include "services/redis/offload/resp.h"
#include "services/redis/offload_choice.h"
#include "services/redis/serve.h"

namespace pulse {
namespace {

struct RedisServerArgs : ServerArgs {
  std::string cache = "256M";
  std::string hot = "64M";
  std::string sync = "everysec";
  std::string damaged_log = "auto";
  std::string offload = "auto";
  std::string offload_reason;  // why there is an agent in front, or none
  std::string agent_cpus;
};

// Whether there is an agent in front of the server, and why.
absl::Status ChooseAgent(RedisServerArgs* args) {
  redis::ServeOptions& options = args->options;
  redis::OffloadFacts facts;
  facts.mode = args->offload == "on"    ? redis::OffloadMode::kOn
               : args->offload == "off" ? redis::OffloadMode::kOff
                                        : redis::OffloadMode::kAuto;
  facts.uri = options.uri;
  facts.separate_agent = !options.host_socket.empty();
  facts.server_cpus = options.cpus;
  facts.agent_cpus = options.agent_cpus;
  facts.process_cpus = MyCpus();
  PULSE_ASSIGN_OR_RETURN(auto choice, redis::ChooseOffload(facts));
  options.offload = choice.on;
  args->offload_reason = choice.reason;
  return absl::OkStatus();
}

absl::Status ReadRedisServerArgs(RedisServerArgs* args) {
  redis::ServeOptions& options = args->options;
  PULSE_RETURN_IF_ERROR(ReadServerArgs(args));
  PULSE_RETURN_IF_ERROR(ReadCpus("--agent-cpus", args->agent_cpus, &options.agent_cpus));
  PULSE_ASSIGN_OR_RETURN(options.cache_bytes,
                         ParseSizeOption("--cache", args->cache, uint64_t{1} << 50));
  if (args->hot != "0") {
    PULSE_ASSIGN_OR_RETURN(options.hot_bytes,
                           ParseSizeOption("--hot", args->hot, uint64_t{1} << 40));
    if (options.hot_bytes < kv::kLeastMemory) {
      return absl::InvalidArgumentError(
          absl::StrCat("--hot ", args->hot, ": too little to keep values in; give at least ",
                       kv::kLeastMemory >> 20, "M, or 0 for none"));
    }
  } else {
    options.hot_bytes = 0;
  }
  PULSE_RETURN_IF_ERROR(ChooseAgent(args));
  if (!options.host_socket.empty()) {
    // All clients come to the agent: what they wrote past it would leave its reads old.
    if (args->port_given || !options.socket.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          args->port_given ? "--port" : "--socket", " and --host-socket ", options.host_socket,
          ": the agent would not see what is written there, and its clients would go on reading "
          "old values; leave it out, and have all clients come to the agent (pulse agent "
          "--serve)"));
    }
    options.listen_tcp = false;
  }
  // A power cut may leave holes in what was not synced.
  const bool may_have_holes = args->damaged_log == "auto" && args->sync != "always";
  options.damaged_log = may_have_holes || args->damaged_log == "cut" ? redis::DamagedLog::kCut
                                                                     : redis::DamagedLog::kRefuse;
  options.sync = args->sync == "always" ? redis::SyncMode::kAlways
                 : args->sync == "no"   ? redis::SyncMode::kNo
                                        : redis::SyncMode::kEverySecond;
  return absl::OkStatus();
}

// None when none is asked for. To be gone before `server` stops.
absl::StatusOr<std::unique_ptr<metrics::Endpoint>> OpenMetrics(
    const RedisServerArgs& args, const redis::Server& server,
    const std::weak_ptr<net::Application>& reads) {
  if (args.metrics.empty()) return nullptr;
  metrics::Sources sources;
  sources.server = [&server] { return server.numbers(); };
  // Both are there with an agent in front.
  auto offloaded = std::dynamic_pointer_cast<const redis::OffloadedResp>(reads.lock());
  if (const net::Director* agent = server.agent(); agent != nullptr && offloaded != nullptr) {
    auto front = std::make_shared<FrontRegistry>();
    front->Set([agent, offloaded] { return redis::FrontStatusOf(*agent, *offloaded); });
    sources.front = std::move(front);
  }
  return metrics::Endpoint::Open(args.metrics, args.metrics_anywhere, std::move(sources));
}

absl::Status RunRedisServer(RedisServerArgs args) {
  PULSE_RETURN_IF_ERROR(ReadRedisServerArgs(&args));
  // A write beyond the limit of file size is that file's error, and not this process's end.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  StopSignal stop;  // before any thread starts

  std::weak_ptr<net::Application> reads;  // the server's agent
  auto server = redis::Server::Open(
      args.options, [&reads, make = redis::EmbeddedOffload()](const redis::OffloadSetup& setup) {
        auto made = make(setup);
        if (made.ok()) reads = *made;
        return made;
      });
  if (!server.ok()) return server.status();
  stop.Started();
  auto metrics = OpenMetrics(args, **server, reads);
  if (!metrics.ok()) return metrics.status();
  const redis::ServeOptions& options = args.options;
  Say(absl::StrFormat("pulse serve: %s on %s (process %d, offload %s%s)", options.db,
                      ListenersText(options, (*server)->port()), getpid(),
                      options.offload ? "on" : "off", options.tls_cert.empty() ? "" : ", TLS"));
  Say(absl::StrFormat("pulse serve: %s, as %s",
                      options.offload ? "an agent in front answers reads" : "no agent in front",
                      args.offload_reason));
  if (*metrics != nullptr) {
    Say(absl::StrFormat("pulse serve: metrics at %s", (*metrics)->url()));
  }

  stop.Wait();
  Say("pulse serve: stopping");
  metrics->reset();  // it asks the server
  return (*server)->Stop();
}

void AddResourceOptions(CLI::App* cmd, const std::shared_ptr<RedisServerArgs>& args) {
  redis::ServeOptions& options = args->options;
  cmd->add_option("--cache", args->cache,
                  "memory for blocks that were read; as much again for the agent")
      ->capture_default_str();
  cmd->add_option(
         "--hot", args->hot,
         "memory for values that were read lately, in front of RocksDB: 16M or more; 0: none")
      ->capture_default_str();
  cmd->add_option("--workers", options.workers, "threads for what has to wait for the device")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  cmd->add_option("--agent-cpus", args->agent_cpus, "CPUs of the agent's threads (default: all)");
  cmd->add_option(
         "--spin-us", options.agent_spin_us,
         "for how long, at the most and while it helps, the agent looks for requests\n"
         "before it sleeps: a single client is answered faster where the agent has CPUs of\n"
         "its own")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  AddConnectionOptions(cmd, args.get());
}

}  // namespace

void AddServeCommand(CLI::App& app) {
  auto args = std::make_shared<RedisServerArgs>();
  CLI::App* cmd = app.add_subcommand(
      "serve",
      "Serve a RocksDB to Redis clients: strings, expiry, SCAN, MULTI, over RESP2 and RESP3.\n"
      "  pulse serve --db /var/lib/pulse &   redis-cli set greeting hello\n"
      "Every write is in RocksDB's log before it is answered; --sync says when that is synced.\n"
      "Stops on SIGTERM or SIGINT, after answering what is outstanding; ignores SIGHUP.");
  redis::ServeOptions& options = args->options;
  cmd->add_option("--db", options.db, "directory of the database; made if it is missing")
      ->required();
  AddListenOptions(cmd, args.get());
  cmd->add_option(
      "--host-socket", options.host_socket,
      "Unix socket for a separate agent (pulse agent --serve-host), which clients then come\n"
      "to: nothing else is listened on");
  cmd->add_option(
         "--offload", args->offload,
         "on: an agent in front answers reads without the host; off: none; auto: on where\n"
         "--agent-cpus and --cpus have no CPU in common, off on CPUs that both share, with\n"
         "--host-socket, and with tables in a pool")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  cmd->add_option("--uri", options.uri,
                  "run the database's compactions on an agent, as pulse:// or pulse://SOCKET");
  cmd->add_option("--sync", args->sync,
                  "when writes are synced to the device: always (before they are answered),\n"
                  "everysec, or no (when the kernel likes)")
      ->check(CLI::IsMember({"always", "everysec", "no"}))
      ->capture_default_str();
  cmd->add_option(
         "--damaged-log", args->damaged_log,
         "where the database's log is damaged before its end: refuse; or cut: go on with\n"
         "what is before the damage, and keep a copy of the log; auto: refuse with --sync\n"
         "always, else cut")
      ->check(CLI::IsMember({"auto", "refuse", "cut"}))
      ->capture_default_str();
  AddAccessOptions(cmd, &args->options, &args->password_file);
  AddResourceOptions(cmd, args);
  cmd->callback([args, cmd] {
    args->port_given = cmd->get_option("--port")->count() > 0;
    Finish(RunRedisServer(*args));
  });
}

}  // namespace pulse
