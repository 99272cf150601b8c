// pulse: the command line of PulseDB. Every sub-command lives in a file of its own.
#include <cstdio>
#include <string_view>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

// Tells a preloaded plug-in that this program is PulseDB's own: PULSE_URI is not for it.
extern "C" __attribute__((visibility("default"))) const char pulse_own_program;
const char pulse_own_program = 1;

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "bench") return pulse::RunBench(argc - 1, argv + 1);
  if (command == "blocks" || command == "pages") {
    std::fprintf(stderr, "pulse: `pulse %s` is a program of its own now: pulse-%s\n", argv[1],
                 argv[1]);
    return 1;
  }
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
  pulse::AddKvCommand(app);
  pulse::AddGraphCommand(app);
  pulse::AddCompressCommands(app);
  pulse::AddFilterCommand(app);
  pulse::AddTopCommand(app);
  pulse::AddDoctorCommand(app);
  pulse::AddPoolCommand(app);
  pulse::AddBenchCommand(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    if (code == 0) return 0;
    // Scripts take 1 of a filter for "nothing found", as of grep, and 2 of gzip for a warning.
    if (command == "filter") return 2;
    return command == "compress" || command == "decompress" ? 1 : code;
  }
  return pulse::ExitCode();
}
