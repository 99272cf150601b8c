// pulse: the command line of PulseDB. Every sub-command lives in a file of its own.
#include <cstdio>

#include "CLI/CLI.hpp"
#include "commands.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

namespace pulse {
namespace {
int exit_code = 0;
}  // namespace

void SetExitCode(int code) { exit_code = code; }
int ExitCode() { return exit_code; }

void Finish(const absl::Status& status) {
  if (status.ok()) return;
  const auto text = status.message();
  std::fprintf(stderr, "pulse: %.*s\n", static_cast<int>(text.size()), text.data());
  SetExitCode(1);
}

}  // namespace pulse

int main(int argc, char** argv) {
  CLI::App app(
      "PulseDB runs RocksDB's compactions and flushes as a pipeline on two processors: an agent "
      "fetches the inputs and persists the outputs while the host merges. RocksDB stays as it is: "
      "a program opens its database through the file system pulse://.");
  app.name("pulse");
  app.set_version_flag("--version", PULSE_VERSION);
  app.require_subcommand(1);
  app.footer("Start with `pulse doctor`; `pulse bench demo` shows the gain on this machine.");
  pulse::AddAgentCommand(app);
  pulse::AddServeCommand(app);
  pulse::AddTopCommand(app);
  pulse::AddDoctorCommand(app);
  pulse::AddPoolCommand(app);
  pulse::AddBenchCommand(app);
  CLI11_PARSE(app, argc, argv);
  return pulse::ExitCode();
}
