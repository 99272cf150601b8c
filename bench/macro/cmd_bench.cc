// What the benchmarks share on the command line, and the hidden child.
#include <cstdio>
#include <memory>
#include <string>

#include "apps/pulse/commands.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/common_options.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

void RunChildCommand(const std::string& spec) {
  const auto result = RunJob(spec);
  const nlohmann::json out =
      result.ok() ? *result : nlohmann::json{{"error", std::string(result.status().message())}};
  fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
  if (!result.ok()) SetExitCode(1);
}

void AddChild(CLI::App& bench) {
  auto spec = std::make_shared<std::string>();
  CLI::App* cmd = bench.add_subcommand("child", "One run, in a process of its own");
  cmd->group("");  // not for people
  cmd->add_option("spec", *spec)->required();
  cmd->callback([spec] { RunChildCommand(*spec); });
}

}  // namespace

void AddCommonOptions(CLI::App* cmd, CommonArgs* args) {
  cmd->add_option("--dir", args->dir,
                  "Work here, on a real disk; created if missing, else it must be empty or a "
                  "former benchmark's")
      ->capture_default_str();
  cmd->add_option("--pairs", args->pairs, "Runs of each opponent after one warm-up [5]")
      ->check(CLI::Range(1, 1000));
  cmd->add_option("--uri", args->uri_options,
                  "More options for pulse://, joined by '&': write_threshold=4M&engine=threads")
      ->type_name("OPTIONS");
  cmd->add_option("--agent", args->agent_socket,
                  "Use the agent that listens on this socket instead of one inside the process")
      ->type_name("SOCKET");
  cmd->add_option("--opponents", args->opponents, "Only these, by the names in the legend")
      ->delimiter(',');
  cmd->add_option("--json", args->json_file, "Write all figures here [DIR/<benchmark>.json]")
      ->type_name("FILE");
  cmd->add_option("--seed", args->seed, "Of keys and values; the same seed gives the same data")
      ->capture_default_str();
  cmd->add_option("--timeout", args->timeout_seconds, "Kill a single run after so many seconds")
      ->capture_default_str();
  cmd->add_flag("--tiny", args->tiny, "A few MB and one pair: does everything work?");
  cmd->add_flag("--keep", args->keep, "Leave the loaded databases in DIR for the next time");
  cmd->add_flag("--allow-tmpfs", args->allow_tmpfs, "Accept a directory in memory");
}

void AddPaperOptions(CLI::App* cmd, CommonArgs* args) {
  cmd->add_option("--host-cpus", args->host_cpus, "CPUs of RocksDB [the first]");
  cmd->add_option("--agent-cpus", args->agent_cpus,
                  "CPUs of the embedded agent, which stand for the DPU [the second]");
  cmd->add_option(
      "--memtable", args->memtable,
      "Size of memtables and tables; level 1 holds four. Less than the paper's, for less "
      "data than the paper's [64M]");
}

void AddPoolOption(CLI::App* cmd, CommonArgs* args) {
  cmd->add_flag("--pool", args->pool,
                "Also PulseDB with layout=pool: tables in a pool of which every block was written "
                "before");
}

void AddBenchmarks(CLI::App& bench) {
  AddDemo(bench);
  AddCompactionBench(bench);
  AddFillBench(bench);
  AddSoakBench(bench);
  AddCrashBench(bench);
  AddFailoverBench(bench);
  AddFilesBench(bench);
  AddBlocksBench(bench);
  AddServeBench(bench);
  AddDirectorBench(bench);
  AddRingBench(bench);
  AddVdpuBench(bench);
  AddYcsbBench(bench);
  AddPaperBench(bench);
  AddChild(bench);
}

}  // namespace pulse::bench
