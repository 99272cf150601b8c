// pulse-bench: the benchmarks. `pulse bench` runs this program, so that both command lines work.
#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "bench/macro/common_options.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

int main(int argc, char** argv) {
  CLI::App app("Measure PulseDB against stock RocksDB, tuned, on this machine");
  app.name("pulse bench");
  app.set_version_flag("--version", PULSE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Absolute figures differ from machine to machine and from day to day. What counts is the "
      "ratio of runs made side by side: opponents take turns, each run is a fresh process with a "
      "cold page cache, and a ratio is shown as median and spread over pairs.");
  pulse::bench::AddBenchmarks(app);
  CLI11_PARSE(app, argc, argv);
  return pulse::ExitCode();
}
