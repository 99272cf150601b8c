// pulse-bench: the benchmarks. `pulse bench` runs this program, so that both command lines work.
#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/command_words.h"
#include "base/log.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/description.h"
#include "fmt/format.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

namespace pulse::bench {
namespace {

constexpr struct {
  const char* name;
  absl::Status (*run)(BenchArgs);
} kBenchmarks[] = {{"demo", RunDemo},        {"compaction", RunCompactionBench},
                   {"fill", RunFillBench},   {"soak", RunSoakBench},
                   {"crash", RunCrashBench}, {"failover", RunFailoverBench},
                   {"files", RunFilesBench}, {"blocks", RunBlocksBench},
                   {"serve", RunServeBench}, {"director", RunDirectorBench},
                   {"ring", RunRingBench},   {"kv", RunKvBench},
                   {"vdpu", RunVdpuBench},   {"ycsb", RunYcsbBench},
                   {"ops", RunOpsBench},     {"graph", RunGraphBench},
                   {"paper", RunPaperBench}, {"all", RunAllBenchmarks}};

// One run, in a process of its own; not for people.
int RunAsChild(const std::string& spec) {
  const auto result = RunJob(spec);
  const nlohmann::json out =
      result.ok() ? *result : nlohmann::json{{"error", std::string(result.status().message())}};
  fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
  return result.ok() ? 0 : 1;
}

}  // namespace
}  // namespace pulse::bench

// As apps/pulse/main.cc has it.
extern "C" __attribute__((visibility("default"))) const char pulse_own_program;
const char pulse_own_program = 1;

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "child") return pulse::bench::RunAsChild(argv[2]);
  const pulse::ErrorCodes codes = pulse::ErrorCodesOf("bench");
  CLI::App app("Measure PulseDB against stock RocksDB, tuned, on this machine");
  app.name("pulse bench");
  app.set_version_flag("--version", PULSE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Absolute figures differ from machine to machine and from day to day. What counts is the "
      "ratio of runs made side by side: variants take turns, each run is a fresh process with a "
      "cold page cache, and a ratio is shown as median and spread over pairs.");
  for (const auto& [name, run] : pulse::bench::kBenchmarks) {
    pulse::bench::AddBenchmark(app, name, run);
  }
  if (const std::string wrong = pulse::CommandError(app, argc, argv); !wrong.empty()) {
    pulse::Say(wrong, pulse::LogLevel::kError);
    return codes.usage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return pulse::FinishOutput(app.exit(error), codes.other);
    pulse::Say(absl::StrCat("pulse bench: ", error.what(), "; see --help"),
               pulse::LogLevel::kError);
    return codes.usage;
  }
  return pulse::FinishOutput(pulse::ExitCode(), codes.other);
}
