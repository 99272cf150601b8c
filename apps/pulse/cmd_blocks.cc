// `pulse blocks`: random block I/O over the network, the DDS paper's own benchmark.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/load_report.h"
#include "apps/pulse/util/stop_signal.h"
#include "base/errors.h"
#include "base/uri_options.h"
#include "examples/blocks/host_program.h"
#include "examples/blocks/load.h"
#include "examples/blocks/offload_program.h"
#include "fmt/format.h"
#include "services/offload/program.h"

namespace pulse {
namespace {

struct ServeArgs {
  uint16_t port = 0;
  std::string socket;
  std::string agent;
  std::string directory;
  std::string size = "1G";
  std::string engine = "io_uring";
  uint32_t files = 1;
  int threads = 1;
  bool page_cache = false;
  bool ordered = false;
};

absl::Status Serve(const ServeArgs& args) {
  blocks::HostOptions options;
  options.listen =
      args.socket.empty() ? absl::StrCat("127.0.0.1:", args.port) : "unix:" + args.socket;
  options.threads = args.threads;
  options.agent = args.agent;
  options.directory = args.directory;
  options.direct = !args.page_cache;
  options.ordered = args.ordered;
  options.shape.files = args.files;
  const auto size = ParseBytes(args.size);
  if (!size.ok())
    return absl::InvalidArgumentError("--size: " + std::string(size.status().message()));
  options.shape.file_bytes = *size;
  const auto engine = ParseEngineKind(args.engine);
  if (!engine.ok()) return engine.status();
  options.engine = *engine;
  if (!args.directory.empty() && mkdir(args.directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "creating", args.directory);
  }
  const StopSignal stop;
  auto host = blocks::HostProgram::Open(options);
  if (!host.ok()) return host.status();
  const std::string where =
      args.socket.empty() ? absl::StrCat("127.0.0.1:", (*host)->port()) : "unix:" + args.socket;
  std::fprintf(stderr, "pulse blocks: serving at %s\n", where.c_str());
  stop.Wait();
  return absl::OkStatus();
}

absl::Status Load(const blocks::LoadOptions& options, bool json) {
  const auto result = blocks::RunLoad(options);
  if (!result.ok()) return result.status();
  const LoadFigures figures[] = {{"reads", result->reads, &result->read_nanos},
                                 {"writes", result->writes, &result->write_nanos}};
  if (json) {
    auto out = FiguresJson(figures, result->seconds);
    out["errors"] = result->errors;
    out["lost"] = result->lost;
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}", RenderFigures(figures, result->seconds));
  }
  if (result->errors > 0) {
    fmt::print(stderr, "pulse: {} requests were refused, the last with: {}\n", result->errors,
               result->last_error);
  }
  return absl::OkStatus();
}

void AddServe(CLI::App* blocks) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* cmd = blocks->add_subcommand(
      "serve", "The host program: files in a store, through an agent, or the operating system's");
  cmd->add_option("--port", args->port, "on 127.0.0.1; 0: one that is free, which it prints")
      ->capture_default_str();
  cmd->add_option("--socket", args->socket, "serve at this Unix socket, an absolute path, instead");
  auto* agent = cmd->add_option("--agent", args->agent, "socket of the agent that has the store");
  cmd->add_option("--directory", args->directory, "keep the files here instead, without an agent")
      ->excludes(agent);
  cmd->add_option("--files", args->files, "how many, named 0, 1, ...")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  cmd->add_option("--size", args->size, "of each; made when missing")->capture_default_str();
  cmd->add_option("--engine", args->engine, "for --directory: io_uring, libaio or threads")
      ->capture_default_str();
  cmd->add_flag("--page-cache", args->page_cache, "for --directory: not past the page cache");
  cmd->add_option("--threads", args->threads, "of the network")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  cmd->add_flag("--ordered", args->ordered,
                "replies in the order of the messages: for a server behind an agent that answers\n"
                "reads (pulse agent --offload blocks)");
  cmd->callback([args] { Finish(Serve(*args)); });
}

void AddLoad(CLI::App* blocks) {
  auto options = std::make_shared<blocks::LoadOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App* cmd = blocks->add_subcommand(
      "load", "Random reads and writes, whose contents are verified; prints rates and latencies");
  cmd->add_option("--host", options->host)->capture_default_str();
  cmd->add_option("--port", options->port)->required();
  cmd->add_option("--file", options->file)->capture_default_str();
  cmd->add_option("--block", options->block, "bytes of a request")->capture_default_str();
  cmd->add_option("--reads", options->read_share, "share of the requests")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  cmd->add_option("--batch", options->batch, "requests in a message")->capture_default_str();
  cmd->add_option("--outstanding", options->outstanding, "messages of a connection")
      ->capture_default_str();
  cmd->add_option("--connections", options->connections)->capture_default_str();
  cmd->add_option("--rate", options->rate,
                  "requests a second, at fixed times; latencies count from then (0: as fast as "
                  "replies come)")
      ->capture_default_str();
  cmd->add_option("--seconds", options->seconds)->capture_default_str();
  cmd->add_option("--seed", options->seed)->capture_default_str();
  cmd->add_flag("--fill", options->fill, "write each block once, and sync, instead");
  cmd->add_flag("--reconnect", options->reconnect, "go on when a connection is lost");
  cmd->add_flag("!--no-verify", options->verify, "do not look at what reads bring");
  cmd->add_flag("--json", *json, "print one line of JSON");
  cmd->callback([options, json] { Finish(Load(*options, *json)); });
}

}  // namespace

void AddBlocksCommand(CLI::App& app) {
  offload::RegisterProgram(&blocks::OffloadProgram());
  offload::RegisterProgram(&blocks::ForwardingProgram());
  CLI::App* cmd = app.add_subcommand(
      "blocks", "Random block I/O over the network: a server, and a load that measures it");
  cmd->require_subcommand(1);
  AddServe(cmd);
  AddLoad(cmd);
}

}  // namespace pulse
