// `pulse pages`: a page server in the manner of a cloud database's: GetPage@LSN.
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
#include "examples/pages/load.h"
#include "examples/pages/offload_program.h"
#include "examples/pages/server.h"
#include "fmt/format.h"
#include "services/offload/program.h"

namespace pulse {
namespace {

struct PagesArgs {
  uint16_t port = 0;
  std::string socket;
  pages::HostOptions options;
};

absl::Status Serve(const PagesArgs& args) {
  pages::HostOptions options = args.options;
  options.listen =
      args.socket.empty() ? absl::StrCat("127.0.0.1:", args.port) : "unix:" + args.socket;
  const std::string& directory = options.server.directory;
  if (!directory.empty() && mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "creating", directory);
  }
  const StopSignal stop;
  auto host = pages::HostProgram::Open(options);
  if (!host.ok()) return host.status();
  const std::string where =
      args.socket.empty() ? absl::StrCat("127.0.0.1:", (*host)->port()) : "unix:" + args.socket;
  const pages::StatusBody status = (*host)->server()->status();
  std::fprintf(stderr, "pulse pages: serving at %s\n", where.c_str());
  std::fprintf(stderr, "pulse pages: %llu pages, log to LSN %llu, checkpoint at %llu\n",
               static_cast<unsigned long long>(status.pages),
               static_cast<unsigned long long>(status.durable),
               static_cast<unsigned long long>(status.checkpoint));
  stop.Wait();
  return absl::OkStatus();
}

absl::Status Load(const pages::LoadOptions& options, bool json) {
  const auto result = pages::RunLoad(options);
  if (!result.ok()) return result.status();
  const LoadFigures figures[] = {{"reads", result->reads, &result->read_nanos},
                                 {"appends", result->appends, &result->append_nanos}};
  if (json) {
    auto out = FiguresJson(figures, result->seconds);
    out["errors"] = result->errors;
    out["reconnects"] = result->reconnects;
    out["verified"] = result->verified;
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}", RenderFigures(figures, result->seconds));
    if (options.verify_all) fmt::print("{} pages were read back and verified\n", result->verified);
  }
  if (result->errors > 0) {
    fmt::print(stderr, "pulse: {} requests were refused, the last with: {}\n", result->errors,
               result->last_error);
  }
  return absl::OkStatus();
}

void AddPagesServe(CLI::App* pages) {
  auto args = std::make_shared<PagesArgs>();
  pages::HostOptions& o = args->options;
  CLI::App* cmd = pages->add_subcommand(
      "serve", "The page server: keeps a log, applies it to pages, answers GetPage@LSN");
  cmd->add_option("--port", args->port, "on 127.0.0.1; 0: one that is free, which it prints")
      ->capture_default_str();
  cmd->add_option("--socket", args->socket, "serve at this Unix socket, an absolute path, instead");
  auto* agent =
      cmd->add_option("--agent", o.server.agent, "socket of the agent whose store has the pages");
  cmd->add_option("--directory", o.server.directory,
                  "keep the pages here instead, without an agent")
      ->excludes(agent);
  cmd->add_option("--log", o.server.log_directory, "directory of the log; created when missing")
      ->required();
  cmd->add_option("--pages", o.server.pages, "of 8 KiB each; twice that on disk")
      ->capture_default_str();
  cmd->add_option("--wait-ms", o.server.wait_ms, "the longest wait for an LSN to be applied")
      ->capture_default_str();
  cmd->add_option("--threads", o.threads, "of the network")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  cmd->add_flag("--ordered", o.ordered,
                "replies in the order of the requests: for a server behind an agent that answers\n"
                "reads (pulse agent --offload pages)");
  cmd->add_flag("!--no-warm", o.server.warm,
                "do not write every page once so that the agent knows it");
  cmd->callback([args] { Finish(Serve(*args)); });
}

void AddPagesLoad(CLI::App* pages) {
  auto options = std::make_shared<pages::LoadOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App* cmd = pages->add_subcommand(
      "load", "Random reads and appends, which are verified; prints rates and latencies");
  cmd->add_option("--host", options->host)->capture_default_str();
  cmd->add_option("--port", options->port)->required();
  cmd->add_option("--threads", options->threads, "each with a connection")->capture_default_str();
  cmd->add_option("--outstanding", options->outstanding, "requests of a thread")
      ->capture_default_str();
  cmd->add_option("--reads", options->read_share, "share of the requests")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  cmd->add_option("--records", options->records, "of an append")->capture_default_str();
  cmd->add_option("--seconds", options->seconds)->capture_default_str();
  cmd->add_option("--seed", options->seed)->capture_default_str();
  cmd->add_flag("--reconnect", options->reconnect, "go on when a connection is lost");
  cmd->add_flag("!--no-verify-all", options->verify_all, "do not read all pages at the end");
  cmd->add_flag("--json", *json, "print one line of JSON");
  cmd->callback([options, json] { Finish(Load(*options, *json)); });
}

}  // namespace

void AddPagesCommand(CLI::App& app) {
  offload::RegisterProgram(&pages::OffloadProgram());
  CLI::App* cmd =
      app.add_subcommand("pages", "A page server (GetPage@LSN), and a load that measures it");
  cmd->require_subcommand(1);
  AddPagesServe(cmd);
  AddPagesLoad(cmd);
}

}  // namespace pulse
