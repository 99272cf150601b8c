// The command-line options that all benchmarks share.
#pragma once

#include "CLI/CLI.hpp"
#include "bench/macro/session.h"

namespace pulse::bench {

// `args` must outlive the parsing; its present values are the defaults shown.
void AddCommonOptions(CLI::App* cmd, CommonArgs* args);
// What experiments in the paper's manner have: --memtable; and --host-cpus and --agent-cpus, where
// the agent has a processor of its own.
void AddPaperOptions(CLI::App* cmd, CommonArgs* args);
// --pool, where PulseDB may have its tables in a pool.
void AddPoolOption(CLI::App* cmd, CommonArgs* args);

// All of the below, and the child that runs one job.
void AddBenchmarks(CLI::App& bench);

// The sub-commands of `pulse bench`.
void AddCompactionBench(CLI::App& bench);
void AddFillBench(CLI::App& bench);
void AddSoakBench(CLI::App& bench);
void AddCrashBench(CLI::App& bench);
void AddFailoverBench(CLI::App& bench);
void AddFilesBench(CLI::App& bench);
void AddBlocksBench(CLI::App& bench);
void AddServeBench(CLI::App& bench);
void AddDirectorBench(CLI::App& bench);
void AddRingBench(CLI::App& bench);
void AddVdpuBench(CLI::App& bench);
void AddYcsbBench(CLI::App& bench);
void AddPaperBench(CLI::App& bench);
void AddDemo(CLI::App& bench);

}  // namespace pulse::bench
