#include "examples/common/program.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/stop_signal.h"
#include "fmt/format.h"

namespace pulse::examples {
Program::Program(const std::string& name, const std::string& description)
    : name_("pulse-" + name), app_(description) {
  app_.name(name_);
  app_.require_subcommand(1);
  app_.footer(absl::StrCat(
      "On plain files:\n  ", name_, " serve --directory DIR --port 9001 ...\n  ", name_,
      " load --port 9001\n"
      "With files in an agent's store, and reads that the agent answers:\n"
      "  pulse pool create STORE --size 8G\n"
      "  pulse agent --socket AGENT --store STORE --serve 9000 --serve-host unix:HOST \\\n"
      "    --offload lib/",
      name_, "-offload.so\n  ", name_, " serve --agent AGENT --socket HOST --ordered ...\n  ",
      name_, " load --port 9000"));
}

CLI::App* Program::AddServe(const std::string& what, HostOptions* options,
                            std::function<absl::StatusOr<std::unique_ptr<Host>>()> open) {
  CLI::App* cmd = app_.add_subcommand("serve", what);
  cmd->add_option("--port", port_, "on 127.0.0.1; 0: one that is free, which it prints")
      ->capture_default_str();
  cmd->add_option("--socket", socket_, "serve at this Unix socket, an absolute path, instead");
  FilesOptions& files = options->files;
  auto* agent =
      cmd->add_option("--agent", files.agent, "socket of the agent whose store has the files");
  cmd->add_option("--directory", files.directory,
                  "keep the files here instead, without an agent; created when missing")
      ->excludes(agent);
  cmd->add_option("--threads", options->threads, "of the network")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  cmd->add_flag("--ordered", options->ordered,
                absl::StrCat("replies in the order of the messages: for a server behind an agent\n"
                             "that answers reads (pulse agent --offload .../lib/",
                             name_, "-offload.so)"));
  cmd->callback([this, options, open = std::move(open)] { Finish(Serve(options, open)); });
  return cmd;
}

CLI::App* Program::AddLoad(const std::string& what, const char* writes, LoadOptions* options,
                           std::function<absl::StatusOr<LoadResult>()> run) {
  CLI::App* cmd = app_.add_subcommand("load", what);
  cmd->add_option("--host", options->host, "an IPv4 address")->capture_default_str();
  cmd->add_option("--port", options->port)->required();
  cmd->add_option("--reads", options->read_share, "share of the requests")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  cmd->add_option("--outstanding", options->outstanding, "messages of a connection")
      ->capture_default_str();
  cmd->add_option("--seconds", options->seconds)->capture_default_str();
  cmd->add_option("--seed", options->seed)->capture_default_str();
  cmd->add_flag("--reconnect", options->reconnect, "go on when a connection is lost");
  cmd->add_flag("--json", json_, "print one line of JSON");
  cmd->callback([this, writes, run = std::move(run)] {
    const auto result = run();
    Finish(result.ok() ? Load(*result, writes) : result.status());
  });
  return cmd;
}

int Program::Run(int argc, char** argv) {
  CLI11_PARSE(app_, argc, argv);
  return exit_code_;
}

absl::Status Program::Serve(
    HostOptions* options,
    const std::function<absl::StatusOr<std::unique_ptr<Host>>()>& open) const {
  const std::string unix_socket = "unix:" + socket_;
  options->listen = socket_.empty() ? absl::StrCat("127.0.0.1:", port_) : unix_socket;
  StopSignal stop;
  PULSE_ASSIGN_OR_RETURN(const auto host, open());
  stop.Started();
  const std::string where =
      socket_.empty() ? absl::StrCat("127.0.0.1:", host->port()) : unix_socket;
  fmt::print(stderr, "{}: {}\n{}: serving at {}\n", name_, host->Describe(), name_, where);
  stop.Wait();
  return absl::OkStatus();
}

absl::Status Program::Load(const LoadResult& result, const char* writes) const {
  const LoadFigures figures[] = {{"reads", result.reads, &result.read_nanos},
                                 {writes, result.writes, &result.write_nanos}};
  if (json_) {
    auto out = FiguresJson(figures, result.seconds);
    out["errors"] = result.errors;
    out["lost"] = result.lost;
    out["reconnects"] = result.reconnects;
    if (result.verified > 0) out["verified"] = result.verified;
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}", RenderFigures(figures, result.seconds));
    if (result.verified > 0) fmt::print("{} pages were read back and verified\n", result.verified);
  }
  if (result.errors > 0) {
    fmt::print(stderr, "{}: {} requests were refused, the last with: {}\n", name_, result.errors,
               result.last_error);
  }
  return absl::OkStatus();
}

void Program::Finish(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}: {}\n", name_, TextOf(status));
  exit_code_ = 1;
}

}  // namespace pulse::examples
